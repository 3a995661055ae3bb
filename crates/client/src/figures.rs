// SPDX-License-Identifier: BSD-3-Clause
//! Human-readable formatting of numbers.

/// A number with commas as thousands separators.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0.0 && out != "0" { format!("-{out}") } else { out }
}

/// A number in few characters: `1.25M`, `640k`, `0.312`.
pub fn short(number: f64) -> String {
    let trimmed = |text: String| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match number.abs() {
        n if n >= 999_500_000.0 => trimmed(format!("{:.2}", number / 1e9)) + "G",
        n if n >= 999_500.0 => trimmed(format!("{:.2}", number / 1e6)) + "M",
        n if n >= 9_995.0 => trimmed(format!("{:.0}", number / 1e3)) + "k",
        n if n >= 999.5 => trimmed(format!("{:.2}", number / 1e3)) + "k",
        n if n >= 99.5 => format!("{number:.0}"),
        n if n >= 1.0 => trimmed(format!("{number:.2}")),
        0.0 => "0".into(),
        _ => {
            // Three significant digits.
            let decimals = (2.0 - number.abs().log10().floor()).clamp(0.0, 9.0) as usize;
            trimmed(format!("{number:.decimals$}"))
        }
    }
}

/// Bytes in the unit that leaves one to three digits before the point: `812 B`, `1.50 KB`, `20.0
/// MB` (1 KB is 1024 B).
pub fn bytes(number: f64) -> String {
    let mut rest = number;
    for unit in ["B", "KB", "MB", "GB"] {
        if rest.abs() < 999.5 {
            return format!("{} {unit}", if unit == "B" { format!("{rest:.0}") } else { three_digits(rest) });
        }
        rest /= 1024.0;
    }
    format!("{} TB", three_digits(rest))
}

fn three_digits(number: f64) -> String {
    let decimals = match number.abs() {
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let cases =
            [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1234567.8, "1,234,568"), (-5e3, "-5,000")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (3_200_000_000.0, "3.2G"),
            (1_250_000.0, "1.25M"),
            (640_000.0, "640k"),
            (1500.0, "1.5k"),
            (312.4, "312"),
            (3.0, "3"),
            (0.0312, "0.0312"),
            (0.0, "0"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn bytes_have_their_unit() {
        let cases = [
            (0.0, "0 B"),
            (812.0, "812 B"),
            (1536.0, "1.50 KB"),
            (20_971_520.0, "20.0 MB"),
            (838_860_800.0, "800 MB"),
            (5e15, "4547 TB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
    }
}
