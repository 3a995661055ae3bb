// SPDX-License-Identifier: BSD-3-Clause
//! Plural forms in messages.

/// `1 key`, `2 keys`: the number and its noun, with an `s` unless the number is one.
pub fn plural(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let said = [0u64, 1, 2].map(|count| plural(count, "key"));
        assert_eq!(said, ["0 keys", "1 key", "2 keys"]);
    }
}
