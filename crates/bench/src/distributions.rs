// SPDX-License-Identifier: BSD-3-Clause
//! Distributions of a load: the choice of keys and of value sizes.

use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;

/// The distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every key with the same probability.
    Uniform,
    /// In order, shared by all threads; starts over after the last.
    Sequential,
    /// Key number k is drawn in proportion to 1 / (k + 1)^exponent: the first keys are the hottest.
    Zipf { exponent: f64 },
    /// Normally distributed; numbers out of range are drawn again. Defaults: the middle of the
    /// range as mean, a sixth of the range as deviation.
    Gaussian { mean: Option<f64>, deviation: Option<f64> },
}

impl FromStr for Pattern {
    type Err = String;

    /// `uniform`, `sequential`, `zipf[:EXPONENT]`, `gaussian[:MEAN:DEVIATION]`, or their first
    /// letters (memtier's P is sequential too).
    fn from_str(text: &str) -> Result<Pattern, String> {
        let wrong = || {
            format!("'{text}' is not a key pattern: uniform, sequential, zipf[:S], gaussian[:MEAN:DEVIATION]")
        };
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
        match (name.to_lowercase().as_str(), rest) {
            ("uniform" | "random" | "r" | "u", None) => Ok(Pattern::Uniform),
            ("sequential" | "parallel" | "s" | "p", None) => Ok(Pattern::Sequential),
            ("zipf" | "zipfian" | "z", None) => Ok(Pattern::Zipf { exponent: 0.99 }),
            ("zipf" | "zipfian" | "z", Some(rest)) => {
                Ok(Pattern::Zipf { exponent: number(rest).filter(|s| *s > 0.0).ok_or_else(wrong)? })
            }
            ("gaussian" | "normal" | "g", None) => Ok(Pattern::Gaussian { mean: None, deviation: None }),
            ("gaussian" | "normal" | "g", Some(rest)) => {
                let (mean, deviation) = rest.split_once(':').ok_or_else(wrong)?;
                let mean = Some(number(mean).ok_or_else(wrong)?);
                let deviation = Some(number(deviation).filter(|d| *d > 0.0).ok_or_else(wrong)?);
                Ok(Pattern::Gaussian { mean, deviation })
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pattern::Uniform => out.write_str("uniform"),
            Pattern::Sequential => out.write_str("sequential"),
            Pattern::Zipf { exponent } => write!(out, "zipf {exponent}"),
            Pattern::Gaussian { .. } => out.write_str("gaussian"),
        }
    }
}

/// Draws key numbers in `0..keys`. One per thread; sequential draws share a counter.
#[derive(Debug)]
pub enum KeyDraw {
    Uniform { keys: u64 },
    Sequential { keys: u64, next: std::sync::Arc<AtomicU64> },
    Zipf(Zipf),
    Gaussian { keys: u64, mean: f64, deviation: f64 },
}

impl KeyDraw {
    /// `keys` is at least 1. `next` is the counter shared by the threads of one pass.
    pub fn new(pattern: Pattern, keys: u64, next: &std::sync::Arc<AtomicU64>) -> KeyDraw {
        match pattern {
            Pattern::Uniform => KeyDraw::Uniform { keys },
            Pattern::Sequential => KeyDraw::Sequential { keys, next: next.clone() },
            Pattern::Zipf { exponent } => KeyDraw::Zipf(Zipf::new(keys, exponent)),
            Pattern::Gaussian { mean, deviation } => KeyDraw::Gaussian {
                keys,
                // With a mean far out of range, draws would be rejected forever.
                mean: mean.unwrap_or(keys as f64 / 2.0).min(keys as f64),
                deviation: deviation.unwrap_or(keys as f64 / 6.0).max(1e-3),
            },
        }
    }

    /// The next key.
    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        match self {
            KeyDraw::Uniform { keys } => rng.u64(0..*keys),
            KeyDraw::Sequential { keys, next } => next.fetch_add(1, Relaxed) % keys,
            KeyDraw::Zipf(zipf) => zipf.next(rng),
            KeyDraw::Gaussian { keys, mean, deviation } => loop {
                let drawn = mean + deviation * normal(rng);
                if drawn >= 0.0 && drawn < *keys as f64 {
                    break drawn as u64;
                }
            },
        }
    }
}

