// SPDX-License-Identifier: BSD-3-Clause
//! Renders a scrape: all metrics of the catalogue, in the Prometheus text format.

use braid_executor::Engine;

use crate::catalogue::{METRICS, Scrape, Source};
use crate::text::Samples;

/// All metrics with their current values.
pub fn render(engine: &Engine) -> String {
    let scrape = Scrape::new(engine);
    let mut text = String::with_capacity(64 * 1024);
    for metric in METRICS {
        let mut samples = Samples::new(metric.name, metric.kind, metric.help, &mut text);
        match metric.source {
            Source::One(value) => samples.add(&[], value(&scrape)),
            Source::Many(add) => add(&scrape, &mut samples),
        }
    }
    text
}

#[cfg(test)]
mod tests;
