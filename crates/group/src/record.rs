// SPDX-License-Identifier: BSD-3-Clause
//! A group's records in etcd: keys, JSON values, and the transactions that change them.
//!
//! | key under `/braid/<group>/` | value | lives |
//! | --- | --- | --- |
//! | `shard/0` | [`Shard`]: epoch, primary, in-sync set | forever |
//! | `primary/0` | [`Holder`]: the primary that holds its lease | as long as the primary's lease |
//! | `node/<name>` | [`Node`]: a server's run and addresses | as long as that server's lease |
//! | `offer/0/<name>` | [`Offer`]: a candidate's offset | as long as that server's lease |
//!
//! Unknown fields are ignored, not refused: newer servers may write them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of the key for a cluster's epoch.
pub(crate) const EPOCH: &str = "epoch";

use serde_json::{Value, json};

/// One process of a server. A restarted process has lost its memory, so it is another member,
/// unless everything its former process acknowledged was on disk ([`Shard::is_on_disk`]), or that
/// process saved everything when it ended ([`crate::CleanShutdown`]).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId {
    /// The server's name in the group (`node-name`).
    pub node: Arc<str>,
    /// Its run, 40 hex digits.
    pub run: Arc<str>,
}

/// Text that is not a member name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a member must be node/run, each of 1 to 64 letters, digits, '-', '_' or '.'")]
pub struct BadMemberId;

impl MemberId {
    /// A member with names known to be valid ([`is_name`]).
    pub fn new(node: &str, run: &str) -> MemberId {
        MemberId { node: node.into(), run: run.into() }
    }

    /// A member with names from outside.
    ///
    /// # Errors
    /// If either is not a valid name ([`is_name`]).
    pub fn checked(node: &str, run: &str) -> Result<MemberId, BadMemberId> {
        if is_name(node) && is_name(run) { Ok(MemberId::new(node, run)) } else { Err(BadMemberId) }
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.run)
    }
}

impl FromStr for MemberId {
    type Err = BadMemberId;

    /// Parses `node/run`.
    fn from_str(text: &str) -> Result<MemberId, BadMemberId> {
        let (node, run) = text.split_once('/').ok_or(BadMemberId)?;
        MemberId::checked(node, run)
    }
}

/// True if the text can be part of a key: 1 to 64 letters, digits, `-`, `_` and `.`.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A record that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot parse {what}: {text}")]
pub struct RecordError {
    what: &'static str,
    text: String,
}

impl RecordError {
    pub(crate) fn new(what: &'static str, text: &str) -> RecordError {
        RecordError { what, text: text.chars().take(200).collect() }
    }
}

/// Parses a record from JSON. `read` returns `None` if a field is missing or invalid.
pub(crate) fn read_json<T>(
    text: &str,
    what: &'static str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, RecordError> {
    let value = serde_json::from_str(text).ok();
    value.and_then(|value| read(&value)).ok_or_else(|| RecordError::new(what, text))
}

/// The authoritative record of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Grows with each change of the primary.
    pub epoch: u64,
    pub primary: MemberId,
    /// Members that have everything acknowledged, including the primary. Only they are promoted.
    pub in_sync: BTreeSet<MemberId>,
    /// The lease time in nanoseconds: the upper bound of a primary's rights. Servers may have a
    /// different one in their settings.
    pub lease: u64,
    /// The previous primary has stopped serving and handed over to this one.
    pub is_handed_over: bool,
    /// Everything acknowledged is on disk at every member of the set: a process that starts with
    /// such a member's files is the same member.
    pub is_on_disk: bool,
    /// Where the present primary's own history starts.
    pub base: Option<Base>,
}

/// A point in a replication history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    /// Replication ID.
    pub history: Arc<str>,
    /// Offset in its stream, in bytes.
    pub offset: u64,
}

impl Shard {
    pub fn to_json(&self) -> String {
        let mut value = json!({
            "epoch": self.epoch,
            "primary": self.primary.to_string(),
            "in-sync": self.in_sync.iter().map(MemberId::to_string).collect::<Vec<_>>(),
            "lease-ns": self.lease,
        });
        if self.is_handed_over {
            value["handed-over"] = json!(true);
        }
        if self.is_on_disk {
            value["on-disk"] = json!(true);
        }
        if let Some(base) = &self.base {
            value["history"] = json!(*base.history);
            value["offset"] = json!(base.offset);
        }
        value.to_string()
    }

