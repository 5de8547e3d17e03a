//! Who dials: client or member by the first message, which member by asking the kernel whose socket it is.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use wire::{Frame, HEADER_BYTES, Header, OpCode, Request};

use super::sock_diag::SockDiag;
use super::upstream::Socket;

/// How long who dialled may say nothing; in this protocol the dialler speaks first.
const SPEAK_WITHIN: Duration = Duration::from_secs(1);
/// Handshakes have some hundred bytes. What is longer is none.
const HANDSHAKE_BYTES_MAX: usize = 16 << 10;
/// A look-up takes some milliseconds; a machine that is overloaded may need a hundred.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// Questions that wait. Only members are looked up: some dozens.
const QUESTIONS_MAX: usize = 64;

/// How a connection begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct First {
    /// What was read so far; has to be passed on.
    pub bytes: Vec<u8>,
    pub says: Says,
}

/// What the first message says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// A handshake of a client, or anything but the handshake of a member.
    Client,
    /// A handshake between members.
    Member,
    /// A bare `_isSelf`: a member that looks for itself.
    SelfProbe,
    /// Nothing, or nothing whole, in time.
    Nothing,
    /// The connection ended before the first message did.
    Gone,
}

/// Reads the first message. Takes at most a second; what was read is in the answer in any case.
pub(crate) async fn first_message(stream: &mut Socket) -> First {
    let mut bytes = Vec::new();
    let says = timeout(SPEAK_WITHIN, async {
        loop {
            if let Some(says) = says(&bytes) {
                return says;
            }
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return Says::Gone,
                Ok(_) => {}
            }
        }
    });
    let says = says.await.unwrap_or(Says::Nothing);
    First { bytes, says }
}

/// `None` when more bytes have to come.
fn says(bytes: &[u8]) -> Option<Says> {
    let head = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = match Header::decode(head) {
        Ok(Header { op_code: OpCode::Msg | OpCode::Query, length, .. }) if length <= HANDSHAKE_BYTES_MAX => {
            length
        }
        _ => return Some(Says::Client),
    };
    let message = bytes.get(..length)?;
    let request = Frame::from_bytes(message.to_vec()).and_then(|frame| Request::decode(&frame));
    Some(match request {
        Ok(request) if request.name == "_isSelf" => Says::SelfProbe,
        Ok(request) if matches!(request.body.get("internalClient"), Ok(Some(_))) => Says::Member,
        _ => Says::Client,
    })
}

/// Process ids of the members, by index; `None` while one does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pids(Arc<Mutex<Vec<Option<i32>>>>);

impl Pids {
    pub fn new(members: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; members])))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<i32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, member: usize, pid: Option<i32>) {
        self.lock()[member] = pid;
    }

    pub fn get(&self) -> Vec<Option<i32>> {
        self.lock().clone()
    }
}

struct Question {
    from_port: u16,
    to_port: u16,
    answer: oneshot::Sender<Option<usize>>,
}

/// Looks up members, on a thread of its own: reading `/proc` blocks, for milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Desk(mpsc::Sender<Question>);

impl Desk {
    /// The thread ends when all desks are dropped.
    ///
    /// # Errors
    /// When the kernel has no answer to give or no thread can be made.
    pub fn open(pids: Pids) -> io::Result<(Self, JoinHandle<()>)> {
        let mut diag = SockDiag::open()?;
        let (sender, mut questions) = mpsc::channel::<Question>(QUESTIONS_MAX);
        let thread = std::thread::Builder::new().name("who-dials".into()).spawn(move || {
            while let Some(question) = questions.blocking_recv() {
                let found = owner(&mut diag, question.from_port, question.to_port, &pids.get());
                // An error means the same as nobody: not known. Whoever asked may be gone.
                question.answer.send(found.unwrap_or_default()).ok();
            }
        })?;
        Ok((Self(sender), thread))
    }

    /// Index of the member that dialled this connection; `None` when it is none of them, or gone.
    pub async fn who(&self, from_port: u16, to_port: u16) -> Option<usize> {
        let (answer, found) = oneshot::channel();
        let ask = async {
            self.0.send(Question { from_port, to_port, answer }).await.ok()?;
            found.await.ok()?
        };
        timeout(LOOK_UP_WITHIN, ask).await.ok()?
    }
}

fn owner(
    diag: &mut SockDiag,
    from_port: u16,
    to_port: u16,
    pids: &[Option<i32>],
) -> io::Result<Option<usize>> {
    let local = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let Some(inode) = diag.inode(local(from_port), local(to_port))? else { return Ok(None) };
    let holds = |pid: &Option<i32>| pid.is_some_and(|pid| holds(pid, inode).unwrap_or(false));
    Ok(pids.iter().position(holds))
}

/// Whether a process has this socket open.
fn holds(pid: i32, inode: u32) -> io::Result<bool> {
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // One that was closed meanwhile is not the one.
        if std::fs::read_link(entry?.path()).is_ok_and(|link| link == socket) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Proves that processes can be told apart: this process dials itself and has to be found, and the open
/// files of the processes that are to be told apart have to be visible.
///
/// # Errors
/// What is missing, and what that means.
pub(crate) fn self_test(pids: &[Option<i32>]) -> io::Result<()> {
    let refuse = |what: String| io::Error::other(format!("members cannot be told apart: {what}"));
    let mut diag =
        SockDiag::open().map_err(|e| refuse(format!("no NETLINK_SOCK_DIAG in this kernel ({e})")))?;
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to_port = listener.local_addr()?.port();
    let dialled = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, to_port))?;
    let from_port = dialled.local_addr()?.port();
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    match owner(&mut diag, from_port, to_port, &[Some(own)]) {
        Ok(Some(_)) => {}
        Ok(None) => {
            return Err(refuse("a connection of this very process is not found in /proc/self/fd".into()));
        }
        Err(error) => return Err(refuse(format!("the kernel does not say whose a connection is ({error})"))),
    }
    for pid in pids.iter().flatten() {
        let hidden = |e: io::Error| {
            refuse(format!(
                "/proc/{pid}/fd is not readable ({e}): another user, a setuid program, or hidepid"
            ))
        };
        std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(hidden)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::network::tests::message;

    use super::*;

    #[test]
    fn the_first_message_says_who_speaks() {
        assert_eq!(says(&message("hello", None)), Some(Says::Client));
        assert_eq!(says(&message("hello", Some("client"))), Some(Says::Client));
        assert_eq!(says(&message("hello", Some("internalClient"))), Some(Says::Member));
        assert_eq!(says(&message("_isSelf", None)), Some(Says::SelfProbe));
        assert_eq!(says(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03abcde"), Some(Says::Client), "TLS");
        assert_eq!(says(b"GET / HTTP/1.1\r\n\r\n"), Some(Says::Client));
    }

    #[test]
    fn it_waits_for_the_whole_message_and_no_longer() {
        let mut two = message("hello", Some("internalClient"));
        for end in 0..two.len() {
            assert_eq!(says(&two[..end]), None, "{end} bytes");
        }
        two.extend(message("ping", None));
        assert_eq!(says(&two), Some(Says::Member));
        let mut long = message("hello", Some("internalClient"));
        long[..4].copy_from_slice(&(20_000_u32).to_le_bytes());
        assert_eq!(says(&long), Some(Says::Client), "no handshake is that long");
    }

    #[test]
    fn the_self_test_says_what_is_hidden() {
        self_test(&[None, Some(std::process::id() as i32)]).unwrap();
        let error = self_test(&[Some(i32::MAX)]).unwrap_err().to_string();
        assert!(error.contains("/proc/2147483647/fd is not readable"), "{error}");
    }
}
