// SPDX-License-Identifier: BSD-3-Clause
//! A sample of a server: its INFO, and the data of the open panel.

use std::time::Instant;

use braid_client::process::{self, Task};
use braid_client::{Connection, Info, Target, Value};

use crate::slots::{SlotFigures, SlotWatch};

/// The data requested in addition to INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    #[default]
    Nothing,
    Clients,
    SlowLog,
    HotKeys,
    /// For cluster nodes.
    HotSlots,
}

/// A server's replies.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Seconds on a clock of which only differences matter: the server's own clock if it reports
    /// one.
    pub at: f64,
    pub info: Info,
    /// The server's threads, if it runs on this machine.
    pub process: Option<Process>,
    pub clients: Vec<ClientLine>,
    pub slow: Vec<SlowEntry>,
    /// `None` if the server does not support it.
    pub hot: Option<Vec<HotKey>>,
    /// `None` if the server does not support it, or was not queried.
    pub slots: Option<Vec<SlotFigures>>,
}

/// The server's process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub id: u32,
    pub tasks: Vec<Task>,
}

/// A line of CLIENT LIST.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientLine {
    fields: Vec<(String, String)>,
}

impl ClientLine {
    /// Parses `name=value name=value`; values contain no blanks.
    pub fn parse(line: &str) -> ClientLine {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        ClientLine { fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// A field's text; empty if the field is missing.
    pub fn get(&self, name: &str) -> &str {
        self.fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).parse().ok()
    }

    /// All fields, in the server's order.
    pub fn fields(&self) -> &[(String, String)] {
        &self.fields
    }
}

/// An entry of the slow log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowEntry {
    pub id: i64,
    /// Unix time in seconds.
    pub at: i64,
    pub micros: i64,
    pub command: String,
    pub client: String,
}

/// A hot key: its cost in microseconds of processor time or in bytes, or its frequency in the
/// server's own measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotKey {
    pub key: String,
    pub weight: f64,
}

/// Number of slow log entries requested.
const SLOW_ENTRIES: &str = "64";
/// Keys examined per sample of hot keys, if the server counts accesses (LFU) but has no HOTKEYS.
const SAMPLED_KEYS: &str = "100";
/// Maximum number of hot keys kept.
const HOT_KEYS_MAX: usize = 64;

/// Takes samples over one connection.
pub struct Sampler {
    target: Target,
    connection: Option<Connection>,
    begun: Instant,
    hot_keys: HotKeyWatch,
    hot_slots: SlotWatch,
}

/// State of the search for hot keys.
struct HotKeyWatch {
    /// The server has no such report. It is not queried again, because it would count that as an
    /// error.
    no_report: bool,
    /// The cursor of the keyspace scan, and the keys found.
    cursor: String,
    sampled: Vec<HotKey>,
}

impl Sampler {
    /// A sampler that connects on its first sample.
    pub fn new(target: Target) -> Sampler {
        let hot_keys = HotKeyWatch { no_report: false, cursor: "0".into(), sampled: Vec::new() };
        Sampler { target, connection: None, begun: Instant::now(), hot_keys, hot_slots: SlotWatch::default() }
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// If the server cannot be reached or does not answer INFO. The next sample reconnects then.
    pub fn sample(&mut self, detail: Detail) -> Result<Sample, String> {
        let result = self.try_sample(detail).map_err(|error| error.to_string());
        if result.is_err() {
            self.connection = None;
        }
        result
    }

    fn try_sample(&mut self, detail: Detail) -> std::io::Result<Sample> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.target)?),
        };
        let info = Info::parse(&connection.expect(&["INFO", "everything"])?.text());
        let at =
            info.number("server_time_usec").map_or(self.begun.elapsed().as_secs_f64(), |micros| micros / 1e6);
        let id = if self.target.is_local() { process::of_server(&info) } else { None };
        let process = id.map(|id| Process { id, tasks: process::tasks(id) });
        let mut sample = Sample { at, info, process, ..Sample::default() };
        match detail {
            Detail::Nothing => {}
            Detail::Clients => sample.clients = clients(&connection.expect(&["CLIENT", "LIST"])?.text()),
            Detail::SlowLog => {
                sample.slow = slow_log(connection.expect(&["SLOWLOG", "GET", SLOW_ENTRIES])?)
            }
            // Other servers would count the query as an error.
            Detail::HotSlots if sample.info.number("cluster_enabled") != Some(1.0) => {}
            Detail::HotSlots => sample.slots = self.hot_slots.sample(connection)?,
            Detail::HotKeys => {
                let counts =
                    sample.info.get("maxmemory_policy").is_some_and(|policy| policy.ends_with("-lfu"));
                sample.hot = self.hot_keys.sample(connection, counts)?;
            }
        }
        Ok(sample)
    }
}

/// The lines of CLIENT LIST.
pub fn clients(text: &str) -> Vec<ClientLine> {
    text.lines().filter(|line| !line.is_empty()).map(ClientLine::parse).collect()
}

