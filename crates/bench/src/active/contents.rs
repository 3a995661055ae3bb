// SPDX-License-Identifier: BSD-3-Clause
//! A server's contents of a run: all keys with the run's prefix, in a comparable form.

use std::collections::{BTreeMap, HashMap};

use braid_client::{Connection, Value};

use super::kinds::KeyKind;

/// A value. Equal on two servers if clients see no difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// As reported by TYPE.
    pub type_name: String,
    /// A string's value, a HyperLogLog's count, or the elements: in their own order, or sorted for
    /// sets and hashes. Fields, members and entry IDs are followed by their values.
    pub items: Vec<String>,
}

/// Values by key, without the run's prefix.
pub type Contents = BTreeMap<String, Content>;

impl Content {
    /// A string's value.
    pub fn first(&self) -> Option<&str> {
        self.items.first().map(String::as_str)
    }

    /// The value of a field or member.
    pub fn value_of(&self, field: &str) -> Option<&str> {
        self.items.chunks_exact(2).find(|pair| pair[0] == field).map(|pair| pair[1].as_str())
    }

    /// The unique elements of a key of this kind, with the number of occurrences of each.
    pub fn elements(&self, kind: KeyKind) -> HashMap<u64, usize> {
        let step = if matches!(kind, KeyKind::Set | KeyKind::List) { 1 } else { 2 };
        let first = usize::from(kind == KeyKind::Stream);
        let mut found = HashMap::new();
        for item in self.items.iter().skip(first).step_by(step) {
            let text =
                if kind == KeyKind::Stream { item.strip_prefix("e ").unwrap_or("") } else { item.as_str() };
            if let Ok(element) = text.parse() {
                *found.entry(element).or_default() += 1;
            }
        }
        found
    }
}

/// Describes how a key differs between servers; `None` if it does not.
pub fn difference(name: &str, contents: &[Contents]) -> Option<String> {
    let held: Vec<Option<&Content>> = contents.iter().map(|held| held.get(name)).collect();
    if held.windows(2).all(|pair| pair[0] == pair[1]) {
        return None;
    }
    let types: Vec<&str> =
        held.iter().map(|held| held.map_or("nothing", |content| content.type_name.as_str())).collect();
    if types.windows(2).any(|pair| pair[0] != pair[1]) {
        return Some(types.join(" / "));
    }
    let shown = |held: &Option<&Content>| match held {
        Some(content) if content.items.len() == 1 => shortened(&content.items[0]),
        Some(content) => format!("{} items", content.items.len()),
        None => "nothing".into(),
    };
    let shown: Vec<String> = held.iter().map(shown).collect();
    match shown.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Some(format!("{} {}, different ones or in a different order", types[0], shown[0])),
        false => Some(format!("{} {}", types[0], shown.join(" / "))),
    }
}

fn shortened(text: &str) -> String {
    const MOST: usize = 24;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads all keys with the prefix.
///
/// # Errors
/// If the connection fails, or the server answers with an error.
pub fn read(connection: &mut Connection, prefix: &str) -> Result<Contents, String> {
    let mut contents = Contents::new();
    let mut cursor = "0".to_owned();
    loop {
        let pattern = format!("{prefix}*");
        let reply = ask(connection, &["SCAN", &cursor, "MATCH", &pattern, "COUNT", "500"])?;
        let mut parts = reply.elements().into_iter();
        cursor = parts.next().ok_or("SCAN returned no cursor")?.text();
        for key in parts.next().map(Value::elements).unwrap_or_default() {
            let key = key.text();
            let Some(name) = key.strip_prefix(prefix) else { continue };
            let Some(kind) = KeyKind::of_key(name) else { continue };
            if let Some(content) = read_key(connection, &key, kind)? {
                contents.insert(name.to_owned(), content);
            }
        }
        if cursor == "0" {
            return Ok(contents);
        }
    }
}

fn ask(connection: &mut Connection, words: &[&str]) -> Result<Value, String> {
    connection.expect(words).map_err(|error| format!("{}: {error}", words[0]))
}

/// The reply as text, escaped without loss: values may contain any bytes.
fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => bytes.escape_ascii().to_string(),
        other => other.text(),
    }
}

