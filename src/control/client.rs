//! The side of the user: asks once.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::{DEADLINE, Reply, Request, line, socket};

/// Nobody answered.
#[derive(Debug, thiserror::Error)]
pub enum CannotAsk {
    /// No directory, or no socket in it.
    #[error("no test listens in {0}: it is over, or has not begun to send load yet")]
    NotThere(PathBuf),
    /// The socket is left over.
    #[error("the tester of {0} is dead: it left its socket, and nobody listens")]
    Dead(PathBuf),
    /// Of another user.
    #[error("the test in {0} belongs to another user")]
    NotYours(PathBuf),
    /// It does not answer.
    #[error("the tester of {0} does not answer within {limit} s", limit = DEADLINE.as_secs())]
    Silent(PathBuf),
    /// Anything else.
    #[error("ask the test in {dir}: {why}")]
    Other {
        /// The run directory.
        dir: PathBuf,
        /// Why.
        why: String,
    },
}

/// Asks the test that runs in this directory.
///
/// # Errors
/// When nobody answers. A refusal is an answer.
pub async fn ask(dir: &Path, request: &Request) -> Result<Reply, CannotAsk> {
    match tokio::time::timeout(DEADLINE, talk(dir, request)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(match error.kind() {
            io::ErrorKind::NotFound => CannotAsk::NotThere(dir.into()),
            io::ErrorKind::ConnectionRefused => CannotAsk::Dead(dir.into()),
            io::ErrorKind::PermissionDenied => CannotAsk::NotYours(dir.into()),
            _ => CannotAsk::Other { dir: dir.into(), why: error.to_string() },
        }),
        Err(_) => Err(CannotAsk::Silent(dir.into())),
    }
}

async fn talk(dir: &Path, request: &Request) -> io::Result<Reply> {
    let (_open, path) = socket(dir)?;
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all((serde_json::to_string(request)? + "\n").as_bytes()).await?;
    Ok(serde_json::from_str(&line(stream).await?)?)
}