/// A standard normal deviate, by the polar method.
fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (u, v) = (2.0 * rng.f64() - 1.0, 2.0 * rng.f64() - 1.0);
        let square = u * u + v * v;
        if square > 0.0 && square < 1.0 {
            return u * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Zipf's distribution by rejection-inversion (W. Hoermann and G. Derflinger, 1996): no tables,
/// constant time for any number of keys and any exponent above 0.
///
/// The histogram of weights x^-s is covered by the hat h(x) = x^-s shifted by one half. A point
/// under the hat is drawn by inverting the hat's integral, and accepted if it is under the
/// histogram; at least three of four are.
#[derive(Debug)]
pub struct Zipf {
    keys: f64,
    exponent: f64,
    /// The integral of the hat at 1.5, minus the first weight: the lower end of the range for
    /// draws.
    low: f64,
    /// The integral of the hat at keys + 0.5.
    high: f64,
    /// Points at most this far below their rank are always under the histogram.
    shortcut: f64,
}

impl Zipf {
    pub fn new(keys: u64, exponent: f64) -> Zipf {
        let keys = keys as f64;
        let low = integral(1.5, exponent) - 1.0;
        let high = integral(keys + 0.5, exponent);
        let shortcut = 2.0 - inverse(integral(2.5, exponent) - 2f64.powf(-exponent), exponent);
        Zipf { keys, exponent, low, high, shortcut }
    }

    /// A key, 0 the most frequent.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.high + rng.f64() * (self.low - self.high);
            let x = inverse(area, self.exponent);
            let rank = (x + 0.5).floor().clamp(1.0, self.keys);
            if rank - x <= self.shortcut
                || area >= integral(rank + 0.5, self.exponent) - rank.powf(-self.exponent)
            {
                return rank as u64 - 1;
            }
        }
    }
}

/// The integral of x^-s from 1: (x^(1-s) - 1) / (1 - s), and ln x for s = 1, which the form with
/// exp_m1 approaches smoothly.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    let power = (1.0 - exponent) * log;
    if power.abs() > 1e-8 { power.exp_m1() / power * log } else { log * (1.0 + power / 2.0) }
}

/// The x whose [`integral`] is `area`.
fn inverse(area: f64, exponent: f64) -> f64 {
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    let log = if scaled.abs() > 1e-8 { scaled.ln_1p() / scaled * area } else { area * (1.0 - scaled / 2.0) };
    log.exp()
}

/// The distribution of value sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    Fixed(usize),
    /// Every size of the range with the same probability, both ends included.
    Range(usize, usize),
    /// Sizes with their weights.
    Weighted(Vec<(usize, u32)>),
}

/// Maximum length of a string in servers.
const SIZE_MAX: usize = 512 << 20;

impl FromStr for Sizes {
    type Err = String;

    /// `32`, `32-1024`, or `32:9,1024:1` (size and weight); sizes may have the suffixes k and m.
    fn from_str(text: &str) -> Result<Sizes, String> {
        let wrong = || format!("'{text}' is not a size: N, N-M, or N:WEIGHT,N:WEIGHT");
        if text.contains(':') {
            let pair = |pair: &str| {
                let (size, weight) = pair.split_once(':')?;
                Some((parse_size(size)?, weight.parse().ok()?))
            };
            let pairs: Option<Vec<(usize, u32)>> = text.split(',').map(pair).collect();
            let pairs =
                pairs.filter(|pairs| pairs.iter().any(|&(_, weight)| weight > 0)).ok_or_else(wrong)?;
            return Ok(Sizes::Weighted(pairs));
        }
        match text.split_once('-') {
            Some((low, high)) => {
                let (low, high) = (parse_size(low).ok_or_else(wrong)?, parse_size(high).ok_or_else(wrong)?);
                if low < high { Ok(Sizes::Range(low, high)) } else { Err(wrong()) }
            }
            None => parse_size(text).map(Sizes::Fixed).ok_or_else(wrong),
        }
    }
}

