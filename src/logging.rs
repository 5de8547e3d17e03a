//! The tool's own log: `tester.log` in the run directory, never the terminal.

use std::io;
use std::path::Path;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Keeps the log open; dropping it writes what is left.
#[derive(Debug)]
pub struct LogGuard {
    _worker: WorkerGuard,
    dropped: ErrorCounter,
}

impl LogGuard {
    /// Lines that were dropped because the disk could not keep up.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.dropped.dropped_lines() as u64
    }
}

/// Starts the log of a run. The level is `info`; `MONGOSOAK_LOG` takes any filter of `tracing`.
///
/// # Errors
/// When the file cannot be made.
pub fn start(dir: &Path) -> io::Result<LogGuard> {
    let file = tracing_appender::rolling::never(dir, "tester.log");
    // Refuses early what the appender would only notice at the first line.
    std::fs::OpenOptions::new().append(true).create(true).open(dir.join("tester.log"))?;
    let (writer, worker) = NonBlockingBuilder::default().lossy(true).finish(file);
    let dropped = writer.error_counter();
    subscribe(writer);
    Ok(LogGuard { _worker: worker, dropped })
}

fn subscribe(writer: NonBlocking) {
    // The driver logs every command at debug; its warnings hold no secrets.
    let filter = EnvFilter::try_from_env("MONGOSOAK_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Shared(writer));
    if subscriber.try_init().is_err() {
        // Only in tests that start two runs in one process: the first log keeps everything.
        tracing::debug!("a log is running already");
    }
}

struct Shared(NonBlocking);

impl<'a> MakeWriter<'a> for Shared {
    type Writer = NonBlocking;

    fn make_writer(&'a self) -> NonBlocking {
        self.0.clone()
    }
}
