//! Signals become tokens: the first one asks for an orderly stop, the second one for the end.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Stop new work, put things back, report.
    pub orderly: CancellationToken,
    /// End now; only the clean-up of processes is left.
    pub now: CancellationToken,
    name: Arc<OnceLock<&'static str>>,
}

impl Stop {
    /// Name of the first signal.
    #[must_use]
    pub fn signal(&self) -> Option<&'static str> {
        self.name.get().copied()
    }

    fn received(&self, name: &'static str) {
        if self.name.set(name).is_err() {
            self.now.cancel();
        }
        self.orderly.cancel();
    }
}

/// The listeners, made once at the start so that no signal is missed between two looks.
#[derive(Debug)]
pub struct Listener {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Listener {
    /// From now on SIGINT, SIGTERM and SIGHUP do not end the process.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Passes signals on to `stop`, for ever.
    pub async fn run(mut self, stop: Stop) {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.hangup.recv() => "SIGHUP",
            };
            stop.received(name);
        }
    }
}