/// The entries of SLOWLOG GET; entries of another shape are skipped.
pub fn slow_log(reply: Value) -> Vec<SlowEntry> {
    let entry = |entry: Value| {
        let mut fields = entry.elements().into_iter();
        let mut number = || fields.next()?.integer();
        let (id, at, micros) = (number()?, number()?, number()?);
        let words: Vec<String> = fields.next()?.elements().iter().map(Value::text).collect();
        let client = fields.next().map_or(String::new(), |address| address.text());
        Some(SlowEntry { id, at, micros, command: words.join(" "), client })
    };
    reply.elements().into_iter().filter_map(entry).collect()
}

impl HotKeyWatch {
    /// The server's own report, if it has one; otherwise, if it counts accesses to keys, the most
    /// used keys seen so far.
    fn sample(&mut self, connection: &mut Connection, counts: bool) -> std::io::Result<Option<Vec<HotKey>>> {
        if !self.no_report {
            let report = connection.command(&["HOTKEYS", "GET"])?;
            self.no_report = matches!(report, Value::Error(_));
            if let Some(keys) = hot_key_report(report) {
                return Ok(Some(keys));
            }
        }
        if !counts {
            return Ok(None);
        }
        let reply = connection.expect(&["SCAN", self.cursor.as_str(), "COUNT", SAMPLED_KEYS])?;
        let mut reply = reply.elements().into_iter();
        self.cursor = reply.next().map_or_else(|| "0".into(), |cursor| cursor.text());
        for key in reply.next().map(Value::elements).unwrap_or_default() {
            let Value::Bulk(key) = key else { continue };
            let frequency = connection.command(&[b"OBJECT", b"FREQ".as_slice(), &key])?;
            let Some(weight) = frequency.integer() else { continue };
            let key = key.escape_ascii().to_string();
            self.sampled.retain(|seen| seen.key != key);
            self.sampled.push(HotKey { key, weight: weight as f64 });
        }
        self.sampled.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        self.sampled.truncate(HOT_KEYS_MAX);
        Ok(Some(self.sampled.clone()))
    }
}

/// The hot keys of a reply to HOTKEYS GET, with microseconds, or with bytes if only those were
/// requested. `None` if there is no report.
pub fn hot_key_report(reply: Value) -> Option<Vec<HotKey>> {
    if reply == Value::Null {
        return None;
    }
    let mut fields = reply.elements();
    if matches!(&fields[..], [Value::Map(_) | Value::Array(_)]) {
        // One node's report, in a reply that may contain several.
        fields = fields.remove(0).elements();
    }
    let mut lists = ["by-cpu-time-us", "by-net-bytes"].into_iter().filter_map(|name| {
        let at = fields.chunks(2).position(|pair| pair[0].text() == name)?;
        fields.get(2 * at + 1).cloned()
    });
    let pair = |pair: &[Value]| {
        let [Value::Bulk(key), weight] = pair else { return None };
        Some(HotKey { key: key.escape_ascii().to_string(), weight: weight.text().parse().ok()? })
    };
    Some(lists.next()?.elements().chunks(2).filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn client_lines_are_read() {
        let lines = clients("id=3 addr=1.2.3.4:5 name= cmd=client|list io-thread=1\n\nid=4 addr=x\n");
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (lines[0].get("cmd"), lines[0].get("name"), lines[0].number("io-thread")),
            ("client|list", "", Some(1.0))
        );
        assert_eq!(lines[1].number("io-thread"), None);
    }

    #[test]
    fn slow_log_entries_are_read_and_odd_ones_passed_over() {
        let entry = |words: &[&str]| {
            Value::Array(vec![
                Value::Integer(7),
                Value::Integer(1_700_000_000),
                Value::Integer(12_000),
                Value::Array(words.iter().map(|word| bulk(word)).collect()),
                bulk("1.2.3.4:5"),
                bulk(""),
            ])
        };
        let entries = slow_log(Value::Array(vec![entry(&["KEYS", "*"]), Value::Null]));
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].command.as_str(), entries[0].micros, entries[0].client.as_str()),
            ("KEYS *", 12_000, "1.2.3.4:5")
        );
        assert!(slow_log(Value::Null).is_empty());
    }

    #[test]
    fn hot_key_reports_are_read_in_every_shape() {
        let hot =
            Some(vec![HotKey { key: "a".into(), weight: 30.0 }, HotKey { key: "b".into(), weight: 15.0 }]);
        let list = || Value::Array(vec![bulk("a"), Value::Integer(30), bulk("b"), Value::Integer(15)]);
        let flat = || vec![bulk("tracking-active"), Value::Integer(1), bulk("by-cpu-time-us"), list()];
        assert_eq!(hot_key_report(Value::Array(flat())), hot);
        let both = [flat(), vec![bulk("by-net-bytes"), Value::Array(vec![])]].concat();
        assert_eq!(hot_key_report(Value::Array(both)), hot, "processor time takes precedence");
        let map = vec![(bulk("sample-ratio"), Value::Integer(5)), (bulk("by-net-bytes"), list())];
        assert_eq!(hot_key_report(Value::Map(map.clone())), hot);
        assert_eq!(hot_key_report(Value::Array(vec![Value::Map(map)])), hot);
        assert_eq!(hot_key_report(Value::Null), None);
    }
}