fn parse_size(text: &str) -> Option<usize> {
    let lower = text.to_lowercase();
    let (digits, factor) = match lower.strip_suffix('k') {
        Some(digits) => (digits, 1 << 10),
        None => lower.strip_suffix('m').map_or((lower.as_str(), 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<usize>().ok()?.checked_mul(factor).filter(|size| *size <= SIZE_MAX)
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(out, "{size}"),
            Sizes::Range(low, high) => write!(out, "{low}-{high}"),
            Sizes::Weighted(pairs) => {
                let pairs: Vec<String> =
                    pairs.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
                out.write_str(&pairs.join(","))
            }
        }
    }
}

impl Sizes {
    /// The largest size.
    pub fn max(&self) -> usize {
        match self {
            Sizes::Fixed(size) | Sizes::Range(_, size) => *size,
            Sizes::Weighted(pairs) => pairs.iter().map(|&(size, _)| size).max().unwrap_or(0),
        }
    }

    /// The next size.
    pub fn next(&self, rng: &mut Rng) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(low, high) => rng.usize(*low..=*high),
            Sizes::Weighted(pairs) => {
                let total: u64 = pairs.iter().map(|&(_, weight)| u64::from(weight)).sum();
                let mut drawn = rng.u64(0..total);
                for &(size, weight) in pairs {
                    match drawn.checked_sub(weight.into()) {
                        Some(left) => drawn = left,
                        None => return size,
                    }
                }
                self.max()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const DRAWS: usize = 200_000;

    fn counts(pattern: &str, keys: u64) -> Vec<f64> {
        let draw = KeyDraw::new(pattern.parse().unwrap(), keys, &Arc::default());
        let mut rng = Rng::with_seed(7);
        let mut counts = vec![0.0; keys as usize];
        (0..DRAWS).for_each(|_| counts[draw.next(&mut rng) as usize] += 1.0);
        counts
    }

    /// The chi-square statistic's distance from its mean, in standard deviations: |z| > 5
    /// practically never happens by chance.
    fn misfit(counts: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
        let chi: f64 = counts
            .iter()
            .enumerate()
            .map(|(key, count)| {
                let expected = expected(key) * DRAWS as f64;
                (count - expected).powi(2) / expected
            })
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn uniform_keys_are_all_alike() {
        let z = misfit(&counts("uniform", 1000), |_| 1e-3);
        assert!(z.abs() < 5.0, "{z}");
    }

    #[test]
    fn zipf_keys_follow_their_weights() {
        for exponent in [0.3, 0.99, 1.0, 1.7] {
            let keys = 500;
            let weight = |key: usize| ((key + 1) as f64).powf(-exponent);
            let total: f64 = (0..keys).map(weight).sum();
            let z = misfit(&counts(&format!("zipf:{exponent}"), keys as u64), |key| weight(key) / total);
            assert!(z.abs() < 5.0, "exponent {exponent}: {z}");
            // The test can distinguish exponents.
            let wrong: f64 = (0..keys).map(|key| weight(key).powf(1.2)).sum();
            let z = misfit(&counts(&format!("zipf:{exponent}"), keys as u64), |key| {
                weight(key).powf(1.2) / wrong
            });
            assert!(z.abs() > 5.0, "exponent {exponent}: {z}");
        }
        assert_eq!(counts("zipf", 1), [DRAWS as f64]);
    }

    #[test]
    fn gaussian_keys_have_their_mean_and_deviation() {
        let moments = |pattern: &str| {
            let counts = counts(pattern, 1000);
            let mean = counts.iter().enumerate().map(|(key, count)| (key as f64 + 0.5) * count).sum::<f64>()
                / DRAWS as f64;
            let variance = counts
                .iter()
                .enumerate()
                .map(|(key, count)| (key as f64 + 0.5 - mean).powi(2) * count)
                .sum::<f64>()
                / DRAWS as f64;
            (mean, variance.sqrt())
        };
        let (mean, deviation) = moments("gaussian");
        // Truncated at three deviations, a normal distribution has 0.987 of its full deviation.
        assert!((mean - 500.0).abs() < 2.0 && (deviation - 164.4).abs() < 2.0, "{mean} {deviation}");
        let (mean, deviation) = moments("g:300:50");
        assert!((mean - 300.0).abs() < 1.0 && (deviation - 50.0).abs() < 1.0, "{mean} {deviation}");
        // A mean at the edge still terminates.
        assert!(moments("gaussian:5000:1").0 > 998.0);
    }

    #[test]
    fn sequential_keys_repeat_only_after_a_full_cycle() {
        let next = Arc::default();
        let draw = [(); 2].map(|()| KeyDraw::new(Pattern::Sequential, 4, &next));
        let mut rng = Rng::new();
        let keys: Vec<u64> = (0..8).map(|turn| draw[turn % 2].next(&mut rng)).collect();
        assert_eq!(keys, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn sizes_follow_their_weights() {
        let mut rng = Rng::with_seed(3);
        let sizes: Sizes = "32:3,1k:1".parse().unwrap();
        let large = (0..DRAWS).filter(|_| sizes.next(&mut rng) == 1024).count() as f64 / DRAWS as f64;
        assert!((large - 0.25).abs() < 0.01, "{large}");
        let sizes: Sizes = "10-19".parse().unwrap();
        let drawn: Vec<usize> = (0..DRAWS).map(|_| sizes.next(&mut rng)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&10), Some(&19)));
        assert_eq!("2m".parse(), Ok(Sizes::Fixed(2 << 20)));
        for wrong in ["", "x", "9-3", "1:0", "1:x", "-5", "600m"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_are_read() {
        assert_eq!("S".parse(), Ok(Pattern::Sequential));
        assert_eq!("zipf:1.2".parse(), Ok(Pattern::Zipf { exponent: 1.2 }));
        assert_eq!("G:5:2".parse(), Ok(Pattern::Gaussian { mean: Some(5.0), deviation: Some(2.0) }));
        for wrong in ["", "x", "zipf:0", "zipf:nan", "g:1", "uniform:3"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }
}
