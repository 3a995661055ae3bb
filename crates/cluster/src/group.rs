// SPDX-License-Identifier: BSD-3-Clause
//! A group as its members describe it, parsed from their INFO without I/O.

use braid_client::Info;
use braid_client::info::{part, part_number};

/// A member's role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    Primary,
    Replica,
    /// Offers to replace a primary whose lease has expired.
    Candidate,
    /// Unreachable, with the reason.
    Unreached(String),
}

/// A server of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name in the group, or its address if it has none.
    pub name: String,
    /// Empty: unknown.
    pub host: String,
    pub port: u16,
    /// 0: none.
    pub tls_port: u16,
    pub role: Role,
    /// The newest epoch it knows.
    pub epoch: Option<u64>,
    /// Its replication offset in bytes.
    pub offset: Option<u64>,
    /// Unacknowledged bytes, according to its primary.
    pub behind: Option<u64>,
    /// Seconds since its last acknowledgement, according to its primary.
    pub silent: Option<u64>,
    /// Its link to the primary is up.
    pub is_linked: bool,
}

impl Member {
    /// A member of which only the name and address are known.
    pub fn at(name: &str, host: &str, port: u16) -> Member {
        Member {
            name: name.into(),
            host: host.into(),
            port,
            tls_port: 0,
            role: Role::Unreached("not asked".into()),
            epoch: None,
            offset: None,
            behind: None,
            silent: None,
            is_linked: false,
        }
    }

    pub fn address(&self) -> String {
        match self.host.as_str() {
            "" => "-".into(),
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }

    /// True if `word` is its name or address.
    pub fn is_called(&self, word: &str) -> bool {
        self.name == word || self.address() == word
    }

    /// Fills in the member's own INFO.
    pub fn describe(&mut self, info: &Info) {
        let number = |name| info.get(name).and_then(|text| text.parse().ok());
        let is_primary = info.get("role") == Some("master");
        self.role = match info.get("group_role") {
            Some("candidate") => Role::Candidate,
            _ if is_primary => Role::Primary,
            _ => Role::Replica,
        };
        self.epoch = number("group_epoch");
        self.is_linked = info.get("master_link_status") == Some("up");
        self.offset = number(if is_primary { "master_repl_offset" } else { "slave_repl_offset" });
    }
}

/// The servers of a group and their shared state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// `None`: the servers are in no group.
    pub name: Option<String>,
    pub epoch: Option<u64>,
    /// Names of the in-sync set.
    pub in_sync: Vec<String>,
    /// Remaining time of the primary's lease in milliseconds.
    pub lease_ms: Option<i64>,
    /// Why the primary cannot use etcd.
    pub etcd_error: Option<String>,
    pub members: Vec<Member>,
}

impl Group {
    /// The members known to a server: those of its group, or else itself, its primary and its
    /// replicas. Only their names and addresses are filled in.
    pub fn of_info(info: &Info, host: &str, port: u16) -> Group {
        let mut group = Group::default();
        if let Some(name) = info.get("group_name").filter(|name| !name.is_empty()) {
            group.name = Some(name.into());
            group.members = members_of(info);
        }
        let own = info.get("node_name").map_or_else(|| format!("{host}:{port}"), str::to_owned);
        if !group.members.iter().any(|member| member.name == own) {
            group.members.push(Member::at(&own, host, port));
        }
        // A member whose process has ended no longer has an address in etcd.
        for name in in_sync_of(info) {
            if group.name.is_some() && !group.members.iter().any(|member| member.name == name) {
                group.members.push(Member::at(name, "", 0));
            }
        }
        if group.name.is_none() {
            let primary = info.get("master_host").zip(info.get("master_port"));
            let replicas = slaves(info).filter_map(|slave| part(slave, "ip").zip(part(slave, "port")));
            for (host, port) in primary.into_iter().chain(replicas) {
                let Ok(port) = port.parse() else { continue };
                if !group.members.iter().any(|member| member.host == host && member.port == port) {
                    group.members.push(Member::at(&format!("{host}:{port}"), host, port));
                }
            }
        }
        group
    }

