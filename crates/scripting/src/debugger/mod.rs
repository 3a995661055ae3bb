// SPDX-License-Identifier: BSD-3-Clause
//! The debugger for scripts (SCRIPT DEBUG, `redis-cli --ldb`).
//!
//! Before each line Lua calls the hook ([`hook`]). At a breakpoint, or after a step, it shows the
//! line and executes the developer's commands ([`commands`]), which arrive on a [`Console`], until
//! one of them lets the script continue. Output is a list of lines, sent as an array of statuses.
//!
//! A script without a debugger pays one check per command that it calls.
//!
//! Source: Redis documentation, "Debugging Lua scripts in Redis".

mod commands;
mod hook;
mod input;
mod replies;
mod values;

use std::time::{Duration, Instant};

use crate::host::{Host, Verdict};
pub(crate) use hook::set_hook;
pub(crate) use values::push_value;

/// Maximum number of breakpoints.
const BREAKPOINTS_MAX: usize = 64;
/// Default limit for shown replies and values, in bytes.
const SHOWN_MAX: usize = 256;
/// Number of a command's arguments that are shown.
const ARGUMENTS_SHOWN: usize = 10;

/// What waiting for the developer has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Bytes were appended.
    Bytes,
    /// The connection was closed.
    Closed,
    /// The host wants the script to end.
    Ended(Verdict),
}

/// The developer's connection.
pub trait Console: Send {
    /// Sends bytes. A failure shows when the next bytes are received.
    fn send(&mut self, bytes: &[u8]);

    /// Waits for bytes and appends them to `input`. Calls [`Host::interrupt`] regularly meanwhile.
    fn receive(&mut self, input: &mut Vec<u8>, host: &mut dyn Host) -> Received;
}

/// A debugging session.
pub struct Debugger {
    console: Box<dyn Console>,
    is_closed: bool,
    input: Vec<u8>,
    /// Output that has not been sent.
    lines: Vec<Vec<u8>>,
    source: Vec<Vec<u8>>,
    /// The line that is executed next, from 1.
    line: i64,
    breakpoints: Vec<i64>,
    /// Stop at the next line. Commands that the script calls are shown meanwhile.
    steps: bool,
    /// `redis.breakpoint()` was called: stop at the next line.
    breaks: bool,
    /// The script was last stopped because it ran for long.
    is_late: bool,
    /// Limit for shown replies and values, in bytes; 0: none.
    shown_max: usize,
    has_hinted: bool,
    /// Running time after which the script is stopped.
    timeout: Duration,
    /// When the script was last continued.
    continued: Instant,
}

impl Debugger {
    /// A session that stops at the first line of this source. `timeout`: running time after which
    /// a script that was continued stops again.
    pub fn new(console: Box<dyn Console>, source: &[u8], timeout: Duration) -> Debugger {
        let end = source.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        Debugger {
            console,
            is_closed: false,
            input: Vec::new(),
            lines: Vec::new(),
            source: source[..end].split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect(),
            line: 0,
            breakpoints: Vec::new(),
            steps: true,
            breaks: false,
            is_late: false,
            shown_max: SHOWN_MAX,
            has_hinted: false,
            timeout,
            continued: Instant::now(),
        }
    }

    /// Ends the session, then sends the script's reply.
    pub fn end(mut self, reply: &[u8]) {
        self.show("<endsession>");
        self.send_lines();
        if !self.is_closed {
            self.console.send(reply);
        }
    }

    fn show(&mut self, line: impl Into<Vec<u8>>) {
        self.lines.push(line.into());
    }

    /// Shows a line up to the limit.
    fn show_limited(&mut self, mut line: Vec<u8>) {
        let is_long = self.shown_max > 0 && line.len() > self.shown_max;
        if is_long {
            line.truncate(self.shown_max);
            line.extend_from_slice(b" ...");
        }
        self.lines.push(line);
        if is_long && !std::mem::replace(&mut self.has_hinted, true) {
            self.show("<hint> The above reply was trimmed. Use 'maxlen 0' to disable trimming.");
        }
    }

    /// Shows a line of the source.
    fn show_source(&mut self, line: i64) {
        let mark = match (line == self.line, self.breakpoints.contains(&line)) {
            (true, true) => "->#",
            (true, false) => "-> ",
            (false, true) => "  #",
            (false, false) => "   ",
        };
        let text = usize::try_from(line - 1).ok().and_then(|index| self.source.get(index));
        let text = text.map_or(&b"<out of range source code line>"[..], Vec::as_slice);
        let shown = [format!("{mark}{line:<3} ").as_bytes(), text].concat();
        self.show(shown);
    }

