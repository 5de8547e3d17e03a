//! Histograms of latencies: how they are made, filled and added up.

use hdrhistogram::Histogram;

/// Histograms hold 1 us to 1 h at 3 digits; larger values are booked as 1 h, the true maximum is kept
/// beside.
pub const HIGHEST_US: u64 = 3_600_000_000;
const LOWEST_US: u64 = 1;
const DIGITS: u8 = 3;
/// A latency histogram at first reaches to 65 ms (50 kB) and grows when it must (200 kB at most): most
/// seconds of most workloads never see more.
const FIRST_HIGHEST_US: u64 = 65_535;

/// An empty latency histogram.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and valid")]
    let mut empty = Histogram::new_with_bounds(LOWEST_US, FIRST_HIGHEST_US, DIGITS).expect("constant bounds");
    empty.auto(true);
    empty
}

/// Books a value; one above the highest counts as the highest. (The histogram's own saturating call would cut
/// at what it reaches now.)
pub fn record_us(to: &mut Histogram<u64>, value_us: u64) {
    // Growing is possible up to the highest value, so this cannot fail.
    let _recorded = to.record(value_us.min(HIGHEST_US));
}

/// Adds one latency histogram to another; ours grow, so nothing can be out of range.
pub fn merge(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    let _added = sum.add(more);
}
