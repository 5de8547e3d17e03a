//! One client: its commands, one after the other, each by its route. Reads and writes go to the engine by a connection
//! that belongs to this client alone.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, doc, rawdoc};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use wire::{Frame, ReadError};

use crate::answer::{self, Answer, Refusal};
use crate::command::Command;
use crate::cursors::{Closed, Session};
use crate::serve::Shared;
use crate::table::{Route, route};
use crate::{admin, computed, ddl, hello, splice};

/// Answers that say that the engine's routing table is old: `StaleConfig`, `StaleDbVersion`.
const STALE: [i32; 2] = [13_388, 249];
const STALE_RETRIES: u32 = 10;
const STALE_PAUSE: Duration = Duration::from_millis(20);
/// Read from a socket at once.
const BUFFER_BYTES: usize = 32 << 10;
/// With these the engine would begin a transaction of its own, or abort.
const TRANSACTION_FIELDS: [&str; 3] = ["txnNumber", "startTransaction", "autocommit"];

/// Why the connection ended: the client's, or the engine's behind it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Format(#[from] wire::FormatError),
}

impl From<ReadError> for Ended {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Io(error),
            ReadError::Format(error) => Self::Format(error),
        }
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub shared: &'a Shared,
    number: u64,
    /// Made for the first command that needs it.
    engine: Option<BufReader<TcpStream>>,
}

impl<'a> Client<'a> {
    pub fn new(shared: &'a Shared, number: u64) -> Self {
        Self { shared, number, engine: None }
    }

    /// Answers until the client leaves, says something that is no command, or the engine is lost: drivers take that
    /// as they take a mongos that died.
    pub async fn serve(mut self, socket: TcpStream) -> Result<(), Ended> {
        socket.set_nodelay(true)?;
        let mut client = BufReader::with_capacity(BUFFER_BYTES, socket);
        while let Some(frame) = Frame::read(&mut client).await? {
            self.shared.counters.commands.fetch_add(1, Ordering::Relaxed);
            let command = Command::decode(frame)?;
            if let Some(reply) = self.reply(&command).await? {
                client.get_mut().write_all(reply.bytes()).await?;
            }
        }
        Ok(())
    }

