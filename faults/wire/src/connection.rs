//! One connection for admin commands: no pool, no monitor, no retries, no authentication.
//!
//! It is our own code, so a call may be given up or dropped at any time: the connection is then
//! broken, says so, and can only be thrown away. A reply can never reach the wrong call.

use std::io;
use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{FormatError, ReadError};
use crate::frame::Frame;
use crate::msg::{MORE_TO_COME, Msg};

/// Why a command gave no result. Only after [`Server`](CommandError::Server) is it known that the
/// server saw the command, and can the connection be used again.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The connection failed, was closed by the server, or was broken before this call.
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    /// No answer within this time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server refused.
    #[error("server error {code} ({code_name}): {message}")]
    Server {
        /// Its number; 0 when the server sent none.
        code: i32,
        /// Its name; empty when the server sent none.
        code_name: String,
        /// Its text.
        message: String,
    },
    /// The command does not fit a message, or the answer is not one to this command.
    #[error("not the MongoDB protocol: {0}")]
    Protocol(String),
}

impl From<FormatError> for CommandError {
    fn from(error: FormatError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Io(error),
            ReadError::Format(error) => error.into(),
        }
    }
}

/// One TCP connection to one server.
#[derive(Debug)]
pub struct Connection {
    /// `None` while a call is under way, and for good when that call did not come to its end.
    stream: Option<TcpStream>,
    request_id: i32,
}

impl Connection {
    /// Connects to `host:port`, name look-up included, within `deadline`.
    ///
    /// # Errors
    /// `Io` when nobody listens there or the name is unknown, `Timeout` when nobody answers.
    pub async fn connect(addr: &str, deadline: Duration) -> Result<Self, CommandError> {
        let connecting = timeout(deadline, TcpStream::connect(addr));
        let stream = connecting.await.map_err(|_| CommandError::Timeout(deadline))??;
        // Each command is one small packet that waits for nothing.
        stream.set_nodelay(true)?;
        Ok(Self { stream: Some(stream), request_id: 0 })
    }

    /// Runs one command and returns the server's reply. Errors of single writes and of the write
    /// concern come with `ok: 1` and are left to the caller.
    ///
    /// # Errors
    /// Any [`CommandError`]; after `Io` and `Timeout`, and after a `Protocol` error in the answer,
    /// the connection is broken, and the command may have run.
    pub async fn command(
        &mut self,
        database: &str,
        body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        self.request_id = self.request_id.wrapping_add(1);
        let request = encode(database, body, self.request_id)?;
        let mut stream = self.stream.take().ok_or_else(broken)?;
        let exchange = timeout(deadline, exchange(&mut stream, &request));
        let reply = exchange.await.map_err(|_| CommandError::Timeout(deadline))??;
        self.stream = Some(stream);
        check(reply)
    }

    /// Whether an earlier call left the connection unusable.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.stream.is_none()
    }
}

fn broken() -> CommandError {
    let text = "the connection was given up when an earlier command did not come to its end";
    io::Error::new(io::ErrorKind::NotConnected, text).into()
}

fn encode(database: &str, body: &Document, request_id: i32) -> Result<Frame, CommandError> {
    let mut body = body.clone();
    body.insert("$db", database);
    let body = RawDocumentBuf::try_from(&body).map_err(FormatError::bson)?;
    Ok(Msg::new(body).encode(request_id, 0)?)
}

/// Sends the request and reads the document that answers it.
async fn exchange(stream: &mut TcpStream, request: &Frame) -> Result<Document, CommandError> {
    stream.write_all(request.bytes()).await?;
    let closed = || io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server");
    let frame = Frame::read(stream).await?.ok_or_else(closed)?;
    let (asked, answered) = (request.header().request_id, frame.header().response_to);
    if asked != answered {
        return Err(CommandError::Protocol(format!("asked {asked}, got the answer to {answered}")));
    }
    let reply = Msg::decode(&frame)?;
    if reply.flags & MORE_TO_COME != 0 {
        return Err(CommandError::Protocol("several replies to one command".into()));
    }
    Ok(Document::try_from(&*reply.body).map_err(FormatError::bson)?)
}

