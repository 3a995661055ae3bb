// SPDX-License-Identifier: BSD-3-Clause
//! Prints one view for scripts, as text or JSON.

use serde_json::{Map, Value as Json, json};

use crate::active::{ActiveView, PeerRow};
use crate::group::{GroupView, MemberRow};
use crate::links::LinkRow;
use crate::panels;
use crate::sample::Sample;
use crate::screen::summary;
use crate::slots::SlotRow;
use crate::view::{CommandRow, ThreadRow, View};

/// Maximum number of rows printed per table.
const ROWS_MAX: usize = 20;

/// The view as text.
pub fn text(view: &View, look: &Sample, address: &str, with_clients: bool) -> String {
    let mut out = summary(view, address).join("\n") + "\n\n" + &panels::threads(view).text(usize::MAX);
    let commands = panels::commands(view);
    if !commands.rows.is_empty() {
        out += &format!("\n{}", commands.text(ROWS_MAX));
    }
    out += &format!("\n{}", panels::memory(view).text(usize::MAX));
    if !view.links.is_empty() {
        out += &format!("\n{}", panels::links(view).text(usize::MAX));
    }
    if let Some(group) = &view.group {
        out += &format!("\n{}\n{}", group.heading(), panels::members(view).text(usize::MAX));
    }
    if let Some(active) = &view.active {
        out += &format!("\n{}\n{}", active.heading(), panels::peers(view).text(usize::MAX));
    }
    if !view.slots.is_empty() {
        out += &format!("\n{}", panels::hot_slots(view).text(ROWS_MAX));
    }
    if !look.slow.is_empty() {
        out += &format!("\n{}", panels::slow_log(&look.slow, panels::unix_seconds(look)).text(ROWS_MAX));
    }
    if with_clients {
        out += &format!("\n{}", panels::clients(&look.clients, None).text(usize::MAX));
    }
    out
}

/// The view as JSON. Rates are per second, shares are fractions of one core, sizes are in bytes;
/// values that the server does not report are null.
pub fn json(view: &View, look: &Sample, address: &str, with_clients: bool) -> Json {
    let totals = &view.totals;
    let memory = &view.memory;
    let mut json = json!({
        "server": view.server.as_str(),
        "address": address,
        "role": view.role.as_str(),
        "threading_model": view.model.clone(),
        "uptime_seconds": whole(view.uptime_seconds),
        "seconds": view.seconds,
        "totals": {
            "clients": whole(totals.clients),
            "blocked_clients": whole(totals.blocked_clients),
            "clients_max": totals.clients_max.map(whole),
            "connections_per_second": totals.connections_rate,
            "commands_per_second": totals.commands_rate,
            "errors_per_second": totals.errors_rate,
            "input_bytes_per_second": totals.input_rate,
            "output_bytes_per_second": totals.output_rate,
            "hits_per_second": totals.hits_rate,
            "misses_per_second": totals.misses_rate,
            "expired_per_second": totals.expired_rate,
            "evicted_per_second": totals.evicted_rate,
            "user_cores": totals.user,
            "system_cores": totals.system,
            "lock_waits_per_second": totals.lock_waits_rate,
            "retries_per_second": totals.retries_rate,
            "indexes_building": totals.indexes_building.map(|(count, _)| whole(count)),
            "indexes_built": totals.indexes_building.map(|(_, done)| done),
        },
        "memory": {
            "used": whole(memory.used),
            "resident": whole(memory.resident),
            "peak": whole(memory.peak),
            "max": whole(memory.max),
            "policy": memory.policy.as_str(),
            "fragmentation": memory.fragmentation,
        },
        "threads": view.threads.iter().map(thread).collect::<Vec<_>>(),
        "commands": view.commands.iter().map(command).collect::<Vec<_>>(),
        "links": view.links.iter().map(link).collect::<Vec<_>>(),
        "group": view.group.as_ref().map(group),
        "active": view.active.as_ref().map(active),
        "slots": look.slots.as_ref().map(|_| view.slots.iter().map(slot).collect::<Vec<_>>()),
    });
    let databases = view.databases.iter().map(|database| {
        let counts = json!({ "keys": whole(database.keys), "expires": whole(database.expires) });
        (database.name.clone(), counts)
    });
    json["databases"] = Json::Object(databases.collect());
    let slow = look.slow.iter().map(|entry| {
        json!({
            "id": entry.id,
            "unix_seconds": entry.at,
            "microseconds": entry.micros,
            "command": entry.command.as_str(),
            "client": entry.client.as_str(),
        })
    });
    json["slow_log"] = slow.collect();
    if with_clients {
        let clients = look.clients.iter().map(|client| {
            let fields =
                client.fields().iter().map(|(name, value)| (name.clone(), Json::from(value.as_str())));
            Json::Object(fields.collect())
        });
        json["clients"] = clients.collect();
    }
    json
}

