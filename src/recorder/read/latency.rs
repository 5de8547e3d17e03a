//! The latency log: whole-run percentiles, those of the steps of a sweep, and the p99 over the last five and ten
//! seconds.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::{ReadError, percentiles, whole_lines};
use crate::recorder::latency::{OF_A_KIND, tag};
use crate::recording::{Recording, Step, WorkloadRecording};
use crate::report::data::Percentiles;
use crate::workload::{histogram, merge as add};

/// Whole-run latency of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// From the intended start, unanswered operations with the time they had waited.
    pub response: Percentiles,
    /// From the send, acknowledged operations.
    pub service: Percentiles,
    /// From the intended start, by kind of operation; only of workloads that mix several.
    pub kinds: BTreeMap<String, Percentiles>,
}

struct Entry {
    t_s: usize,
    kind: String,
    max_us: u64,
    histogram: Histogram<u64>,
}

/// One workload while its entries pass by, in the order of their seconds.
struct Passing {
    whole: Sum,
    kinds: BTreeMap<String, Sum>,
    /// The last ten seconds that had operations.
    recent: VecDeque<(usize, Histogram<u64>)>,
}

/// Sums of a span of time.
struct Sum {
    response: Histogram<u64>,
    service: Histogram<u64>,
    max_us: u64,
}

/// Of the whole run by workload, and of the counted part of each step of a sweep.
type Read = (BTreeMap<String, Totals>, Vec<Totals>);

/// Reads the log; fills `p99_5s_us` and `p99_10s_us` of the recording.
pub fn read(dir: &Path, recording: &mut Recording) -> Result<Read, ReadError> {
    let path = dir.join("latency.hlog");
    let Some(file) = whole_lines(&path)? else { return Ok(Read::default()) };
    let index: BTreeMap<String, usize> =
        recording.workloads.iter().enumerate().map(|(i, w)| (tag(&w.name), i)).collect();
    let mut passing: Vec<Passing> = recording.workloads.iter().map(|_| Passing::new()).collect();
    let mut steps: Vec<Sum> = recording.steps.iter().map(|_| Sum::new()).collect();
    let mut decoder = Deserializer::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|e| ReadError::new(&path, e))?;
        let Some((workload, entry)) = parse(&line, &mut decoder) else {
            continue; // The header.
        };
        for (step, sum) in recording.steps.iter().zip(&mut steps) {
            let whole = !entry.kind.starts_with(OF_A_KIND);
            if whole && tag(&step.workload) == workload && counts(step, entry.t_s) {
                sum.take(&entry);
            }
        }
        if let Some(i) = index.get(&workload) {
            passing[*i].take(entry, &mut recording.workloads[*i]);
        }
    }
    let named = recording.workloads.iter_mut().zip(passing);
    let whole = named.map(|(workload, passing)| (workload.name.clone(), passing.finish(workload))).collect();
    Ok((whole, steps.iter().map(Sum::totals).collect()))
}

/// Whether a second is in the counted part of a step.
fn counts(step: &Step, t_s: usize) -> bool {
    (step.counted_from_s..step.to_s).contains(&(t_s as u64))
}

fn parse(line: &str, decoder: &mut Deserializer) -> Option<(String, Entry)> {
    let rest = line.strip_prefix("Tag=")?;
    let mut cells = rest.split(',');
    let (workload, kind) = cells.next()?.rsplit_once('/')?;
    let start: f64 = cells.next()?.parse().ok()?;
    let _length = cells.next()?;
    let max_ms: f64 = cells.next()?.parse().ok()?;
    let bytes = STANDARD.decode(cells.next()?).ok()?;
    let histogram = decoder.deserialize(&mut bytes.as_slice()).ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "written by us, small")]
    let (t_s, max_us) = (start.round() as usize, (max_ms * 1e3).round() as u64);
    Some((workload.into(), Entry { t_s, kind: kind.into(), max_us, histogram }))
}

impl Sum {
    fn new() -> Self {
        Self { response: histogram(), service: histogram(), max_us: 0 }
    }

    fn take(&mut self, entry: &Entry) {
        if entry.kind == "service" {
            add(&mut self.service, &entry.histogram);
        } else {
            add(&mut self.response, &entry.histogram);
            self.max_us = self.max_us.max(entry.max_us);
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            response: percentiles(&self.response, Some(self.max_us)),
            service: percentiles(&self.service, None),
            kinds: BTreeMap::new(),
        }
    }
}

impl Passing {
    fn new() -> Self {
        Self { whole: Sum::new(), kinds: BTreeMap::new(), recent: VecDeque::new() }
    }

    fn take(&mut self, entry: Entry, into: &mut WorkloadRecording) {
        if let Some(kind) = entry.kind.strip_prefix(OF_A_KIND) {
            self.kinds.entry(kind.to_owned()).or_insert_with(Sum::new).take(&entry);
            return;
        }
        self.whole.take(&entry);
        if entry.kind == "service" {
            if let Some(second) = into.seconds.get_mut(entry.t_s) {
                second.service_p99_us = Some(entry.histogram.value_at_quantile(0.99));
            }
            return;
        }
        match self.recent.back_mut().filter(|(t, _)| *t == entry.t_s) {
            Some((_, same)) => add(same, &entry.histogram),
            None => {
                self.settle(into, Some(entry.t_s));
                let mut fresh = histogram();
                add(&mut fresh, &entry.histogram);
                self.recent.push_back((entry.t_s, fresh));
            }
        }
    }

    /// Fills the seconds from the last entry up to (not including) the next one.
    fn settle(&mut self, into: &mut WorkloadRecording, next: Option<usize>) {
        let Some((last, _)) = self.recent.back() else {
            return;
        };
        let last = *last;
        // Ten seconds after the last operation, both windows are empty.
        for t in last..next.unwrap_or(usize::MAX).min(last + 10) {
            if let Some(second) = into.seconds.get_mut(t) {
                second.p99_5s_us = self.p99(t, 5);
                second.p99_10s_us = self.p99(t, 10);
            }
        }
        let oldest = next.unwrap_or(last).saturating_sub(9);
        self.recent.retain(|(t, _)| *t >= oldest);
    }

    fn p99(&self, t: usize, window: usize) -> Option<u64> {
        let mut sum = histogram();
        for (_, histogram) in self.recent.iter().filter(|(at, _)| at + window > t && *at <= t) {
            add(&mut sum, histogram);
        }
        (!sum.is_empty()).then(|| sum.value_at_quantile(0.99))
    }

    fn finish(mut self, into: &mut WorkloadRecording) -> Totals {
        self.settle(into, None);
        let of_kind = |(kind, sum): (String, Sum)| (kind, sum.totals().response);
        Totals { kinds: self.kinds.into_iter().map(of_kind).collect(), ..self.whole.totals() }
    }
}