/// Turns a reply without `ok: 1` into an error.
fn check(reply: Document) -> Result<Document, CommandError> {
    let ok = match reply.get("ok") {
        Some(Bson::Double(ok)) => *ok == 1.0,
        Some(Bson::Int32(ok)) => *ok == 1,
        Some(Bson::Int64(ok)) => *ok == 1,
        Some(Bson::Boolean(ok)) => *ok,
        _ => false,
    };
    if ok {
        return Ok(reply);
    }
    let text = |field| reply.get_str(field).unwrap_or_default().to_owned();
    let code = reply.get_i32("code").unwrap_or_default();
    Err(CommandError::Server { code, code_name: text("codeName"), message: text("errmsg") })
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use tokio::net::TcpListener;

    use super::*;
    use crate::request::Request;

    const LONG: Duration = Duration::from_secs(5);

    /// Serves one connection: the n-th request gets the n-th reply; then it is closed.
    async fn serve(listener: TcpListener, replies: Vec<RawDocumentBuf>) -> Vec<Request> {
        let mut stream = listener.accept().await.unwrap().0;
        let mut requests = Vec::new();
        for reply in replies {
            let frame = Frame::read(&mut stream).await.unwrap().unwrap();
            let request = Request::decode(&frame).unwrap();
            let answer = request.reply(&reply, 1).unwrap().unwrap();
            stream.write_all(answer.bytes()).await.unwrap();
            requests.push(request);
        }
        requests
    }

    async fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        (listener, addr)
    }

    #[tokio::test]
    async fn commands_are_answered_in_turn_and_refusals_are_typed() {
        let (listener, addr) = listen().await;
        let refusal = rawdoc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no" };
        let client = async {
            let mut connection = Connection::connect(&addr, LONG).await.unwrap();
            let reply = connection.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap();
            assert_eq!(reply, doc! { "ok": 1.0, "n": 3 });
            let error = connection.command("x", &doc! { "bad": 1 }, LONG).await.unwrap_err();
            assert_eq!(error.to_string(), "server error 59 (CommandNotFound): no");
            assert!(!connection.is_broken());
            let error = connection.command("x", &doc! { "late": 1 }, LONG).await.unwrap_err();
            assert!(matches!(error, CommandError::Io(_)), "{error}");
            assert!(connection.is_broken());
        };
        let replies = vec![rawdoc! { "ok": 1.0, "n": 3 }, refusal];
        let (requests, ()) = tokio::join!(serve(listener, replies), client);
        assert_eq!((requests[0].name.as_str(), requests[0].database.as_str()), ("ping", "admin"));
    }

    #[tokio::test]
    async fn after_a_timeout_the_connection_is_broken_and_says_so() {
        let (_listener, addr) = listen().await;
        let mut connection = Connection::connect(&addr, LONG).await.unwrap();
        let short = Duration::from_millis(20);
        let error = connection.command("admin", &doc! { "ping": 1 }, short).await.unwrap_err();
        assert!(matches!(error, CommandError::Timeout(after) if after == short), "{error}");
        let error = connection.command("admin", &doc! { "ping": 1 }, short).await.unwrap_err();
        let CommandError::Io(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_an_io_error() {
        let (listener, addr) = listen().await;
        drop(listener);
        let error = Connection::connect(&addr, LONG).await.unwrap_err();
        assert!(matches!(error, CommandError::Io(_)), "{error}");
    }

    #[tokio::test]
    async fn an_answer_to_something_else_is_a_protocol_error() {
        let (listener, addr) = listen().await;
        let server = async {
            let mut stream = listener.accept().await.unwrap().0;
            let frame = Frame::read(&mut stream).await.unwrap().unwrap();
            let other = frame.header().request_id + 1;
            let answer = Msg::new(rawdoc! { "ok": 1.0 }).encode(1, other).unwrap();
            stream.write_all(answer.bytes()).await.unwrap();
        };
        let client = async {
            let mut connection = Connection::connect(&addr, LONG).await.unwrap();
            let error = connection.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap_err();
            assert!(matches!(error, CommandError::Protocol(_)), "{error}");
            assert!(connection.is_broken());
        };
        tokio::join!(server, client);
    }
}