/// A count or a size, which a view stores as a floating-point number, as it does rates.
fn whole(number: f64) -> Json {
    if number.is_finite() { Json::from(number as i64) } else { Json::Null }
}

fn thread(row: &ThreadRow) -> Json {
    json!({
        "number": row.number.map(u64::from),
        "name": row.name.as_str(),
        "useful": row.useful,
        "user": row.user,
        "system": row.system,
        "clients": row.clients.map(whole),
        "commands_per_second": row.commands_rate,
        "reads_per_second": row.reads_rate,
        "writes_per_second": row.writes_rate,
        "input_bytes_per_second": row.input_rate,
        "output_bytes_per_second": row.output_rate,
        "lock_waits_per_second": row.lock_waits_rate,
        "retries_per_second": row.retries_rate,
    })
}

fn command(row: &CommandRow) -> Json {
    let percentiles = row.percentiles.iter().map(|(name, value)| (name.clone(), Json::from(*value)));
    json!({
        "name": row.name.as_str(),
        "calls_per_second": row.rate,
        "cores": row.share,
        "us_per_call": row.micros_per_call,
        "failed_per_second": row.failed_rate,
        "rejected_per_second": row.rejected_rate,
        "percentiles_us": percentiles.collect::<Map<_, _>>(),
    })
}

fn link(row: &LinkRow) -> Json {
    json!({
        "peer": row.peer.as_str(),
        "state": row.state.as_str(),
        "lag_bytes": row.lag_bytes.map(whole),
        "lag_ms": row.lag_ms.map(whole),
        "full_sync": row.sync.as_ref().map(|sync| json!({
            "step": sync.step,
            "bytes": whole(sync.bytes),
            "total_bytes": sync.total_bytes.map(whole),
            "done": sync.done,
        })),
    })
}

