//! Which servers there are and what they are, as the driver's monitoring tells it.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription, TopologyType};
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::{ServerInfo, ServerType};
use tokio::sync::watch;

use crate::outcome;
use crate::scenario::ReadPreference;

/// While operations wait for a server, drivers look at most this often. Nobody tells our client that we
/// wait, so it looks this often always.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Servers that are this much slower than the nearest one are left out, as drivers do it.
const NEAR: Duration = Duration::from_millis(15);
/// The first answer of a deployment that a driver has reached already.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// A healthy deployment ends our sessions in milliseconds.
const GOODBYE: Duration = Duration::from_secs(2);

/// What is known of the deployment at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// There is one server, whatever it is: the URI names it alone, or it is no replica set.
    single: bool,
    /// Those that can be used, by name.
    servers: Vec<Server>,
}

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// `host:port`.
    pub(super) addr: Arc<str>,
    role: Role,
    round_trip: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Standalone,
    Router,
    Primary,
    Secondary,
}

impl Topology {
    fn of(description: &TopologyDescription) -> Self {
        let servers = description.servers();
        let mut servers: Vec<_> = servers.values().filter_map(Server::of).collect();
        servers.sort_by(|a, b| a.addr.cmp(&b.addr));
        Self { single: description.topology_type() == TopologyType::Single, servers }
    }

    /// Servers that take writes.
    pub(super) fn writable(&self) -> Vec<Server> {
        self.having(|role| self.single || role != Role::Secondary)
    }

    /// Servers that a read may go to.
    pub(super) fn readable(&self, preference: ReadPreference) -> Vec<Server> {
        let primaries = || self.having(|role| self.single || role != Role::Secondary);
        let secondaries = || near(self.having(|role| self.single || role != Role::Primary));
        let first_of = |wanted: Vec<Server>, other: &dyn Fn() -> Vec<Server>| {
            if wanted.is_empty() { other() } else { wanted }
        };
        match preference {
            ReadPreference::Primary => primaries(),
            ReadPreference::PrimaryPreferred => first_of(primaries(), &secondaries),
            ReadPreference::Secondary => secondaries(),
            ReadPreference::SecondaryPreferred => first_of(secondaries(), &primaries),
            ReadPreference::Nearest => near(self.servers.clone()),
        }
    }

    /// What a read must say of its read preference, if anything.
    pub(super) fn read_mode(&self, preference: ReadPreference) -> Option<&'static str> {
        let member = |server: &Server| matches!(server.role, Role::Primary | Role::Secondary);
        match preference {
            // Addressed alone a member is to answer whatever it is.
            ReadPreference::Primary if self.single && self.servers.iter().any(member) => {
                Some("primaryPreferred")
            }
            ReadPreference::Primary => None,
            _ if self.servers.iter().all(|server| server.role == Role::Standalone) => None,
            other => Some(other.word()),
        }
    }

    fn having(&self, fits: impl Fn(Role) -> bool) -> Vec<Server> {
        self.servers.iter().filter(|server| fits(server.role)).cloned().collect()
    }
}

impl Server {
    fn of(info: &ServerInfo<'_>) -> Option<Self> {
        let role = match info.server_type() {
            ServerType::Standalone => Role::Standalone,
            ServerType::Mongos => Role::Router,
            ServerType::RsPrimary => Role::Primary,
            ServerType::RsSecondary => Role::Secondary,
            _ => return None,
        };
        let ServerAddress::Tcp { host, port } = info.address() else { return None };
        // An IPv6 address needs its brackets before a port.
        let host =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
        let addr = format!("{host}:{}", port.unwrap_or(27_017)).into();
        Some(Self { addr, role, round_trip: info.average_round_trip_time().unwrap_or_default() })
    }
}

fn near(mut servers: Vec<Server>) -> Vec<Server> {
    let nearest = servers.iter().map(|server| server.round_trip).min().unwrap_or_default();
    servers.retain(|server| server.round_trip <= nearest + NEAR);
    servers
}

/// A driver client that does nothing but watch the deployment.
#[derive(Debug)]
pub struct Monitor {
    client: Client,
    topology: watch::Receiver<Arc<Topology>>,
}

