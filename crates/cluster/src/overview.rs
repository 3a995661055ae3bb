// SPDX-License-Identifier: BSD-3-Clause
//! Prints a cluster: a summary line, a bar of each shard's slots, and a table of nodes.

use std::fmt::Write;

use braid_client::figures::{bytes, grouped};
use braid_client::{Connection, Info};
use serde_json::{Value as Json, json};

use crate::change::plural;
use crate::cluster::Cluster;
use crate::nodes::Node;
use crate::slots::{self, SLOTS};

/// Width of a slot bar in characters.
const BAR: usize = 64;
/// Maximum width of a slot list in characters.
const LIST: usize = 40;

/// A node's state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Member {
    pub node: Node,
    /// The reason if it could not be queried.
    pub error: Option<String>,
    pub name: Option<String>,
    pub keys: u64,
    pub memory: u64,
    pub offset: u64,
    /// A replica's link to its primary is up.
    pub is_linked: bool,
}

/// A cluster's state, queried node by node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overview {
    /// `cluster-name`, if known.
    pub name: Option<String>,
    /// In the order of [`Nodes`](crate::nodes::Nodes).
    pub members: Vec<Member>,
    pub uncovered: Vec<u16>,
}

impl Overview {
    /// Queries all nodes in parallel.
    ///
    /// # Errors
    /// If the list of nodes cannot be read. Nodes that cannot be reached are part of the result.
    pub fn of(cluster: &mut Cluster) -> Result<Overview, String> {
        let nodes = cluster.nodes()?;
        let cluster = &*cluster;
        let asked: Vec<(Member, Option<String>)> = std::thread::scope(|scope| {
            let asking: Vec<_> =
                nodes.nodes.iter().map(|node| scope.spawn(move || ask(cluster, node))).collect();
            asking.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let name = asked.iter().find_map(|(_, name)| name.clone());
        let members = asked.into_iter().map(|(member, _)| member).collect();
        Ok(Overview { name, members, uncovered: nodes.uncovered() })
    }

    /// True if all slots have an owner and all nodes are healthy.
    pub fn is_whole(&self) -> bool {
        let is_well = |member: &Member| {
            member.error.is_none()
                && !member.node.has_failed
                && (member.node.is_primary() || member.is_linked)
        };
        self.uncovered.is_empty() && self.members.iter().all(is_well)
    }

    fn primaries(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.node.is_primary())
    }

    /// The overview as text.
    pub fn text(&self) -> String {
        let mut out = self.heading();
        out.push('\n');
        self.picture(&mut out);
        out.push('\n');
        self.table(&mut out);
        for member in &self.members {
            if let Some(why) = &member.error {
                let _ = writeln!(out, "\n{}: {why}", member.node.address());
            }
        }
        out
    }

    fn heading(&self) -> String {
        let mut words = vec![match &self.name {
            Some(name) => format!("cluster {name}"),
            None => "cluster".into(),
        }];
        words.push(plural(self.primaries().count(), "shard"));
        words.push(plural(self.members.len(), "node"));
        words.push(format!("{} keys", grouped(self.primaries().map(|member| member.keys as f64).sum())));
        match self.uncovered.len() {
            0 => words.push("all slots covered".into()),
            count => words.push(format!(
                "{count} SLOTS WITHOUT AN OWNER: {}",
                slots::short_text(&self.uncovered, LIST)
            )),
        }
        let failed =
            self.members.iter().filter(|member| member.error.is_some() || member.node.has_failed).count();
        if failed > 0 {
            words.push(format!("{} UNHEALTHY", plural(failed, "NODE")));
        }
        words.join(", ") + "\n"
    }

    /// One bar per shard, 256 slots per character.
    fn picture(&self, out: &mut String) {
        let width = self.primaries().map(|member| member.label().len()).max().unwrap_or(0);
        let end = (SLOTS - 1).to_string();
        let _ = writeln!(out, "  {:width$}  0{end:>rest$}", "", rest = BAR + 1);
        for member in self.primaries() {
            let bar = slots::bar(&member.node.slots, BAR);
            let count = plural(member.node.slots.len(), "slot");
            let _ = writeln!(out, "  {:<width$}  [{bar}] {count}", member.label());
        }
        if !self.uncovered.is_empty() {
            let bar = slots::bar(&self.uncovered, BAR);
            let _ = writeln!(out, "  {:<width$}  [{bar}]", "(none)");
        }
    }

    fn table(&self, out: &mut String) {
        let heads = ["node", "address", "id", "role", "slots", "keys", "memory", "offset", "state"];
        let mut rows = vec![heads.map(str::to_owned)];
        for primary in self.primaries() {
            let of_shard = self.members.iter().filter(|member| {
                member.node.id == primary.node.id
                    || member.node.primary.as_deref() == Some(primary.node.id.as_str())
            });
            let mut of_shard: Vec<&Member> = of_shard.collect();
            of_shard.sort_by_key(|member| !member.node.is_primary());
            rows.extend(of_shard.into_iter().map(Member::row));
        }
        let is_lost = |member: &&Member| {
            let primary = member.node.primary.as_deref();
            primary.is_some_and(|id| !self.primaries().any(|other| other.node.id == id))
        };
        rows.extend(self.members.iter().filter(is_lost).map(Member::row));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Text is left-aligned, numbers are right-aligned.
                let _ = match column {
                    4..=7 => write!(line, "{cell:>width$}  "),
                    _ => write!(line, "{cell:<width$}  "),
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }

    /// The overview as JSON.
    pub fn json(&self) -> Json {
        let member = |member: &Member| {
            json!({
                "id": member.node.id.as_str(),
                "address": member.node.address(),
                "name": member.name.as_deref(),
                "role": if member.node.is_primary() { "primary" } else { "replica" },
                "primary": member.node.primary.as_deref(),
                "slots": slots::text(&member.node.slots),
                "slot_count": member.node.slots.len(),
                "keys": member.keys,
                "memory": member.memory,
                "offset": member.offset,
                "state": member.state(),
                "error": member.error.as_deref(),
            })
        };
        json!({
            "cluster": self.name.as_deref(),
            "whole": self.is_whole(),
            "uncovered": slots::text(&self.uncovered),
            "nodes": self.members.iter().map(member).collect::<Vec<_>>(),
        })
    }
}

impl Member {
    fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.node.address())
    }

