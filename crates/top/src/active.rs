// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication, from Braid's INFO section `active`: this server's region and its
//! peers.

use braid_client::Info;
use braid_client::figures::{bytes, grouped};
use braid_client::info::{part, part_number};

/// This server's state in active-active replication.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActiveView {
    pub region: f64,
    /// Units of effects: by its own clients, merged from other servers, and sent to peers.
    pub own: f64,
    pub merged: f64,
    pub sent: f64,
    pub sent_bytes: f64,
    pub type_conflicts: f64,
    /// Keys with tombstones, which are collected once all regions have acknowledged them.
    pub tombstones: f64,
    pub backlog_bytes: f64,
    /// The reason why nothing can be sent; empty if sending works.
    pub last_error: String,
    pub peers: Vec<PeerRow>,
}

/// A peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerRow {
    pub address: String,
    pub is_up: bool,
    /// The peer's region number, once known.
    pub region: Option<f64>,
    /// How long the last unit took from the peer's region to here; `None` before the first unit.
    pub lag_ms: Option<f64>,
    /// Units and bytes received.
    pub units: f64,
    pub bytes: f64,
}

impl ActiveView {
    /// `None` for a server that is not in active mode.
    pub fn of_info(info: &Info) -> Option<ActiveView> {
        let number = |name: &str| info.number(name).unwrap_or(0.0);
        let region = info.number("active_region")?;
        let mut peers: Vec<(u32, PeerRow)> = info
            .with_prefix("active_peer")
            .filter_map(|(number, line)| Some((number.parse().ok()?, peer(line))))
            .collect();
        peers.sort_by_key(|(number, _)| *number);
        Some(ActiveView {
            region,
            own: number("active_own_units"),
            merged: number("active_merged_units"),
            sent: number("active_sent_units"),
            sent_bytes: number("active_sent_bytes"),
            type_conflicts: number("active_type_conflicts"),
            tombstones: number("active_tombstone_keys"),
            backlog_bytes: number("active_backlog_bytes"),
            last_error: info.get("active_trouble").unwrap_or_default().to_owned(),
            peers: peers.into_iter().map(|(_, peer)| peer).collect(),
        })
    }

    /// The server in two lines, with any problem in a third.
    pub fn heading(&self) -> String {
        let up = self.peers.iter().filter(|peer| peer.is_up).count();
        let mut text = format!(
            "region {:.0}, {up} of {} peers up, {} own units, {} merged, {} sent ({})\n",
            self.region,
            self.peers.len(),
            grouped(self.own),
            grouped(self.merged),
            grouped(self.sent),
            bytes(self.sent_bytes),
        );
        text += &format!(
            "{} type conflicts, {} keys with tombstones, backlog {}\n",
            grouped(self.type_conflicts),
            grouped(self.tombstones),
            bytes(self.backlog_bytes),
        );
        if !self.last_error.is_empty() {
            text += &format!("ERROR: {}\n", self.last_error);
        }
        text
    }
}

fn peer(line: &str) -> PeerRow {
    let number = |name: &str| part_number(line, name).filter(|number| *number >= 0.0);
    let units = number("units").unwrap_or(0.0);
    PeerRow {
        address: format!("{}:{}", part(line, "host").unwrap_or("?"), part(line, "port").unwrap_or("?")),
        is_up: part(line, "link") == Some("up"),
        region: number("region"),
        lag_ms: number("lag_ms").filter(|_| units > 0.0),
        units,
        bytes: number("bytes").unwrap_or(0.0),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// INFO active of a server with two peers, one of which was never reached.
    pub const TWO_PEERS: &str = "active_region:1\nactive_identity:abc\nactive_members:2\n\
        active_own_units:1500\nactive_merged_units:300\nactive_known_units:0\nactive_sent_units:1400\n\
        active_sent_bytes:204800\nactive_type_conflicts:2\nactive_tombstone_keys:7\n\
        active_backlog_bytes:4096\nactive_trouble:\nactive_peers:2\n\
        active_peer0:host=10.0.0.2,port=6379,link=up,region=2,lag_ms=3,units=300,bytes=40960\n\
        active_peer1:host=10.0.0.3,port=6380,link=down,region=-1,lag_ms=0,units=0,bytes=0\n";

    #[test]
    fn active_peers_are_parsed_and_summarized() {
        let view = ActiveView::of_info(&Info::parse(TWO_PEERS)).expect("active");
        assert_eq!((view.peers[0].address.as_str(), view.peers[0].lag_ms), ("10.0.0.2:6379", Some(3.0)));
        assert_eq!((view.peers[1].region, view.peers[1].lag_ms), (None, None));
        assert_eq!(
            view.heading(),
            "region 1, 1 of 2 peers up, 1,500 own units, 300 merged, 1,400 sent (200 KB)\n2 type \
             conflicts, 7 keys with tombstones, backlog 4.00 KB\n"
        );
        let text = TWO_PEERS.replace("active_trouble:", "active_trouble:the log cannot be written");
        let view = ActiveView::of_info(&Info::parse(&text)).expect("active");
        assert!(view.heading().ends_with("ERROR: the log cannot be written\n"));
    }

    #[test]
    fn other_servers_are_not_active() {
        assert_eq!(ActiveView::of_info(&Info::parse("role:master\nactive_defrag_hits:0\n")), None);
    }
}