    /// # Errors
    /// If the text is not JSON, a field is missing or out of range, or the primary is not in sync.
    pub fn from_json(text: &str) -> Result<Shard, RecordError> {
        read_json(text, "the record of the shard", |value| {
            let member = |value: &Value| value.as_str()?.parse::<MemberId>().ok();
            let in_sync = value["in-sync"].as_array()?.iter().map(member).collect::<Option<_>>()?;
            let base = value["history"].as_str().zip(value["offset"].as_u64());
            let shard = Shard {
                epoch: value["epoch"].as_u64().filter(|&epoch| epoch > 0)?,
                primary: member(&value["primary"])?,
                in_sync,
                lease: value["lease-ns"].as_u64().filter(|&lease| lease > 0)?,
                is_handed_over: value["handed-over"].as_bool().unwrap_or(false),
                is_on_disk: value["on-disk"].as_bool().unwrap_or(false),
                base: base.map(|(history, offset)| Base { history: history.into(), offset }),
            };
            shard.in_sync.contains(&shard.primary).then_some(shard)
        })
    }
}

/// Shows that a primary's lease is alive: the key is bound to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub epoch: u64,
    pub member: MemberId,
    /// The lease the key is bound to, as reported by etcd.
    pub lease: i64,
}

impl Holder {
    pub fn to_json(&self) -> String {
        json!({ "epoch": self.epoch, "member": self.member.to_string() }).to_string()
    }

    /// # Errors
    /// If the text is not JSON, or a field is missing or out of range.
    pub fn from_json(text: &str, lease: i64) -> Result<Holder, RecordError> {
        read_json(text, "the record of the primary's lease", |value| {
            let member = value["member"].as_str()?.parse().ok()?;
            Some(Holder { epoch: value["epoch"].as_u64()?, member, lease })
        })
    }
}

/// A server's addresses and properties.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    pub run: Arc<str>,
    pub host: Box<str>,
    /// Port of plain connections; 0: none.
    pub port: u16,
    /// Port of TLS connections; 0: none.
    pub tls_port: u16,
    /// The bus port announced to clients of a cluster; 0: none.
    pub bus_port: u16,
    /// `replica-priority`: lower is preferred; 0 never takes over by itself.
    pub priority: u32,
    pub version: Box<str>,
    /// Its cluster node ID; empty in a group alone.
    pub id: Box<str>,
    /// The host name announced to clients of a cluster; empty: none.
    pub hostname: Box<str>,
    /// A replica without a complete dataset: it is receiving a full sync.
    pub is_loading: bool,
}

impl Node {
    pub fn to_json(&self) -> String {
        let mut value = json!({
            "run": *self.run, "host": self.host, "port": self.port, "tls-port": self.tls_port,
            "priority": self.priority, "version": self.version,
        });
        if !self.id.is_empty() {
            value["id"] = json!(self.id);
            value["hostname"] = json!(self.hostname);
            value["bus-port"] = json!(self.bus_port);
        }
        if self.is_loading {
            value["loading"] = json!(true);
        }
        value.to_string()
    }

    /// # Errors
    /// If the text is not JSON, or a field is missing or out of range.
    pub fn from_json(text: &str) -> Result<Node, RecordError> {
        read_json(text, "the record of a server", |value| {
            let port = |name: &str| u16::try_from(value[name].as_u64().unwrap_or(0)).ok();
            Some(Node {
                run: value["run"].as_str().filter(|run| is_name(run))?.into(),
                host: value["host"].as_str()?.into(),
                port: port("port")?,
                tls_port: port("tls-port")?,
                bus_port: port("bus-port")?,
                priority: u32::try_from(value["priority"].as_u64().unwrap_or(100)).ok()?,
                version: value["version"].as_str().unwrap_or("").into(),
                id: value["id"].as_str().unwrap_or("").into(),
                hostname: value["hostname"].as_str().unwrap_or("").into(),
                is_loading: value["loading"].as_bool().unwrap_or(false),
            })
        })
    }
}

/// A candidate's offer to take the primary's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    pub run: Arc<str>,
    /// The epoch it followed.
    pub epoch: u64,
    /// Its offset in the history, in bytes.
    pub offset: u64,
    pub priority: u32,
}

impl Offer {
    pub fn to_json(&self) -> String {
        json!({ "run": *self.run, "epoch": self.epoch, "offset": self.offset, "priority": self.priority })
            .to_string()
    }

    /// # Errors
    /// If the text is not JSON, or a field is missing or out of range.
    pub fn from_json(text: &str) -> Result<Offer, RecordError> {
        read_json(text, "an offer", |value| {
            Some(Offer {
                run: value["run"].as_str()?.into(),
                epoch: value["epoch"].as_u64()?,
                offset: value["offset"].as_u64()?,
                priority: u32::try_from(value["priority"].as_u64()?).ok()?,
            })
        })
    }
}

