// SPDX-License-Identifier: BSD-3-Clause
//! Commands on whole keys and databases.

use braid_tests::{TestServer, Value};

#[test]
fn keys_are_renamed_copied_and_moved_with_their_expiry() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("SET a 1 EX 1000");
    client.ok("RENAME a b");
    assert_eq!(client.call("EXISTS a"), Value::Integer(0));
    assert!(client.call("TTL b").integer() > Some(990));
    assert_eq!(client.call("COPY b c"), Value::Integer(1));
    assert!(client.call("TTL c").integer() > Some(990));
    assert_eq!(client.call("COPY b c"), Value::Integer(0));
    client.ok("SET b 2");
    assert_eq!(client.call("COPY b c REPLACE"), Value::Integer(1));
    assert_eq!(client.call("GET c"), Value::bulk("2"));
    assert_eq!(client.call("TTL c"), Value::Integer(-1));
    assert_eq!(client.call("MOVE c 1"), Value::Integer(1));
    assert_eq!(client.call("MOVE c 1"), Value::Integer(0));
    client.ok("SELECT 1");
    assert_eq!(client.call("GET c"), Value::bulk("2"));
    client.ok("SELECT 0");
    assert_eq!(client.call("RENAME nosuch x"), Value::Error(b"ERR no such key".to_vec()));
    assert_eq!(client.call("RENAMENX b nosuch"), Value::Integer(1));
}

#[test]
fn swapdb_is_visible_to_all_connected_clients() {
    let server = TestServer::start(&[]);
    let (mut zero, mut one) = (server.connect(), server.connect());
    one.ok("SELECT 1");
    zero.ok("SET k zero");
    one.ok("SET k one");
    zero.ok("SWAPDB 0 1");
    assert_eq!(zero.call("GET k"), Value::bulk("one"));
    assert_eq!(one.call("GET k"), Value::bulk("zero"));
}

#[test]
fn flushing_empties_one_database_or_all() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for database in 0..3 {
        client.ok(&format!("SELECT {database}"));
        client.ok("MSET a 1 b 2");
    }
    client.ok("FLUSHDB");
    assert_eq!(client.call("DBSIZE"), Value::Integer(0));
    client.ok("SELECT 0");
    assert_eq!(client.call("DBSIZE"), Value::Integer(2));
    client.ok("FLUSHALL ASYNC");
    client.ok("SELECT 1");
    assert_eq!(client.call("DBSIZE"), Value::Integer(0));
}

#[test]
fn unlink_of_a_huge_value_does_not_block() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    // A large string.
    client.ok("SET big x");
    assert_eq!(client.call("SETRANGE big 100000000 x"), Value::Integer(100_000_001));
    let start = std::time::Instant::now();
    assert_eq!(client.call("UNLINK big"), Value::Integer(1));
    assert!(start.elapsed() < std::time::Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(client.call("EXISTS big"), Value::Integer(0));
}

#[test]
fn encodings_have_the_names_that_tools_know() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for (value, encoding) in
        [("12345", "int"), ("hello", "embstr"), (&"x".repeat(44), "embstr"), (&"x".repeat(45), "raw")]
    {
        client.ok(&format!("SET k {value}"));
        assert_eq!(client.call("OBJECT ENCODING k"), Value::bulk(encoding), "{value}");
    }
    client.ok("SET k short");
    client.call("APPEND k er");
    assert_eq!(client.call("OBJECT ENCODING k"), Value::bulk("raw"));
    assert_eq!(client.call("OBJECT ENCODING nosuch"), Value::NullBulk);
}

#[test]
fn patterns_select_keys() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("MSET one 1 two 2 three 3 four 4 t[x]o 5");
    let keys = |client: &mut braid_tests::RawClient, pattern: &str| {
        let mut names: Vec<String> = client
            .call(&format!("KEYS {pattern}"))
            .elements()
            .expect("keys")
            .iter()
            .map(Value::text)
            .collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(keys(&mut client, "*o*"), "four one t[x]o two");
    assert_eq!(keys(&mut client, "t??"), "two");
    assert_eq!(keys(&mut client, "t[a-z]o"), "two");
    assert_eq!(keys(&mut client, "t\\[x\\]o"), "t[x]o");
    assert_eq!(keys(&mut client, "[^t]*"), "four one");
    assert_eq!(keys(&mut client, "nosuch*"), "");
}

#[test]
fn random_keys_are_keys_and_all_of_them_in_time() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("RANDOMKEY"), Value::NullBulk);
    client.ok("MSET a 1 b 2 c 3 d 4");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        seen.insert(client.call("RANDOMKEY").text());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(""), "abcd");
}
