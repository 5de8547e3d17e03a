//! What the tester's own process takes of the machine, and what it waits for, second by second.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::usage;
use crate::clock::Moment;
use crate::event::{Event, Events};
use crate::recording::OwnSecond;

/// Ticks of `/proc/stat` in a second: the kernel's interface, not its clock.
const TICKS: f64 = 100.0;

/// What waits inside of the tester.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queues {
    /// Events that the recorder has not written.
    pub events: u64,
    /// Seconds of workloads that the recorder has not written.
    pub samples: u64,
    /// Operations that outlived their deadline and are not resolved.
    pub abandoned: u64,
}

/// Sums since the start of the process or of the machine, in seconds.
#[derive(Debug, Default)]
struct Sums {
    at: Moment,
    cpu_s: f64,
    /// Time that each of our threads could have run and did not, by thread.
    waited_s: BTreeMap<String, f64>,
    stolen_s: Option<f64>,
    pressure_s: Option<f64>,
}

/// Sends one [`OwnSecond`] after each second since `epoch`, until `stop`.
pub async fn seconds(events: Events, epoch: Moment, queues: impl Fn() -> Queues, stop: CancellationToken) {
    let clock = events.clock();
    let mut before = Sums::read(clock.now());
    loop {
        let second = clock.now().saturating_sub(epoch).as_secs();
        tokio::select! {
            () = clock.sleep_until(epoch + Duration::from_secs(second + 1)) => {}
            () = stop.cancelled() => return,
        }
        let now = Sums::read(clock.now());
        let own = own_second(second, &before, &now, queues());
        events.send(Event::OwnSecond(Box::new(own))).await;
        before = now;
    }
}

fn own_second(second: u64, before: &Sums, now: &Sums, queues: Queues) -> OwnSecond {
    let difference = |a: Option<f64>, b: Option<f64>| Some((b? - a?).max(0.0));
    let waited =
        |(thread, sum): (&String, &f64)| (sum - before.waited_s.get(thread).unwrap_or(&0.0)).max(0.0);
    let status = read("/proc/self/status");
    OwnSecond {
        t_s: second,
        seconds: now.at.saturating_sub(before.at).as_secs_f64(),
        cpu_s: now.cpu_s - before.cpu_s,
        waited_s: now.waited_s.iter().map(waited).sum(),
        stolen_s: difference(before.stolen_s, now.stolen_s),
        pressure_s: difference(before.pressure_s, now.pressure_s),
        rss_bytes: number(&status, "VmRSS:") * 1024,
        threads: number(&status, "Threads:"),
        descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
        event_queue: queues.events,
        sample_queue: queues.samples,
        abandoned: queues.abandoned,
    }
}

impl Sums {
    fn read(at: Moment) -> Self {
        Self {
            at,
            cpu_s: usage().cpu_s,
            waited_s: waited(),
            stolen_s: stolen(&read("/proc/stat")),
            pressure_s: pressure(&read("/proc/pressure/cpu")),
        }
    }
}

/// The second number of a thread's `schedstat`: nanoseconds in the run queue.
fn waited() -> BTreeMap<String, f64> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let one = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let ns: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name().to_string_lossy().into_owned(), ns / 1e9))
    };
    threads.flatten().filter_map(one).collect()
}

/// Time that the hypervisor gave to somebody else, over all processors.
fn stolen(stat: &str) -> Option<f64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    Some(all.split_whitespace().nth(7)?.parse::<f64>().ok()? / TICKS)
}

/// Time in which some task of the machine waited for a processor.
fn pressure(text: &str) -> Option<f64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<f64>().ok()? / 1e6)
}

/// A number behind a name in a file of `/proc`; 0 where it is missing.
fn number(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "cpu  2255 34 2290 22625563 6290 127 456 1250 0 0\ncpu0 1132 34 1441 11311718 3675 127 438 9 0 0\n";
        assert_eq!(stolen(stat), Some(12.5));
        let text = "some avg10=1.72 avg60=2.03 avg300=8.65 total=3818553345\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(text), Some(3818.553345));
        assert_eq!((stolen(""), pressure("")), (None, None));
        assert_eq!(number("Name:\tx\nVmRSS:\t   1234 kB\nThreads:\t7\n", "VmRSS:"), 1234);
        assert_eq!(number("Name:\tx\n", "VmRSS:"), 0);
    }

    /// A thread that ends takes its sum along, and a new one brings its own: neither makes a time negative.
    #[test]
    fn threads_that_come_and_go_make_no_negative_times() {
        let sums = |threads: &[(&str, f64)]| Sums {
            waited_s: threads.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect(),
            ..Sums::default()
        };
        let (before, now) = (sums(&[("1", 50.0), ("2", 3.0)]), sums(&[("2", 3.5), ("3", 0.25)]));
        assert_eq!(own_second(4, &before, &now, Queues::default()).waited_s, 0.75);
    }

    #[tokio::test]
    async fn a_second_of_hard_work_shows_in_the_processor_time() {
        let clock = Clock::start();
        let (events, mut queue) = Events::channel(clock);
        let stop = CancellationToken::new();
        let mut task = tokio::task::JoinSet::new();
        task.spawn(seconds(events, Duration::ZERO, Queues::default, stop.clone()));
        tokio::task::yield_now().await;
        let mut sum = 0_u64;
        while clock.now() < Duration::from_millis(900) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let stamped = tokio::time::timeout(Duration::from_secs(20), queue.recv()).await.unwrap().unwrap();
        let Event::OwnSecond(own) = stamped.event else { panic!("{:?}", stamped.event) };
        // On a crowded machine it runs less, but then it waits.
        assert!(own.cpu_s + own.waited_s > 0.5, "{own:?}");
        assert!(own.rss_bytes > 1 << 20 && own.threads > 0 && own.descriptors > 0, "{own:?}");
        stop.cancel();
        task.join_next().await.unwrap().unwrap();
    }
}
