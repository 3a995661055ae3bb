// SPDX-License-Identifier: BSD-3-Clause
//! Cursors and options of SCAN, HSCAN, SSCAN and ZSCAN.

use braid_base::{glob, number};
use braid_keyspace::Type;
use braid_resp::reply::ReplyBuffer;
use braid_spec::CommandError;

/// The type filter of SCAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeFilter {
    Any,
    Only(Type),
    /// An unknown type: SCAN returns nothing.
    Unknown,
}

impl TypeFilter {
    fn parse(name: &[u8]) -> TypeFilter {
        Type::named(name).map_or(TypeFilter::Unknown, TypeFilter::Only)
    }

    /// True if SCAN returns keys of this type.
    pub fn allows(self, kind: Type) -> bool {
        match self {
            TypeFilter::Any => true,
            TypeFilter::Only(only) => only == kind,
            TypeFilter::Unknown => false,
        }
    }
}

/// The options of a SCAN command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanOptions<'a> {
    /// The pattern that names must match; `None` for all names.
    pub pattern: Option<&'a [u8]>,
    /// Approximate number of elements to visit, at least 1.
    pub count: usize,
    pub kind: TypeFilter,
    /// The command's own option (HSCAN's NOVALUES) was given.
    pub bare: bool,
}

/// Options that a SCAN command accepts in addition to MATCH and COUNT.
#[derive(Clone, Copy, Default)]
pub struct ScanExtras {
    /// TYPE.
    pub kind: bool,
    /// An option without an argument, such as HSCAN's NOVALUES.
    pub bare: Option<&'static str>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the options, which begin after the cursor.
    ///
    /// # Errors
    /// If an option is unknown or incomplete, or COUNT is not a positive integer.
    pub fn parse(options: &[&'a [u8]], extras: ScanExtras) -> Result<ScanOptions<'a>, CommandError> {
        let mut parsed = ScanOptions { pattern: None, count: 10, kind: TypeFilter::Any, bare: false };
        let mut rest = options;
        while let [name, after @ ..] = rest {
            let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
            if extras.bare.is_some_and(is) {
                parsed.bare = true;
                rest = after;
                continue;
            }
            if is("novalues") {
                return Err(CommandError::text("ERR NOVALUES option can only be used in HSCAN"));
            }
            let [value, after @ ..] = after else { return Err(CommandError::Syntax) };
            if is("match") {
                parsed.pattern = (*value != b"*").then_some(*value);
            } else if is("count") {
                let count = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
                parsed.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::Syntax)?;
            } else if extras.kind && is("type") {
                parsed.kind = TypeFilter::parse(value);
            } else {
                return Err(CommandError::Syntax);
            }
            rest = after;
        }
        Ok(parsed)
    }

    /// True if a name matches the pattern.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Parses a cursor.
///
/// # Errors
/// If the text is not a cursor.
pub fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    number::parse_cursor(text).ok_or(CommandError::text("ERR invalid cursor"))
}

/// Begins a SCAN command's reply: the next cursor and the header for `count` elements.
pub fn reply_cursor(reply: &mut ReplyBuffer, cursor: u64, count: usize) {
    reply.array(2);
    reply.bulk(number::write_u64(&mut [0; number::INTEGER_LEN_MAX], cursor));
    reply.array(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_collections() {
        let extras = ScanExtras { kind: false, bare: Some("NOVALUES") };
        let parsed = ScanOptions::parse(&[b"novalues", b"COUNT", b"3"], extras);
        let expected = ScanOptions { pattern: None, count: 3, kind: TypeFilter::Any, bare: true };
        assert_eq!(parsed, Ok(expected));
        assert_eq!(ScanOptions::parse(&[b"TYPE", b"hash"], extras), Err(CommandError::Syntax));
    }
}
