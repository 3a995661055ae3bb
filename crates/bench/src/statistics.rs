// SPDX-License-Identifier: BSD-3-Clause
//! Statistics: means with confidence intervals, by the bootstrap.

use fastrand::Rng;

/// The mean of some measurements, and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// `None` for fewer than two measurements.
    pub interval: Option<(f64, f64)>,
}

/// Number of bootstrap samples.
const RESAMPLES: usize = 10_000;
/// Minimum number of measurements for the bootstrap.
const BOOTSTRAP_MIN: usize = 5;

/// Student's t for 95 %, by degrees of freedom from 1.
const STUDENT: [f64; 3] = [12.706, 4.303, 3.182];

/// Estimates the mean: the studentised bootstrap ("bootstrap-t").
///
/// Samples of the same size are drawn with replacement from the measurements. The distance of each
/// sample's mean from the measured mean, in units of its own standard error, shows how far the
/// measured mean may be from the true one. The simpler percentile bootstrap covers only 90 %
/// instead of the nominal 95 % with ten measurements; this method reaches the nominal coverage.
/// With fewer than five measurements the result is Student's interval.
pub fn estimate(values: &[f64]) -> Estimate {
    estimate_by(values, RESAMPLES)
}

fn estimate_by(values: &[f64], resamples: usize) -> Estimate {
    let (mean, error) = mean_and_error(values);
    if values.len() < 2 {
        return Estimate { mean, interval: None };
    }
    // The mean of non-negative values cannot be negative.
    let floor = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
    if values.len() < BOOTSTRAP_MIN {
        let reach = STUDENT[values.len() - 2] * error;
        return Estimate { mean, interval: Some(((mean - reach).max(floor), mean + reach)) };
    }
    // The same measurements give the same interval.
    let mut rng = Rng::with_seed(2026);
    let mut sample = vec![0.0; values.len()];
    let mut distances: Vec<f64> = (0..resamples)
        .filter_map(|_| {
            sample.iter_mut().for_each(|value| *value = values[rng.usize(..values.len())]);
            let (sample_mean, sample_error) = mean_and_error(&sample);
            // A sample of one repeated value has no standard error to divide by.
            (sample_error > 0.0).then(|| (sample_mean - mean) / sample_error)
        })
        .collect();
    if distances.is_empty() {
        return Estimate { mean, interval: Some((mean, mean)) };
    }
    distances.sort_by(f64::total_cmp);
    let at = |part: f64| distances[((distances.len() - 1) as f64 * part).round() as usize];
    Estimate { mean, interval: Some(((mean - at(0.975) * error).max(floor), mean - at(0.025) * error)) }
}

/// Estimates the mean ratio of pairs measured side by side, as the geometric mean of the ratios.
pub fn estimate_ratio(pairs: &[(f64, f64)]) -> Estimate {
    let logs: Vec<f64> = pairs.iter().map(|(value, base)| (value / base).ln()).collect();
    let Estimate { mean, interval } = estimate(&logs);
    Estimate { mean: mean.exp(), interval: interval.map(|(low, high)| (low.exp(), high.exp())) }
}

/// The mean and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentage of 600 intervals that contain the true mean, each by fewer samples than usual.
    fn coverage(count: usize, mean: f64, draw: impl Fn(&mut Rng) -> f64) -> f64 {
        let mut rng = Rng::with_seed(11);
        let hits = (0..600).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| draw(&mut rng)).collect();
            let (low, high) = estimate_by(&values, RESAMPLES / 5).interval.unwrap();
            low <= mean && mean <= high
        });
        hits.count() as f64 / 6.0
    }

    #[test]
    fn intervals_hold_the_true_mean_as_often_as_they_say() {
        // A sum of twelve uniform numbers is nearly normal.
        let normal = |rng: &mut Rng| (0..12).map(|_| rng.f64()).sum::<f64>();
        let covered = coverage(10, 6.0, normal);
        assert!((93.0..=98.0).contains(&covered), "{covered}");
        let covered = coverage(3, 6.0, normal);
        assert!((92.0..=98.0).contains(&covered), "{covered}");
        // Skewed, like throughputs and latencies on a shared machine.
        let covered = coverage(10, 1.0, |rng| -(1.0 - rng.f64()).ln());
        assert!((90.0..=98.0).contains(&covered), "{covered}");
    }

    #[test]
    fn few_or_equal_measurements_are_no_trouble() {
        assert_eq!(estimate(&[3.0]), Estimate { mean: 3.0, interval: None });
        assert_eq!(estimate(&[3.0; 8]), Estimate { mean: 3.0, interval: Some((3.0, 3.0)) });
        let two = estimate(&[1.0, 3.0]);
        assert_eq!(two.mean, 2.0);
        let (low, high) = two.interval.unwrap();
        assert!(low == 0.0 && high > 14.0);
    }

    #[test]
    fn ratios_are_of_pairs() {
        // Both drift by a factor of ten; their ratio does not.
        let pairs: Vec<(f64, f64)> =
            (1..=10).map(|round| (f64::from(round) * 2.0, f64::from(round))).collect();
        let ratio = estimate_ratio(&pairs);
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.mean - 2.0).abs() < 1e-9 && (low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
    }
}
