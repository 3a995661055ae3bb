// SPDX-License-Identifier: BSD-3-Clause
//! Parsed INFO text, by field.

use std::collections::BTreeMap;

/// An INFO reply. Fields are looked up by name: names are unique across all sections.
#[derive(Clone, Debug, Default)]
pub struct Info {
    fields: BTreeMap<String, String>,
}

impl Info {
    /// Parses the text. Lines that are not fields (headings, blank lines) are skipped.
    pub fn parse(text: &str) -> Info {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let fields = lines.filter_map(|line| line.split_once(':'));
        Info { fields: fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect() }
    }

    /// A field's text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A field as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    /// The fields whose names begin with `prefix`, with the prefix removed, ordered by name.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.fields
            .range(prefix.to_owned()..)
            .take_while(move |(name, _)| name.starts_with(prefix))
            .map(move |(name, value)| (&name[prefix.len()..], value.as_str()))
    }
}

/// Looks up a name in a field value of the form `name=value,name=value`.
pub fn part<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .find(|(own, _)| *own == name)
        .map(|(_, value)| value)
}

/// As [`part`], for numbers.
pub fn part_number(value: &str, name: &str) -> Option<f64> {
    part(value, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_parts_are_found() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.0.15\r\nprocess_id:12\r\n\r\n# Commandstats\r\n\
             cmdstat_get:calls=3,usec=6,usec_per_call=2.00\r\ncmdstat_set:calls=1,usec=9\r\nx:a:b\r\n",
        );
        assert_eq!(info.get("redis_version"), Some("7.0.15"));
        assert_eq!(info.number("process_id"), Some(12.0));
        assert_eq!(info.get("x"), Some("a:b"));
        let commands: Vec<_> = info.with_prefix("cmdstat_").map(|(name, _)| name).collect();
        assert_eq!(commands, ["get", "set"]);
        assert_eq!(part_number(info.get("cmdstat_get").unwrap(), "usec"), Some(6.0));
        assert_eq!(part(info.get("cmdstat_set").unwrap(), "nothing"), None);
    }
}
