// SPDX-License-Identifier: BSD-3-Clause
//! A server's group, from Braid's INFO section `group`: as seen by that server. Other members are
//! not queried.

use braid_client::Info;
use braid_client::figures::bytes;
use braid_client::info::{part, part_number};
use braid_client::picture::{Line, picture};

/// A group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupView {
    pub name: String,
    /// The server's own name in the group.
    pub node: String,
    pub epoch: f64,
    /// The primary according to the group's record; empty if none is known.
    pub primary: String,
    /// Size of the in-sync set.
    pub in_sync: usize,
    /// The server is the primary and may serve.
    pub is_serving: bool,
    /// The reason why it does not serve as the primary.
    pub not_serving: String,
    /// Milliseconds until the server's own lease expires.
    pub lease_ms: f64,
    /// The reason why etcd cannot be used; empty if it can.
    pub etcd_error: String,
    pub members: Vec<MemberRow>,
    /// Nodes of the cluster in other shards; `None` for a group outside a cluster.
    pub nodes_elsewhere: Option<f64>,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberRow {
    pub name: String,
    pub address: String,
    pub role: String,
    /// The member's lease is alive.
    pub is_up: bool,
    pub is_in_sync: bool,
    /// The member's link to the primary (`up`, `sync`, `down`), if the server knows it.
    pub link: Option<String>,
    pub offset: Option<f64>,
    pub lag_bytes: Option<f64>,
    /// Age of the oldest change that the member has not acknowledged.
    pub lag_ms: Option<f64>,
}

impl GroupView {
    /// The group of a server; `None` if it is in no group.
    pub fn of_info(info: &Info) -> Option<GroupView> {
        let text = |name: &str| info.get(name).unwrap_or_default().to_owned();
        let name = text("group_name");
        if name.is_empty() {
            return None;
        }
        let mut members: Vec<(u32, MemberRow)> = info
            .with_prefix("group_member")
            .filter_map(|(number, line)| Some((number.parse().ok()?, member(line))))
            .collect();
        members.sort_by_key(|(number, _)| *number);
        Some(GroupView {
            name,
            node: text("node_name"),
            epoch: info.number("group_epoch").unwrap_or(0.0),
            primary: text("group_primary"),
            in_sync: text("group_in_sync").split(',').filter(|name| !name.is_empty()).count(),
            is_serving: info.number("group_serving") == Some(1.0),
            not_serving: text("group_not_serving_reason"),
            lease_ms: info.number("group_lease_ms").unwrap_or(0.0),
            etcd_error: text("group_etcd_error"),
            members: members.into_iter().map(|(_, member)| member).collect(),
            nodes_elsewhere: info.number("group_nodes_elsewhere"),
        })
    }

    /// The member that is the primary.
    fn leader(&self) -> Option<&MemberRow> {
        self.members.iter().find(|member| member.role == "primary" && member.is_up)
    }

    /// The group in one line, its problems in further lines, and a diagram of the primary and its
    /// replicas.
    pub fn heading(&self) -> String {
        let leader = self.leader();
        let mut text = format!("group {}, epoch {:.0}, ", self.name, self.epoch);
        match leader {
            Some(leader) => text += &format!("primary {}", leader.name),
            None => text += "NO PRIMARY",
        }
        text += &format!(", {} of {} in sync, ", self.in_sync, self.members.len());
        if let Some(count) = self.nodes_elsewhere.filter(|count| *count > 0.0) {
            text += &format!("{count:.0} {} in other shards, ", if count == 1.0 { "node" } else { "nodes" });
        }
        match self.lease_ms > 0.0 {
            true => text += &format!("lease of {} {:.1} s\n", self.node, self.lease_ms / 1e3),
            false => text += &format!("{} has NO LEASE\n", self.node),
        }
        // For a replica, not serving is normal.
        if leader.is_some_and(|leader| leader.name == self.node) && !self.is_serving {
            text += &format!("{} IS NOT SERVING: {}\n", self.node, self.not_serving);
        }
        if !self.etcd_error.is_empty() {
            text += &format!("etcd: {}\n", self.etcd_error);
        }
        let leads = |member: &&MemberRow| leader.is_some_and(|leader| leader.name == member.name);
        let others = self.members.iter().filter(|member| !leads(member));
        let others: Vec<_> = others.map(|member| (self.line(member), member.with_remark())).collect();
        text + "\n" + &picture(leader.map(|leader| leader.name.as_str()), &others)
    }

    fn line(&self, member: &MemberRow) -> Line {
        match (member.link.as_deref(), member.is_in_sync) {
            _ if !member.is_up => Line::Lost,
            (Some("down"), _) => Line::Cut,
            _ if self.leader().is_none() => Line::Cut,
            (_, true) => Line::InSync,
            (_, false) => Line::Behind,
        }
    }
}