    /// `None`: the client wants no reply.
    async fn reply(&mut self, command: &Command) -> Result<Option<Frame>, Ended> {
        let answer = match self.route_of(command) {
            Ok(Route::Engine(name)) => match self.on_engine(command, name).await? {
                Ok(frame) if !command.wants_reply() => return Ok(drop_reply(frame)),
                Ok(frame) => return Ok(Some(frame)),
                Err(refusal) => Err(refusal),
            },
            Ok(Route::AsIs) => {
                let frame = splice::renamed(&command.frame, command.name(), &splice::empty())?;
                let frame = self.exchange(&frame).await?;
                return Ok(command.wants_reply().then_some(frame));
            }
            Ok(Route::Hello) => Ok(hello::hello(&self.shared.identity, self.number)),
            Ok(Route::Who) => Ok(self.shared.who()),
            Ok(Route::Nothing) => Ok(doc! {}),
            Ok(Route::Computed) => computed::run(self, command).await?,
            Ok(Route::Ddl) => ddl::run(self, command).await?,
            Ok(Route::Admin) => admin::run(self.shared, command).await,
            Ok(Route::KillCursors) => self.kill_cursors(command).await,
            Ok(Route::Impossible(what)) => Err(Refusal::impossible(what)),
            Ok(Route::Unknown) => Err(Refusal::unknown(command.name())),
            Err(refusal) => Err(refusal),
        };
        if answer.is_err() {
            self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        Ok(command.reply(&answer::document(answer))?)
    }

    fn route_of(&self, command: &Command) -> Result<Route, Refusal> {
        let route = route(command.name());
        // The legacy request may be a hello and nothing else, as on every server since 5.1.
        if command.is_legacy() && route != Route::Hello {
            return Err(Refusal::new(352, "UnsupportedOpQueryCommand", "only hello may come as OP_QUERY"));
        }
        if TRANSACTION_FIELDS.iter().any(|field| command.has(field)) {
            return Err(Refusal::impossible("retryable writes and transactions"));
        }
        Ok(route)
    }

    /// A read or a write, by the engine.
    async fn on_engine(&mut self, command: &Command, name: &str) -> Result<Result<Frame, Refusal>, Ended> {
        let (added, session) = match self.added(command, name) {
            Ok(added) => added,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let request = splice::renamed(&command.frame, name, &added)?;
        let frame = self.exchange_fresh(&request, &command.namespace()).await?;
        if name == "clusterGetMore" {
            self.book_more(command, &frame);
        } else if let Some(session) = session {
            self.book_read(command, session, &frame).await;
        }
        Ok(Ok(frame))
    }

    /// What a mongos would add by itself, and the session of a read.
    fn added(&self, command: &Command, name: &str) -> Result<(RawDocumentBuf, Option<Session>), Refusal> {
        let mut added = bson::Document::new();
        let mut add = |name: &str, document: bson::Document| drop(added.insert(name, document));
        let session = match name {
            "clusterInsert" | "clusterUpdate" | "clusterDelete" => {
                if !command.has("writeConcern") {
                    add("writeConcern", doc! { "w": "majority" });
                }
                None
            }
            "clusterGetMore" => {
                let id = command.body().get_i64("getMore").unwrap_or_default();
                let missing = || Refusal::new(43, "CursorNotFound", format!("cursor id {id} not found"));
                add("lsid", self.shared.cursors.used(id).ok_or_else(missing)?.lsid());
                None
            }
            _ => {
                if !command.has("readConcern") {
                    add("readConcern", doc! { "level": "local" });
                }
                let session = self.shared.cursors.session();
                // Sessions of clients exist only where somebody offers them.
                if command.has("lsid") {
                    return Err(Refusal::impossible("sessions"));
                }
                add("lsid", session.lsid());
                Some(session)
            }
        };
        let added = RawDocumentBuf::try_from(&added).map_err(|e| Refusal::malformed(e.to_string()))?;
        Ok((added, session))
    }

    /// The engine does not look again by itself for an aggregation: after a migration it would fail for ever.
    async fn exchange_fresh(&mut self, request: &Frame, namespace: &str) -> Result<Frame, Ended> {
        let mut left = STALE_RETRIES;
        loop {
            let frame = self.exchange(request).await?;
            let stale = splice::reply_body(&frame).is_some_and(is_stale);
            if !stale || left == 0 {
                return Ok(frame);
            }
            left -= 1;
            self.shared.counters.stale_retries.fetch_add(1, Ordering::Relaxed);
            let flush = rawdoc! { "flushRouterConfig": namespace, "$db": "admin" };
            self.exchange(&wire::Msg::new(flush).encode(0, 0)?).await?;
            tokio::time::sleep(STALE_PAUSE).await;
        }
    }

    /// Sends a message to the engine and waits for its reply. A message without one is followed by a ping, so that
    /// it is known to have been taken.
    pub async fn exchange(&mut self, request: &Frame) -> Result<Frame, Ended> {
        let engine = match &mut self.engine {
            Some(engine) => engine,
            None => {
                let stream = TcpStream::connect(&self.shared.options.upstream).await?;
                stream.set_nodelay(true)?;
                self.engine.insert(BufReader::with_capacity(BUFFER_BYTES, stream))
            }
        };
        engine.get_mut().write_all(request.bytes()).await?;
        if splice::is_silent(request) {
            let ping = rawdoc! { "ping": 1, "$db": "admin" };
            engine.get_mut().write_all(wire::Msg::new(ping).encode(0, 0)?.bytes()).await?;
        }
        let lost = || io::Error::new(io::ErrorKind::UnexpectedEof, "the engine closed the connection");
        Ok(Frame::read(engine).await?.ok_or_else(lost)?)
    }

    /// An aggregation on the engine, with its whole answer.
    pub async fn aggregate(&mut self, command: bson::Document, namespace: &str) -> Result<Answer, Ended> {
        let session = self.shared.cursors.session();
        let mut command = command;
        command.insert("lsid", session.lsid());
        let body = RawDocumentBuf::try_from(&command)
            .map_err(|error| wire::FormatError::Document(error.to_string()))?;
        let frame = self.exchange_fresh(&wire::Msg::new(body).encode(0, 0)?, namespace).await?;
        self.shared.cursors.give_back(session);
        let reply = splice::reply_body(&frame).and_then(|body| bson::Document::try_from(body).ok());
        Ok(reply.ok_or_else(|| Refusal::malformed("the engine's answer is no document")).and_then(checked))
    }

    async fn book_read(&self, command: &Command, session: Session, frame: &Frame) {
        match splice::reply_body(frame).and_then(cursor_id) {
            None | Some(0) => self.shared.cursors.give_back(session),
            Some(id) => {
                let namespace = command.namespace();
                if !self.shared.cursors.opened(id, session, namespace.clone()) {
                    let closed = [Closed { id, session, namespace }];
                    if let Err(why) = close_all(self.shared, &closed).await {
                        tracing::warn!(why = why.message, "one cursor too many was not closed");
                    }
                }
            }
        }
    }

    fn book_more(&self, command: &Command, frame: &Frame) {
        let id = command.body().get_i64("getMore").unwrap_or_default();
        let body = splice::reply_body(frame);
        let over = body.is_none_or(|body| !is_ok(body) || cursor_id(body) == Some(0));
        if over {
            self.shared.cursors.ended(id);
        }
    }

    async fn kill_cursors(&self, command: &Command) -> Answer {
        let body = command.document()?;
        let ids = body.get_array("cursors").map_err(|error| Refusal::malformed(error.to_string()))?;
        let ids: Vec<i64> = ids.iter().filter_map(bson::Bson::as_i64).collect();
        let (mut killed, mut unknown) = (Vec::new(), Vec::new());
        let mut closed = Vec::new();
        for id in ids {
            match self.shared.cursors.close(id) {
                Some(cursor) => {
                    closed.push(cursor);
                    killed.push(id);
                }
                None => unknown.push(id),
            }
        }
        close_all(self.shared, &closed).await?;
        Ok(doc! {
            "cursorsKilled": killed,
            "cursorsNotFound": unknown,
            "cursorsAlive": Vec::<i64>::new(),
            "cursorsUnknown": Vec::<i64>::new(),
        })
    }
}

/// Ends the sessions of cursors on the shards, and then lets the engine forget its side of each.
pub(crate) async fn close_all(shared: &Shared, cursors: &[Closed]) -> Result<(), Refusal> {
    if cursors.is_empty() {
        return Ok(());
    }
    let sessions: Vec<_> = cursors.iter().map(|cursor| cursor.session.lsid()).collect();
    shared.servers.on_all_members(&doc! { "killSessions": sessions }).await?;
    let mut engine = Client::new(shared, 0);
    for cursor in cursors {
        let (_, collection) = cursor.namespace.split_once('.').unwrap_or_default();
        let (database, _) = cursor.namespace.split_once('.').unwrap_or((&cursor.namespace, ""));
        let more = doc! {
            "clusterGetMore": cursor.id,
            "collection": collection,
            "lsid": cursor.session.lsid(),
            "$db": database,
        };
        let body = RawDocumentBuf::try_from(&more).unwrap_or_default();
        let request = wire::Msg::new(body).encode(0, 0)?;
        // "Not found" is what is wanted.
        if engine.exchange(&request).await.is_err() {
            return Err(Refusal::new(6, "HostUnreachable", "the engine does not answer"));
        }
    }
    Ok(())
}

fn drop_reply(_: Frame) -> Option<Frame> {
    None
}

/// The number in an answer, whatever type it has.
fn number(body: &RawDocument, name: &str) -> Option<f64> {
    match body.get(name).ok()?? {
        bson::RawBsonRef::Double(number) => Some(number),
        bson::RawBsonRef::Int32(number) => Some(number.into()),
        bson::RawBsonRef::Int64(number) => Some(number as f64),
        bson::RawBsonRef::Boolean(yes) => Some(f64::from(u8::from(yes))),
        _ => None,
    }
}

fn is_ok(body: &RawDocument) -> bool {
    number(body, "ok") == Some(1.0)
}

fn is_stale(body: &RawDocument) -> bool {
    !is_ok(body)
        && number(body, "code").is_some_and(|code| STALE.iter().any(|stale| f64::from(*stale) == code))
}

fn cursor_id(body: &RawDocument) -> Option<i64> {
    body.get_document("cursor").ok()?.get_i64("id").ok()
}

/// A reply with `ok: 1`, or the refusal in it.
pub(crate) fn checked(reply: bson::Document) -> Answer {
    let ok = match reply.get("ok") {
        Some(bson::Bson::Double(ok)) => *ok == 1.0,
        Some(bson::Bson::Int32(ok)) => *ok == 1,
        _ => false,
    };
    if ok {
        return Ok(reply);
    }
    let text = |name: &str| reply.get_str(name).unwrap_or_default().to_owned();
    Err(Refusal {
        code: reply.get_i32("code").unwrap_or_default(),
        name: text("codeName"),
        message: text("errmsg"),
    })
}
