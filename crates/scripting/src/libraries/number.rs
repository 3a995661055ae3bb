// SPDX-License-Identifier: BSD-3-Clause
//! Formats numbers like C's `%.14g`.

/// Appends a finite or infinite number with `precision` significant digits (1 to 17), as
/// `%.{precision}g` does.
pub(super) fn push_general(out: &mut Vec<u8>, number: f64, precision: usize) {
    const WHOLE_MAX: f64 = 1e14;
    if number.trunc() == number && number.abs() < WHOLE_MAX && (precision >= 14 || number.abs() < 10.0) {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        return braid_base::number::push_i64(out, number as i64);
    }
    if !number.is_finite() {
        let text: &[u8] = match (number.is_nan(), number.is_sign_negative()) {
            (true, true) => b"-nan",
            (true, false) => b"nan",
            (false, true) => b"-inf",
            (false, false) => b"inf",
        };
        return out.extend_from_slice(text);
    }
    let precision = precision.max(1);
    // One digit, a decimal point, the other digits, `e`, the exponent.
    let scientific = format!("{number:.*e}", precision - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|&digit| digit != '.').collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    out.extend_from_slice(sign.as_bytes());
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(&digits.as_bytes()[..1]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits.as_bytes()[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits.as_bytes());
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits.as_bytes());
            out.resize(out.len() + whole - digits.len(), b'0');
        } else {
            out.extend_from_slice(&digits.as_bytes()[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits.as_bytes()[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::push_general;

    #[test]
    fn as_c_prints_them() {
        for (number, precision, text) in [
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e20, 14, "1e+20"),
            (123456789012345.0, 14, "1.2345678901234e+14"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (-1.5, 14, "-1.5"),
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1e300, 14, "1e+300"),
            (12345.0, 3, "1.23e+04"),
            (123.0, 3, "123"),
            (99.95, 3, "100"),
            (0.00012345, 2, "0.00012"),
            (1023.2, 14, "1023.2"),
        ] {
            let mut out = Vec::new();
            push_general(&mut out, number, precision);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