impl MemberRow {
    /// `b  (not in sync, 1.5 KB behind)`.
    fn with_remark(&self) -> String {
        let mut words = Vec::new();
        if !self.is_up {
            words.push("down".to_owned());
        }
        if self.role == "candidate" {
            words.push("candidate".into());
        }
        if !self.is_in_sync {
            words.push("not in sync".into());
        }
        if let Some(behind) = self.lag_bytes.filter(|behind| *behind > 0.0) {
            words.push(format!("{} behind", bytes(behind)));
        }
        if words.is_empty() { self.name.clone() } else { format!("{}  ({})", self.name, words.join(", ")) }
    }
}

fn member(line: &str) -> MemberRow {
    let text = |name: &str| part(line, name).unwrap_or_default().to_owned();
    let number = |name: &str| part_number(line, name).filter(|number| *number >= 0.0);
    let port = |name: &str| text(name).parse::<u16>().ok().filter(|port| *port > 0);
    let address = match (text("host"), port("port").or(port("tls_port"))) {
        (host, Some(port)) if host.contains(':') => format!("[{host}]:{port}"),
        (host, Some(port)) => format!("{host}:{port}"),
        (_, None) => "-".into(),
    };
    MemberRow {
        name: text("name"),
        address,
        role: text("role"),
        is_up: part(line, "state") != Some("down"),
        is_in_sync: part(line, "in_sync") == Some("1"),
        link: part(line, "link").filter(|link| *link != "unknown").map(str::to_owned),
        offset: number("offset"),
        lag_bytes: number("lag_bytes"),
        lag_ms: number("lag_ms"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// INFO group of the primary `db2`; `db3` is behind, and `db4` is down.
    pub const PRIMARY: &str = "group_name:orders\nnode_name:db2\ngroup_epoch:7\ngroup_role:primary\n\
        group_primary:db2\ngroup_in_sync:db1,db2,db4\ngroup_serving:1\ngroup_not_serving_reason:\n\
        group_lease_ms:1480\ngroup_etcd_status:up\ngroup_etcd_error:\ngroup_members:4\n\
        group_member0:name=db1,host=10.0.0.1,port=6379,tls_port=0,state=up,role=replica,in_sync=1,link=up,\
        offset=5000,lag_bytes=0,lag_ms=0\n\
        group_member1:name=db2,host=10.0.0.2,port=6379,tls_port=0,state=up,role=primary,in_sync=1,\
        link=unknown,offset=5000,lag_bytes=-1,lag_ms=-1\n\
        group_member2:name=db3,host=::1,port=0,tls_port=6380,state=up,role=replica,in_sync=0,link=up,\
        offset=3464,lag_bytes=1536,lag_ms=120\n\
        group_member3:name=db4,host=,port=0,tls_port=0,state=down,role=replica,in_sync=1,link=down,\
        offset=-1,lag_bytes=-1,lag_ms=-1\n";

    fn of(text: &str) -> GroupView {
        GroupView::of_info(&Info::parse(text)).expect("a group")
    }

    #[test]
    fn group_info_is_parsed_and_described() {
        let group = of(PRIMARY);
        let addresses: Vec<_> = group.members.iter().map(|member| member.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.1:6379", "10.0.0.2:6379", "[::1]:6380", "-"]);
        assert_eq!((group.members[2].lag_bytes, group.members[1].lag_bytes), (Some(1536.0), None));
        assert_eq!(
            group.heading(),
            "group orders, epoch 7, primary db2, 3 of 4 in sync, lease of db2 1.5 s\n\n  db2\n   \
             |===== db1\n   |----- db3  (not in sync, 1.50 KB behind)\n   `- x - db4  (down)\n"
        );
    }

    #[test]
    fn shard_shows_the_number_of_nodes_in_other_shards() {
        let heading = |count: &str| of(&format!("{PRIMARY}group_nodes_elsewhere:{count}\n")).heading();
        assert!(heading("6").contains(", 3 of 4 in sync, 6 nodes in other shards, lease of db2"));
        assert!(
            heading("1").contains(", 1 node in other shards, ") && !heading("0").contains("other shards")
        );
    }

    #[test]
    fn heading_lists_problems_first() {
        let text = PRIMARY
            .replace("group_serving:1", "group_serving:0")
            .replace("group_not_serving_reason:", "group_not_serving_reason:it holds no valid lease")
            .replace("group_lease_ms:1480", "group_lease_ms:0")
            .replace("group_etcd_error:", "group_etcd_error:no endpoint answers");
        let heading = of(&text).heading();
        let lines: Vec<_> = heading.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "group orders, epoch 7, primary db2, 3 of 4 in sync, db2 has NO LEASE",
                "db2 IS NOT SERVING: it holds no valid lease",
                "etcd: no endpoint answers"
            ]
        );
        let gone = PRIMARY.replace("state=up,role=primary", "state=down,role=primary");
        assert!(of(&gone).heading().contains("NO PRIMARY"), "{}", of(&gone).heading());
        assert!(of(&gone).heading().contains("(no primary)\n   |- - - db1\n"), "{}", of(&gone).heading());
    }

    #[test]
    fn other_servers_are_in_no_group() {
        assert_eq!(GroupView::of_info(&Info::parse("role:master\ngroup_name:\n")), None);
    }
}
