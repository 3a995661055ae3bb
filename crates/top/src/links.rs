// SPDX-License-Identifier: BSD-3-Clause
//! Replication links, from INFO: to the primary, and to replicas.
//!
//! Braid's section `links` has the values. For other servers, and for values missing there, the
//! section `replication` is used, which has lags in seconds and nothing about outgoing full
//! syncs.

use braid_client::Info;
use braid_client::figures::bytes;
use braid_client::info::{part, part_number};

/// Width of a bar in cells.
const BAR_WIDTH: usize = 20;

/// A link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkRow {
    /// `primary 127.0.0.1:6379`, `replica 127.0.0.1:6380`.
    pub peer: String,
    pub state: String,
    /// Bytes not acknowledged by a replica, or received from the primary and not yet applied.
    pub lag_bytes: Option<f64>,
    /// Milliseconds: the age of the oldest change that a replica has not acknowledged, or, for
    /// servers that do not report it, the time since the replica's last message. For a primary:
    /// the time since its last message.
    pub lag_ms: Option<f64>,
    pub sync: Option<SyncRow>,
}

/// A full sync in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncRow {
    /// `sending`, `receiving` or `loading`.
    pub step: &'static str,
    pub bytes: f64,
    pub total_bytes: Option<f64>,
    /// The finished fraction of the step, from 0 to 1, if known.
    pub done: Option<f64>,
}

