// SPDX-License-Identifier: BSD-3-Clause
//! A group without a primary in which no server may lead by itself: the reason, in words that are
//! the same at every member, and what an operator can do.
//!
//! Everything comes from etcd's records. It decides nothing: which server leads is decided by
//! [`braid_group::Member`].

use braid_group::{MemberId, Shard, Snapshot};

/// Letters of a run that tell processes apart.
const RUN: usize = 8;

/// Why no member of the in-sync set can lead. `None` while a primary holds its lease, and while a
/// member could take over.
pub(super) fn reason(records: &Snapshot, shard: &Shard) -> Option<String> {
    if records.holder.is_some() {
        return None;
    }
    let whys: Option<Vec<&str>> = shard.in_sync.iter().map(|id| why_not(records, id)).collect();
    let whys = whys?;
    let members = shard.in_sync.iter().map(short).collect::<Vec<_>>();
    let what = if whys.iter().all(|why| *why == GONE) {
        format!("no member of the in-sync set {} is alive", members.join(","))
    } else {
        let each = members.iter().zip(&whys).map(|(member, why)| format!("{member} {why}"));
        format!("no member of the in-sync set may lead: {}", each.collect::<Vec<_>>().join(", "))
    };
    // Only such files show that a new process has everything that the member had.
    let files_count = shard.is_on_disk || shard.in_sync.len() == 1;
    let start = if files_count { "start one with its own files, or " } else { "" };
    Some(format!("{what}; {start}promote a server by FAILOVER TAKEOVER, see 'When all servers stop'"))
}

const GONE: &str = "is not alive";

/// Why a member cannot lead; `None` if it can.
fn why_not(records: &Snapshot, id: &MemberId) -> Option<&'static str> {
    match records.nodes.get(&id.node).filter(|node| node.run == id.run) {
        None => Some(GONE),
        Some(node) if node.priority == 0 => Some("has replica-priority 0"),
        Some(node) if node.is_loading => Some("has an incomplete dataset"),
        Some(_) => None,
    }
}

fn short(id: &MemberId) -> String {
    format!("{}/{}", id.node, id.run.get(..RUN).unwrap_or(&id.run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_group::{Holder, Node};

    #[test]
    fn the_reason_names_every_member_of_the_set() {
        let id = |node: &str| MemberId::new(node, &node.repeat(20));
        let mut shard = Shard {
            epoch: 3,
            primary: id("m0"),
            in_sync: [id("m0"), id("m1")].into(),
            lease: 1,
            is_handed_over: false,
            is_on_disk: false,
            base: None,
        };
        let mut records = Snapshot::default();
        let other = Node { run: "other".into(), priority: 100, ..Node::default() };
        records.nodes.insert("m0".into(), other.clone());
        let all_gone = reason(&records, &shard).expect("nobody may lead");
        assert!(
            all_gone.starts_with("no member of the in-sync set m0/m0m0m0m0,m1/m1m1m1m1 is alive; promote")
        );
        records.nodes.insert("m1".into(), Node { run: id("m1").run, priority: 0, ..Node::default() });
        let one_stays = reason(&records, &shard).expect("nobody may lead");
        assert!(
            one_stays.contains("m0/m0m0m0m0 is not alive, m1/m1m1m1m1 has replica-priority 0"),
            "{one_stays}"
        );
        records.nodes.insert("m1".into(), Node { is_loading: true, run: id("m1").run, ..other.clone() });
        assert!(reason(&records, &shard).is_some_and(|text| text.contains("has an incomplete dataset")));
        records.nodes.insert("m1".into(), Node { run: id("m1").run, ..other });
        assert_eq!(reason(&records, &shard), None, "m1 takes over");
        shard.in_sync = [id("m0")].into();
        let alone = reason(&records, &shard).expect("nobody may lead");
        assert!(
            alone.contains("set m0/m0m0m0m0 is alive; start one with its own files, or promote"),
            "{alone}"
        );
        records.holder = Some(Holder { epoch: 3, member: id("m0"), lease: 1 });
        assert_eq!(reason(&records, &shard), None);
    }
}
