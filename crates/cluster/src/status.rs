// SPDX-License-Identifier: BSD-3-Clause
//! Prints a group: a summary line, a diagram of the replication links, and a table.

use std::fmt::Write;

use braid_client::picture::{self, Line};
use serde_json::{Value as Json, json};

use crate::group::{Group, Member, Role};

/// The text of `braid-cluster status`.
pub fn text(group: &Group) -> String {
    let mut out = heading(group);
    out.push('\n');
    picture(group, &mut out);
    out.push('\n');
    table(group, &mut out);
    for member in &group.members {
        if let Role::Unreached(why) = &member.role {
            let _ = writeln!(out, "\n{}: {why}", member.name);
        }
    }
    if let Some(error) = &group.etcd_error {
        let _ = writeln!(out, "\netcd: {error}");
    }
    out
}

/// The status as JSON.
pub fn json(group: &Group) -> Json {
    let member = |member: &Member| {
        let (role, error) = match &member.role {
            Role::Primary => ("primary", None),
            Role::Replica => ("replica", None),
            Role::Candidate => ("candidate", None),
            Role::Unreached(why) => ("unknown", Some(why.as_str())),
        };
        json!({
            "name": member.name.as_str(),
            "address": member.address(),
            "role": role,
            "in_sync": group.is_in_sync(member),
            "connected": member.is_linked,
            "epoch": member.epoch,
            "offset": member.offset,
            "behind": member.behind,
            "silent": member.silent,
            "error": error,
        })
    };
    json!({
        "group": group.name.as_deref(),
        "whole": group.is_whole(),
        "epoch": group.epoch,
        "primary": group.primary().map(|primary| primary.name.as_str()),
        "lease_ms": group.lease_ms,
        "etcd_error": group.etcd_error.as_deref(),
        "members": group.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn heading(group: &Group) -> String {
    let mut words = Vec::new();
    words.push(match &group.name {
        Some(name) => format!("group {name}"),
        None => "no group".into(),
    });
    words.extend(group.epoch.map(|epoch| format!("epoch {epoch}")));
    match group.primary() {
        Some(primary) => words.push(format!("primary {}", primary.name)),
        None => words.push("NO PRIMARY".into()),
    }
    let in_sync = group.members.iter().filter(|member| group.is_in_sync(member)).count();
    words.push(format!("{in_sync} of {} in sync", group.members.len()));
    match group.lease_ms {
        Some(left) if left > 0 => words.push(format!("lease {:.1} s", left as f64 / 1000.0)),
        Some(_) => words.push("NO LEASE".into()),
        None => {}
    }
    words.join(", ") + "\n"
}

/// Draws lines from the primary to its replicas: double for those in sync, broken for those not
/// connected.
fn picture(group: &Group, out: &mut String) {
    let primary = group.primary().map(|primary| primary.name.as_str());
    let replica = |member: &Member| {
        let line = match &member.role {
            Role::Unreached(_) => Line::Lost,
            _ if !member.is_linked || primary.is_none() => Line::Cut,
            _ if group.is_in_sync(member) => Line::InSync,
            _ => Line::Behind,
        };
        (line, format!("{}{}", member.name, remark(group, member)))
    };
    let others = group.members.iter().filter(|member| Some(member.name.as_str()) != primary);
    *out += &picture::picture(primary, &others.map(replica).collect::<Vec<_>>());
}

/// A member's abnormal state for the operator; empty if there is none.
fn remark(group: &Group, member: &Member) -> String {
    let mut words = Vec::new();
    match &member.role {
        Role::Unreached(_) => words.push("not reached".to_owned()),
        Role::Candidate => words.push("candidate".to_owned()),
        Role::Primary => words.push("a primary too".to_owned()),
        Role::Replica if !member.is_linked => words.push("not connected".to_owned()),
        Role::Replica => {}
    }
    if !group.is_in_sync(member) {
        words.push("not in sync".into());
    }
    if member.behind.is_some_and(|bytes| bytes > 0) {
        words.push(format!("{} behind", bytes(member.behind)));
    }
    if words.is_empty() { String::new() } else { format!("  ({})", words.join(", ")) }
}

fn table(group: &Group, out: &mut String) {
    let heads = ["member", "address", "role", "epoch", "in sync", "offset", "behind", "silent"];
    let mut rows = vec![heads.map(str::to_owned)];
    for member in &group.members {
        let role = match member.role {
            Role::Primary => "primary",
            Role::Replica => "replica",
            Role::Candidate => "candidate",
            Role::Unreached(_) => "?",
        };
        let number = |value: Option<u64>| value.map_or_else(|| "-".into(), |value| value.to_string());
        rows.push([
            member.name.clone(),
            member.address(),
            role.into(),
            number(member.epoch),
            if group.is_in_sync(member) { "yes" } else { "no" }.into(),
            number(member.offset),
            bytes(member.behind),
            member.silent.map_or_else(|| "-".into(), |seconds| format!("{seconds} s")),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Text is left-aligned, numbers are right-aligned.
            let _ = if matches!(column, 3 | 5 | 6 | 7) {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn bytes(count: Option<u64>) -> String {
    match count {
        None => "-".into(),
        Some(count) if count < 10_000 => format!("{count} B"),
        Some(count) if count < 10_000_000 => format!("{} kB", count / 1000),
        Some(count) => format!("{} MB", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::example;

    #[test]
    fn a_group_is_printed() {
        let expected = "\
group g, epoch 7, primary b, 2 of 3 in sync, lease 1.5 s

  b
   |===== a
   `----- c  (not in sync, 100 B behind)

member  address        role     epoch  in sync  offset  behind  silent
a       10.0.0.1:7001  replica      7  yes        1000     0 B     0 s
b       10.0.0.2:7002  primary      7  yes        1000       -       -
c       10.0.0.3:7003  replica      7  no          900   100 B     4 s
";
        assert_eq!(text(&example()), expected);
        let json = json(&example());
        assert_eq!(
            (&json["group"], &json["primary"], &json["whole"]),
            (&"g".into(), &"b".into(), &false.into())
        );
        assert_eq!(
            (&json["members"][2]["behind"], &json["members"][2]["in_sync"]),
            (&100.into(), &false.into())
        );
    }

    #[test]
    fn what_is_wrong_is_printed() {
        let mut group = example();
        group.members[1].role = Role::Unreached("cannot connect to 10.0.0.2:7002: Connection refused".into());
        group.members[0].role = Role::Candidate;
        group.members[0].is_linked = false;
        group.lease_ms = Some(0);
        group.etcd_error = Some("no endpoint answers".into());
        let text = text(&group);
        for part in [
            "group g, epoch 7, NO PRIMARY, 2 of 3 in sync, NO LEASE\n\n  (no primary)\n",
            "   |- - - a  (candidate)\n   |- x - b  (not reached)\n",
            "\nb: cannot connect to 10.0.0.2:7002: Connection refused\n",
            "\netcd: no endpoint answers\n",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn amounts_are_short() {
        let texts = [None, Some(9_999), Some(10_000), Some(12_345_678)].map(bytes);
        assert_eq!(texts, ["-", "9999 B", "10 kB", "12 MB"]);
    }
}
