//! One connection, from accept to its end. One task owns both sockets whole, so that it can reset them: halves
//! of a split socket send a FIN when they are dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::book::{Book, Ending, Verdict};
use super::conn::{Conn, Dialler};
use super::flow::{Broken, Flow, Way};
use super::identify::{Desk, First, Says, first_message};
use super::now;
use super::proxy::Shared;
use super::rule::Party;
use super::upstream::Socket;

/// A member on this machine accepts at once, or refuses.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
}

/// Serves a connection until it ends. Errors end with it: there is nobody to tell but the two ends.
pub(crate) async fn serve(shared: Arc<Shared>, conn: Arc<Conn>, desk: Desk, client: TcpStream) {
    let mut client = Socket::Tcp(client);
    let _listed = shared.table.enter(&conn);
    let rules = shared.rules.subscribe();
    let mut link = Link { shared: &shared, conn: &conn, rules, verdict: Verdict::default(), upstream: None };
    let end = link.run(&desk, &mut client).await;
    let upstream = link.upstream.take();
    match end {
        // Says FIN also when something is left unread, which a plain close would answer with a reset.
        End::Fin => drop(client.shutdown().await),
        End::Reset => [Some(client), upstream].into_iter().flatten().for_each(Socket::reset),
    }
}

struct Link<'a> {
    shared: &'a Shared,
    conn: &'a Conn,
    rules: watch::Receiver<Arc<Book>>,
    verdict: Verdict,
    upstream: Option<Socket>,
}

impl Link<'_> {
    async fn run(&mut self, desk: &Desk, client: &mut Socket) -> End {
        let Ok(first) = self.unless_killed(self.greet(desk, client)).await else { return End::Reset };
        if first.says == Says::Gone {
            return End::Fin;
        }
        if let Err(end) = self.admit().await {
            return end;
        }
        let member = self.shared.upstream(self.conn.to);
        let mut upstream = match self.unless_killed(timeout(CONNECT_WITHIN, member.connect())).await {
            Ok(Ok(Ok(upstream))) => upstream,
            // Nobody listens there: the nearest thing to "refused" that an accepted connection can show.
            Ok(_) => return self.refuse().await,
            Err(end) => return end,
        };
        let end = self.pump(&first.bytes, client, &mut upstream).await;
        self.upstream = Some(upstream);
        end
    }

    /// Hears the first message and finds out who dialled.
    async fn greet(&self, desk: &Desk, client: &mut Socket) -> First {
        let first = first_message(client).await;
        let self_probe = first.says == Says::SelfProbe;
        let party = match first.says {
            Says::Client => Party::Client,
            Says::Nothing | Says::Gone => Party::Unknown,
            Says::Member | Says::SelfProbe => {
                let found = desk.who(self.conn.from_port, self.shared.port(self.conn.to)).await;
                found.map_or(Party::Unknown, |member| Party::Member(self.shared.name(member).into()))
            }
        };
        self.conn.identified(Dialler { party, self_probe });
        first
    }

    /// Waits for something, unless the connection is to be reset meanwhile.
    async fn unless_killed<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut rules = self.rules.clone();
        let kill = async {
            while !self.conn.is_killed() && !rules.borrow_and_update().closing {
                if rules.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = kill => Err(End::Reset),
            done = work => Ok(done),
        }
    }

    /// Asks the rules for the first time, and waits while requests are stalled: a member that cannot be
    /// reached is not connected to.
    async fn admit(&mut self) -> Result<(), End> {
        let mut seen_waiting = false;
        loop {
            match self.obey()? {
                None if !self.verdict.requests.stalled => return Ok(()),
                None => {}
                Some(Ending::Close) => return Err(End::Fin),
                Some(Ending::Reset) => return Err(End::Reset),
            }
            if !std::mem::replace(&mut seen_waiting, true) {
                self.verdict.requests.stall_acted();
            }
            self.rules.changed().await.map_err(|_| End::Reset)?;
        }
    }

    /// The member does not listen; says so when the rules let replies pass.
    async fn refuse(&mut self) -> End {
        loop {
            match self.obey() {
                Ok(None) if self.verdict.replies.stalled => {}
                _ => return End::Reset,
            }
            if self.rules.changed().await.is_err() {
                return End::Reset;
            }
        }
    }

    /// Takes over the rules as they are now.
    fn obey(&mut self) -> Result<Option<Ending>, End> {
        let book = Arc::clone(&self.rules.borrow_and_update());
        if book.closing || self.conn.is_killed() {
            return Err(End::Reset);
        }
        let verdict = book.verdict(&self.conn.ends(self.shared.name(self.conn.to)));
        let lifted = self.verdict.reset_on_lift && !verdict.reset_on_lift;
        for rule in &verdict.rules {
            if !self.verdict.rules.iter().any(|known| known.id == rule.id) {
                rule.hit();
            }
        }
        self.verdict = verdict;
        self.conn.obeys(book.edition);
        if self.verdict.ending.is_some() {
            self.verdict.ending_acted();
        }
        if lifted { Err(End::Reset) } else { Ok(self.verdict.ending) }
    }

    /// Passes bytes both ways until both have ended, or one broke.
    async fn pump(&mut self, first: &[u8], client: &mut Socket, upstream: &mut Socket) -> End {
        let mut pump = Pump {
            up: Flow::new(Way::Up, self.conn.number),
            down: Flow::new(Way::Down, self.conn.number),
            half_closed: self.shared.limits.half_closed,
            give_up_at: None,
            timer: None,
        };
        // The rules may have changed while the member was connected to.
        match self.obey() {
            Ok(None) => {}
            _ => return End::Reset,
        }
        pump.up.preload(first, &self.verdict.requests, self.conn);
        loop {
            tokio::select! {
                biased;
                changed = self.rules.changed() => match changed.map(|()| self.obey()) {
                    Ok(Ok(None)) => pump.change(&self.verdict),
                    // A connection that is open is reset, also where new ones are closed.
                    _ => return End::Reset,
                },
                end = poll_fn(|cx| pump.poll(cx, (client, upstream), &self.verdict, self.conn)) => return end,
            }
        }
    }
}

