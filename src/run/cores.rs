//! The threads that drive load: a single-threaded runtime and a driver client each. They serve nothing else,
//! and nothing else runs on them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client;
use crate::scenario::{Cluster, Engine, Scenario, hide_credentials};
use crate::workload::{Core, Monitor};

/// What a runtime may take to end: its tasks are dropped, and a look-up of a name may be under way.
const END: Duration = Duration::from_secs(1);

/// All of them. Dropping it ends the threads.
#[derive(Debug)]
pub struct Cores {
    cores: Vec<Core>,
    /// For the workloads that do not use the driver.
    monitor: Option<Monitor>,
    threads: Vec<JoinHandle<()>>,
    ended: CancellationToken,
    _end: DropGuard,
}

/// How many to use: what the scenario says, or as many as the machine has cores, and half of them where the
/// servers share the machine.
pub fn wanted(scenario: &Scenario) -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = scenario.workloads.iter().map(|w| w.workers as usize).sum::<usize>();
    let share = match scenario.cluster {
        Cluster::Managed(_) => available / 2,
        Cluster::Attached(_) => available,
    };
    scenario.threads.map_or(share, |threads| threads as usize).clamp(1, workers.max(1))
}

impl Cores {
    /// Starts the threads, and connects a client on each.
    ///
    /// # Errors
    /// For people, without secrets: no thread could be started, or nobody answers.
    pub async fn start(uri: &str, scenario: &Scenario) -> Result<Self, String> {
        let end = CancellationToken::new();
        let alive = Arc::new(CancellationToken::new().drop_guard());
        let ended = alive.token().clone();
        let (mut cores, mut threads) = (Vec::new(), Vec::new());
        let guard = end.clone().drop_guard();
        for number in 0..wanted(scenario) {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|e| format!("make a runtime for the load: {e}"))?;
            let handle = runtime.handle().clone();
            threads.push(thread(number, runtime, end.clone(), Arc::clone(&alive))?);
            let client = connect(&handle, uri.to_owned(), scenario).await?;
            cores.push(Core { runtime: handle, client });
        }
        drop(alive);
        let monitor = monitor(uri, scenario).await?;
        Ok(Self { cores, monitor, threads, ended, _end: guard })
    }

    /// The cores, for a drive.
    pub fn as_slice(&self) -> &[Core] {
        &self.cores
    }

    /// Watches the deployment, if anybody needs that.
    pub fn monitor(&self) -> Option<&Monitor> {
        self.monitor.as_ref()
    }

    /// Closes the clients and ends the threads. Operations that are still under way are given up.
    pub async fn shut_down(self) {
        if let Some(monitor) = self.monitor {
            monitor.stop().await;
        }
        let close = |core: Core| core.runtime.spawn(client::shut_down(core.client));
        let closing: Vec<_> = self.cores.into_iter().map(close).collect();
        for client in closing {
            if let Err(error) = client.await {
                tracing::warn!(%error, "a client did not close");
            }
        }
        drop(self._end);
        self.ended.cancelled().await;
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the load panicked");
            }
        }
    }
}

/// Watches the deployment if there is a workload that does not leave that to the driver.
async fn monitor(uri: &str, scenario: &Scenario) -> Result<Option<Monitor>, String> {
    if scenario.workloads.iter().all(|workload| workload.engine == Engine::Driver) {
        return Ok(None);
    }
    Monitor::start(uri).await.map(Some).map_err(|text| hide_credentials(&text, uri))
}

/// The thread itself: it runs what is spawned on its runtime until the end.
fn thread(
    number: usize,
    runtime: Runtime,
    end: CancellationToken,
    alive: Arc<DropGuard>,
) -> Result<JoinHandle<()>, String> {
    let body = move || {
        runtime.block_on(end.cancelled());
        runtime.shutdown_timeout(END);
        // The last thread that lets go says that all have ended.
        drop(alive);
    };
    let builder = std::thread::Builder::new().name(format!("load-{number}"));
    builder.spawn(body).map_err(|e| format!("start a thread for the load: {e}"))
}

/// The driver's background tasks live on the runtime on which its client is made.
async fn connect(on: &Handle, uri: String, scenario: &Scenario) -> Result<mongodb::Client, String> {
    let workloads = scenario.workloads.clone();
    let connecting = on.spawn(async move { client::connect(&uri, &workloads).await });
    let connected = connecting.await.map_err(|e| format!("connect: {e}"))?;
    Ok(connected?.client)
}
