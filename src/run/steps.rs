//! The measured phase from its start to its end, as far as the load changes in it: the steps of a sweep, the
//! probes of a search for the highest rate, or nothing at all.

use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use crate::clock::Moment;
use crate::event::{Event, Live};
use crate::monitor;
use crate::recording::{Probe, Step};
use crate::scenario::{FindMax, LONGEST_PAUSE, Loads, Sweep};
use crate::search::{self, Finding, Next};
use crate::workload::{Drive, RateError, Tally};

/// After a failed probe, this many seconds in a row must hold the limit again.
const CALM_SECONDS: u32 = 2;
/// A second that was taken this long after its end will never come: the sampler is stuck or gone.
const OVERDUE: Duration = Duration::from_secs(30);

/// The load could not be changed: the tester is broken.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The rate could not be set.
    #[error("change the rate of workload {workload}: {source}")]
    Rate {
        /// Which workload.
        workload: String,
        /// Why not.
        source: RateError,
    },
    /// The scenario names a workload that the drive does not have.
    #[error("there is no workload {0} to step")]
    NoWorkload(String),
    /// The seconds of a probe were not taken.
    #[error("the seconds of a probe were not taken within {} s", OVERDUE.as_secs())]
    NoSeconds,
}

/// What the steps need.
pub struct Stage<'a> {
    /// The run.
    pub ctx: &'a Context,
    /// Whose load changes.
    pub drive: &'a Drive,
    /// Start of the measured phase.
    pub start: Moment,
    /// Its planned end.
    pub end: Moment,
    /// The last second, as it comes.
    pub live: watch::Receiver<Live>,
}