/// A value and the revision of its last change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned<T> {
    pub value: T,
    pub revision: u64,
}

/// A group's records at one revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    pub revision: u64,
    pub shard: Option<Versioned<Shard>>,
    pub holder: Option<Holder>,
    pub nodes: BTreeMap<Arc<str>, Node>,
    pub offers: BTreeMap<Arc<str>, Offer>,
}

/// A change to the records. It is committed only if the shard's record is unchanged, and has no
/// effect otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The state of the shard's record to compare. Only the simulator has transactions that do not
    /// compare.
    pub expected: Expected,
    /// The primary's lease must have no holder.
    pub needs_no_holder: bool,
    pub shard: Option<Shard>,
    pub holder: HolderChange,
}

/// The expected state of the shard's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    Absent,
    Revision(u64),
    /// Any state: only in the simulator.
    Anything,
}

/// The change to the record of the primary's lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HolderChange {
    Keep,
    /// Write it, bound to the sender's lease.
    Take(Holder),
    /// Delete it.
    Release,
}

/// A key of etcd with its value, revision and lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The revision of its last change.
    pub revision: u64,
    /// The lease it is bound to; 0: none.
    pub lease: i64,
}

/// The keys of a group, or of one shard of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    prefix: String,
    shard: Arc<str>,
}

impl Keys {
    /// The keys of a group. The name must be valid ([`is_name`]).
    pub fn new(group: &str) -> Keys {
        Keys::of_shard(group, "0")
    }

    /// The keys of a shard of a cluster. Both names must be valid ([`is_name`]).
    pub fn of_shard(cluster: &str, shard: &str) -> Keys {
        Keys { prefix: format!("/braid/{cluster}/"), shard: shard.into() }
    }

    /// The prefix of all keys, including those of other shards.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The shard's ID; `0` in a group alone.
    pub fn shard_id(&self) -> &Arc<str> {
        &self.shard
    }

    pub fn shard(&self) -> String {
        self.named("shard", &self.shard)
    }

    pub fn holder(&self) -> String {
        self.named("primary", &self.shard)
    }

    pub fn node(&self, name: &str) -> String {
        self.named("node", name)
    }

    pub fn offer(&self, name: &str) -> String {
        format!("{}offer/{}/{name}", self.prefix, self.shard)
    }