    /// Fills in the primary's knowledge: the in-sync set, and each replica's lag.
    pub fn describe(&mut self, primary: &Info) {
        let number = |name| primary.get(name).and_then(|text| text.parse::<u64>().ok());
        self.epoch = number("group_epoch");
        self.lease_ms = primary.get("group_lease_ms").and_then(|text| text.parse().ok());
        self.etcd_error =
            primary.get("group_etcd_error").filter(|error| !error.is_empty()).map(str::to_owned);
        self.in_sync = in_sync_of(primary).map(str::to_owned).collect();
        let end = number("master_repl_offset").unwrap_or(0);
        for member in &mut self.members {
            let is_member = |slave: &&str| {
                part(slave, "port").and_then(|port| port.parse().ok()) == Some(member.port)
                    && part(slave, "ip").is_some_and(|ip| is_same_host(ip, &member.host))
            };
            let Some(slave) = slaves(primary).find(is_member) else { continue };
            let acknowledged = part_number(slave, "offset").map(|offset| offset as u64);
            member.behind = acknowledged.map(|offset| end.saturating_sub(offset));
            member.silent = part_number(slave, "lag").map(|lag| lag as u64);
        }
    }

    /// The primary: if several servers claim to be, the one with the newest epoch.
    pub fn primary(&self) -> Option<&Member> {
        let primaries = self.members.iter().filter(|member| member.role == Role::Primary);
        primaries.max_by_key(|member| member.epoch)
    }

    /// True if the member may be promoted. Without a group: if it is the primary or its link is up.
    pub fn is_in_sync(&self, member: &Member) -> bool {
        match self.name {
            Some(_) => self.in_sync.contains(&member.name),
            None => member.role == Role::Primary || member.is_linked,
        }
    }

    /// True if there is exactly one primary, and all other members are reachable and in sync.
    pub fn is_whole(&self) -> bool {
        let primaries = self.members.iter().filter(|member| member.role == Role::Primary).count();
        primaries == 1
            && self
                .members
                .iter()
                .all(|member| matches!(member.role, Role::Primary | Role::Replica) && self.is_in_sync(member))
    }
}

/// Names of the in-sync set.
fn in_sync_of(info: &Info) -> impl Iterator<Item = &str> {
    let names = info.get("group_in_sync").unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty())
}

/// The `slaveN` lines of INFO.
fn slaves(info: &Info) -> impl Iterator<Item = &str> {
    let lines = info.with_prefix("slave");
    lines.filter(|(index, _)| index.parse::<u32>().is_ok()).map(|(_, slave)| slave)
}

/// The members in the `group_memberN:name=...,host=...,port=...` lines.
fn members_of(info: &Info) -> Vec<Member> {
    let lines = info.with_prefix("group_member");
    let lines = lines.filter(|(index, _)| index.parse::<u32>().is_ok());
    let member = |line: &str| {
        let port = part(line, "port")?.parse().ok()?;
        let tls_port = part(line, "tls_port").and_then(|port| port.parse().ok()).unwrap_or(0);
        Some(Member { tls_port, ..Member::at(part(line, "name")?, part(line, "host")?, port) })
    };
    lines.filter_map(|(_, line)| member(line)).collect()
}