impl Stage<'_> {
    /// Goes through the measured phase and returns when it is over. A search ends it early.
    ///
    /// # Errors
    /// When the load cannot be changed.
    pub async fn run(mut self) -> Result<(), StepError> {
        if let Some(sweep) = &self.ctx.scenario.sweep {
            self.sweep(sweep).await?;
        }
        if let Some(search) = &self.ctx.scenario.find_max {
            return self.search(search).await;
        }
        self.ctx.clock.sleep_until(self.end).await;
        Ok(())
    }

    /// Step after step, each at its planned time, whatever the one before it was like.
    async fn sweep(&self, sweep: &Sweep) -> Result<(), StepError> {
        let workload = self.workload(&sweep.workload)?;
        for index in 0..u32::try_from(sweep.loads.count()).unwrap_or(u32::MAX) {
            let from = self.start + sweep.each * index;
            self.ctx.clock.sleep_until(from).await;
            let (workers, rate_ops_s) = match &sweep.loads {
                Loads::Workers(list) => (list[index as usize], None),
                Loads::Rates(list) => {
                    (self.ctx.scenario.workloads[workload].workers, Some(list[index as usize]))
                }
            };
            match rate_ops_s {
                Some(rate) => self.set_rate(workload, rate)?,
                None => self.drive.set_workers(workload, workers),
            }
            let counted_from_s = (sweep.each * index + sweep.settle).as_secs();
            let to_s = (sweep.each * (index + 1)).as_secs();
            let name = sweep.workload.clone();
            let step = Step { index, workload: name, workers, rate_ops_s, counted_from_s, to_s };
            self.ctx.events.send_at(from, Event::SweepStep(step)).await;
        }
        Ok(())
    }

    /// Probe after probe, until the search knows its answer or the time is over.
    async fn search(&mut self, search: &FindMax) -> Result<(), StepError> {
        let workload = self.workload(&search.workload)?;
        let mut probes: Vec<Probe> = Vec::new();
        while let Next::Probe(rate) = search::next(search, &probes) {
            let longest = search.settle + search.each + Duration::from_secs(1);
            if self.ctx.clock.now() + longest > self.end {
                self.ctx.clock.sleep_until(self.end).await;
                return Ok(());
            }
            let probe = self.probe(search, workload, rate).await?;
            self.ctx.events.send(Event::Probe(Box::new(probe.clone()))).await;
            let held = search::finding(search, &probes, &probe) == Finding::Holds;
            probes.push(probe);
            if !held {
                self.calm_down(search, workload).await?;
            }
        }
        Ok(())
    }

    /// Measures one rate.
    async fn probe(&mut self, search: &FindMax, workload: usize, rate: f64) -> Result<Probe, StepError> {
        let name = search.workload.clone();
        self.ctx.events.send(Event::ProbeStarted { workload: name, rate_ops_s: rate }).await;
        self.set_rate(workload, rate)?;
        let clock = self.ctx.clock;
        // The first whole second after the settling.
        let from = self.drive.second_of(clock.now() + search.settle) + 1;
        let to = from + search.each.as_secs();
        self.drive.open_window(workload, from, to);
        clock.sleep_until(self.moment(from)).await;
        let before = monitor::usage();
        clock.sleep_until(self.moment(to)).await;
        let used_s = monitor::usage().cpu_s - before.cpu_s;
        tokio::time::timeout(OVERDUE, self.second(to - 1)).await.map_err(|_| StepError::NoSeconds)?;
        let tally = self.drive.window(workload).ok_or(StepError::NoSeconds)?;
        let cpu_share = used_s / search.each.as_secs_f64() / monitor::cores();
        let zero = self.drive.second_of(self.start);
        Ok(probe(rate, from.saturating_sub(zero)..to.saturating_sub(zero), &tally, cpu_share))
    }

    /// Goes back to the lowest rate until the limit holds again: what waits from a failed probe would count
    /// against the next one.
    async fn calm_down(&mut self, search: &FindMax, workload: usize) -> Result<(), StepError> {
        self.set_rate(workload, search.from_ops_s)?;
        let limit_us = search.p99.as_micros();
        let calm = async {
            let mut in_a_row = 0;
            while in_a_row < CALM_SECONDS && self.live.changed().await.is_ok() {
                let row = self.live.borrow_and_update().rows.get(workload).copied().unwrap_or_default();
                let holds = row.not_ok == 0 && row.p99_us.is_some_and(|us| u128::from(us) <= limit_us);
                in_a_row = if holds { in_a_row + 1 } else { 0 };
            }
        };
        // Without calm the next probe fails too, and the search says so.
        let _calm_or_not = tokio::time::timeout(LONGEST_PAUSE, calm).await;
        Ok(())
    }

    /// Waits until a second was taken.
    async fn second(&mut self, second: u64) {
        let taken = self.live.wait_for(|live| live.second.is_some_and(|last| last >= second)).await;
        if taken.is_err() {
            // The sampler is gone: somebody else says why.
            std::future::pending::<()>().await;
        }
    }

    /// Start of a second of the drive; the measured phase begins with a whole one.
    fn moment(&self, second: u64) -> Moment {
        let ahead = second.saturating_sub(self.drive.second_of(self.start));
        self.start + Duration::from_secs(ahead)
    }

    fn set_rate(&self, workload: usize, rate: f64) -> Result<(), StepError> {
        self.drive.set_rate(workload, rate).map_err(|source| StepError::Rate {
            workload: self.ctx.scenario.workloads[workload].name.clone(),
            source,
        })
    }

    fn workload(&self, name: &str) -> Result<usize, StepError> {
        let found = self.ctx.scenario.workloads.iter().position(|workload| workload.name == name);
        found.ok_or_else(|| StepError::NoWorkload(name.to_owned()))
    }
}

fn probe(rate_ops_s: f64, span: std::ops::Range<u64>, tally: &Tally, cpu_share: f64) -> Probe {
    let some = !tally.service.is_empty();
    Probe {
        rate_ops_s,
        from_s: span.start,
        to_s: span.end,
        ok: tally.ok,
        not_ok: tally.not_ok,
        missed: tally.missed,
        late_starts: tally.late_starts,
        p99_us: (!tally.response.is_empty()).then(|| tally.response.value_at_quantile(0.99)),
        service_p99_us: some.then(|| tally.service.value_at_quantile(0.99)),
        service_mean_us: some.then(|| tally.service.mean()),
        cpu_share,
    }
}
