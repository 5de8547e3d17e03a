//! The listeners, one a member, on a runtime that belongs to the network.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::book::Book;
use super::conn::{Conn, Table};
use super::identify::{Desk, Pids};
use super::link::serve;
use super::{Limits, MemberPorts, Upstream};

/// Below the range from which the system takes the ports of outgoing connections: none of these can sit on a
/// port while its listener is closed.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1024;
/// After this a listener that could not be opened, or that could not accept, tries again.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// What is left of connections after so long is dropped. They look at the rules at once, so it is never used up
/// by one that works.
const CLOSE_WITHIN: Duration = Duration::from_millis(500);
/// Errors that are kept for the report.
const TROUBLE_MAX: usize = 20;

/// One member, as the network knows it.
#[derive(Debug)]
pub(crate) struct Gate {
    pub name: String,
    /// What the others dial; 0 until the listener was opened for the first time.
    port: AtomicU16,
    upstream: Mutex<Upstream>,
    pub open: AtomicBool,
    pub accepted: AtomicU64,
    pub turned_away: AtomicU64,
    /// The edition of the rules that the listener obeys.
    pub edition: AtomicU64,
}

/// What everybody knows: the tasks of the connections, and who gives orders.
#[derive(Debug)]
pub(crate) struct Shared {
    pub gates: Vec<Gate>,
    pub rules: watch::Sender<Arc<Book>>,
    pub table: Arc<Table>,
    pub pids: Pids,
    pub limits: Limits,
    numbers: AtomicU64,
    trouble: Mutex<Vec<String>>,
}

impl Shared {
    pub fn new(members: &[MemberPorts], limits: Limits) -> Self {
        let gate = |member: &MemberPorts| Gate {
            name: member.name.clone(),
            port: AtomicU16::new(member.listen.unwrap_or(0)),
            upstream: Mutex::new(member.upstream.clone()),
            open: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            edition: AtomicU64::new(0),
        };
        Self {
            gates: members.iter().map(gate).collect(),
            rules: watch::Sender::default(),
            table: Arc::default(),
            pids: Pids::new(members.len()),
            limits,
            numbers: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }

    pub fn name(&self, member: usize) -> &str {
        &self.gates[member].name
    }

    pub fn port(&self, member: usize) -> u16 {
        self.gates[member].port.load(Ordering::Relaxed)
    }

    pub fn upstream(&self, member: usize) -> Upstream {
        self.gates[member].upstream.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_upstream(&self, member: usize, upstream: Upstream) {
        *self.gates[member].upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }

    /// Makes a new edition of the rules.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let mut result = None;
        self.rules.send_modify(|book| {
            let mut next = Book::clone(book);
            next.edition += 1;
            result = Some(change(&mut next));
            *book = Arc::new(next);
        });
        result.expect("send_modify calls its closure")
    }

    pub fn trouble(&self) -> Vec<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, what: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.len() < TROUBLE_MAX {
            trouble.push(what);
        }
    }
}

/// The whole life of the thread of a network: opens, says so, serves until the rules say that it closes.
pub(crate) fn run(shared: Arc<Shared>, opened: oneshot::Sender<io::Result<()>>) {
    let start = || {
        let runtime = runtime(shared.limits.threads)?;
        let (desk, who_dials) = Desk::open(shared.pids.clone())?;
        let listeners = runtime.block_on(async { open_all(&shared) })?;
        Ok((runtime, desk, who_dials, listeners))
    };
    let (runtime, desk, who_dials, listeners) = match start() {
        Ok(parts) => parts,
        Err(error) => return drop(opened.send(Err(error))),
    };
    // Nobody waits for it any more: then nobody will close it either.
    if opened.send(Ok(())).is_err() {
        return;
    }
    runtime.block_on(async {
        let mut gates = JoinSet::new();
        for (member, listener) in listeners.into_iter().enumerate() {
            gates.spawn(keep_gate(Arc::clone(&shared), member, desk.clone(), listener));
        }
        while let Some(ended) = gates.join_next().await {
            note_panic(&shared, ended);
        }
    });
    drop((runtime, desk));
    if who_dials.join().is_err() {
        shared.note("the thread that looks up members panicked".into());
    }
}

/// One thread that does everything where one is enough: it wakes nobody else for its work.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads.max(1)).thread_name("network").enable_all().build()
}

fn open_all(shared: &Shared) -> io::Result<Vec<TcpListener>> {
    shared.gates.iter().map(open_first).collect()
}