/// A host name cannot be compared with an IP address; then the port alone decides.
fn is_same_host(one: &str, other: &str) -> bool {
    let is_address = |host: &str| host.parse::<std::net::IpAddr>().is_ok();
    one == other || is_address(one) != is_address(other)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// INFO of the primary `b` of a group in which `c` is behind and not in sync.
    pub const PRIMARY: &str = "\
# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
slave0:ip=10.0.0.1,port=7001,state=online,offset=1000,lag=0\r\n\
slave1:ip=10.0.0.3,port=7003,state=online,offset=900,lag=4\r\nmaster_repl_offset:1000\r\n\
# Group\r\ngroup_name:g\r\nnode_name:b\r\ngroup_epoch:7\r\ngroup_role:primary\r\n\
group_primary:b\r\ngroup_in_sync:a,b\r\ngroup_lease_ms:1500\r\ngroup_members:3\r\n\
group_member0:name=a,host=10.0.0.1,port=7001\r\ngroup_member1:name=b,host=10.0.0.2,port=7002\r\n\
group_member2:name=c,host=10.0.0.3,port=7003\r\n";

    /// INFO of one of its replicas.
    pub fn replica(offset: u64) -> String {
        format!(
            "role:slave\r\nmaster_host:10.0.0.2\r\nmaster_port:7002\r\nmaster_link_status:up\r\n\
             slave_repl_offset:{offset}\r\ngroup_name:g\r\ngroup_epoch:7\r\ngroup_role:replica\r\n"
        )
    }

    pub fn example() -> Group {
        let primary = Info::parse(PRIMARY);
        let mut group = Group::of_info(&primary, "10.0.0.2", 7002);
        group.members[0].describe(&Info::parse(&replica(1000)));
        group.members[1].describe(&primary);
        group.members[2].describe(&Info::parse(&replica(900)));
        group.describe(&primary);
        group
    }

    #[test]
    fn a_group_is_read_from_its_members() {
        let mut group = example();
        assert_eq!((group.name.as_deref(), group.epoch, group.lease_ms), (Some("g"), Some(7), Some(1500)));
        assert_eq!(group.primary().map(|member| member.name.as_str()), Some("b"));
        let behind: Vec<_> = group.members.iter().map(|member| (member.behind, member.silent)).collect();
        assert_eq!(behind, [(Some(0), Some(0)), (None, None), (Some(100), Some(4))]);
        let in_sync: Vec<_> = group.members.iter().map(|member| group.is_in_sync(member)).collect();
        assert_eq!(in_sync, [true, true, false]);
        assert!(!group.is_whole());
        group.in_sync.push("c".into());
        assert!(group.is_whole());
        group.members[0].role = Role::Unreached("refused".into());
        assert!(!group.is_whole());
    }

    #[test]
    fn members_without_an_address_are_listed() {
        let info = Info::parse(&PRIMARY.replace("group_in_sync:a,b", "group_in_sync:a,b,d"));
        let mut group = Group::of_info(&info, "10.0.0.2", 7002);
        group.describe(&info);
        let last = group.members.last().expect("members");
        assert_eq!((last.name.as_str(), last.address().as_str(), group.is_in_sync(last)), ("d", "-", true));
    }

    #[test]
    fn of_two_primaries_the_newer_one_counts() {
        let mut group = example();
        let stale = PRIMARY.replace("group_epoch:7", "group_epoch:6");
        group.members[0].describe(&Info::parse(&stale));
        assert_eq!(group.primary().map(|member| member.name.as_str()), Some("b"));
        assert!(!group.is_whole());
    }

    #[test]
    fn servers_without_a_group_are_found_from_either_side() {
        let text =
            "role:master\r\nslave0:ip=::1,port=2,state=online,offset=5,lag=1\r\nmaster_repl_offset:9\r\n";
        let mut group = Group::of_info(&Info::parse(text), "::1", 1);
        group.members[0].describe(&Info::parse(text));
        group.describe(&Info::parse(text));
        assert_eq!(group.members.iter().map(Member::address).collect::<Vec<_>>(), ["[::1]:1", "[::1]:2"]);
        assert_eq!(group.members[1].behind, Some(4));
        let group = Group::of_info(&Info::parse(&replica(1).replace("group_name:g", "")), "h", 3);
        assert_eq!(group.members.iter().map(Member::address).collect::<Vec<_>>(), ["h:3", "10.0.0.2:7002"]);
    }
}
