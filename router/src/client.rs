//! One client: reads its commands, and answers them in turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Document, RawDocumentBuf};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use wire::{FormatError, Frame, Msg, OpCode, ReadError, Request};

use crate::command::Command;
use crate::dispatch::{Reply, dispatch};
use crate::hello;
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::routes::{self, Kind};
use crate::upstream::Upstream;

/// Serves a client until one of the two connections ends.
pub(crate) async fn serve(router: Arc<Router>, stream: TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("cannot set TCP_NODELAY: {error}");
    }
    let mut client = Client {
        connection_id: router.connection_id(),
        upstream: Upstream::new(&router.options),
        stream: BufReader::new(stream),
        router,
    };
    match client.serve().await {
        Ok(()) => {}
        Err(Failure::Protocol(error)) => {
            client.router.counters.malformed.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(client = client.connection_id, "disconnected: {error}");
        }
        Err(error) => tracing::info!(client = client.connection_id, "disconnected: {error}"),
    }
}

struct Client {
    router: Arc<Router>,
    connection_id: i32,
    stream: BufReader<TcpStream>,
    upstream: Upstream,
}

impl Client {
    async fn serve(&mut self) -> Result<(), Failure> {
        loop {
            let received = tokio::select! {
                received = Frame::read(&mut self.stream) => received,
                // As when a mongos dies: its clients know at once.
                () = self.upstream.closed() => return Err(Failure::UpstreamLost("closed by the server".into())),
            };
            let request = match received {
                Ok(Some(request)) => request,
                Ok(None) | Err(ReadError::Io(_)) => return Ok(()),
                Err(ReadError::Format(error)) => return Err(error.into()),
            };
            let Some(answer) = self.answer(&request).await? else { continue };
            if self.stream.get_mut().write_all(answer.bytes()).await.is_err() {
                return Ok(());
            }
        }
    }

    /// `None` if the client wants no answer, or went away meanwhile: its next read shows that.
    async fn answer(&mut self, request: &Frame) -> Result<Option<Frame>, Failure> {
        if request.header().op_code == OpCode::Query {
            return self.answer_query(request).await;
        }
        let command = Command::of(request)?;
        let dispatched = tokio::select! {
            biased;
            dispatched = dispatch(&self.router, &mut self.upstream, self.connection_id, &command) => dispatched,
            // Dropping the call closes the connection to rtr, which ends the operation there.
            () = gone(&self.stream) => return Ok(None),
        };
        let reply = match dispatched {
            Err(Failure::Refused(refusal)) => Reply::Document(refusal.document()),
            other => other?,
        };
        match reply {
            _ if !command.is_answered => Ok(None),
            Reply::Frame(frame) => Ok(Some(frame)),
            Reply::Document(document) => encode(&document, command.request_id).map(Some),
        }
    }

    /// The old form of a request, in which many drivers still greet.
    async fn answer_query(&mut self, request: &Frame) -> Result<Option<Frame>, Failure> {
        let query = Request::decode(request)?;
        let kind = routes::position(&query.name).map(|at| routes::ROUTES[at].kind);
        let reply = if kind == Some(Kind::Hello) {
            self.upstream.ping().await?;
            hello::reply(&self.router, self.connection_id)
        } else {
            Refusal::unsupported_query(format!("unsupported OP_QUERY command: {}", query.name)).document()
        };
        Ok(query.reply(&raw(&reply)?, request.header().request_id)?)
    }
}

/// Returns when the client has closed its connection and sent nothing more before that.
async fn gone(stream: &BufReader<TcpStream>) {
    if stream.buffer().is_empty() && !matches!(stream.get_ref().peek(&mut [0]).await, Ok(1..)) {
        return;
    }
    std::future::pending().await
}

fn encode(document: &Document, response_to: i32) -> Result<Frame, Failure> {
    Ok(Msg::new(raw(document)?).encode(response_to, response_to)?)
}

fn raw(document: &Document) -> Result<RawDocumentBuf, FormatError> {
    RawDocumentBuf::try_from(document).map_err(|error| FormatError::Document(error.to_string()))
}