fn read_key(connection: &mut Connection, key: &str, kind: KeyKind) -> Result<Option<Content>, String> {
    let type_name = ask(connection, &["TYPE", key])?.text();
    let texts = |value: Value| value.elements().iter().map(text).collect::<Vec<_>>();
    let items = match type_name.as_str() {
        "none" => return Ok(None),
        // Equal counters may differ in encoding: sparse or dense.
        "string" if kind == KeyKind::HyperLogLog => vec![ask(connection, &["PFCOUNT", key])?.text()],
        "string" => vec![text(&ask(connection, &["GET", key])?)],
        "list" => texts(ask(connection, &["LRANGE", key, "0", "-1"])?),
        "set" => sorted(texts(ask(connection, &["SMEMBERS", key])?), 1),
        "hash" => sorted(texts(ask(connection, &["HGETALL", key])?), 2),
        "zset" => texts(ask(connection, &["ZRANGE", key, "0", "-1", "WITHSCORES"])?),
        "stream" => entries(ask(connection, &["XRANGE", key, "-", "+"])?),
        "ReJSON-RL" => vec![document(&ask(connection, &["JSON.GET", key])?.text())?],
        "vectorset" => elements_of(connection, key)?,
        other => return Err(format!("{key} has type {other}")),
    };
    Ok(Some(Content { type_name, items }))
}

/// A document with the members of its objects in order: servers may list them differently.
fn document(text: &str) -> Result<String, String> {
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    value.sort_all_objects();
    Ok(value.to_string())
}

/// The elements of a vector set, each followed by its vector and its attribute. A vector is
/// rounded: a server that adds one anew may change its last digit.
fn elements_of(connection: &mut Connection, key: &str) -> Result<Vec<String>, String> {
    let mut items = Vec::new();
    for element in ask(connection, &["VRANGE", key, "-", "+"])?.elements() {
        let element = element.text();
        let vector = ask(connection, &["VEMB", key, &element])?.elements().into_iter();
        let vector = vector.map(|one| one.text().parse::<f64>().map(|one| format!("{one:.3}")));
        let vector: Vec<String> = vector.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let attribute = text(&ask(connection, &["VGETATTR", key, &element])?);
        items.extend([element, vector.join(" "), attribute]);
    }
    Ok(items)
}

/// Sorts groups of `size` items by their first item.
fn sorted(items: Vec<String>, size: usize) -> Vec<String> {
    let mut groups: Vec<&[String]> = items.chunks(size).collect();
    groups.sort_unstable();
    groups.concat()
}

/// Stream entries as IDs, each followed by its fields and values.
fn entries(reply: Value) -> Vec<String> {
    let mut items = Vec::new();
    for entry in reply.elements() {
        let mut parts = entry.elements().into_iter();
        items.extend(parts.next().map(|id| id.text()));
        let fields = parts.next().map(Value::elements).unwrap_or_default();
        items.push(fields.iter().map(text).collect::<Vec<_>>().join(" "));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &str) -> Contents {
        Contents::from([("k".into(), Content { type_name: "string".into(), items: vec![value.into()] })])
    }

    #[test]
    fn differences_are_described() {
        let list = |items: &[&str]| {
            let items = items.iter().map(|&item| item.to_owned()).collect();
            Contents::from([("k".into(), Content { type_name: "list".into(), items })])
        };
        let none = Contents::new();
        for (one, other, told) in [
            (string("a"), string("a"), None),
            (none.clone(), none.clone(), None),
            (string("a"), none, Some("string / nothing")),
            (string("a"), string("b"), Some("string a / b")),
            (string("a"), list(&["a", "b"]), Some("string / list")),
            (list(&["a", "b"]), list(&["a"]), Some("list 2 items / a")),
            (
                list(&["a", "b"]),
                list(&["b", "a"]),
                Some("list 2 items, different ones or in a different order"),
            ),
        ] {
            assert_eq!(difference("k", &[one, other]).as_deref(), told);
        }
        let long = string(&"x".repeat(100));
        let told = difference("k", &[long, string("b")]).expect("the values differ");
        assert!(told.len() < 60, "{told}");
    }

    #[test]
    fn sets_and_hashes_have_no_order() {
        let items = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(sorted(items(&["b", "1", "a", "2"]), 2), items(&["a", "2", "b", "1"]));
    }
}
