// SPDX-License-Identifier: BSD-3-Clause
//! How far something is: a bar on a terminal, lines elsewhere. On standard error, so that what is
//! printed for programs stays whole.

use std::io::IsTerminal;

/// Letters of a bar.
const WIDTH: u64 = 40;

/// A bar.
pub struct Progress {
    is_terminal: bool,
    unit: &'static str,
    total: u64,
    done: u64,
    /// Tenths that have had a line.
    told: u64,
}

impl Progress {
    /// So many of something are to be done.
    pub fn new(unit: &'static str, total: u64) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { is_terminal, unit, total, done: 0, told: 0 }
    }

    /// So many more are done.
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

    /// What is being done; on a terminal alone.
    pub fn show(&self, remark: &str) {
        if self.is_terminal {
            let bar = bar(self.done, self.total);
            eprint!("\r\x1b[K[{bar}] {} of {} {}{}", self.done, self.total, self.unit, comma(remark));
        }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }

    /// Leaves an empty line.
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
