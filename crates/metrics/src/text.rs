// SPDX-License-Identifier: BSD-3-Clause
//! The metrics as text in Prometheus' format, version 0.0.4. What there is stands in `catalogue.rs`.

use std::fmt::Write;

use braid_engine::Engine;

use crate::catalogue::{Kind, METRICS, Metric, Scrape, Source};

/// All metrics as they are now.
pub fn render(engine: &Engine) -> String {
    let scrape = Scrape::new(engine);
    let mut text = String::with_capacity(64 * 1024);
    for metric in METRICS {
        let mut samples = Samples { metric, text: &mut text, has_head: false };
        match metric.source {
            Source::One(value) => samples.add(&[], value(&scrape)),
            Source::Many(add) => add(&scrape, &mut samples),
        }
    }
    text
}

/// Where the samples of a metric are written; its help and type come before the first one.
pub struct Samples<'t> {
    metric: &'t Metric,
    text: &'t mut String,
    has_head: bool,
}

impl Samples<'_> {
    /// Adds a sample with labels, of which no other sample of the metric may have the same.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.add_part("", labels, value);
    }

    /// Adds a sample of a histogram, whose name has an ending.
    pub fn add_part(&mut self, ending: &str, labels: &[(&str, &str)], value: f64) {
        let Metric { name, kind, help, .. } = self.metric;
        // Writing to a string does not fail.
        if !std::mem::replace(&mut self.has_head, true) {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
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

#[cfg(test)]
mod tests;
