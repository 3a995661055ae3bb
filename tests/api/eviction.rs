// SPDX-License-Identifier: BSD-3-Clause
//! Eviction of values of all types: the server stays below its limit and refuses nothing.

use braid_tests::words;
use braid_tests::{RawClient, TestServer, Value};

/// Bytes of `maxmemory`, and the number of keys, of about 2 KiB each, that are written to it.
const LIMIT: u64 = 16 << 20;
const KEYS: usize = 20_000;
const PIPELINE: usize = 200;

/// A command that makes a value of 2 KiB; `KEY` is the key, `TEXT` a text of that size.
const MAKES: [(&str, &[&str]); 16] = [
    ("string", &["SET", "KEY", "TEXT"]),
    ("list", &["RPUSH", "KEY", "TEXT"]),
    ("set", &["SADD", "KEY", "TEXT"]),
    ("zset", &["ZADD", "KEY", "1", "TEXT"]),
    ("hash", &["HSET", "KEY", "field", "TEXT"]),
    ("stream", &["XADD", "KEY", "*", "field", "TEXT"]),
    ("ReJSON-RL", &["JSON.SET", "KEY", "$", "{\"field\":\"TEXT\"}"]),
    ("vectorset", &["VADD", "KEY", "VALUES", "2", "1", "2", "e", "SETATTR", "{\"field\":\"TEXT\"}"]),
    ("TSDB-TYPE", &["TS.CREATE", "KEY", "LABELS", "label", "TEXT"]),
    ("MBbloom--", &["BF.RESERVE", "KEY", "0.01", "1700"]),
    ("MBbloomCF", &["CF.RESERVE", "KEY", "4096"]),
    ("CMSk-TYPE", &["CMS.INITBYDIM", "KEY", "128", "4"]),
    ("TopK-TYPE", &["TOPK.RESERVE", "KEY", "20", "50", "5", "0.9"]),
    ("TDIS-TYPE", &["TDIGEST.CREATE", "KEY", "COMPRESSION", "50"]),
    ("array", &["ARSET", "KEY", "7", "TEXT"]),
    ("trietype0", &["FT.SUGADD", "KEY", "text", "1", "PAYLOAD", "TEXT"]),
];

fn number(client: &mut RawClient, section: &str, field: &str) -> u64 {
    let text = client.info_field(section, field).expect("the field");
    text.parse().expect("a number")
}

#[test]
fn values_of_all_types_are_evicted() {
    let limit = LIMIT.to_string();
    let server = TestServer::start(&["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.connect();
    let text = "x".repeat(2000);
    for (type_name, words) in MAKES {
        let before = number(&mut client, "stats", "evicted_keys");
        let (mut written, mut evicted) = (0, 0);
        // Empty sketches are small: several times as many are needed until they displace others.
        while evicted <= KEYS as u64 / 10 {
            assert!(written < 10 * KEYS, "{type_name}: {evicted} keys were evicted");
            for first in (written..written + KEYS).step_by(PIPELINE) {
                let request = |index: usize| {
                    let key = format!("{type_name}:{index}");
                    let words: Vec<String> =
                        words.iter().map(|word| word.replace("KEY", &key).replace("TEXT", &text)).collect();
                    words::encode(&words.iter().map(String::as_str).collect::<Vec<_>>())
                };
                client.send(&(first..first + PIPELINE).map(request).collect::<Vec<_>>().concat());
                for _ in 0..PIPELINE {
                    let reply = client.read();
                    assert!(!matches!(reply, Value::Error(_)), "{type_name}: {reply:?}");
                }
                let used = number(&mut client, "memory", "used_memory_dataset");
                assert!(used < LIMIT + LIMIT / 10, "{type_name}: {used} bytes of the dataset");
            }
            written += KEYS;
            evicted = number(&mut client, "stats", "evicted_keys") - before;
        }
        // The keys that are left can be read.
        let last = format!("{type_name}:{}", written - 1);
        assert_eq!(client.call(&format!("TYPE {last}")).text(), type_name);
        assert!(client.call(&format!("MEMORY USAGE {last}")).integer() > Some(100), "{type_name}");
    }
}