    /// A key from its kind and name.
    pub(crate) fn named(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}/{name}", self.prefix)
    }

    /// The key for the cluster's epoch.
    pub(crate) fn named_epoch(&self) -> String {
        format!("{}{}", self.prefix, EPOCH)
    }

    /// Parses the records at a revision. Records that cannot be parsed are skipped and returned: a
    /// foreign key must not stop a group. Records of other shards are skipped silently.
    ///
    /// # Errors
    /// If one of this shard's own records cannot be parsed: no server may act on an incomplete
    /// view.
    pub fn read<'a>(
        &self,
        records: impl Iterator<Item = Record<'a>>,
        revision: u64,
    ) -> Result<(Snapshot, Vec<RecordError>), RecordError> {
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        let mut strange = Vec::new();
        for Record { key, value, revision, lease } in records {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            let Some(name) = key.strip_prefix(&self.prefix) else { continue };
            let mut note = |error: RecordError| strange.push(error);
            match name.split_once('/') {
                Some(("shard", shard)) if *shard == *self.shard => {
                    let value = Shard::from_json(&value)?;
                    snapshot.shard = Some(Versioned { value, revision });
                }
                Some(("primary", shard)) if *shard == *self.shard => {
                    snapshot.holder = Some(Holder::from_json(&value, lease)?);
                }
                Some(("node", node)) => match Node::from_json(&value) {
                    Ok(read) if is_name(node) => drop(snapshot.nodes.insert(node.into(), read)),
                    Ok(_) => note(RecordError::new("the name of a server", node)),
                    Err(error) => note(error),
                },
                Some(("offer", rest)) if rest.split_once('/').is_some_and(|(of, _)| *of == *self.shard) => {
                    match Offer::from_json(&value) {
                        Ok(offer) => drop(snapshot.offers.insert(rest[self.shard.len() + 1..].into(), offer)),
                        Err(error) => note(error),
                    }
                }
                // Cluster records.
                Some(("shard" | "primary" | "offer" | "known" | "slots", _)) if *self.shard != *"0" => {}
                Some(("setting" | "role" | "user" | "library", _)) if *self.shard != *"0" => {}
                None if name == EPOCH && *self.shard != *"0" => {}
                _ => note(RecordError::new("a key", &key)),
            }
        }
        Ok((snapshot, strange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shard() -> Shard {
        let (a, b) = (MemberId::new("a", "11"), MemberId::new("b", "22"));
        let base = Some(Base { history: "ff".into(), offset: 1 << 60 });
        Shard {
            epoch: 3,
            primary: a.clone(),
            in_sync: [a, b].into(),
            lease: 2_000_000_000,
            is_handed_over: true,
            is_on_disk: true,
            base,
        }
    }

    fn record<'a>(key: &'a str, value: &'a str, revision: u64) -> Record<'a> {
        Record { key: key.as_bytes(), value: value.as_bytes(), revision, lease: 0 }
    }

    #[test]
    fn members_are_named_by_node_and_run() {
        let one: MemberId = "a/1f".parse().expect("a member's name");
        assert_eq!((&*one.node, &*one.run, one.to_string()), ("a", "1f", "a/1f".to_owned()));
        for wrong in ["", "a", "a/", "/1", "a/1/2", "a b/1", "a/1\n"] {
            assert_eq!(wrong.parse::<MemberId>(), Err(BadMemberId), "{wrong:?}");
        }
        assert!(MemberId::checked(&"x".repeat(65), "1").is_err());
    }

    #[test]
    fn records_come_back_as_they_were() {
        let shard = shard();
        assert_eq!(Shard::from_json(&shard.to_json()), Ok(shard.clone()));
        let none = Shard { base: None, is_on_disk: false, ..shard };
        assert_eq!(Shard::from_json(&none.to_json()), Ok(none));
        let holder = Holder { epoch: 7, member: MemberId::new("n", "r"), lease: 12 };
        assert_eq!(Holder::from_json(&holder.to_json(), 12), Ok(holder));
        let node = Node {
            run: "r".into(),
            host: "::1".into(),
            port: 1,
            tls_port: 2,
            bus_port: 3,
            priority: 0,
            version: "1".into(),
            id: "f0".into(),
            hostname: "h.x".into(),
            is_loading: true,
        };
        assert_eq!(Node::from_json(&node.to_json()), Ok(node));
        let offer = Offer { run: "r".into(), epoch: 1, offset: 2, priority: 3 };
        assert_eq!(Offer::from_json(&offer.to_json()), Ok(offer));
    }

    #[test]
    fn a_shard_that_contradicts_itself_is_refused() {
        for text in [
            "",
            "null",
            "[]",
            r#"{"epoch":0,"primary":"a/1","in-sync":["a/1"]}"#,
            r#"{"epoch":1,"primary":"a/1","in-sync":["b/1"]}"#,
            r#"{"epoch":1,"primary":"a/1","in-sync":["a/1",3]}"#,
            r#"{"epoch":1,"primary":"a","in-sync":["a"]}"#,
            r#"{"epoch":-1,"primary":"a/1","in-sync":["a/1"]}"#,
        ] {
            assert!(Shard::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_of_others_do_not_stop_a_group() {
        let keys = Keys::new("g");
        let shard = shard().to_json();
        let records: [(&str, &str, u64); 6] = [
            ("/braid/g/shard/0", &shard, 5),
            ("/braid/g/node/a", r#"{"run":"1","host":"h","port":6379}"#, 6),
            ("/braid/g/node/b", "damaged", 7),
            ("/braid/g/node/b/c", r#"{"run":"1","host":"h"}"#, 7),
            ("/braid/g/what", "", 8),
            ("/braid/gg/shard/0", "of another group", 9),
        ];
        let (snapshot, strange) = keys
            .read(records.iter().map(|(key, value, at)| record(key, value, *at)), 9)
            .expect("the shard's record is valid");
        assert_eq!((snapshot.revision, snapshot.shard.map(|shard| shard.revision)), (9, Some(5)));
        assert_eq!((snapshot.nodes.len(), strange.len()), (1, 3), "{strange:?}");
        assert_eq!(snapshot.nodes["a"].priority, 100);
        assert!(keys.read([record("/braid/g/shard/0", "{}", 1)].into_iter(), 9).is_err());
    }

    proptest! {
        #[test]
        fn nothing_in_a_record_panics(text in ".*", key in "/braid/g/.*") {
            let _ = (Shard::from_json(&text), Holder::from_json(&text, 0), Node::from_json(&text));
            let _ = Keys::new("g").read([record(&key, &text, 1)].into_iter(), 1);
        }
    }
}
