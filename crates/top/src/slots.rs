// SPDX-License-Identifier: BSD-3-Clause
//! The cost of the slots of a cluster node: CLUSTER SLOT-STATS of Braid, Valkey 8 and later and
//! Redis 8, and the difference between two of its replies.

use braid_client::{Connection, Value};

/// Number of slots requested.
const SLOTS_MAX: &str = "64";

/// A slot's values as reported by the server: counters since it began to count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotFigures {
    pub slot: i64,
    pub keys: Option<f64>,
    pub cpu_micros: Option<f64>,
    pub bytes_in: Option<f64>,
    pub bytes_out: Option<f64>,
    pub memory: Option<f64>,
}

/// A slot as displayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotRow {
    pub slot: i64,
    /// Share of a core since the earlier sample.
    pub share: Option<f64>,
    /// Seconds of processor time since the server began to count.
    pub cpu_seconds: Option<f64>,
    pub input_rate: Option<f64>,
    pub output_rate: Option<f64>,
    pub keys: Option<f64>,
    pub memory: Option<f64>,
}

/// Requests the hottest slots.
#[derive(Default)]
pub struct SlotWatch {
    /// The server refused to order by processor time, because it does not count it. The report by
    /// number of keys shows when it does.
    counts_keys_alone: bool,
}

impl SlotWatch {
    /// Requests the slots. `None` if the server has no such report.
    ///
    /// # Errors
    /// If the connection fails. A server without the report is no error.
    pub fn sample(&mut self, connection: &mut Connection) -> std::io::Result<Option<Vec<SlotFigures>>> {
        let mut ask = |metric: &str| {
            let words = ["CLUSTER", "SLOT-STATS", "ORDERBY", metric, "LIMIT", SLOTS_MAX];
            connection.command(&words).map(figures)
        };
        if !self.counts_keys_alone {
            if let Some(slots) = ask("CPU-USEC")? {
                return Ok(Some(slots));
            }
            self.counts_keys_alone = true;
        }
        let slots = ask("KEY-COUNT")?;
        let is_counted = slots.iter().flatten().any(|slot| slot.cpu_micros.is_some());
        self.counts_keys_alone = !is_counted;
        Ok(slots)
    }
}

/// The slots of a reply that have a key or a cost. `None` if the reply is an error.
pub fn figures(reply: Value) -> Option<Vec<SlotFigures>> {
    if matches!(reply, Value::Error(_)) {
        return None;
    }
    let one = |entry: Value| {
        let mut parts = entry.elements().into_iter();
        let slot = parts.next()?.integer()?;
        let told = parts.next()?.elements();
        let figure = |name: &str| {
            let pair = told.chunks_exact(2).find(|pair| pair[0].text() == name)?;
            pair[1].text().parse::<f64>().ok()
        };
        Some(SlotFigures {
            slot,
            keys: figure("key-count"),
            cpu_micros: figure("cpu-usec"),
            bytes_in: figure("network-bytes-in"),
            bytes_out: figure("network-bytes-out"),
            memory: figure("memory-bytes"),
        })
    };
    let is_used = |slot: &SlotFigures| slot.keys > Some(0.0) || slot.cpu_micros > Some(0.0);
    Some(reply.elements().into_iter().filter_map(one).filter(is_used).collect())
}

/// The cost of slots between two samples, in the order of the later one.
pub fn between(before: &[SlotFigures], after: &[SlotFigures], seconds: f64) -> Vec<SlotRow> {
    let row = |now: &SlotFigures| {
        let earlier = before.iter().find(|earlier| earlier.slot == now.slot);
        // CONFIG RESETSTAT restarts the counters from zero.
        let rate = |of: fn(&SlotFigures) -> Option<f64>| {
            let (was, is) = (of(earlier?)?, of(now)?);
            Some((if is < was { is } else { is - was }) / seconds)
        };
        SlotRow {
            slot: now.slot,
            share: rate(|slot| slot.cpu_micros).map(|micros| micros / 1e6),
            cpu_seconds: now.cpu_micros.map(|micros| micros / 1e6),
            input_rate: rate(|slot| slot.bytes_in),
            output_rate: rate(|slot| slot.bytes_out),
            keys: now.keys,
            memory: now.memory,
        }
    };
    after.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn entry(slot: i64, figures: &[(&str, i64)]) -> Value {
        let pairs = figures.iter().flat_map(|(name, figure)| [bulk(name), Value::Integer(*figure)]);
        Value::Array(vec![Value::Integer(slot), Value::Array(pairs.collect())])
    }

    #[test]
    fn replies_are_read_in_every_shape() {
        let all = [("key-count", 2), ("cpu-usec", 30), ("network-bytes-in", 4), ("network-bytes-out", 5)];
        let map = all.iter().map(|(name, figure)| (bulk(name), Value::Integer(*figure))).collect();
        let as_map = Value::Array(vec![Value::Integer(7), Value::Map(map)]);
        let reply = Value::Array(vec![entry(7, &all), as_map, entry(8, &[("key-count", 0)]), Value::Null]);
        let slots = figures(reply).expect("a report");
        assert_eq!(slots.len(), 2, "a slot without keys is left out: {slots:?}");
        assert_eq!(slots[0], slots[1]);
        let SlotFigures { slot, keys, cpu_micros, bytes_in, bytes_out, memory } = slots[0].clone();
        assert_eq!((slot, keys, cpu_micros), (7, Some(2.0), Some(30.0)));
        assert_eq!((bytes_in, bytes_out, memory), (Some(4.0), Some(5.0), None));
        assert_eq!(figures(Value::Error("ERR Unrecognized sort metric for ORDERBY.".into())), None);
    }

    #[test]
    fn rates_cover_the_interval_since_the_previous_sample() {
        let at = |slot, micros| SlotFigures { slot, cpu_micros: Some(micros), ..SlotFigures::default() };
        let rows = between(&[at(1, 5e5), at(2, 9e6)], &[at(1, 1.5e6), at(2, 1e6), at(3, 1.0)], 2.0);
        let shares: Vec<_> = rows.iter().map(|row| row.share).collect();
        assert_eq!(shares, [Some(0.5), Some(0.5), None], "slot 2's counter restarted; slot 3 is new");
        assert_eq!((rows[0].cpu_seconds, rows[0].keys), (Some(1.5), None));
    }
}
