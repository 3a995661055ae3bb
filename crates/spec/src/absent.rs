// SPDX-License-Identifier: BSD-3-Clause
//! Families of commands that other servers have and this one lacks, so that the error for an
//! unknown command and the compatibility page can say so in the same words. A family leaves this
//! list when its type arrives.

/// A family of commands.
pub struct Family {
    /// What their names begin with.
    prefix: &'static str,
    /// What it is, as in "has no graphs".
    pub title: &'static str,
    /// Where it is found.
    pub from: &'static str,
}

const fn module(prefix: &'static str, title: &'static str, from: &'static str) -> Family {
    Family { prefix, title, from }
}

/// All families.
pub const FAMILIES: &[Family] = &[
    module("GRAPH.", "graphs", "Redis Stack up to 7.2, FalkorDB"),
    module("KEYDB.", "commands of KeyDB's own", "KeyDB"),
];

impl Family {
    /// How its commands are written, for the compatibility page.
    pub fn commands(&self) -> String {
        format!("{}*", self.prefix)
    }

    fn has(&self, command: &[u8]) -> bool {
        let start = command.get(..self.prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(self.prefix.as_bytes()))
    }
}

/// The absent family that an unknown command belongs to.
pub fn family_of(command: &[u8]) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.has(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_belong_to_a_family_by_prefix() {
        let title = |command: &str| family_of(command.as_bytes()).map(|family| family.title);
        assert_eq!(title("ts.add"), None);
        assert_eq!(title("GRAPH.QUERY"), Some("graphs"));
        assert_eq!(title("CMS.ADD"), None);
        assert_eq!(title("VSIM"), None);
        assert_eq!(title("TS"), None);
        assert_eq!(title("GET"), None);
    }
}