fn group(group: &GroupView) -> Json {
    let member = |member: &MemberRow| {
        json!({
            "name": member.name.as_str(),
            "address": member.address.as_str(),
            "role": member.role.as_str(),
            "is_up": member.is_up,
            "is_in_sync": member.is_in_sync,
            "link": member.link.as_deref(),
            "offset": member.offset.map(whole),
            "lag_bytes": member.lag_bytes.map(whole),
            "lag_ms": member.lag_ms.map(whole),
        })
    };
    json!({
        "name": group.name.as_str(),
        "node": group.node.as_str(),
        "epoch": whole(group.epoch),
        "primary": group.primary.as_str(),
        "is_serving": group.is_serving,
        "not_serving": group.not_serving.as_str(),
        "lease_ms": whole(group.lease_ms),
        "etcd_error": group.etcd_error.as_str(),
        "nodes_elsewhere": group.nodes_elsewhere.map(whole),
        "members": group.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn active(active: &ActiveView) -> Json {
    let peer = |peer: &PeerRow| {
        json!({
            "address": peer.address.as_str(),
            "is_up": peer.is_up,
            "region": peer.region.map(whole),
            "lag_ms": peer.lag_ms.map(whole),
            "units": whole(peer.units),
            "bytes": whole(peer.bytes),
        })
    };
    json!({
        "region": whole(active.region),
        "own_units": whole(active.own),
        "merged_units": whole(active.merged),
        "sent_units": whole(active.sent),
        "sent_bytes": whole(active.sent_bytes),
        "type_conflicts": whole(active.type_conflicts),
        "tombstone_keys": whole(active.tombstones),
        "backlog_bytes": whole(active.backlog_bytes),
        "trouble": active.last_error.as_str(),
        "peers": active.peers.iter().map(peer).collect::<Vec<_>>(),
    })
}

fn slot(row: &SlotRow) -> Json {
    json!({
        "slot": row.slot,
        "cores": row.share,
        "cpu_seconds": row.cpu_seconds,
        "input_bytes_per_second": row.input_rate,
        "output_bytes_per_second": row.output_rate,
        "keys": row.keys.map(whole),
        "memory": row.memory.map(whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;
    use crate::slots::SlotFigures;

    #[test]
    fn text_and_json_have_every_part() {
        let (before, after) = recorded::pair("braid");
        let view = View::between(&before, &after);
        let text = text(&view, &after, "localhost:6379", true);
        for part in ["braid 0.1.0", "io 1", "commands/s", "hset", "dataset", "db0", "address"] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        let json = json(&view, &after, "localhost:6379", true);
        assert!(json["totals"]["commands_per_second"].as_f64() > Some(0.0), "{json}");
        assert_eq!(json["threads"].as_array().map(Vec::len), Some(2), "{json}");
        assert!(json["clients"].as_array().is_some_and(|clients| clients.len() > 2), "{json}");
        assert!(json["commands"][0]["percentiles_us"]["p99"].is_f64(), "{json}");
        // Counts have no fraction: some readers reject 17.0 as an integer.
        for count in [&json["totals"]["clients"], &json["memory"]["used"], &json["databases"]["db0"]["keys"]]
        {
            assert!(count.is_u64(), "{json}");
        }
        assert!(json["threads"][0]["user"].is_f64(), "{json}");
        let names: Vec<_> = json.as_object().into_iter().flat_map(Map::keys).take(3).collect();
        assert_eq!(names, ["server", "address", "role"]);
        assert!(json["group"].is_null(), "{json}");
    }

    #[test]
    fn text_and_json_have_the_group() {
        let (before, mut after) = recorded::pair("braid");
        let info = format!("{}\n{}", recorded::text("braid"), crate::group::tests::PRIMARY);
        after.info = braid_client::Info::parse(&info);
        let view = View::between(&before, &after);
        let text = text(&view, &after, "localhost:6379", false);
        assert!(text.contains("\n   |===== db1\n") && text.contains("[::1]:6380"), "{text}");
        let group = json(&view, &after, "localhost:6379", false)["group"].clone();
        assert_eq!((group["epoch"].as_u64(), group["primary"].as_str()), (Some(7), Some("db2")), "{group}");
        let member = |index: usize| &group["members"][index];
        assert_eq!(
            (&member(2)["lag_bytes"], &member(1)["lag_bytes"]),
            (&1536.into(), &Json::Null),
            "{group}"
        );
        assert_eq!((&member(3)["is_up"], &member(3)["is_in_sync"]), (&false.into(), &true.into()), "{group}");
    }

    #[test]
    fn text_and_json_have_the_slots() {
        let (mut before, mut after) = recorded::pair("braid");
        let (none, of) = (before.clone(), |before: &Sample, after: &Sample| View::between(before, after));
        assert!(json(&of(&none, &after), &after, "a", false)["slots"].is_null());
        let counted = |cpu: f64, keys: f64| {
            let slot =
                SlotFigures { slot: 866, keys: Some(keys), cpu_micros: Some(cpu), ..SlotFigures::default() };
            Some(vec![slot])
        };
        (before.slots, after.slots) = (counted(0.0, 2.0), counted(1e6, 3.0));
        let view = of(&before, &after);
        let shown = text(&view, &after, "a", false);
        assert!(shown.lines().any(|line| line.trim_start().starts_with("866 ")), "{shown}");
        let slots = json(&view, &after, "a", false)["slots"].clone();
        assert_eq!((slots[0]["slot"].as_i64(), slots[0]["keys"].as_i64()), (Some(866), Some(3)), "{slots}");
        let cores = slots[0]["cores"].as_f64().expect("counted");
        assert!((cores * view.seconds - 1.0).abs() < 1e-6 && slots[0]["memory"].is_null(), "{slots}");
        after.slots = Some(Vec::new());
        assert_eq!(json(&of(&before, &after), &after, "a", false)["slots"], json!([]), "no slot has keys");
    }

    #[test]
    fn text_and_json_have_active_peers() {
        let (before, mut after) = recorded::pair("braid");
        let info = format!("{}\n{}", recorded::text("braid"), crate::active::tests::TWO_PEERS);
        after.info = braid_client::Info::parse(&info);
        let view = View::between(&before, &after);
        let text = text(&view, &after, "localhost:6379", false);
        assert!(text.contains("region 1, 1 of 2 peers up") && text.contains("10.0.0.3:6380"), "{text}");
        let active = json(&view, &after, "localhost:6379", false)["active"].clone();
        assert_eq!(
            (active["type_conflicts"].as_u64(), active["peers"][0]["lag_ms"].as_u64()),
            (Some(2), Some(3))
        );
        assert!(active["peers"][1]["region"].is_null(), "{active}");
    }
}
