// SPDX-License-Identifier: BSD-3-Clause
//! A progress line on a terminal.

use std::io::IsTerminal;

use braid_client::figures::grouped;

use crate::options::Output;
use crate::session::Progress;

/// Rewrites one line of standard error. By default silent unless that is a terminal.
pub struct ProgressLine {
    shown: bool,
    last: Progress,
}

impl ProgressLine {
    pub fn new(output: &Output) -> ProgressLine {
        let shown = output.progress.unwrap_or_else(|| std::io::stderr().is_terminal());
        ProgressLine { shown, last: Progress::default() }
    }

    /// Shows the current step (`GET: warm-up`) and the figures since the last call.
    pub fn show(&mut self, place: &str, now: Progress) {
        if !self.shown {
            return;
        }
        if now.elapsed < self.last.elapsed {
            // The next pass has begun.
            self.last = Progress::default();
        }
        let gap = (now.elapsed - self.last.elapsed).as_secs_f64().max(1e-9);
        let replies = now.replies.saturating_sub(self.last.replies);
        let nanos = now.latency_nanos.saturating_sub(self.last.latency_nanos);
        let latency = nanos as f64 / replies.max(1) as f64 / 1e6;
        let overall = now.replies as f64 / now.elapsed.as_secs_f64().max(1e-9);
        let errors = if now.errors > 0 { format!(", {} errors", now.errors) } else { String::new() };
        eprint!(
            "\r\x1b[K{place} {:.1} s, {} requests/s (overall {}), mean {latency:.3} ms{errors}",
            now.elapsed.as_secs_f64(),
            grouped(replies as f64 / gap),
            grouped(overall),
        );
        self.last = now;
    }

    /// Shows a remark.
    pub fn say(&self, text: &str) {
        if self.shown {
            eprint!("\r\x1b[K{text}");
        }
    }

    /// Clears the line.
    pub fn clear(&self) {
        self.say("");
    }
}