impl Monitor {
    /// Begins to watch; returns when there is something to see, or after some seconds.
    ///
    /// # Errors
    /// For people; it may hold the URI's credentials: the URI is not understood.
    pub async fn start(uri: &str) -> Result<Self, String> {
        let parsed = ClientOptions::parse(uri).await;
        let mut options = parsed.map_err(|e| format!("the URI is not understood: {}", outcome::text(&e)))?;
        options.app_name = Some("mongosoak".into());
        options.heartbeat_freq = Some(HEARTBEAT);
        let (sender, mut topology) = watch::channel::<Arc<Topology>>(Arc::default());
        options.sdam_event_handler = Some(EventHandler::callback(move |event| tell(&sender, event)));
        let client = Client::with_options(options).map_err(|e| outcome::text(&e))?;
        let seen = topology.wait_for(|topology| !topology.servers.is_empty());
        if tokio::time::timeout(FIRST_ANSWER, seen).await.is_err() {
            tracing::warn!("the deployment did not answer its monitor yet");
        }
        Ok(Self { client, topology })
    }

    /// What the workers look at.
    pub(super) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.clone()
    }

    /// Ends the watching.
    pub async fn stop(self) {
        let _rude = tokio::time::timeout(GOODBYE, self.client.shutdown().immediate(true)).await;
    }
}

fn tell(sender: &watch::Sender<Arc<Topology>>, event: SdamEvent) {
    let SdamEvent::TopologyDescriptionChanged(change) = event else { return };
    let new = Topology::of(&change.new_description);
    // Round-trip times change all the time; that alone must not look like news of a suspect server.
    let same = |old: &Topology| {
        let roles =
            |t: &Topology| -> Vec<_> { t.servers.iter().map(|s| (Arc::clone(&s.addr), s.role)).collect() };
        old.single == new.single && roles(old) == roles(&new)
    };
    sender.send_if_modified(|old| {
        let changed = !same(old);
        *old = Arc::new(new.clone());
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(addr: &str, role: Role, ms: u64) -> Server {
        Server { addr: addr.into(), role, round_trip: Duration::from_millis(ms) }
    }

    fn set() -> Topology {
        let servers = vec![
            server("a", Role::Primary, 1),
            server("b", Role::Secondary, 2),
            server("c", Role::Secondary, 40),
        ];
        Topology { single: false, servers }
    }

    fn names(servers: &[Server]) -> String {
        servers.iter().map(|server| &*server.addr).collect()
    }

    #[test]
    fn each_read_preference_finds_its_servers() {
        use ReadPreference::{Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred};
        let set = set();
        let all = [Primary, PrimaryPreferred, Secondary, SecondaryPreferred, Nearest];
        assert_eq!(all.map(|p| names(&set.readable(p))), ["a", "a", "b", "b", "ab"]);
        assert_eq!(names(&set.writable()), "a");
        let headless = Topology { single: false, servers: set.servers[1..].to_vec() };
        assert_eq!(all.map(|p| names(&headless.readable(p))), ["", "b", "b", "b", "b"]);
        assert_eq!(names(&headless.writable()), "");
        let alone = Topology { single: false, servers: set.servers[..1].to_vec() };
        assert_eq!(all.map(|p| names(&alone.readable(p))), ["a", "a", "", "a", "a"]);
    }

    #[test]
    fn a_single_server_takes_everything_and_is_told_how() {
        use ReadPreference::{Primary, Secondary};
        let direct = Topology { single: true, servers: vec![server("a", Role::Secondary, 1)] };
        assert_eq!((names(&direct.writable()), names(&direct.readable(Primary))), ("a".into(), "a".into()));
        assert_eq!(direct.read_mode(Primary), Some("primaryPreferred"));
        let alone = Topology { single: true, servers: vec![server("a", Role::Standalone, 1)] };
        assert_eq!(names(&alone.readable(Secondary)), "a");
        assert_eq!([Primary, Secondary].map(|p| alone.read_mode(p)), [None, None]);
        assert_eq!([Primary, Secondary].map(|p| set().read_mode(p)), [None, Some("secondary")]);
        let routers = vec![server("a", Role::Router, 1), server("b", Role::Router, 1)];
        let sharded = Topology { single: false, servers: routers };
        assert_eq!(
            (names(&sharded.writable()), names(&sharded.readable(Secondary))),
            ("ab".into(), "ab".into())
        );
    }
}
