//! Small robust statistics. Knows nothing of recordings.

/// Makes a MAD an estimate of the standard deviation of a normal distribution: 1 / Phi^-1(3/4).
const MAD_TO_SIGMA: f64 = 1.4826;

/// Most points that [`theil_sen`] compares pair by pair. Longer series are averaged in equal groups
/// first: the pairs grow with the square, the answer hardly changes.
const THEIL_SEN_POINTS: usize = 600;

/// The middle value; the mean of the middle two when their number is even. `None`: no value.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// The mean. `None`: no value.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Spread as 1.4826 times the median absolute deviation from `centre`: a standard deviation that a
/// few outliers cannot move. `None`: no value.
#[must_use]
pub fn mad_sigma(values: &[f64], centre: f64) -> Option<f64> {
    let deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    median(&deviations).map(|mad| MAD_TO_SIGMA * mad)
}

/// Theil-Sen slope: the median of the slopes between all pairs of points, in value per step. `None`:
/// fewer than two values.
#[must_use]
pub fn theil_sen(values: &[f64]) -> Option<f64> {
    let group = values.len().div_ceil(THEIL_SEN_POINTS).max(1);
    let points: Vec<f64> = values.chunks_exact(group).filter_map(mean).collect();
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (i, from) in points.iter().enumerate() {
        for (j, to) in points.iter().enumerate().skip(i + 1) {
            slopes.push((to - from) / ((j - i) * group) as f64);
        }
    }
    median(&slopes)
}

/// Drift from the first value to one step past the last, by the Theil-Sen slope, and its standard error:
/// for n values that scatter by s around a line, s * sqrt(12 / n) (the error of a fitted slope over
/// equally spaced points, times n). `None`: fewer than three values.
#[must_use]
pub fn drift(values: &[f64]) -> Option<(f64, f64)> {
    let slope = theil_sen(values)?;
    let rest: Vec<f64> = values.iter().enumerate().map(|(i, v)| v - slope * i as f64).collect();
    let centre = mean(&rest)?;
    let n = values.len() as f64;
    let squares: f64 = rest.iter().map(|v| (v - centre).powi(2)).sum();
    // A line has two parameters.
    let variance = (n > 2.0).then(|| squares / (n - 2.0))?;
    Some((slope * n, (12.0 / n * variance).sqrt()))
}

/// The smallest of the values that at most `allowed` others exceed; 0 when there are not more values
/// than that.
#[must_use]
pub fn exceeded_by(values: &[u64], allowed: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.get(allowed).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[1.0, 2.0]), Some(1.5));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_spread() {
        let values = [10.0, 11.0, 9.0, 10.0, 10_000.0];
        assert_eq!(median(&values), Some(10.0));
        assert_eq!(mad_sigma(&values, 10.0), Some(1.4826));
    }

    #[test]
    fn the_slope_of_a_line_is_found_in_spite_of_outliers() {
        let mut line: Vec<f64> = (0..50).map(|i| 3.0 + 2.0 * f64::from(i)).collect();
        line[7] = 1e6;
        line[20] = -1e6;
        assert_eq!(theil_sen(&line), Some(2.0));
        assert_eq!(theil_sen(&[1.0]), None);
    }

    #[test]
    fn a_long_series_has_the_slope_of_its_groups() {
        let line: Vec<f64> = (0..3_600).map(|i| 0.5 * f64::from(i)).collect();
        let slope = theil_sen(&line).unwrap();
        assert!((slope - 0.5).abs() < 1e-9, "{slope}");
    }

    #[test]
    fn a_drift_without_scatter_has_no_error() {
        let (drift, error) = drift(&[0.0, 2.0, 4.0, 6.0]).unwrap();
        assert_eq!((drift, error), (8.0, 0.0));
        assert_eq!(super::drift(&[1.0, 2.0]), None);
    }

    #[test]
    fn the_error_of_a_drift_shrinks_with_the_number_of_values() {
        let (drift, error) = drift(&[9.0, 11.0, 9.0, 11.0, 11.0, 9.0, 11.0, 9.0]).unwrap();
        assert_eq!(drift, 0.0);
        assert!((error - (12.0f64 / 8.0 * 8.0 / 6.0).sqrt()).abs() < 1e-9, "{error}");
    }

    #[test]
    fn the_value_that_only_so_many_exceed() {
        assert_eq!(exceeded_by(&[5, 1, 9, 7], 0), 9);
        assert_eq!(exceeded_by(&[5, 1, 9, 7], 2), 5);
        assert_eq!(exceeded_by(&[5, 1], 2), 0);
    }
}
