// SPDX-License-Identifier: BSD-3-Clause
//! The Prometheus text format, version 0.0.4: writes the samples of one metric.

use std::fmt::Write;

use braid_telemetry::MetricKind;

/// Writes the samples of a metric; its help and type precede the first sample.
pub struct Samples<'t> {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    text: &'t mut String,
    has_head: bool,
}

impl<'t> Samples<'t> {
    /// The samples of a metric, appended to `text`.
    pub fn new(
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        text: &'t mut String,
    ) -> Samples<'t> {
        Samples { name, kind, help, text, has_head: false }
    }

    /// Adds a sample. No other sample of the metric may have the same labels.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.add_part("", labels, value);
    }

    /// Adds a sample if there is a value.
    pub fn add_known(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.add(labels, value);
        }
    }

    /// Adds a sample of a histogram, with a suffix to the metric's name.
    pub fn add_part(&mut self, ending: &str, labels: &[(&str, &str)], value: f64) {
        let Samples { name, kind, help, .. } = *self;
        // Writing to a string cannot fail.
        if !std::mem::replace(&mut self.has_head, true) {
            let kind = match kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        let _ = write!(self.text, "{name}{ending}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}