/// Opens a listener on the port that was asked for, or on a free one.
fn open_first(gate: &Gate) -> io::Result<TcpListener> {
    let asked = gate.port.load(Ordering::Relaxed);
    let listener =
        if asked == 0 { open_free()? } else { open(asked).map_err(|e| on_port(asked, &gate.name, &e))? };
    gate.port.store(listener.local_addr()?.port(), Ordering::Relaxed);
    gate.open.store(true, Ordering::Release);
    Ok(listener)
}

fn on_port(port: u16, name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("listen on 127.0.0.1:{port} for {name}: {error}"))
}

/// Starts at a port that depends on the process, so that two networks seldom try the same ones.
fn open_free() -> io::Result<TcpListener> {
    let count = PORTS.end - PORTS.start;
    let first = (std::process::id().wrapping_mul(97) % u32::from(count)) as u16;
    let port = |step| PORTS.start + (first + step) % count;
    let none =
        || io::Error::new(io::ErrorKind::AddrInUse, "no free port between 20000 and 31999 on 127.0.0.1");
    (0..count).find_map(|step| open(port(step)).ok()).ok_or_else(none)
}

fn open(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Connections of an earlier listener may still be there.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.listen(BACKLOG)
}

/// Accepts for one member, opens and closes its listener as the rules say, and joins its connections.
async fn keep_gate(shared: Arc<Shared>, member: usize, desk: Desk, listener: TcpListener) {
    let gate = &shared.gates[member];
    let mut rules = shared.rules.subscribe();
    let (mut listener, mut refused_by) = (Some(listener), Vec::new());
    let mut links = JoinSet::new();
    loop {
        let book = Arc::clone(&rules.borrow_and_update());
        if book.closing {
            break;
        }
        let refusing = book.refusing(&gate.name);
        if refusing.is_empty() && listener.is_none() {
            listener = open(shared.port(member)).map_err(|e| shared.note(format!("{}: {e}", gate.name))).ok();
        } else if !refusing.is_empty() {
            listener = None;
        }
        refusing.iter().filter(|rule| !refused_by.contains(&rule.id)).for_each(|rule| rule.acted());
        refused_by = refusing.iter().map(|rule| rule.id).collect();
        gate.open.store(listener.is_some(), Ordering::Release);
        if listener.is_some() != refused_by.is_empty() {
            // Somebody else has the port. The rules are not obeyed yet.
            tokio::select! { _ = rules.changed() => {}, () = sleep(TRY_AGAIN) => {} }
            continue;
        }
        gate.edition.store(book.edition, Ordering::Release);
        tokio::select! {
            biased;
            changed = rules.changed() => if changed.is_err() { break },
            accepted = accept(listener.as_ref()) => match accepted {
                Ok((socket, from)) => admit(&shared, member, &desk, (socket, from), &mut links),
                Err(error) => {
                    shared.note(format!("{}: accept: {error}", gate.name));
                    sleep(TRY_AGAIN).await;
                }
            },
            Some(ended) = links.join_next() => note_panic(&shared, ended),
        }
    }
    drop(listener);
    gate.open.store(false, Ordering::Release);
    close(&shared, links).await;
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Serves a new connection, or resets it when there are too many.
fn admit(
    shared: &Arc<Shared>,
    member: usize,
    desk: &Desk,
    (socket, from): (TcpStream, SocketAddr),
    links: &mut JoinSet<()>,
) {
    let gate = &shared.gates[member];
    gate.accepted.fetch_add(1, Ordering::Relaxed);
    if shared.table.len() >= shared.limits.connections_max {
        gate.turned_away.fetch_add(1, Ordering::Relaxed);
        // Fails only on a socket that is closed already.
        drop(socket.set_zero_linger());
        return;
    }
    if let Err(error) = socket.set_nodelay(true) {
        shared.note(format!("{}: no TCP_NODELAY: {error}", gate.name));
    }
    let number = shared.numbers.fetch_add(1, Ordering::Relaxed);
    let conn = Arc::new(Conn::new(number, member, from.port()));
    links.spawn(serve(Arc::clone(shared), conn, desk.clone(), socket));
}

async fn close(shared: &Shared, mut links: JoinSet<()>) {
    let all_ended = async {
        while let Some(ended) = links.join_next().await {
            note_panic(shared, ended);
        }
    };
    if timeout(CLOSE_WITHIN, all_ended).await.is_err() {
        shared.note(format!("{} connections did not end in time", links.len()));
        links.shutdown().await;
    }
}

fn note_panic(shared: &Shared, ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        shared.note(format!("a task of the network failed: {error}"));
    }
}
