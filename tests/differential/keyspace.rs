// SPDX-License-Identifier: BSD-3-Clause
//! A server's whole dataset, read through commands, to compare two servers key by key.

use braid_tests::client::{RawClient, ReadError};
use braid_tests::{Value, request, words};

use crate::compare::{Excuse, sorted, sorted_pairs};

/// Number of databases that the generator writes to.
const DATABASES: u8 = 4;

/// Maximum difference of two expiry times in milliseconds.
const EXPIRY_TOLERANCE_MS: i64 = 15_000;

/// One key.
struct Entry {
    database: u8,
    key: Vec<u8>,
    kind: String,
    expiry_ms: i64,
    encoding: String,
    content: Value,
}

/// Compares the keyspaces of two servers; returns the first difference. A difference in encoding
/// counts as one of the command OBJECT ENCODING, and may be a known one.
pub fn difference(
    one: &mut RawClient,
    other: &mut RawClient,
    encodings: bool,
    excuse: Excuse,
) -> Result<Option<String>, ReadError> {
    let (one, other) = (entries(one)?, entries(other)?);
    let name = |entry: &Entry| format!("db{} {}", entry.database, words::line(&[&entry.key]));
    for (one, other) in one.iter().zip(&other) {
        if (one.database, &one.key) != (other.database, &other.key) {
            return Ok(Some(format!("keys differ: {} under test, {} on the peer", name(one), name(other))));
        }
        let expiries_agree = one.expiry_ms == other.expiry_ms
            || (one.expiry_ms >= 0
                && other.expiry_ms >= 0
                && one.expiry_ms.abs_diff(other.expiry_ms) <= EXPIRY_TOLERANCE_MS as u64);
        let differs = if one.kind != other.kind {
            format!("type {} under test, {} on the peer", one.kind, other.kind)
        } else if one.content != other.content {
            format!("content {} under test, {} on the peer", one.content, other.content)
        } else if !expiries_agree {
            format!("PTTL {} under test, {} on the peer", one.expiry_ms, other.expiry_ms)
        } else if encodings && !same_encoding(one, other, excuse) {
            format!("OBJECT ENCODING {} under test, {} on the peer", one.encoding, other.encoding)
        } else {
            continue;
        };
        return Ok(Some(format!("{}: {differs}", name(one))));
    }
    Ok(match one.len().cmp(&other.len()) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(format!("only under test: {}", name(&one[other.len()]))),
        std::cmp::Ordering::Less => Some(format!("only on the peer: {}", name(&other[one.len()]))),
    })
}

fn same_encoding(one: &Entry, other: &Entry, excuse: Excuse) -> bool {
    let command = [&b"OBJECT"[..], b"ENCODING", &one.key].map(<[u8]>::to_vec).to_vec();
    one.encoding == other.encoding
        || excuse(&command, &Value::bulk(&one.encoding), &Value::bulk(&other.encoding))
}

fn entries(client: &mut RawClient) -> Result<Vec<Entry>, ReadError> {
    let mut found = Vec::new();
    for database in 0..DATABASES {
        let listing = [request(&format!("SELECT {database}")), request("KEYS *")].concat();
        client.try_send(&listing).map_err(|_| ReadError::Closed(Vec::new()))?;
        client.try_read()?;
        let Value::Array(keys) = sorted(&client.try_read()?) else { continue };
        let keys: Vec<Vec<u8>> = keys.iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect();
        let mut asked = Vec::new();
        for key in &keys {
            for words in [&[&b"TYPE"[..], key][..], &[b"PTTL", key], &[b"OBJECT", b"ENCODING", key]] {
                asked.extend(words::encode(words));
            }
        }
        client.try_send(&asked).map_err(|_| ReadError::Closed(Vec::new()))?;
        let first = found.len();
        for key in keys {
            found.push(Entry {
                database,
                key,
                kind: client.try_read()?.text(),
                expiry_ms: client.try_read()?.integer().unwrap_or(i64::MIN),
                encoding: client.try_read()?.text(),
                content: Value::Null,
            });
        }
        let mut asked = Vec::new();
        for entry in &found[first..] {
            let key = entry.key.as_slice();
            asked.extend(match entry.kind.as_str() {
                "list" => words::encode(&[b"LRANGE", key, b"0", b"-1"]),
                "hash" => words::encode(&[b"HGETALL", key]),
                "set" => words::encode(&[b"SMEMBERS", key]),
                "zset" => words::encode(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
                "stream" => words::encode(&[b"XRANGE", key, b"-", b"+"]),
                _ => words::encode(&[b"GET", key]),
            });
        }
        client.try_send(&asked).map_err(|_| ReadError::Closed(Vec::new()))?;
        for entry in &mut found[first..] {
            let reply = client.try_read()?;
            entry.content = match entry.kind.as_str() {
                "hash" => sorted_pairs(&reply),
                "set" => sorted(&reply),
                "zset" => plain_scores(&reply),
                _ => reply,
            };
        }
    }
    Ok(found)
}

/// Members and scores, with the scores formatted uniformly.
fn plain_scores(reply: &Value) -> Value {
    let Some(items) = reply.elements() else { return reply.clone() };
    let plain = |(place, item): (usize, &Value)| match item.text().parse::<f64>() {
        Ok(score) if place % 2 == 1 => Value::bulk(score.to_string()),
        _ => item.clone(),
    };
    Value::Array(items.iter().enumerate().map(plain).collect())
}
