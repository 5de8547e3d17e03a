//! The private connection of one client to rtr: whole messages, one at a time.

use std::path::PathBuf;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::timeout;
use wire::{FormatError, Frame, MORE_TO_COME, Msg, Sections};

use crate::body;
use crate::options::Options;
use crate::refusal::Failure;
use crate::stream::Stream;

/// rtr is on this machine or near it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects when it is first used. After a failure it is of no more use, and the client is disconnected.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: String,
    socket: Option<PathBuf>,
    stream: Option<BufReader<Stream>>,
}

impl Upstream {
    pub fn new(options: &Options) -> Self {
        let (address, socket) = (options.upstream.clone(), options.upstream_socket.clone());
        Self { address, socket, stream: None }
    }

    /// Sends a message and reads its answer.
    pub async fn exchange(&mut self, request: &Frame) -> Result<Frame, Failure> {
        // Taken out until the answer is there: a call that was given up leaves no connection whose next answer
        // belongs to somebody else.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let lost = |error: &dyn std::fmt::Display| Failure::UpstreamLost(error.to_string());
        stream.get_mut().write_all(request.bytes()).await.map_err(|e| lost(&e))?;
        let answer = Frame::read(&mut stream).await.map_err(|e| lost(&e))?;
        let answer = answer.ok_or_else(|| lost(&"closed by the server"))?;
        if answer.header().response_to != request.header().request_id {
            return Err(lost(&"an answer to something else"));
        }
        self.stream = Some(stream);
        Ok(answer)
    }

    /// Runs a command that was made here; error replies are replies.
    pub async fn command(&mut self, database: &str, command: &Document) -> Result<Document, Failure> {
        let request = message(database, command, 1)?;
        let answer = self.exchange(&request).await?;
        let sections = answered(&answer)?;
        Ok(body::quiet(body::read(sections.body)?))
    }

    /// Whether rtr answers at all: a greeting must be as dead as the routing behind it.
    pub async fn ping(&mut self) -> Result<(), Failure> {
        self.command("admin", &doc! { "ping": 1 }).await.map(drop)
    }

    /// Returns when rtr has closed the connection; never if there is none.
    pub async fn closed(&self) {
        match &self.stream {
            // Between two commands rtr has nothing to say.
            Some(stream) => stream.get_ref().closed().await,
            None => std::future::pending().await,
        }
    }

    async fn connect(&self) -> Result<BufReader<Stream>, Failure> {
        let lost = |reason: String| Failure::UpstreamLost(format!("{}: {reason}", self.address));
        let connecting = async {
            match &self.socket {
                Some(path) => Stream::unix(path).await,
                None => Stream::tcp(&self.address).await,
            }
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = connected.map_err(|_| lost("no answer".into()))?.map_err(|e| lost(e.to_string()))?;
        Ok(BufReader::new(stream))
    }
}

/// The parts of an answer that is the only one to its request.
pub(crate) fn answered(answer: &Frame) -> Result<Sections<'_>, Failure> {
    let lost = |reason: String| Failure::UpstreamLost(reason);
    let sections = Sections::of(answer).map_err(|error: FormatError| lost(error.to_string()))?;
    if sections.flags & MORE_TO_COME != 0 {
        return Err(lost("several answers to one request".into()));
    }
    Ok(sections)
}

/// A command as a message.
pub(crate) fn message(database: &str, command: &Document, request_id: i32) -> Result<Frame, FormatError> {
    let mut command = command.clone();
    command.insert("$db", database);
    let malformed = |error: bson::error::Error| FormatError::Document(error.to_string());
    Msg::new(RawDocumentBuf::try_from(&command).map_err(malformed)?).encode(request_id, 0)
}
