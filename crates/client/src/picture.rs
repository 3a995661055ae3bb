// SPDX-License-Identifier: BSD-3-Clause
//! A text diagram of a primary and its replicas, for tools that print groups.

/// The connection line from the primary to a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The replica is in sync.
    InSync,
    /// The replica is connected, but not in sync.
    Behind,
    /// The replica is not connected to the primary.
    Cut,
    /// The replica is unreachable.
    Lost,
}

impl Line {
    fn text(self) -> &'static str {
        match self {
            Line::InSync => "=====",
            Line::Behind => "-----",
            Line::Cut => "- - -",
            Line::Lost => "- x -",
        }
    }
}

/// The primary's name, and a line for each replica with its name. `None` means no primary. Each
/// text line ends with a line feed.
pub fn picture(primary: Option<&str>, replicas: &[(Line, String)]) -> String {
    let mut out = format!("  {}\n", primary.unwrap_or("(no primary)"));
    for (index, (line, name)) in replicas.iter().enumerate() {
        let corner = if index + 1 == replicas.len() { '`' } else { '|' };
        out += &format!("   {corner}{} {name}\n", line.text());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_its_line() {
        let replicas = [(Line::InSync, "a".into()), (Line::Lost, "c  (down)".into())];
        assert_eq!(picture(Some("b"), &replicas), "  b\n   |===== a\n   `- x - c  (down)\n");
        assert_eq!(picture(None, &[]), "  (no primary)\n");
    }
}