    /// Sends the collected lines.
    fn send_lines(&mut self) {
        let mut bytes = format!("*{}\r\n", self.lines.len()).into_bytes();
        for line in self.lines.drain(..) {
            bytes.push(b'+');
            bytes.extend(line.iter().map(|&byte| if b"\r\n".contains(&byte) { b' ' } else { byte }));
            bytes.extend_from_slice(b"\r\n");
        }
        if !self.is_closed {
            self.console.send(&bytes);
        }
    }

    /// The reason to stop at a line, if there is one. `is_due`: no line begins; the run has only
    /// lasted for some time, perhaps in a line at which it has stopped already.
    fn reason_to_stop(&mut self, line: i64, is_due: bool) -> Option<&'static str> {
        self.line = line;
        let reason = match is_due {
            true if self.steps || self.breaks || self.continued.elapsed() < self.timeout => return None,
            true => TIMEOUT,
            false if self.breaks => "redis.breakpoint() called",
            false if self.breakpoints.contains(&line) => "break point",
            false if self.steps => "step over",
            false => return None,
        };
        (self.steps, self.breaks, self.is_late) = (false, false, reason == TIMEOUT);
        Some(reason)
    }

    /// `redis.breakpoint()`.
    pub(crate) fn break_at_next_line(&mut self) {
        self.breaks = true;
    }

    /// `redis.debug()`: shows values.
    pub(crate) fn show_values(&mut self, values: &[Vec<u8>]) {
        let line = [format!("<debug> line {}: ", self.line).as_bytes(), &values.join(&b", "[..])].concat();
        self.show(line);
    }

    /// True if the commands that the script calls are shown.
    pub(crate) fn shows_commands(&self) -> bool {
        self.steps
    }

    pub(crate) fn show_command(&mut self, args: &[&[u8]]) {
        let mut line = b"<redis>".to_vec();
        for (index, arg) in args.iter().enumerate() {
            if index == ARGUMENTS_SHOWN {
                line.extend_from_slice(format!(" ... ({} more)", args.len() - index - 1).as_bytes());
                break;
            }
            line.push(b' ');
            line.extend_from_slice(arg);
        }
        self.show(line);
    }

    pub(crate) fn show_error(&mut self, text: &[u8]) {
        self.show([b"<error> ", text].concat());
    }

    /// Shows the error of a command that was refused.
    pub(crate) fn show_refusal(&mut self, reply: &[u8]) {
        let line = reply.strip_suffix(b"\r\n").unwrap_or(reply);
        let text = line.strip_prefix(b"-ERR ").unwrap_or(line).to_vec();
        self.show_error(&text);
    }

    pub(crate) fn show_reply(&mut self, reply: &[u8]) {
        if reply.first() == Some(&b'-') {
            self.show_error(reply.strip_suffix(b"\r\n").unwrap_or(reply));
        }
        self.show_limited([b"<reply> ", &replies::to_text(reply)[..]].concat());
    }

    /// Removes everything that could stop the script again: there is nobody to continue it.
    fn close(&mut self) {
        self.is_closed = true;
        (self.steps, self.breaks) = (false, false);
        self.breakpoints.clear();
    }
}

/// The reason to stop a script that has run for long.
const TIMEOUT: &str = "timeout reached, infinite loop?";

#[cfg(test)]
mod tests {
    use super::*;

    /// A developer who says nothing.
    struct Silent;

    impl Console for Silent {
        fn send(&mut self, _bytes: &[u8]) {}

        fn receive(&mut self, _input: &mut Vec<u8>, _host: &mut dyn Host) -> Received {
            Received::Closed
        }
    }

    /// An interrupt while the developer thinks, say: the script is at the line at which it has
    /// stopped.
    #[test]
    fn interrupts_stop_at_no_line_twice() {
        let mut debugger = Debugger::new(Box::new(Silent), b"first\nsecond", Duration::from_secs(3600));
        assert_eq!(debugger.reason_to_stop(1, false), Some("step over"));
        (debugger.steps, debugger.breakpoints) = (true, vec![1]);
        assert_eq!(debugger.reason_to_stop(1, true), None);
        assert_eq!(debugger.reason_to_stop(2, false), Some("step over"));
        debugger.break_at_next_line();
        assert_eq!(debugger.reason_to_stop(2, true), None);
        assert_eq!(debugger.reason_to_stop(1, false), Some("redis.breakpoint() called"));
        debugger.timeout = Duration::ZERO;
        assert_eq!(debugger.reason_to_stop(1, true), Some(TIMEOUT));
    }
}
