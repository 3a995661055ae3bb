// SPDX-License-Identifier: BSD-3-Clause
//! Texts of operating system errors.

/// The reason in C's `strerror` form, without the number that the standard library appends.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has texts of its own")]
    fn the_number_is_left_out() {
        assert_eq!(reason(&std::io::Error::from_raw_os_error(28)), "No space left on device");
        assert_eq!(reason(&std::io::Error::other("odd")), "odd");
    }
}
