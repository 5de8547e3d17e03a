//! The side of the test: answers one connection after the other.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{DEADLINE, NewRate, Reply, Request, SOCKET, Status, WorkloadStatus, line, socket};
use crate::clock::{Clock, Moment};
use crate::event::{Event, Events, Live};
use crate::workload::Drive;

/// After a connection that could not be taken (no descriptor left, most likely).
const PAUSE: Duration = Duration::from_millis(200);

/// What of a test can be seen and changed from outside.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// Whose rates change.
    pub drive: Drive,
    /// Where changes are recorded.
    pub events: Events,
    /// The last second.
    pub live: watch::Receiver<Live>,
    /// Planned length of the measured phase.
    pub duration: Duration,
    /// The workload that a sweep or a search steps, which nobody else may.
    pub stepped: Option<String>,
    /// Start of the measured phase, once it is known.
    pub measured_from: Arc<OnceLock<Moment>>,
}

/// A socket that listens. It is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("remove {}: {error}", self.path.display());
        }
    }
}

impl Server {
    /// Listens in a run directory; only this user may connect.
    ///
    /// # Errors
    /// When the file system has no sockets, or there is one already.
    pub fn bind(dir: &Path) -> io::Result<Self> {
        let (_open, short) = socket(dir)?;
        let listener = UnixListener::bind(&short)?;
        // Whoever is not the owner could not write to it in between either: nobody's umask allows that.
        std::fs::set_permissions(&short, Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: dir.join(SOCKET) })
    }

    /// Answers until told to stop. Whoever asks is heard one after the other: there is at most one answer to
    /// wait for.
    pub async fn run(self, test: Controlled, stop: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let answered = match accepted {
                Ok((stream, _)) => tokio::select! {
                    () = stop.cancelled() => return,
                    answered = tokio::time::timeout(DEADLINE, answer(&test, stream)) => answered,
                },
                Err(error) => {
                    tracing::warn!("take a control connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match answered {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!("a control connection: {error}"),
                Err(_) => tracing::warn!("a control connection said nothing for {} s", DEADLINE.as_secs()),
            }
        }
    }
}

async fn answer(test: &Controlled, mut stream: UnixStream) -> io::Result<()> {
    let request = line(&mut stream).await?;
    let reply = match serde_json::from_str(&request) {
        Ok(Request::Status) => Reply::Status(test.status(test.events.clock())),
        Ok(Request::Rate { rates }) => match test.change(&rates).await {
            Ok(()) => Reply::Changed,
            Err(why) => Reply::Refused { why },
        },
        Err(error) => Reply::Refused { why: format!("this is no request: {error}") },
    };
    stream.write_all((serde_json::to_string(&reply)? + "\n").as_bytes()).await
}

impl Controlled {
    /// Changes all of these rates, or none and says why.
    async fn change(&self, rates: &[NewRate]) -> Result<(), String> {
        let (_, phase) = self.phase(self.events.clock());
        if phase == "heal" {
            return Err("the measured phase is over".into());
        }
        let found: Vec<usize> = rates.iter().map(|rate| self.allowed(rate)).collect::<Result<_, _>>()?;
        for (workload, rate) in found.into_iter().zip(rates) {
            let set = self.drive.set_rate(workload, rate.rate_ops_s);
            set.map_err(|error| format!("workload {}: {error}", rate.workload))?;
            let (workload, by) = (rate.workload.clone(), "ctl".into());
            self.events.send(Event::RateChanged { workload, rate_ops_s: rate.rate_ops_s, by }).await;
        }
        Ok(())
    }

    /// The number of the workload, if this may be its rate.
    fn allowed(&self, rate: &NewRate) -> Result<usize, String> {
        let name = &rate.workload;
        let lanes = self.drive.lanes();
        let Some(index) = lanes.iter().position(|lane| lane.workload.name == *name) else {
            let valid: Vec<_> = lanes.iter().map(|lane| lane.workload.name.as_str()).collect();
            return Err(format!("there is no workload {name:?}; valid: {}", valid.join(", ")));
        };
        if self.stepped.as_ref() == Some(name) {
            return Err(format!("the load of workload {name} is stepped by the scenario"));
        }
        let fits = self.drive.check_rate(index, rate.rate_ops_s);
        fits.map(|()| index).map_err(|error| format!("workload {name}: {error}"))
    }

    /// Seconds of the measured phase, and the name of the phase.
    fn phase(&self, clock: Clock) -> (Option<f64>, &'static str) {
        let now = clock.now();
        match self.measured_from.get() {
            Some(start) if now >= *start + self.duration => (Some(self.duration.as_secs_f64()), "heal"),
            Some(start) if now >= *start => (Some((now - *start).as_secs_f64()), "measure"),
            _ => (None, "warm-up"),
        }
    }

    fn status(&self, clock: Clock) -> Status {
        let (t_s, phase) = self.phase(clock);
        let rows = self.live.borrow().rows.clone();
        let workload = |(index, lane): (usize, &Arc<crate::workload::Lane>)| {
            let row = rows.get(index).copied().unwrap_or_default();
            WorkloadStatus {
                name: lane.workload.name.clone(),
                rate_ops_s: self.drive.rate(index),
                ok: row.ok,
                not_ok: row.not_ok,
                p99_us: row.p99_us,
            }
        };
        Status {
            phase: phase.into(),
            t_s,
            duration_s: self.duration.as_secs_f64(),
            workloads: self.drive.lanes().iter().enumerate().map(workload).collect(),
        }
    }
}
