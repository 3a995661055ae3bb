// SPDX-License-Identifier: BSD-3-Clause
//! Progress: a bar on a terminal, lines elsewhere. It goes to standard error, so that standard
//! output remains machine-readable.

use std::io::IsTerminal;

/// Width of a bar in characters.
const WIDTH: u64 = 40;

/// A progress bar.
pub struct Progress {
    is_terminal: bool,
    unit: &'static str,
    total: u64,
    done: u64,
    /// Tenths already reported.
    told: u64,
}

impl Progress {
    /// A progress bar for `total` units of work.
    pub fn new(unit: &'static str, total: u64) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { is_terminal, unit, total, done: 0, told: 0 }
    }

    /// Adds `count` finished units.
    pub fn advance(&mut self, count: u64, remark: &str) {
        self.done += count;
        let tenth = self.done * 10 / self.total.max(1);
        if self.is_terminal {
            self.show(remark);
        } else if tenth > self.told {
            self.told = tenth;
            eprintln!("{} of {} {}{}", self.done, self.total, self.unit, comma(remark));
        }
    }

    /// Shows the current activity, only on a terminal.
    pub fn show(&self, remark: &str) {
        if self.is_terminal {
            let bar = bar(self.done, self.total);
            eprint!("\r\x1b[K[{bar}] {} of {} {}{}", self.done, self.total, self.unit, comma(remark));
        }
    }

    /// Prints a permanent line.
    pub fn say(&self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }

    /// Clears the bar.
    pub fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn comma(remark: &str) -> String {
    if remark.is_empty() { String::new() } else { format!(", {remark}") }
}

fn bar(done: u64, total: u64) -> String {
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    "#".repeat(filled as usize) + &".".repeat((WIDTH - filled) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_up() {
        assert_eq!(bar(0, 8), ".".repeat(40));
        assert_eq!(bar(2, 8), "#".repeat(10) + &".".repeat(30));
        assert_eq!(bar(9, 8), "#".repeat(40));
        assert_eq!(bar(0, 0), "#".repeat(40));
    }
}
