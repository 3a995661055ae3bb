// SPDX-License-Identifier: BSD-3-Clause
//! Additional checks of some rows.

use crate::text::fill_template;

/// A file name without a path.
pub(super) fn file_name(reason: &'static str) -> impl Fn(&str) -> Result<(), &'static str> {
    move |text| if text.contains(['/', '\\']) { Err(reason) } else { Ok(()) }
}

/// The snapshot's name.
pub(super) fn dbfilename(text: &str) -> Result<(), &'static str> {
    file_name("dbfilename can't be a path, just a filename")(text)
}

/// A file name that is not empty, and has no path.
fn filled(text: &str, is_empty: &'static str, has_path: &'static str) -> Result<(), &'static str> {
    if text.is_empty() { Err(is_empty) } else { file_name(has_path)(text) }
}

/// The append-only file's name.
pub(super) fn appendfilename(text: &str) -> Result<(), &'static str> {
    filled(text, "appendfilename can't be empty", "appendfilename can't be a path, just a filename")
}

/// The append-only files' folder.
pub(super) fn appenddirname(text: &str) -> Result<(), &'static str> {
    filled(text, "appenddirname can't be empty", "appenddirname can't be a path, just a dirname")
}

/// The folder of backups.
pub(super) fn backupdirname(text: &str) -> Result<(), &'static str> {
    filled(text, "backupdirname can't be empty", "backupdirname can't be a path, just a dirname")
}

/// Letters, digits, dots and hyphens, shorter than 256 bytes.
pub(super) fn hostname(text: &str) -> Result<(), &'static str> {
    if text.len() >= 256 {
        return Err("Hostnames must be less than 256 characters");
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(())
}

/// No characters that would corrupt the cluster's node file.
pub(super) fn nodename(text: &str) -> Result<(), &'static str> {
    let forbidden = |byte: u8| b"!#$%&()*+:;<>?@[]^{|}~".contains(&byte);
    if text.bytes().any(forbidden) {
        return Err("Announced human node name contained invalid character");
    }
    Ok(())
}

/// An IPv4 address, or empty.
pub(super) fn ipv4(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.parse::<std::net::Ipv4Addr>().is_ok() {
        Ok(())
    } else {
        Err("Invalid IPv4 address")
    }
}

/// An IPv6 address, or empty.
pub(super) fn ipv6(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.parse::<std::net::Ipv6Addr>().is_ok() {
        Ok(())
    } else {
        Err("Invalid IPv6 address")
    }
}

/// A template of the process title: known names only, and not empty once filled in.
///
/// The values are unknown here; names whose value may be empty count as empty, as in a stock
/// server started without title, cluster or socket.
pub(super) fn proc_title_template(text: &str) -> Result<(), &'static str> {
    let filled = fill_template(text, |name| match name {
        "listen-addr" | "port" | "tls-port" | "config-file" => Some("-".into()),
        "title" | "server-mode" | "unixsocket" => Some("".into()),
        _ => None,
    });
    match filled {
        Some(title) if !title.trim_matches(' ').is_empty() => Ok(()),
        _ => Err("template format is invalid or contains unknown variables"),
    }
}

/// A version: three numbers from 0 to 255 separated by dots. Scripts see them as a single number,
/// one byte each.
pub(super) fn version(text: &str) -> Result<(), &'static str> {
    match crate::parse_version(text) {
        Some(_) => Ok(()),
        None => Err("argument must be a version such as 7.2.4: three numbers from 0 to 255"),
    }
}

/// The rate of background work: any number is accepted and clamped to 1 to 500.
pub(super) fn hz(rate: i64) -> Result<i64, &'static str> {
    Ok(rate.clamp(1, 500))
}

/// A multiple of 8.
pub(super) fn multiple_of_8(number: i64) -> Result<i64, &'static str> {
    if number % 8 == 0 { Ok(number) } else { Err("argument must be a multiple of 8") }
}

/// A share of false positives.
pub(super) fn error_rate(text: &str) -> Result<(), &'static str> {
    let is_share = text.parse::<f64>().is_ok_and(|rate| rate > 0.0 && rate < 1.0);
    if is_share { Ok(()) } else { Err("argument must be a number between 0 and 1, both exclusive") }
}

/// A finite number that is not negative.
pub(super) fn difference(text: &str) -> Result<(), &'static str> {
    let is_difference = text.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0);
    if is_difference { Ok(()) } else { Err("argument must be a number that is not negative") }
}

/// The backlog of changes: at least 16 kilobytes.
pub(super) fn backlog_size(bytes: i64) -> Result<i64, &'static str> {
    Ok(bytes.max(16 << 10))
}

/// A time that etcd counts in whole seconds: rounded up.
pub(super) fn whole_seconds(milliseconds: i64) -> Result<i64, &'static str> {
    Ok(milliseconds.saturating_add(999) / 1000 * 1000)
}

/// The number of shards is a power of two, because hash bits select the shard.
pub(super) fn power_of_two(number: i64) -> Result<i64, &'static str> {
    if number.count_ones() == 1 { Ok(number) } else { Err("argument must be a power of two") }
}

/// Number of processors this process may use, within the bounds of `io-threads`.
pub(super) fn processors() -> i64 {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    i64::try_from(available).unwrap_or(1).clamp(1, 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_templates() {
        for good in
            ["{title} {listen-addr} {server-mode}", "a{{b", "{{", "x", "--my--title--template", "{port}"]
        {
            assert!(proc_title_template(good).is_ok(), "{good}");
        }
        for bad in ["", " ", "{title}", "{", "{x", "{nothing}", "a {port", "{title}{server-mode}"] {
            assert!(proc_title_template(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn versions() {
        for good in ["7.2.4", "8.0.0", "0.0.0", "255.255.255"] {
            assert!(version(good).is_ok(), "{good}");
        }
        for bad in
            ["", "7", "7.2", "7.2.4.1", "7.2.x", "7.2.256", "7..4", "+7.2.4", " 7.2.4", "7.2.4-rc1", "07.2.4"]
        {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names() {
        assert!(hostname("a-b.C9").is_ok() && hostname("").is_ok());
        assert!(hostname("a_b").is_err() && hostname(&"a".repeat(256)).is_err());
        assert!(nodename("node-1_x").is_ok() && nodename("a:b").is_err());
        assert!(dbfilename("a/b").is_err() && appendfilename("").is_err() && appenddirname("a\\b").is_err());
    }
}