    fn state(&self) -> &'static str {
        match self {
            Member { error: Some(_), .. } => "not reached",
            Member { node: Node { has_failed: true, .. }, .. } => "failed",
            Member { is_linked: false, node: Node { primary: Some(_), .. }, .. } => "not connected",
            Member { node: Node { has_open_slots: true, .. }, .. } => "slots open",
            _ => "ok",
        }
    }

    fn row(&self) -> [String; 9] {
        let known = |text: String| if self.error.is_some() { "-".into() } else { text };
        [
            self.label(),
            self.node.address(),
            self.node.id.chars().take(8).collect(),
            if self.node.is_primary() { "primary" } else { "replica" }.into(),
            if self.node.is_primary() { self.node.slots.len().to_string() } else { "-".into() },
            known(self.keys.to_string()),
            known(bytes(self.memory as f64)),
            known(self.offset.to_string()),
            self.state().into(),
        ]
    }
}

/// A node's state, and the cluster's name.
fn ask(cluster: &Cluster, node: &Node) -> (Member, Option<String>) {
    let info = cluster
        .connect(node)
        .and_then(|mut connection| sections(&mut connection).map_err(|error| error.to_string()));
    match info {
        Ok(info) => (describe(node, &info), info.get("group_cluster").map(str::to_owned)),
        Err(error) => (Member { node: node.clone(), error: Some(error), ..Member::default() }, None),
    }
}

fn sections(connection: &mut Connection) -> std::io::Result<Info> {
    let mut text = String::new();
    for section in ["server", "memory", "replication", "keyspace", "group"] {
        text += &connection.expect(&["INFO", section])?.text();
        text += "\r\n";
    }
    // The user may lack permission for CONFIG.
    if let Ok(reply) = connection.expect(&["CONFIG", "GET", "cluster-name"])
        && let Some(name) = reply.elements().get(1)
        && !name.text().is_empty()
    {
        text += &format!("group_cluster:{}\r\n", name.text());
    }
    Ok(Info::parse(&text))
}

