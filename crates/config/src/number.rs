// SPDX-License-Identifier: BSD-3-Clause
//! Integers and memory sizes of directives, parsed as leniently as in stock servers.

/// A number of bytes with an optional unit. As in stock servers, a text without digits is 0, and
/// a number too long for 64 bits becomes the largest one; a product that overflows is refused
/// (stock servers wrap around).
pub fn parse_memory(word: &str) -> Option<u64> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let factor: u64 = match word[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    if digits >= 128 {
        return None;
    }
    let number = word[..digits]
        .bytes()
        .fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    number.checked_mul(factor)
}

/// A number of bytes in the largest unit that divides it.
pub(crate) fn format_memory(bytes: u64) -> String {
    for (factor, unit) in [(1u64 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes != 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// An integer in exactly its canonical form: no plus sign, no leading zeros, no blanks.
pub(crate) fn strict_integer(word: &str) -> Option<i64> {
    word.parse().ok().filter(|number: &i64| number.to_string() == word)
}

/// An integer, parsed from a whole word like C's `strtoll`: leading blanks, a sign, and the empty
/// word are also valid.
pub(crate) fn c_integer(word: &str) -> Option<i64> {
    c_integer_of_base(word, 10)
}

pub(crate) fn octal_integer(word: &str) -> Option<i64> {
    c_integer_of_base(word, 8)
}

fn c_integer_of_base(word: &str, base: u32) -> Option<i64> {
    if word.is_empty() {
        return Some(0);
    }
    let trimmed = word.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    i64::from_str_radix(trimmed, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_integers_are_lenient() {
        assert_eq!(c_integer(""), Some(0));
        assert_eq!(c_integer(" +01"), Some(1));
        assert_eq!(octal_integer("0770"), Some(0o770));
        for wrong in ["x", "1x", " ", "1 ", "--1"] {
            assert_eq!(c_integer(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn memory_is_written_in_the_largest_unit() {
        let texts = [(0, "0"), (1, "1"), (1024, "1kb"), (1 << 20, "1mb"), (3 << 30, "3gb"), (1500, "1500")];
        for (bytes, text) in texts {
            assert_eq!(format_memory(bytes), text);
        }
    }
}