/// Both directions, and the moments at which something has to happen without a socket that is ready.
struct Pump {
    up: Flow,
    down: Flow,
    /// How long nothing may move when one direction has ended.
    half_closed: Duration,
    give_up_at: Option<Instant>,
    /// Made when it is needed first: most connections never do.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pump {
    fn change(&mut self, verdict: &Verdict) {
        self.up.change(&verdict.requests);
        self.down.change(&verdict.replies);
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (client, upstream): (&mut Socket, &mut Socket),
        verdict: &Verdict,
        conn: &Conn,
    ) -> Poll<End> {
        loop {
            let up = self.up.poll(cx, (&mut *client, &mut *upstream), &verdict.requests, conn);
            let down = self.down.poll(cx, (&mut *upstream, &mut *client), &verdict.replies, conn);
            if matches!(up, Poll::Ready(Err(Broken))) || matches!(down, Poll::Ready(Err(Broken))) {
                return Poll::Ready(End::Reset);
            }
            if self.up.done && self.down.done {
                return Poll::Ready(End::Fin);
            }
            if self.has_lingered() {
                return Poll::Ready(End::Reset);
            }
            if self.poll_timer(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Whether one direction has ended and nothing moved in the other for long.
    fn has_lingered(&mut self) -> bool {
        if !self.up.done && !self.down.done {
            return false;
        }
        let moved = std::mem::take(&mut self.up.moved) | std::mem::take(&mut self.down.moved);
        // What only waits for its time is not idle.
        let waits = self.up.wake_at.or(self.down.wake_at).is_some();
        if moved || waits || self.give_up_at.is_none() {
            self.give_up_at = Some(now() + self.half_closed);
        }
        self.give_up_at.is_some_and(|at| at <= now())
    }

    /// `Ready` when its moment has come.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let next = [self.up.wake_at, self.down.wake_at, self.give_up_at].into_iter().flatten().min();
        let Some(at) = next else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        timer.as_mut().poll(cx)
    }
}
