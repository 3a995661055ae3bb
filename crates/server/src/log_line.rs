// SPDX-License-Identifier: BSD-3-Clause
//! Layout of a line of the log: `log-format` and `log-timestamp-format`.
//!
//! The levels are debug (`trace!`), verbose (`debug!`), notice (`info!`) and warning (`warn!` and
//! `error!`). Times are in UTC.

use std::fmt::{self, Display, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use braid_base::date::Date;
use braid_config::{LogFormat, LogTimestampFormat};
use log::Level;

/// The contents of a line.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    pub process: u32,
    pub is_replica: bool,
    /// Since the Unix epoch.
    pub time: Duration,
    pub level: Level,
    pub message: fmt::Arguments<'a>,
}

impl Line<'_> {
    /// Appends the line with its line feed. Allocates only if the text has to grow.
    pub fn append_to(self, text: &mut String, format: LogFormat, time_format: LogTimestampFormat) {
        let Line { process, time, level, message, .. } = self;
        let time = formatted(time, time_format);
        let role = if self.is_replica { "replica" } else { "primary" };
        // Writing to a String succeeds; a message that fails to format itself is cut there.
        let _ = match format {
            LogFormat::Legacy => {
                let role = if self.is_replica { 'S' } else { 'M' };
                write!(text, "{process}:{role} {time} {} {message}", mark(level))
            }
            LogFormat::Logfmt => {
                let _ = write!(text, "pid={process} role={role} timestamp=\"{time}\" level={} ", name(level));
                in_quotes(text, "message=\"", message, logfmt_replacement, "\"")
            }
            LogFormat::Json => {
                let _ = write!(text, "{{\"pid\":{process},\"role\":\"{role}\",\"timestamp\":\"{time}\",");
                let _ = write!(text, "\"level\":\"{}\",", name(level));
                in_quotes(text, "\"message\":\"", message, json_replacement, "\"}")
            }
        };
        text.push('\n');
    }
}

fn mark(level: Level) -> char {
    match level {
        Level::Error | Level::Warn => '#',
        Level::Info => '*',
        Level::Debug => '-',
        Level::Trace => '.',
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error | Level::Warn => "warning",
        Level::Info => "notice",
        Level::Debug => "info",
        Level::Trace => "debug",
    }
}

/// The time since the Unix epoch.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A time as `log-timestamp-format` wants it. Allocates nothing.
pub fn formatted(time: Duration, format: LogTimestampFormat) -> impl Display {
    fmt::from_fn(move |out| {
        if format == LogTimestampFormat::Milliseconds {
            return write!(out, "{}", time.as_millis());
        }
        let Date { year, month, day, hour, minute, second } = Date::from_unix(time.as_secs() as i64);
        let ms = time.subsec_millis();
        if format == LogTimestampFormat::Iso8601 {
            let date = format_args!("{year:04}-{month:02}-{day:02}");
            return write!(out, "{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00");
        }
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month = MONTHS[usize::from(month) - 1];
        write!(out, "{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
    })
}

/// The text that stands for a character, if the character itself cannot.
type Replacement = fn(char) -> Option<&'static str>;

fn in_quotes(
    text: &mut String,
    before: &str,
    message: fmt::Arguments<'_>,
    replacement: Replacement,
    after: &str,
) -> fmt::Result {
    text.push_str(before);
    let result = Quoted { text, replacement }.write_fmt(message);
    text.push_str(after);
    result
}

/// Appends text between quotes.
struct Quoted<'a> {
    text: &'a mut String,
    replacement: Replacement,
}

impl Write for Quoted<'_> {
    fn write_str(&mut self, added: &str) -> fmt::Result {
        for character in added.chars() {
            match (self.replacement)(character) {
                Some(other) => self.text.push_str(other),
                None => self.text.push(character),
            }
        }
        Ok(())
    }
}

/// As in Valkey, backslashes escape nothing: a message has no double quotes and no line ends.
fn logfmt_replacement(character: char) -> Option<&'static str> {
    match character {
        '"' => Some("'"),
        '\n' | '\r' => Some(" "),
        _ => None,
    }
}

fn json_replacement(character: char) -> Option<&'static str> {
    /// The control characters, by code.
    const CONTROL: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t",
        "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013",
        "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c",
        "\\u001d", "\\u001e", "\\u001f",
    ];
    match character {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        _ => CONTROL.get(character as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 21 November 2026, 05:44:12.007 UTC.
    const MOMENT: Duration = Duration::from_millis(1_795_239_852_007);

    #[track_caller]
    fn check(
        (format, time_format): (LogFormat, LogTimestampFormat),
        (level, is_replica): (Level, bool),
        message: &str,
        expected: &str,
    ) {
        let mut text = String::new();
        let message = format_args!("{message}");
        Line { process: 17, is_replica, time: MOMENT, level, message }.append_to(
            &mut text,
            format,
            time_format,
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn legacy_lines_have_marks() {
        let format = (LogFormat::Legacy, LogTimestampFormat::Legacy);
        for (level, mark) in [
            (Level::Error, '#'),
            (Level::Warn, '#'),
            (Level::Info, '*'),
            (Level::Debug, '-'),
            (Level::Trace, '.'),
        ] {
            let expected = format!("17:M 21 Nov 2026 05:44:12.007 {mark} a \"b\"\\\nc\n");
            check(format, (level, false), "a \"b\"\\\nc", &expected);
        }
        check(format, (Level::Info, true), "", "17:S 21 Nov 2026 05:44:12.007 * \n");
    }

    #[test]
    fn logfmt_replaces_what_would_end_the_message() {
        check(
            (LogFormat::Logfmt, LogTimestampFormat::Legacy),
            (Level::Error, false),
            "a=\"b\"\r\n\té\\",
            "pid=17 role=primary timestamp=\"21 Nov 2026 05:44:12.007\" level=warning message=\"a='b'  \té\\\"\n",
        );
        check(
            (LogFormat::Logfmt, LogTimestampFormat::Milliseconds),
            (Level::Debug, true),
            "",
            "pid=17 role=replica timestamp=\"1795239852007\" level=info message=\"\"\n",
        );
    }

    #[test]
    fn json_escapes_what_json_must() {
        check(
            (LogFormat::Json, LogTimestampFormat::Iso8601),
            (Level::Info, false),
            "\"\\/\u{8}\t\n\u{c}\r\0\u{1f}\u{7f}é",
            "{\"pid\":17,\"role\":\"primary\",\"timestamp\":\"2026-11-21T05:44:12.007+00:00\",\"level\":\"notice\",\
             \"message\":\"\\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}é\"}\n",
        );
        for code in 0..32 {
            let replacement = json_replacement(char::from(code)).expect("a control character");
            assert!(replacement.len() == 2 || replacement == format!("\\u{code:04x}"), "{replacement}");
        }
    }

    #[test]
    fn every_format_takes_every_time() {
        let legacy = LogFormat::Legacy;
        let iso = "17:M 2026-11-21T05:44:12.007+00:00 . x\n";
        check((legacy, LogTimestampFormat::Iso8601), (Level::Trace, false), "x", iso);
        let number = "17:M 1795239852007 . x\n";
        check((legacy, LogTimestampFormat::Milliseconds), (Level::Trace, false), "x", number);
    }
}
