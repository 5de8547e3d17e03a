//! The one vocabulary of all producers. The recorder writes it; the measures read it.

use std::time::SystemTime;

use faults::{Evidence, Role};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc};

use crate::clock::{Clock, Moment};
use crate::recording::{FaultOutcome, Ledger, Load, LoadSecond, Migration, OwnSecond, Probe, Step};

/// Something that happened, as one line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase began; the one before it is over.
    Phase {
        /// Which one.
        phase: Phase,
    },
    /// A process of ours runs.
    NodeStarted {
        /// Its name.
        node: String,
        /// Its process.
        pid: i32,
        /// Its port on 127.0.0.1.
        port: u16,
    },
    /// A process of ours ended.
    NodeExited {
        /// Its name.
        node: String,
        /// Exit code, if it ended by itself.
        code: Option<i32>,
        /// Signal, if one ended it.
        signal: Option<i32>,
        /// Whether we caused it.
        expected: bool,
    },
    /// Another node takes writes now, or none.
    PrimaryChanged {
        /// Before.
        from: Option<String>,
        /// Now.
        to: Option<String>,
        /// Election term, where there is one.
        term: Option<i64>,
    },
    /// The dataset is in.
    Loaded(Box<Load>),
    /// One second of the load: a row of `load.csv`, not a line of `events.jsonl`.
    LoadSecond(LoadSecond),
    /// Every loaded key was looked up.
    LoadChecked {
        /// All are there, with the right content, and nothing else is.
        complete: bool,
        /// How long it took.
        seconds: f64,
    },
    /// The time of a fault has come, and something is in its way.
    FaultWaits {
        /// Its id in the plan.
        fault: String,
        /// What is in its way.
        reason: String,
    },
    /// The first command of a fault was issued.
    FaultInjected {
        /// Its id in the plan.
        fault: String,
        /// The nodes that its target became.
        nodes: Vec<String>,
        /// What each of them was, in their order. Runs of older versions do not know.
        #[serde(default)]
        roles: Vec<Role>,
    },
    /// A step of a fault was done on one node, with what was seen.
    FaultStep {
        /// Its id in the plan.
        fault: String,
        /// On which node.
        node: String,
        /// `inject`, `effect`, `lift` or `lifted`.
        step: String,
        /// What was seen.
        evidence: Evidence,
    },
    /// The effect of a fault was seen on all its nodes.
    FaultEffective {
        /// Its id in the plan.
        fault: String,
    },
    /// A fault is gone from all its nodes.
    FaultLifted {
        /// Its id in the plan.
        fault: String,
    },
    /// Nothing more comes of this fault.
    FaultEnded {
        /// Its id in the plan.
        fault: String,
        /// How it went.
        outcome: FaultOutcome,
        /// Why, unless effective.
        reason: Option<String>,
    },
    /// The user asked to stop.
    Interrupted {
        /// `SIGINT`, `SIGTERM` or `SIGHUP`.
        signal: String,
    },
    /// The tester or its infrastructure broke.
    Failure {
        /// What, for people.
        what: String,
    },
    /// Something worth knowing that decides nothing.
    Note {
        /// For people.
        text: String,
    },
    /// The data was read back.
    Verified {
        /// What became of the acknowledged writes.
        ledger: Box<Ledger>,
    },
    /// The tester's own use of the machine, at the end of the measured phase.
    TesterUsage {
        /// CPU seconds (user and system) of the measured phase.
        cpu_s: f64,
        /// Largest resident memory so far, in bytes.
        rss_max_bytes: u64,
        /// Lines of `tester.log` that were dropped.
        dropped_log_lines: u64,
        /// Operations that outlived their deadline and are not resolved.
        abandoned_operations: u64,
    },
    /// Connections of a workload that does not use the driver, after its last operation.
    Connections {
        /// Its name.
        workload: String,
        /// That were made.
        opened: u64,
        /// Of those: that broke, or were closed because an operation was given up.
        lost: u64,
    },
    /// The tester itself stood still.
    OwnPause {
        /// For how long.
        seconds: f64,
    },
    /// The rate of a workload was changed while it ran. Not in the scenario, so not what it says.
    RateChanged {
        /// Which workload.
        workload: String,
        /// Intended operations per second from now on; 0 pauses.
        rate_ops_s: f64,
        /// Who asked: `ctl`.
        by: String,
    },
    /// A chunk moved, or was to move; the time of the line is that of its beginning.
    Migration(Box<Migration>),
    /// A step of a sweep began.
    SweepStep(Step),
    /// A search for the highest rate goes on to this rate.
    ProbeStarted {
        /// Which workload.
        workload: String,
        /// Intended rate.
        rate_ops_s: f64,
    },
    /// A probe was measured.
    Probe(Box<Probe>),
    /// What the tester took of the machine in one second. No line of `events.jsonl`: it goes to `tester.csv`.
    OwnSecond(Box<OwnSecond>),
    /// The run is over; nothing follows.
    Finished,
}

