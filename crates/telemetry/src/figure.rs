// SPDX-License-Identifier: BSD-3-Clause
//! A figure that INFO and the metrics show: one row, in the crate that has the figure. INFO's
//! sections and the catalogue of metrics refer to it, each in its own order.

use std::fmt::{self, Display};

/// The type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A value with its unit: INFO has Redis's forms, the metrics base units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reading {
    /// A number of anything, or of bytes.
    Count(u64),
    /// As [`Reading::Count`]; `None` if it is not known.
    Known(Option<u64>),
    /// INFO: two decimals.
    Ratio(f64),
    /// A part in percent, a metric of 0 to 1.
    Percent(u64),
    /// INFO: 1 or 0.
    Flag(bool),
    /// INFO: `up` or `down`.
    Link(bool),
    /// INFO: `ok` or `err`.
    Success(bool),
    /// Whole seconds; `None` if there is no value yet.
    Seconds(Option<i64>),
    /// Milliseconds; `None` if there is no value yet.
    Milliseconds(Option<i64>),
    /// As [`Reading::Milliseconds`], of which INFO shows whole seconds.
    WholeSeconds(Option<i64>),
    /// A duration in seconds, of which INFO shows milliseconds with three decimals.
    Duration(f64),
}

impl Reading {
    pub fn count(count: usize) -> Reading {
        Reading::Count(count as u64)
    }

    /// The value of the metric, in base units; `None` if there is no value yet.
    pub fn number(self) -> Option<f64> {
        match self {
            Reading::Count(count) => Some(count as f64),
            Reading::Known(count) => count.map(|count| count as f64),
            Reading::Ratio(ratio) => Some(ratio),
            Reading::Percent(percent) => Some(percent as f64 / 100.0),
            Reading::Flag(is) | Reading::Link(is) | Reading::Success(is) => Some(f64::from(u8::from(is))),
            Reading::Seconds(seconds) => seconds.map(|seconds| seconds as f64),
            Reading::Milliseconds(ms) | Reading::WholeSeconds(ms) => ms.map(|ms| ms as f64 / 1e3),
            Reading::Duration(seconds) => Some(seconds),
        }
    }
}

/// INFO's form.
impl Display for Reading {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reading::Count(count) => count.fmt(to),
            Reading::Known(None) => to.write_str("-1"),
            Reading::Known(Some(count)) => count.min(i64::MAX as u64).fmt(to),
            Reading::Ratio(ratio) => write!(to, "{ratio:.2}"),
            Reading::Percent(percent) => percent.fmt(to),
            Reading::Flag(is) => u8::from(is).fmt(to),
            Reading::Link(is_up) => to.write_str(if is_up { "up" } else { "down" }),
            Reading::Success(is_good) => to.write_str(if is_good { "ok" } else { "err" }),
            Reading::Seconds(number) | Reading::Milliseconds(number) => number.unwrap_or(-1).fmt(to),
            Reading::WholeSeconds(ms) => ms.map_or(-1, |ms| ms / 1000).fmt(to),
            Reading::Duration(seconds) => write!(to, "{:.3}", seconds * 1000.0),
        }
    }
}

/// A row. `S`: where it is read, such as a report.
pub struct Figure<S: ?Sized + 'static> {
    /// The name in INFO, of a field or within a line.
    pub field: &'static str,
    /// The name of the metric.
    pub metric: &'static str,
    pub kind: MetricKind,
    /// The metric's help.
    pub help: &'static str,
    pub read: fn(&S) -> Reading,
}

impl<S: ?Sized> Figure<S> {
    /// A figure that only grows.
    pub const fn counter(
        field: &'static str,
        metric: &'static str,
        help: &'static str,
        read: fn(&S) -> Reading,
    ) -> Figure<S> {
        Figure { field, metric, kind: MetricKind::Counter, help, read }
    }

    pub const fn gauge(
        field: &'static str,
        metric: &'static str,
        help: &'static str,
        read: fn(&S) -> Reading,
    ) -> Figure<S> {
        Figure { field, metric, kind: MetricKind::Gauge, help, read }
    }

    /// INFO's `name=value` within a line.
    pub fn pair(&self, source: &S) -> String {
        format!("{}={}", self.field, (self.read)(source))
    }
}

#[cfg(test)]
mod tests {
    use super::Reading;

    #[test]
    fn info_and_metrics_have_their_own_units() {
        let both = [
            (Reading::Count(u64::MAX), "18446744073709551615", Some(u64::MAX as f64)),
            (Reading::Known(Some(7)), "7", Some(7.0)),
            (Reading::Ratio(1.256), "1.26", Some(1.256)),
            (Reading::Flag(true), "1", Some(1.0)),
            (Reading::Link(false), "down", Some(0.0)),
            (Reading::Success(false), "err", Some(0.0)),
            (Reading::Seconds(None), "-1", None),
            (Reading::Milliseconds(Some(1_999)), "1999", Some(1.999)),
            (Reading::WholeSeconds(Some(1_999)), "1", Some(1.999)),
            (Reading::WholeSeconds(None), "-1", None),
            (Reading::Percent(7), "7", Some(0.07)),
            (Reading::Duration(0.012_345_6), "12.346", Some(0.012_345_6)),
        ];
        for (reading, info, metric) in both {
            assert_eq!((reading.to_string().as_str(), reading.number()), (info, metric));
        }
    }
}
