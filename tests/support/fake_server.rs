//! A scriptable stand-in for a mongod, for tests that need to know the truth.
//!
//! It runs in a thread of its own with its own runtime, so it keeps its times when a test blocks,
//! and it can serve a child process as well as the test itself. It is a standalone of version 6.0
//! without authentication and sessions.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use mongosoak::clock::{Alarm, Clock, Moment};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::{Frame, ReadError, Request};

use super::commands::{execute, is_data, is_hello, is_note, is_range_read, namespace};
use super::script::{Answer, Origin, Rule, Script};
use super::store::{Collections, Documents};

/// A running fake server; dropping it closes all its connections.
pub struct FakeServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// A change that nobody sent.
type Tamper = Box<dyn FnOnce(&mut Documents) + Send>;

/// What the connections and the test share.
struct Shared {
    script: Script,
    clock: Clock,
    origin: OnceLock<Moment>,
    counts: Mutex<BTreeMap<String, u64>>,
    last: Mutex<BTreeMap<String, RawDocumentBuf>>,
    tamper: Mutex<Option<Tamper>>,
    collections: Mutex<Collections>,
    request_id: AtomicI32,
    most_connections: AtomicUsize,
}

impl FakeServer {
    /// Starts a server on a free port of 127.0.0.1; it accepts connections when this returns.
    pub fn start(script: Script) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script,
            clock: Clock::start(),
            origin: OnceLock::new(),
            counts: Mutex::default(),
            last: Mutex::default(),
            tamper: Mutex::default(),
            collections: Mutex::default(),
            request_id: AtomicI32::new(1),
            most_connections: AtomicUsize::new(0),
        });
        let stop = CancellationToken::new();
        let (server, stopped) = (shared.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, server, stopped));
        });
        Self { addr, shared, stop, thread: Some(thread) }
    }

    /// `127.0.0.1:port`.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Connection string for this server alone.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.addr)
    }

    /// Lets the windows of the script count from now (`Origin::Call`); the first call only.
    pub fn arm(&self) {
        self.shared.origin.get_or_init(|| self.shared.clock.now());
    }

    /// Number of commands of this name that have arrived, by the name that was sent.
    pub fn count(&self, command: &str) -> u64 {
        self.shared.counts.lock().unwrap().get(command).copied().unwrap_or_default()
    }

    /// The most connections that were open at the same time, those of monitors included.
    pub fn most_connections(&self) -> usize {
        self.shared.most_connections.load(Ordering::Relaxed)
    }

    /// The last command of this name, without documents that came in a section of their own.
    pub fn last(&self, command: &str) -> Option<RawDocumentBuf> {
        self.shared.last.lock().unwrap().get(command).cloned()
    }

    /// Changes a collection the moment before the first read of a range of keys: after the load, and
    /// before the check of the data has seen anything.
    pub fn before_the_check(&self, change: impl FnOnce(&mut Documents) + Send + 'static) {
        *self.shared.tamper.lock().unwrap() = Some(Box::new(change));
    }

    /// Looks at, or changes behind the clients' backs, the documents of `database.collection`.
    pub fn documents<T>(&self, namespace: &str, look: impl FnOnce(&mut Documents) -> T) -> T {
        look(self.shared.collections.lock().unwrap().entry(namespace.to_owned()).or_default())
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the fake server itself failed");
        }
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    let most = &shared.most_connections;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => {
                let shared = shared.clone();
                let stream = accepted.unwrap().0;
                // That a client goes away is no failure; what is no request shows in the test.
                connections.spawn(async move { drop(serve_one(stream, &shared).await) });
                most.fetch_max(connections.len(), Ordering::Relaxed);
            }
            Some(ended) = connections.join_next() => ended.unwrap(),
        }
    }
}

async fn serve_one(mut stream: TcpStream, shared: &Shared) -> Result<(), ReadError> {
    stream.set_nodelay(true)?;
    let alarm = Alarm::new(shared.clock)?;
    while let Some(frame) = Frame::read(&mut stream).await? {
        let arrived = shared.clock.now();
        let request = Request::decode(&frame)?;
        let note = is_note(&request);
        let number = if note { 0 } else { shared.receive(&request, arrived) };
        if shared.swallows(&request.name, arrived) {
            continue;
        }
        let special = if note { None } else { shared.special(&request.name, number) };
        let service_time = match special {
            Some(Answer::Late(delay)) => shared.script.service_time + *delay,
            _ if is_data(&request.name) && !note => shared.script.service_time,
            _ => Duration::ZERO,
        };
        shared.wait_for_turn(&alarm, arrived + service_time).await?;
        let Some(reply) = shared.execute(&request, special)? else { continue };
        if matches!(special, Some(Answer::CutReply)) {
            stream.write_all(&reply.bytes()[..reply.bytes().len() / 2]).await?;
            return Ok(());
        }
        stream.write_all(reply.bytes()).await?;
    }
    Ok(())
}

impl Shared {
    /// Books the arrival of a command and says the how many-th of its name it is.
    fn receive(&self, request: &Request, arrived: Moment) -> u64 {
        let command = request.name.as_str();
        let number = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(command.to_owned()).or_default();
            *count += 1;
            *count
        };
        self.last.lock().unwrap().insert(command.to_owned(), request.body.clone());
        let is_origin = match self.script.origin {
            Origin::FirstDataCommand => is_data(command),
            Origin::Arrival(name, nth) => command == name && number == nth,
            Origin::Call => false,
        };
        if is_origin {
            self.origin.get_or_init(|| arrived);
        }
        number
    }

    fn swallows(&self, command: &str, arrived: Moment) -> bool {
        !is_hello(command) && self.window_end(&self.script.swallows, arrived).is_some()
    }

    /// The end of the window that lasts at `now`.
    fn window_end(&self, windows: &[Range<Duration>], now: Moment) -> Option<Moment> {
        let origin = *self.origin.get()?;
        let since = now.checked_sub(origin)?;
        windows.iter().find(|window| window.contains(&since)).map(|window| origin.saturating_add(window.end))
    }

    /// Waits until `due`, and then until no freeze lasts.
    async fn wait_for_turn(&self, alarm: &Alarm, mut due: Moment) -> std::io::Result<()> {
        loop {
            alarm.wait_until(due).await?;
            match self.window_end(&self.script.freezes, self.clock.now()) {
                Some(end) => due = end,
                None => return Ok(()),
            }
        }
    }

    fn special(&self, command: &str, number: u64) -> Option<&Answer> {
        let fits = |rule: &&Rule| rule.command == command && rule.when.fits(number);
        self.script.rules.iter().find(fits).map(|rule| &rule.answer)
    }

    fn execute(&self, request: &Request, special: Option<&Answer>) -> Result<Option<Frame>, ReadError> {
        let mut collections = self.collections.lock().unwrap();
        let tamper = is_range_read(request).then(|| self.tamper.lock().unwrap().take()).flatten();
        if let Some(tamper) = tamper {
            tamper(collections.entry(namespace(request)).or_default());
        }
        let reply = execute(&mut collections, request, special);
        drop(collections);
        let request_id = self.request_id.fetch_add(1, Ordering::Relaxed);
        Ok(request.reply(&reply, request_id)?)
    }
}