impl SyncRow {
    /// `receiving [|||   ] 45 % of 1.2 MB`.
    pub fn text(&self) -> String {
        let mut text = self.step.to_owned();
        if let Some(done) = self.done {
            let filled = ((done * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH);
            text += &format!(" [{:<BAR_WIDTH$}] {:.0} %", "|".repeat(filled), done * 100.0);
        }
        match self.total_bytes {
            Some(total) => text + &format!("  {} of {}", bytes(self.bytes), bytes(total)),
            None => text + &format!("  {}", bytes(self.bytes)),
        }
    }
}

/// All links, starting with the link to the primary.
pub fn links(info: &Info) -> Vec<LinkRow> {
    let mut rows: Vec<LinkRow> = primary(info).into_iter().collect();
    let mut replicas: Vec<(u32, LinkRow)> = info
        .with_prefix("slave")
        .filter_map(|(number, value)| {
            let number: u32 = number.parse().ok()?;
            let own = info.get(&format!("replica{number}")).filter(|own| is_same(own, value));
            Some((number, replica(value, own, info.number("master_repl_offset"))))
        })
        .collect();
    replicas.sort_by_key(|(number, _)| *number);
    rows.extend(replicas.into_iter().map(|(_, row)| row));
    rows
}

/// True if both lines describe the same replica.
fn is_same(own: &str, stock: &str) -> bool {
    ["ip", "port"].iter().all(|name| part(own, name) == part(stock, name))
}

/// A value that is -1 if unknown.
fn known(value: &str, name: &str) -> Option<f64> {
    part_number(value, name).filter(|number| *number >= 0.0)
}

fn primary(info: &Info) -> Option<LinkRow> {
    if info.get("role") != Some("slave") {
        return None;
    }
    let own = info.get("primary").unwrap_or_default();
    let is_up = info.get("master_link_status") == Some("up");
    let syncs = info.number("master_sync_in_progress") == Some(1.0);
    let state = match (part(own, "state"), is_up) {
        (Some(state), _) => state,
        (None, true) => "connected",
        (None, false) if syncs => "sync",
        (None, false) => "down",
    };
    let behind = || {
        let applied = info.number("slave_repl_offset")?;
        Some((info.number("slave_read_repl_offset")? - applied).max(0.0))
    };
    let heard_s = || info.number("master_last_io_seconds_ago").filter(|seconds| *seconds >= 0.0);
    Some(LinkRow {
        peer: format!("primary {}:{}", info.get("master_host")?, info.get("master_port")?),
        state: state.to_owned(),
        lag_bytes: known(own, "unapplied_bytes").or_else(behind),
        lag_ms: known(own, "last_io_ms").or_else(|| Some(heard_s()? * 1e3)),
        sync: syncs.then(|| received(info, own)),
    })
}

/// Progress of the full sync from the primary: receiving, and loading at the same time or
/// afterwards.
fn received(info: &Info, own: &str) -> SyncRow {
    let read = info.number("master_sync_read_bytes").unwrap_or(0.0);
    let total = info.number("master_sync_total_bytes").filter(|total| *total > 0.0);
    let stock = || info.number("loading_loaded_perc").filter(|_| info.number("loading") == Some(1.0));
    let loaded = known(own, "sync_loaded_perc").or_else(stock).map(|percent| (percent / 100.0).min(1.0));
    match (total, loaded) {
        (Some(total), _) if read < total => {
            SyncRow { step: "receiving", bytes: read, total_bytes: Some(total), done: Some(read / total) }
        }
        (_, Some(done)) => SyncRow { step: "loading", bytes: read, total_bytes: total, done: Some(done) },
        _ => SyncRow { step: "receiving", bytes: read, total_bytes: total, done: None },
    }
}

fn replica(stock: &str, own: Option<&str>, end: Option<f64>) -> LinkRow {
    let own = own.unwrap_or_default();
    let state = part(stock, "state").unwrap_or("-");
    let behind = || Some((end? - part_number(stock, "offset")?).max(0.0)).filter(|_| state == "online");
    let silent_s = || part_number(stock, "lag").filter(|lag| *lag >= 0.0 && state == "online");
    let sync = part_number(own, "sync_perc").map(|percent| SyncRow {
        step: "sending",
        bytes: part_number(own, "sync_sent_bytes").unwrap_or(0.0),
        total_bytes: known(own, "sync_total_bytes"),
        done: Some((percent / 100.0).clamp(0.0, 1.0)),
    });
    LinkRow {
        peer: format!("replica {}:{}", part(stock, "ip").unwrap_or("?"), part(stock, "port").unwrap_or("?")),
        state: state.to_owned(),
        lag_bytes: part_number(own, "lag_bytes").or_else(behind),
        lag_ms: part_number(own, "lag_ms").or_else(|| Some(silent_s()? * 1e3)),
        sync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<LinkRow> {
        links(&Info::parse(text))
    }

    #[test]
    fn stock_primary_shows_replica_states_and_lags() {
        let rows = of("role:master\nconnected_slaves:2\nmaster_repl_offset:150\n\
             slave0:ip=1.2.3.4,port=7,state=online,offset=100,lag=2\n\
             slave1:ip=::1,port=8,state=wait_bgsave,offset=0,lag=0,type=replica\n");
        assert_eq!((rows[0].peer.as_str(), rows[0].state.as_str()), ("replica 1.2.3.4:7", "online"));
        assert_eq!((rows[0].lag_bytes, rows[0].lag_ms), (Some(50.0), Some(2000.0)));
        assert_eq!((rows[1].peer.as_str(), rows[1].lag_bytes), ("replica ::1:8", None));
        assert!(rows.iter().all(|row| row.sync.is_none()));
    }

    #[test]
    fn braid_primary_shows_full_sync_progress() {
        let rows = of("role:master\nmaster_repl_offset:150\n\
             slave0:ip=h,port=7,state=send_bulk,offset=100,lag=0,type=replica\n\
             slave1:ip=h,port=8,state=online,offset=140,lag=0,type=replica\n\
             replica0:ip=h,port=7,state=send_bulk,lag_bytes=50,lag_ms=70,sync_sent_bytes=500,\
             sync_total_bytes=-1,sync_perc=25.00\n\
             replica1:ip=h,port=9,state=online,lag_bytes=1,lag_ms=1\n");
        let sync = rows[0].sync.as_ref().expect("a full sync is under way");
        assert_eq!(sync.text(), "sending [|||||               ] 25 %  500 B");
        assert_eq!((rows[0].lag_bytes, rows[0].lag_ms), (Some(50.0), Some(70.0)));
        assert_eq!(rows[1].lag_bytes, Some(10.0), "the extended row describes another replica");
    }

    #[test]
    fn replica_shows_full_sync_progress() {
        let head = "role:slave\nmaster_host:h\nmaster_port:7\nmaster_link_status:down\n\
             master_sync_in_progress:1\nslave_read_repl_offset:9\nslave_repl_offset:4\n";
        let sync = |more: &str| {
            let rows = of(&format!("{head}{more}"));
            assert_eq!((rows[0].peer.as_str(), rows[0].lag_bytes), ("primary h:7", Some(5.0)));
            rows[0].sync.clone().expect("a full sync").text()
        };
        let part = "master_sync_total_bytes:400\nmaster_sync_read_bytes:200\n";
        assert_eq!(sync(part), "receiving [||||||||||          ] 50 %  200 B of 400 B");
        let whole = "master_sync_total_bytes:400\nmaster_sync_read_bytes:400\n";
        let loading = format!("{whole}loading:1\nloading_loaded_perc:75.00\n");
        assert_eq!(sync(&loading), "loading [|||||||||||||||     ] 75 %  400 B of 400 B");
        let own =
            format!("{whole}primary:host=h,port=7,state=sync,unapplied_bytes=5,sync_loaded_perc=10.00\n");
        assert_eq!(sync(&own), "loading [||                  ] 10 %  400 B of 400 B");
        let unknown = "master_sync_total_bytes:0\nmaster_sync_read_bytes:150\n";
        assert_eq!(sync(unknown), "receiving  150 B");
    }

    #[test]
    fn a_server_alone_has_no_links() {
        assert!(of("role:master\nconnected_slaves:0\nslave_priority:100\n").is_empty());
    }
}
