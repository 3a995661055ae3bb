// SPDX-License-Identifier: BSD-3-Clause
//! One view for scripts: text or JSON.

use braid_client::Json;

use crate::panels;
use crate::sample::Sample;
use crate::screen::summary;
use crate::view::{CommandRow, ThreadRow, View};

/// Rows of a table that are printed.
const ROWS_MAX: usize = 20;

/// As text.
pub fn text(view: &View, look: &Sample, address: &str, with_clients: bool) -> String {
    let mut out = summary(view, address).join("\n") + "\n\n" + &panels::threads(view).text(usize::MAX);
    let commands = panels::commands(view);
    if !commands.rows.is_empty() {
        out += &format!("\n{}", commands.text(ROWS_MAX));
    }
    out += &format!("\n{}", panels::memory(view).text(usize::MAX));
    if !look.slow.is_empty() {
        out += &format!("\n{}", panels::slow_log(&look.slow, panels::unix_seconds(look)).text(ROWS_MAX));
    }
    if with_clients {
        out += &format!("\n{}", panels::clients(&look.clients, None).text(usize::MAX));
    }
    out
}

/// As JSON. Rates are per second, shares parts of one core, sizes bytes; null is what the server
/// does not tell.
pub fn json(view: &View, look: &Sample, address: &str, with_clients: bool) -> Json {
    let totals = &view.totals;
    let memory = &view.memory;
    let mut json = Json::object([
        ("server", Json::from(view.server.as_str())),
        ("address", address.into()),
        ("role", view.role.as_str().into()),
        ("threading_model", view.model.clone().into()),
        ("uptime_seconds", view.uptime_seconds.into()),
        ("seconds", view.seconds.into()),
        (
            "totals",
            Json::object([
                ("clients", Json::from(totals.clients)),
                ("blocked_clients", totals.blocked_clients.into()),
                ("clients_max", totals.clients_max.into()),
                ("connections_per_second", totals.connections_rate.into()),
                ("commands_per_second", totals.commands_rate.into()),
                ("errors_per_second", totals.errors_rate.into()),
                ("input_bytes_per_second", totals.input_rate.into()),
                ("output_bytes_per_second", totals.output_rate.into()),
                ("hits_per_second", totals.hits_rate.into()),
                ("misses_per_second", totals.misses_rate.into()),
                ("expired_per_second", totals.expired_rate.into()),
                ("evicted_per_second", totals.evicted_rate.into()),
                ("user_cores", totals.user.into()),
                ("system_cores", totals.system.into()),
                ("lock_waits_per_second", totals.lock_waits_rate.into()),
                ("retries_per_second", totals.retries_rate.into()),
            ]),
        ),
        (
            "memory",
            Json::object([
                ("used", Json::from(memory.used)),
                ("resident", memory.resident.into()),
                ("peak", memory.peak.into()),
                ("max", memory.max.into()),
                ("policy", memory.policy.as_str().into()),
                ("fragmentation", memory.fragmentation.into()),
            ]),
        ),
        ("threads", Json::Array(view.threads.iter().map(thread).collect())),
        ("commands", Json::Array(view.commands.iter().map(command).collect())),
    ]);
    let databases = view.databases.iter().map(|database| {
        let counts = [("keys", Json::from(database.keys)), ("expires", database.expires.into())];
        (database.name.clone(), Json::object(counts))
    });
    json.push("databases", Json::Object(databases.collect()));
    let slow = look.slow.iter().map(|entry| {
        Json::object([
            ("id", Json::Integer(entry.id)),
            ("unix_seconds", Json::Integer(entry.at)),
            ("microseconds", Json::Integer(entry.micros)),
            ("command", entry.command.as_str().into()),
            ("client", entry.client.as_str().into()),
        ])
    });
    json.push("slow_log", Json::Array(slow.collect()));
    if with_clients {
        let clients = look.clients.iter().map(|client| {
            let fields =
                client.fields().iter().map(|(name, value)| (name.clone(), Json::from(value.as_str())));
            Json::Object(fields.collect())
        });
        json.push("clients", Json::Array(clients.collect()));
    }
    json
}

fn thread(row: &ThreadRow) -> Json {
    Json::object([
        ("number", Json::from(row.number.map(u64::from))),
        ("name", row.name.as_str().into()),
        ("useful", row.useful.into()),
        ("user", row.user.into()),
        ("system", row.system.into()),
        ("clients", row.clients.into()),
        ("commands_per_second", row.commands_rate.into()),
        ("reads_per_second", row.reads_rate.into()),
        ("writes_per_second", row.writes_rate.into()),
        ("input_bytes_per_second", row.input_rate.into()),
        ("output_bytes_per_second", row.output_rate.into()),
        ("lock_waits_per_second", row.lock_waits_rate.into()),
        ("retries_per_second", row.retries_rate.into()),
    ])
}

fn command(row: &CommandRow) -> Json {
    let percentiles = row.percentiles.iter().map(|(name, value)| (name.clone(), Json::from(*value)));
    Json::object([
        ("name", Json::from(row.name.as_str())),
        ("calls_per_second", row.rate.into()),
        ("cores", row.share.into()),
        ("us_per_call", row.micros_per_call.into()),
        ("failed_per_second", row.failed_rate.into()),
        ("rejected_per_second", row.rejected_rate.into()),
        ("percentiles_us", Json::Object(percentiles.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn text_and_json_have_every_part() {
        let (before, after) = recorded::pair("braid");
        let view = View::between(&before, &after);
        let text = text(&view, &after, "localhost:6379", true);
        for part in ["braid 0.1.0", "io 1", "commands/s", "hset", "dataset", "db0", "address"] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        let json = json(&view, &after, "localhost:6379", true).to_string();
        for part in ["\"commands_per_second\"", "\"threads\": [", "\"db0\"", "\"clients\": [", "\"p99\""] {
            assert!(json.contains(part), "{part} is missing:\n{json}");
        }
        assert!(!json.contains("NaN") && !json.contains("inf,"));
    }
}