/// The phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Binaries, folders, processes, replica set.
    Start,
    /// Filling the collection.
    Load,
    /// Driven, not judged.
    WarmUp,
    /// Driven, hit and judged.
    Measure,
    /// Workers finish; faults are lifted; nodes come back.
    Heal,
    /// Reading back what was acknowledged.
    Verify,
    /// Processes are stopped.
    Stop,
}

impl Phase {
    /// In words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Load => "load",
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
            Self::Heal => "heal",
            Self::Verify => "verify",
            Self::Stop => "stop",
        }
    }
}

/// An event with its time.
#[derive(Clone, Debug)]
pub struct Stamped {
    /// When, on the run clock.
    pub at: Moment,
    /// The same as wall-clock time.
    pub wall: SystemTime,
    /// What.
    pub event: Event,
}

/// Where producers put their events: a bounded queue whose one reader is the recorder. A full queue
/// makes the producer wait; nothing is dropped.
#[derive(Clone, Debug)]
pub struct Events {
    clock: Clock,
    queue: mpsc::Sender<Stamped>,
    /// For displays: one that cannot keep up loses events, the recorder never does.
    display: broadcast::Sender<Stamped>,
}

/// Events waiting for the recorder. It drains them several times a second, and a whole cluster
/// start makes some twenty.
const QUEUE: usize = 1024;

impl Events {
    /// The producers' end and the recorder's end.
    #[must_use]
    pub fn channel(clock: Clock) -> (Self, mpsc::Receiver<Stamped>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let (display, _) = broadcast::channel(QUEUE);
        (Self { clock, queue, display }, receiver)
    }

    /// Sends an event that happens now, and returns its time. A recorder that is gone (it failed, and
    /// the conductor knows) loses the event.
    pub async fn send(&self, event: Event) -> Moment {
        let at = self.clock.now();
        self.send_at(at, event).await;
        at
    }

    /// Sends an event that happened at `at`.
    pub async fn send_at(&self, at: Moment, event: Event) {
        let stamped = Stamped { at, wall: self.clock.wall(at), event };
        // Nobody may be looking.
        let _watched = self.display.send(stamped.clone());
        if self.queue.send(stamped).await.is_err() {
            tracing::error!("event lost: the recorder is gone");
        }
    }

    /// Events that the recorder has not taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// All events from now on, for a display.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Stamped> {
        self.display.subscribe()
    }

    /// The run clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// The last second, for a display and for the warm-up to watch.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Seconds since the epoch; `None` before the first one.
    pub second: Option<u64>,
    /// One per workload.
    pub rows: Vec<LiveRow>,
}

/// The last second of one workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveRow {
    /// Acknowledged.
    pub ok: u64,
    /// Failed, unknown and missed.
    pub not_ok: u64,
    /// p99 of the response time of acknowledged operations, in microseconds.
    pub p99_us: Option<u64>,
}
