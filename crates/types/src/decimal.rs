// SPDX-License-Identifier: BSD-3-Clause
//! Scores, weights, bounds and positions in a notation that all servers accept: Valkey 9 refuses
//! hexadecimal numbers that Redis accepts, and Redis 8 and Valkey 9 refuse spaces before the
//! bounds of a range. Clients may send both, but files and replicas get decimal digits.

use braid_base::number;
use braid_executor::Call;

/// Journals the arguments with these indexes in decimal if they are numbers or score range bounds.
/// For write commands only, and never for arguments that may be keys or members.
pub fn journal_in_decimal(call: &mut Call, numbers: impl IntoIterator<Item = usize>) {
    if !call.keyspace.journals() {
        return;
    }
    for index in numbers {
        let text = call.args[index];
        if !is_decimal(text)
            && let Some(text) = in_decimal(text)
        {
            call.keyspace.journal_respelled(index, text);
        }
    }
}

/// True if all servers accept this already valid number. (No other notation contains an x.)
fn is_decimal(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"(").unwrap_or(text);
    !text.first().is_some_and(|&first| number::is_c_space(first))
        && !text.iter().any(|byte| byte | 0x20 == b'x')
}

fn in_decimal(text: &[u8]) -> Option<Vec<u8>> {
    let mut decimal = Vec::new();
    let number = match text.strip_prefix(b"(") {
        Some(rest) => {
            decimal.push(b'(');
            rest
        }
        None => text,
    };
    number::format_f64_shortest(&mut decimal, number::parse_f64_bound(number)?);
    Some(decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_all_servers_read_stay_as_they_are() {
        for text in
            ["", "1", "-0", "+5", ".5", "5.", "1e5", "1E-5", "inf", "-inf", "+Infinity", "(3", "(-inf"]
        {
            assert!(is_decimal(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn others_get_decimal_digits_of_the_same_value() {
        for (text, decimal) in [
            ("0x10", "16"),
            ("-0X1.8p1", "-3"),
            ("+0x1p-1074", "5e-324"),
            ("-0x0", "-0"),
            ("(0x1p3", "(8"),
            (" 5", "5"),
            ("(\t-7.5", "(-7.5"),
            (" 1e400", "inf"),
            ("( -0x1p2000", "(-inf"),
            (" -inf", "-inf"),
        ] {
            assert!(!is_decimal(text.as_bytes()), "{text:?}");
            assert_eq!(in_decimal(text.as_bytes()).unwrap(), decimal.as_bytes(), "{text:?}");
        }
    }
}
