// SPDX-License-Identifier: BSD-3-Clause
//! Checksums in files of commands: Braid's own annotations, which detect bytes that have changed on
//! disk.
//!
//! ```text
//! #CRC64:begin CR LF                starts a new sum here (a file that is continued)
//! #CRC64:0123456789abcdef CR LF     the sum (CRC-64 as in dump files) of all bytes since the
//!                                   previous annotation, or since the start of the file
//! ```
//! Stock servers since Redis 7 skip annotations, and files without them are accepted. The last few
//! KiB of a file may have no checksum yet.

/// Bytes after which a sum is written.
pub const EVERY: u64 = 4096;

const NAME: &str = "#CRC64:";
const BEGIN: &str = "begin";

/// A checksum annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The sum starts after it.
    Begin,
    /// The sum so far.
    Sum(u64),
}

impl Check {
    /// Parses a line (with its end) as a checksum annotation, if it is one.
    pub fn parse(line: &[u8]) -> Option<Check> {
        let text = std::str::from_utf8(line).ok()?.strip_prefix(NAME)?.strip_suffix("\r\n")?;
        if text == BEGIN {
            return Some(Check::Begin);
        }
        let is_sum = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_sum).map(Check::Sum)
    }

    /// The line, with its end.
    pub fn line(self) -> String {
        match self {
            Check::Begin => format!("{NAME}{BEGIN}\r\n"),
            Check::Sum(sum) => format!("{NAME}{sum:016x}\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_back() {
        for check in [Check::Begin, Check::Sum(0), Check::Sum(0x0123_4567_89ab_cdef), Check::Sum(u64::MAX)] {
            assert_eq!(Check::parse(check.line().as_bytes()), Some(check));
        }
        for other in [
            "#TS:1\r\n",
            "#CRC64:\r\n",
            "#CRC64:+123456789abcdef\r\n",
            "#CRC64:0123456789abcdef\n",
            "#CRC64:1\r\n",
        ] {
            assert_eq!(Check::parse(other.as_bytes()), None, "{other}");
        }
    }
}
