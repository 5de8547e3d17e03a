//! How a running test is talked to: a Unix socket in its run directory, one line of JSON each way.
//!
//! It owns the words of the two sides and the way to the socket. Only the user who started the test can reach
//! it, nothing secret is ever said, and every line is bounded in size and time.

mod client;
mod server;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

pub use client::{CannotAsk, ask};
pub use server::{Controlled, Server};

/// Name of the socket in the run directory.
pub const SOCKET: &str = "control.sock";
/// Longest line; a request that names a thousand workloads is shorter.
const MAX_LINE: u64 = 64 << 10;
/// Longest time that one side waits for the other.
const DEADLINE: Duration = Duration::from_secs(5);

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How it goes.
    Status,
    /// Change these rates, all or none.
    Rate {
        /// At least one.
        rates: Vec<NewRate>,
    },
}

/// A rate to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRate {
    /// Name of the workload.
    pub workload: String,
    /// Operations per second; 0 pauses.
    pub rate_ops_s: f64,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Nothing was done.
    Refused {
        /// Why, for people.
        why: String,
    },
    /// The rates are in force.
    Changed,
    /// How it goes.
    Status(Status),
}

/// A running test at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `warm-up`, `measure` or `heal`.
    pub phase: String,
    /// Seconds of the measured phase that have passed; null in the warm-up.
    pub t_s: Option<f64>,
    /// Planned length of the measured phase, in seconds.
    pub duration_s: f64,
    /// In the order of the scenario.
    pub workloads: Vec<WorkloadStatus>,
}

/// The last second of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadStatus {
    /// Its name.
    pub name: String,
    /// Intended operations per second now; null: a closed loop.
    pub rate_ops_s: Option<f64>,
    /// Acknowledged in the last second.
    pub ok: u64,
    /// Failed, unknown and missed in the last second.
    pub not_ok: u64,
    /// p99 of the response time in the last second, in microseconds; null: nothing was acknowledged.
    pub p99_us: Option<u64>,
}

/// The way to the socket. Its path may be longer than the 108 bytes that an address holds, so the directory is
/// opened and named by its descriptor, which must stay open while the path is used.
fn socket(dir: &Path) -> io::Result<(File, PathBuf)> {
    let open = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd()));
    Ok((open, path))
}

/// One line, not longer than it may be.
async fn line(from: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut text = String::new();
    BufReader::new(from.take(MAX_LINE)).read_line(&mut text).await?;
    if text.ends_with('\n') {
        return Ok(text);
    }
    let why = if text.is_empty() { "nothing came" } else { "the line is too long, or broke off" };
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}
