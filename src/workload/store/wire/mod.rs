//! Sends by our own wire protocol client: `engine = "wire"`.
//!
//! One [`Session`] per worker, with connections of its own. Nothing is tried a second time, and of an
//! operation that got no answer it is known whether its request had left: what never left as a whole has
//! failed, the rest is unknown. At its deadline the connection of an operation is closed.

mod hand;
mod link;
mod requests;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use super::judge::Judge;
use super::{Outcomes, Request};
use crate::clock::{Clock, Deadline, Moment};
use crate::outcome::{Cause, Outcome};
use crate::scenario::{Dataset, Workload};
use hand::Hand;
use link::{GivenUp, Link, Wants};
use requests::Requests;

pub use link::Traffic;
pub use topology::Monitor;

/// What the workers of one workload share.
#[derive(Debug)]
pub struct Wire {
    dataset: Dataset,
    workload: Workload,
    judge: Judge,
    topology: tokio::sync::watch::Receiver<Arc<topology::Topology>>,
    traffic: Arc<Traffic>,
}

impl Wire {
    pub(super) fn new(monitor: &Monitor, dataset: &Dataset, workload: &Workload, judge: &Judge) -> Self {
        Self {
            dataset: dataset.clone(),
            workload: workload.clone(),
            judge: judge.clone(),
            topology: monitor.topology(),
            traffic: Arc::default(),
        }
    }

    /// The connections so far.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The way to the database of the worker of this number.
    #[must_use]
    pub fn session(&self, index: usize, clock: Clock) -> Session {
        let Self { dataset, workload, judge, .. } = self;
        let (topology, traffic) = (self.topology.clone(), Arc::clone(&self.traffic));
        let link = Link::new(topology, workload.read_preference, index, traffic);
        let requests = Requests::new(dataset, workload, judge.documents.clone());
        let hand = Hand::new(link, requests, judge.clone());
        Session { hand, deadline: workload.deadline, timer: Deadline::new(clock) }
    }
}

/// The way to the database of one worker.
#[derive(Debug)]
pub struct Session {
    hand: Hand,
    deadline: Duration,
    timer: Deadline,
}

impl Session {
    /// Does it, or gives up when the workload's deadline has passed since `sent`. The books stay as they
    /// are.
    pub async fn execute(&mut self, request: Request, sent: Moment) -> Outcomes {
        let done = self.timer.bound(sent + self.deadline, self.hand.execute(request)).await;
        done.unwrap_or_else(|| self.give_up(request))
    }

    fn give_up(&mut self, request: Request) -> Outcomes {
        match self.hand.link.give_up(self.deadline) {
            // The first half of a batch was sent before.
            _ if self.hand.has_written() => request.given_up(self.deadline),
            GivenUp::NotSent(outcome) => Outcomes::One(outcome),
            GivenUp::Sent(Wants::Write) => request.given_up(self.deadline),
            GivenUp::Sent(Wants::Read) => {
                Outcomes::One(Outcome::Failed(Cause::deadline(self.deadline.as_secs_f64())))
            }
        }
    }
}