fn describe(node: &Node, info: &Info) -> Member {
    let number = |name: &str| info.number(name).unwrap_or(0.0) as u64;
    let databases = info.with_prefix("db").filter(|(index, _)| index.parse::<u32>().is_ok());
    let keys = databases.filter_map(|(_, line)| braid_client::info::part_number(line, "keys"));
    Member {
        node: node.clone(),
        error: None,
        name: info.get("node_name").filter(|name| !name.is_empty()).map(str::to_owned),
        keys: keys.sum::<f64>() as u64,
        memory: number("used_memory"),
        offset: number(if node.is_primary() { "master_repl_offset" } else { "slave_repl_offset" }),
        is_linked: info.get("master_link_status") == Some("up"),
    }
}

/// An overview without querying the nodes, for tests.
#[cfg(test)]
fn unasked(nodes: &crate::nodes::Nodes) -> Overview {
    let member = |node: &Node| Member { node: node.clone(), is_linked: true, ..Member::default() };
    Overview { name: None, members: nodes.nodes.iter().map(member).collect(), uncovered: nodes.uncovered() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;
    use crate::nodes::tests::TEXT;

    #[test]
    fn a_cluster_is_printed() {
        let text = TEXT.replace("slave,fail", "slave").replace(" [300->-bbbbbb22]", "");
        let mut overview = unasked(&Nodes::parse(&text, "10.0.0.4").unwrap());
        overview.name = Some("demo".into());
        overview.members[0].keys = 1_200;
        overview.members[0].name = Some("n1".into());
        let expected = "\
cluster demo, 3 shards, 4 nodes, 1,200 keys, all slots covered

                 0                                                            16383
  n1             [+...............................................................] 101 slots
  10.0.0.2:7002  [+###############################################################] 16283 slots
  10.0.0.4:7004  [................................................................] 0 slots

node           address        id        role     slots  keys  memory  offset  state
n1             10.0.0.1:7001  aaaaaa11  primary    101  1200     0 B       0  ok
10.0.0.2:7002  10.0.0.2:7002  bbbbbb22  primary  16283     0     0 B       0  ok
[::1]:7003     [::1]:7003     cccccc33  replica      -     0     0 B       0  ok
10.0.0.4:7004  10.0.0.4:7004  dddddd44  primary      0     0     0 B       0  ok
";
        assert_eq!(overview.text(), expected, "{}", overview.text());
        assert!(overview.is_whole());
    }

    #[test]
    fn what_is_wrong_is_printed() {
        let text = TEXT.replace("201-16383", "300-16383");
        let mut overview = unasked(&Nodes::parse(&text, "10.0.0.4").unwrap());
        overview.members[0].error = Some("cannot connect to 10.0.0.1:7001: Connection refused".into());
        let text = overview.text();
        for part in [
            "99 SLOTS WITHOUT AN OWNER: 201-299",
            "2 NODES UNHEALTHY",
            "  (none)         [++..",
            "failed\n",
            "not reached\n",
            "\n10.0.0.1:7001: cannot connect to 10.0.0.1:7001: Connection refused\n",
        ] {
            assert!(text.to_lowercase().contains(&part.to_lowercase()), "{part} is missing in\n{text}");
        }
        assert!(!overview.is_whole());
        let json = overview.json();
        assert_eq!(json["uncovered"], "201-299");
        assert_eq!(json["nodes"][3]["state"], "failed");
    }

    #[test]
    fn node_info_is_parsed_into_the_overview() {
        let node = Node::default();
        let info = "node_name:n1\nused_memory:77\nmaster_repl_offset:5\n\
                    db0:keys=3,expires=0,avg_ttl=0\ndb2:keys=4,expires=1,avg_ttl=0\n";
        let member = describe(&node, &Info::parse(info));
        assert_eq!((member.keys, member.memory, member.offset), (7, 77, 5));
        assert_eq!(member.name.as_deref(), Some("n1"));
    }
}
