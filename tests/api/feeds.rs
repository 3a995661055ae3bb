// SPDX-License-Identifier: BSD-3-Clause
//! Change feeds: XREAD and XRANGE over the journal, at a primary, a replica, after a failover and
//! a restart.

use std::time::{Duration, Instant};

use braid_tests::random::source;
use braid_tests::{Options, RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

const FEEDS: [&str; 8] =
    ["--change-feed", "feed", "*", "keys", "--change-feed", "orders", "order:*", "values"];
const PAIRED: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];

/// Starts a server with feeds; none if the program under test is another one.
fn start(more: &[&str]) -> Option<TestServer> {
    braid_tests::server::is_braid().then(|| TestServer::start(&[&FEEDS[..], more].concat()))
}

/// An entry: its ID, and its fields as words.
type Entry = (String, String);

fn entry(value: &Value) -> Entry {
    let parts = value.elements().expect("an entry");
    let fields: Vec<String> = parts[1].elements().expect("fields").iter().map(Value::text).collect();
    let words: Vec<String> = fields
        .chunks(2)
        .map(|pair| if pair[0] == "event" { pair[1].clone() } else { format!("{}={}", pair[0], pair[1]) })
        .collect();
    (parts[0].text(), words.join(" "))
}

/// The entries in a reply of XRANGE.
fn range(client: &mut RawClient, request: &str) -> Vec<Entry> {
    let reply = client.call(request);
    reply.elements().unwrap_or_else(|| panic!("{request}: {reply}")).iter().map(entry).collect()
}

/// The entries of one stream in a reply of XREAD.
fn entries(reply: &Value) -> Vec<Entry> {
    let streams = reply.elements().unwrap_or_default();
    let stream = streams.first().map(|stream| stream.elements().expect("a stream").to_vec());
    stream.map_or(Vec::new(), |stream| stream[1].elements().expect("entries").iter().map(entry).collect())
}

fn read(client: &mut RawClient, feed: &str, after: &str) -> Vec<Entry> {
    entries(&client.call(&format!("XREAD STREAMS {feed} {after}")))
}

/// The entries' fields only.
fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|(_, text)| text.as_str()).collect()
}

/// As `assert_eq`, for long lists.
#[track_caller]
fn assert_same(left: &[Entry], right: &[Entry]) {
    let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    assert!(left == right, "entry {same}: {:?} and {:?}", left.get(same), right.get(same));
}

fn wait_until_in_sync(primary: &mut RawClient, replica: &mut RawClient) {
    wait_for("the replica is in sync", || {
        let offset = primary.info_field("replication", "master_repl_offset");
        replica.info_field("replication", "master_link_status").as_deref() == Some("up")
            && replica.info_field("replication", "slave_repl_offset") == offset
    });
}

#[test]
fn every_kind_of_change_is_an_entry() {
    let Some(server) = start(&[]) else { return };
    let mut client = server.connect();
    client.ok("SET order:1 open");
    client.call("HSET order:2 state open");
    client.call("SET other x");
    client.call("DEL order:2");
    client.ok("RENAME order:1 order:3");
    client.call("SPOP nosuch");
    client.call("SADD order:set a");
    client.call("SPOP order:set");
    client.ok("SELECT 5");
    client.call("INCR order:count");
    assert_eq!(
        texts(&read(&mut client, "orders", "0")),
        [
            "set key=order:1 type=string command=SET db=0 value=open",
            "changed key=order:2 type=hash command=HSET db=0 arg1=order:2 arg2=state arg3=open",
            "deleted key=order:2 type=none command=DEL db=0",
            "renamed key=order:1 type=none command=RENAME db=0 to=order:3 more=1",
            "set key=order:3 type=unknown command=RENAME db=0 from=order:1 more=0",
            "changed key=order:set type=set command=SADD db=0 arg1=order:set arg2=a",
            "changed key=order:set type=set command=SREM db=0 arg1=order:set arg2=a",
            "changed key=order:count type=string command=INCR db=5 arg1=order:count",
        ]
    );
    assert_eq!(range(&mut client, "XRANGE feed - +").len(), 9);
    client.ok("FLUSHDB");
    client.ok("FLUSHALL");
    let last = range(&mut client, "XREVRANGE orders + - COUNT 2");
    assert_eq!(texts(&last), ["flushed command=FLUSHALL db=-1", "flushed command=FLUSHDB db=5"]);
}

#[test]
fn expiry_and_eviction_are_told_from_deletion() {
    let Some(server) = start(&["--maxmemory-policy", "allkeys-random"]) else { return };
    let mut client = server.connect();
    client.ok("SET order:1 x PX 20");
    client.ok("SET order:2 x");
    wait_for("the key expires", || client.call("DBSIZE") == Value::Integer(1));
    client.ok("CONFIG SET maxmemory 1");
    wait_for("the key is evicted", || {
        client.call("GET order:2");
        client.call("DBSIZE") == Value::Integer(0)
    });
    client.ok("CONFIG SET maxmemory 0");
    client.call("SET order:3 x");
    client.call("UNLINK order:3");
    let found = range(&mut client, "XRANGE orders - +");
    let events: Vec<&str> =
        found.iter().map(|(_, text)| text.split(" type").next().expect("a word")).collect();
    assert_eq!(
        events,
        [
            "set key=order:1",
            "set key=order:2",
            "expired key=order:1",
            "evicted key=order:2",
            "set key=order:3",
            "deleted key=order:3"
        ]
    );
}

#[test]
fn transactions_and_scripts_are_groups() {
    let Some(server) = start(&[]) else { return };
    let mut client = server.connect();
    for request in ["MULTI", "SET a 1", "INCR a", "DEL a", "EXEC", "SET b 1"] {
        client.call(request);
    }
    client.call("EVAL \"redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 2)\" 2 x y");
    let found = read(&mut client, "feed", "0");
    let more: Vec<Option<&str>> = found.iter().map(|(_, text)| text.split("more=").nth(1)).collect();
    assert_eq!(more, [Some("2"), Some("1"), Some("0"), None, Some("1"), Some("0")]);
    let place = |index: usize| found[index].0.split('-').next().expect("a number").to_owned();
    assert!(place(0) == place(2) && place(2) != place(3) && place(4) == place(5));
    // A reader that was given a part of a group gets the rest.
    for index in 0..found.len() {
        let (id, rest) = (&found[index].0, &found[index + 1..]);
        assert_eq!(read(&mut client, "feed", id), rest);
        let one = entries(&client.call(&format!("XREAD COUNT 1 STREAMS feed {id}")));
        assert_eq!(one, rest[..rest.len().min(1)]);
        assert_eq!(range(&mut client, &format!("XRANGE feed {id} +")), found[index..]);
        assert_eq!(range(&mut client, &format!("XRANGE feed ({id} +")), rest);
    }
}

#[test]
fn a_feed_answers_as_a_stream_and_refuses_writes() {
    let Some(server) = start(&[]) else { return };
    let mut client = server.connect();
    client.ok("SET a 1");
    client.ok("SET b 1");
    assert_eq!(client.call("XLEN feed"), Value::Integer(2));
    assert_eq!(client.call("XLEN orders"), Value::Integer(0));
    let info = client.call("XINFO STREAM feed");
    let info = info.elements().expect("fields");
    assert_eq!((info[0].text(), info[1].clone()), ("length".to_owned(), Value::Integer(2)));
    let offset = client.info_field("replication", "master_repl_offset").expect("an offset");
    assert_eq!(info[7].text(), format!("{offset}-0"), "last-generated-id");
    assert!(entry(&info[13]).1.contains("key=a") && entry(&info[15]).1.contains("key=b"));
    client.call("XADD real * f v");
    let both = client.call("XREAD COUNT 1 STREAMS feed real 0 0");
    assert_eq!(both.elements().map(<[Value]>::len), Some(2));
    for write in [
        "XADD feed * f v",
        "SET feed 1",
        "MSET a 1 feed 1",
        "DEL feed",
        "XTRIM feed MAXLEN 0",
        "XGROUP CREATE feed g 0",
        "RENAME a feed",
        "COPY a feed",
        "EVAL \"return redis.call('SET', 'feed', 1)\" 0",
        "SORT nosuch STORE feed",
    ] {
        let reply = client.call(write).text();
        assert!(reply.contains("'feed' is a change feed: it can only be read"), "{write}: {reply}");
    }
    client.call("MULTI");
    assert!(client.call("SET feed 1").text().contains("is a change feed"));
    assert!(client.call("EXEC").text().starts_with("EXECABORT"));
    let reply = client.call("XREADGROUP GROUP g c STREAMS feed >").text();
    assert!(reply.contains("'feed' is a change feed, which has no consumer groups"), "{reply}");
    assert!(client.call("XREAD STREAMS feed +").text().contains("The + ID is not supported"));
    assert!(client.call("XREAD STREAMS feed nonsense").text().contains("Invalid stream ID"));
    assert_eq!(client.call("EXISTS feed"), Value::Integer(0), "nothing is stored");
    // The name decides who may read.
    client.ok("ACL SETUSER reader on nopass %R~orders +xread +auth");
    client.ok("AUTH reader x");
    assert!(client.call("XREAD STREAMS feed 0").text().starts_with("NOPERM"));
    assert_eq!(read(&mut client, "orders", "0"), []);
}

#[test]
fn blocked_readers_get_the_next_change() {
    let Some(server) = start(&[]) else { return };
    let (mut reader, mut writer) = (server.connect(), server.connect());
    for number in 0..50 {
        reader.send(&braid_tests::request("XREAD BLOCK 10000 STREAMS orders $"));
        wait_for("the reader is blocked", || {
            writer.info_field("clients", "blocked_clients").as_deref() == Some("1")
        });
        // A change that is none of the feed's does not end the wait.
        writer.ok("SET other 1");
        let began = Instant::now();
        writer.ok(&format!("SET order:{number} v"));
        let found = entries(&reader.read());
        assert!(found.len() == 1 && found[0].1.contains(&format!("key=order:{number}")), "{found:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    // With an ordinary stream beside it: whichever comes first.
    for (write, name) in [("XADD real * f v", "real"), ("SET order:x 1", "orders")] {
        reader.send(&braid_tests::request("XREAD BLOCK 10000 STREAMS real orders $ $"));
        wait_for("the reader is blocked", || {
            writer.info_field("clients", "blocked_clients").as_deref() == Some("1")
        });
        writer.call(write);
        let reply = reader.read();
        assert_eq!(reply.elements().expect("a stream")[0].elements().expect("a pair")[0].text(), name);
    }
}

#[test]
fn a_wait_ends_on_time_although_others_write() {
    let Some(server) = start(&[]) else { return };
    let (mut reader, mut writer) = (server.connect(), server.connect());
    for timeout in [30, 300] {
        let began = Instant::now();
        reader.send(&braid_tests::request(&format!("XREAD BLOCK {timeout} STREAMS orders $")));
        while began.elapsed() < Duration::from_millis(timeout / 2) {
            writer.ok("SET other 1");
        }
        assert!(reader.read().is_null());
        let waited = began.elapsed();
        let most = Duration::from_millis(timeout + 500);
        assert!(waited >= Duration::from_millis(timeout - 1) && waited < most, "{timeout}: {waited:?}");
    }
    reader.send(&braid_tests::request("XREAD BLOCK 0 STREAMS orders $"));
    wait_for("the reader is blocked", || {
        writer.info_field("clients", "blocked_clients").as_deref() == Some("1")
    });
    let id = writer.call("CLIENT LIST").text();
    let id = id.lines().find(|line| line.contains("cmd=xread")).expect("the reader");
    let id = id.split_whitespace().next().and_then(|id| id.strip_prefix("id=")).expect("an ID");
    assert_eq!(writer.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(1));
    assert!(reader.read().is_null());
    reader.ok("SET order:1 still-works");
}

#[test]
fn a_reader_that_falls_behind_is_told_and_a_rare_one_is_not() {
    let Some(server) = start(&["--repl-backlog-size", "16kb"]) else { return };
    let mut client = server.connect();
    client.ok("SET order:1 first");
    client.ok("SET other 1");
    let (all, rare) = (read(&mut client, "feed", "0"), read(&mut client, "orders", "0"));
    let (all, rare) = (&all.last().expect("an entry").0, &rare.last().expect("an entry").0);
    let value = "x".repeat(10_000);
    for _ in 0..100 {
        client.ok(&format!("SET other {value}"));
        // Nothing of its own was missed, and beyond half of the backlog it is told how far that
        // holds.
        assert_eq!(texts(&read(&mut client, "orders", rare)), ["mark"]);
    }
    let behind = read(&mut client, "feed", all);
    let (id, gap) = &behind[0];
    assert_eq!(*gap, format!("gap reason=dropped after={all} next={id}"));
    assert!(behind.len() > 1);
    assert_eq!(read(&mut client, "feed", id), behind[1..], "and continues behind the gap");
    assert_eq!(read(&mut client, "feed", "0"), behind[1..]);
    client.ok("SET order:2 second");
    let found = read(&mut client, "orders", rare);
    assert!(found.len() == 1 && found[0].1.contains("key=order:2"), "{found:?}");
}

/// A reader whose keys change rarely finds no gap at a new primary that lacks what others wrote
/// since the reader's last entry: it goes on from marks.
#[test]
fn a_rare_reader_has_no_gap_after_a_failover() {
    let sizes = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256kb"];
    let Some(primary) = start(&sizes) else { return };
    let port = primary.port().to_string();
    let Some(replica) = start(&[&sizes[..], &["--replicaof", "127.0.0.1", &port]].concat()) else { return };
    let (mut client, mut its) = (primary.connect(), replica.connect());
    wait_until_in_sync(&mut client, &mut its);
    client.ok("SET order:1 first");
    let first = read(&mut client, "orders", "0").last().expect("an entry").0.clone();
    let (mut after, mut marks) = (first.clone(), 0);
    let value = "x".repeat(10_000);
    for _ in 0..200 {
        client.ok(&format!("SET other {value}"));
        for (id, text) in read(&mut client, "orders", &after) {
            assert_eq!(text, "mark");
            (after, marks) = (id, marks + 1);
        }
    }
    // One for each half of the backlog.
    assert!((12..=16).contains(&marks), "{marks}");
    wait_until_in_sync(&mut client, &mut its);
    client.ok(&format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
    wait_for("the replica leads", || its.call("ROLE").elements().expect("a list")[0].text() == "master");
    assert!(read(&mut its, "orders", &first)[0].1.starts_with("gap reason=dropped"), "too old to know");
    assert_eq!(read(&mut its, "orders", &after), []);
    its.ok("SET order:2 second");
    let next = read(&mut its, "orders", &after);
    assert!(next.len() == 1 && next[0].1.contains("key=order:2"), "{next:?}");
    let info = its.info("feeds");
    for line in ["change_feeds:2", "change_feed_waiting_clients:0", "name=orders,pattern=order:*,values=yes,"]
    {
        assert!(info.contains(line), "{info}");
    }
    assert!(info.contains(",entries=1,gaps=1,"), "{info}");
}

/// Ranges of long feeds are read in the background, with the same replies, and hold up nobody.
#[test]
fn long_ranges_are_read_beside_other_requests() {
    let Some(server) = start(&["--repl-backlog-size", "64mb", "--io-threads", "2"]) else { return };
    let (mut client, mut other) = (server.connect(), server.connect());
    // More than is read under the lock.
    let number = 5_000;
    for start in (0..number).step_by(1000) {
        let requests: Vec<u8> = (start..start + 1000)
            .map(|at| braid_tests::request(&format!("SET order:{at} {}", "x".repeat(400))))
            .collect::<Vec<_>>()
            .concat();
        client.send(&requests);
        (0..1000).for_each(|_| assert_eq!(client.read(), Value::ok()));
    }
    // The name of the feed shares its lock with this key, whatever else does.
    client.send(&braid_tests::request("XLEN orders"));
    assert_eq!(other.call("EXISTS orders"), Value::Integer(0));
    assert_eq!(client.read(), Value::Integer(number));
    let last = range(&mut client, "XREVRANGE orders + - COUNT 2");
    assert!(last[0].1.contains(&format!("key=order:{}", number - 1)) && last.len() == 2, "{:?}", last.len());
    let all = range(&mut client, "XRANGE orders - +");
    assert_eq!(all.len(), number as usize);
    assert_same(&all[all.len() - 2..], &[last[1].clone(), last[0].clone()]);
    let some = range(&mut client, &format!("XRANGE orders ({} + COUNT 3", all[9].0));
    assert_same(&some, &all[10..13]);
    let info = client.call("XINFO STREAM orders");
    assert_eq!(info.elements().expect("fields")[1], Value::Integer(number));
    // In a transaction the client's own thread does it.
    client.ok("MULTI");
    client.call("XLEN orders");
    assert_eq!(client.call("EXEC"), Value::Array(vec![Value::Integer(number)]));
    assert!(client.call("XRANGE orders - + COUNT x").is_error());
}

/// One reader follows a feed while several connections write: every change is there once, in the
/// order of the writes of each key.
#[test]
fn concurrent_writes_are_read_completely_and_in_order() {
    let Some(server) = start(&["--io-threads", "4", "--repl-backlog-size", "64mb"]) else { return };
    const WRITERS: usize = 4;
    const WRITES: usize = 5000;
    let mut reader = server.connect();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut client = server.connect();
            scope.spawn(move || {
                for number in 0..WRITES {
                    let batch = [format!("SET order:{writer} {number}"), format!("SET other {number}")];
                    let bytes: Vec<u8> =
                        batch.iter().map(|line| braid_tests::request(line)).collect::<Vec<_>>().concat();
                    client.send(&bytes);
                    assert_eq!((client.read().text(), client.read().text()), ("OK".into(), "OK".into()));
                }
            });
        }
        let (mut after, mut next) = ("0".to_owned(), [0; WRITERS]);
        let began = Instant::now();
        while next != [WRITES; WRITERS] {
            assert!(began.elapsed() < Duration::from_secs(60), "{next:?}");
            let request = format!("XREAD COUNT 500 BLOCK 1000 STREAMS orders {after}");
            for (id, text) in entries(&reader.call(&request)) {
                let field = |name: &str| {
                    let rest = text.split(name).nth(1).expect("a field");
                    rest.split(' ').next().expect("a word").to_owned()
                };
                let key: usize = field("key=order:").parse().expect("a writer");
                assert_eq!(field("value="), next[key].to_string(), "{text}");
                next[key] += 1;
                after = id;
            }
        }
    });
}

#[test]
fn a_replica_has_the_same_entries_and_a_failover_keeps_them() {
    let Some(primary) = start(&PAIRED) else { return };
    let port = primary.port().to_string();
    let Some(replica) = start(&[&PAIRED[..], &["--replicaof", "127.0.0.1", &port]].concat()) else { return };
    let (mut client, mut its) = (primary.connect(), replica.connect());
    wait_until_in_sync(&mut client, &mut its);
    let begin = client.call("XINFO STREAM feed").elements().expect("fields")[7].text();
    let mut random = source("a_replica_has_the_same_entries_and_a_failover_keeps_them");
    for number in 0..500 {
        client.call(&format!("SELECT {}", random.u32(0..3)));
        match random.u32(0..4) {
            0 => client.call(&format!("SET order:{number} v PX {}", random.u32(1..50))),
            1 => client.call("EVAL \"redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2])\" 2 a b"),
            2 => client.call(&format!("HSET h f {number}")),
            _ => client.call("DEL h"),
        };
    }
    client.ok("SELECT 0");
    wait_for("everything has expired", || {
        let keyspace = client.info("keyspace");
        keyspace.matches("expires=").count() == keyspace.matches("expires=0").count()
    });
    wait_until_in_sync(&mut client, &mut its);
    let of_primary = range(&mut client, &format!("XRANGE feed {begin} +"));
    assert!(of_primary.len() > 400);
    assert!(of_primary.iter().any(|(_, text)| text.starts_with("expired")));
    assert_same(&range(&mut its, &format!("XRANGE feed {begin} +")), &of_primary);
    // A blocked reader at the replica.
    let mut reader = replica.connect();
    reader.send(&braid_tests::request("XREAD BLOCK 10000 STREAMS orders $"));
    wait_for("the reader is blocked", || {
        its.info_field("clients", "blocked_clients").as_deref() == Some("1")
    });
    client.ok("SET order:live 1");
    let live = entries(&reader.read());
    assert!(live.len() == 1 && live[0].1.contains("key=order:live"));
    // A reader of the old primary continues at the new one.
    let middle = &of_primary[200].0;
    client.ok(&format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
    wait_for("the replica leads", || its.call("ROLE").elements().expect("a list")[0].text() == "master");
    its.ok("SET order:after 1");
    let after = read(&mut its, "feed", middle);
    assert_same(&after[..of_primary.len() - 201], &of_primary[201..]);
    assert!(after.last().expect("some").1.contains("key=order:after"));
    assert!(!after.iter().any(|(_, text)| text.starts_with("gap")));
    // The former primary, now a replica, has the new change under the same ID.
    wait_until_in_sync(&mut its, &mut client);
    assert_same(&read(&mut client, "feed", middle), &after);
}

#[test]
fn a_failover_that_loses_changes_is_told_to_their_readers() {
    let Some(primary) = start(&PAIRED) else { return };
    let port = primary.port().to_string();
    let Some(replica) = start(&[&PAIRED[..], &["--replicaof", "127.0.0.1", &port]].concat()) else { return };
    let (mut client, mut its) = (primary.connect(), replica.connect());
    wait_until_in_sync(&mut client, &mut its);
    client.ok("SET order:1 kept");
    wait_until_in_sync(&mut client, &mut its);
    let kept = read(&mut client, "orders", "0").last().expect("an entry").0.clone();
    replica.signal(Signal::STOP);
    client.ok("SET order:2 lost");
    let lost = read(&mut client, "orders", &kept).last().expect("an entry").0.clone();
    primary.signal(Signal::KILL);
    replica.signal(Signal::CONT);
    // Whatever the kernel had of the last change, the role changes before it is applied, or
    // after: only the first case has a divergence.
    its.ok("REPLICAOF NO ONE");
    let has_lost = its.call("EXISTS order:2") == Value::Integer(0);
    its.ok("SET order:3 new");
    for number in 0..20 {
        its.ok(&format!("SET filler {number}"));
    }
    let found = read(&mut its, "orders", &lost);
    if has_lost {
        assert!(found[0].1.starts_with("gap reason=diverged"), "{found:?}");
        assert!(found[1].1.contains("key=order:3"));
    } else {
        assert!(found[0].1.contains("key=order:3"), "{found:?}");
    }
    assert!(!read(&mut its, "orders", &kept)[0].1.starts_with("gap"), "what both have is no gap");
}

/// A reader that follows one key over servers that fail.
struct Follower {
    after: String,
    /// The last number that it has seen.
    last: u64,
    /// Gaps because of lost changes.
    diverged: usize,
    /// Such a gap was the last that it has read.
    has_diverged: bool,
}

impl Follower {
    /// Reads everything that a server has. Numbers go up by one; only after a gap because of
    /// changes that were lost they may go back, and even then none is left out.
    fn read_all(&mut self, client: &mut RawClient) {
        loop {
            let found = entries(&client.call(&format!("XREAD COUNT 100 STREAMS orders {}", self.after)));
            if found.is_empty() {
                break;
            }
            for (id, text) in found {
                self.after = id;
                if text.starts_with("gap reason=diverged") {
                    (self.diverged, self.has_diverged) = (self.diverged + 1, true);
                    continue;
                }
                let number = text.split("value=").nth(1).unwrap_or_else(|| panic!("{text}"));
                let number: u64 = number.parse().expect("a number");
                let expected =
                    if self.has_diverged { 0..=self.last + 1 } else { self.last + 1..=self.last + 1 };
                assert!(expected.contains(&number), "{number} after {}", self.last);
                (self.last, self.has_diverged) = (number, false);
            }
        }
    }
}

/// Rounds of writes, each ended by a failover or by the death of the primary with writes on their
/// way: a reader that follows the primary misses nothing and sees nothing out of order. More
/// rounds: `BRAID_ROUNDS`.
#[test]
fn a_reader_follows_over_failovers_and_crashes() {
    let Some(mut primary) = start(&PAIRED) else { return };
    let mut random = source("a_reader_follows_over_failovers_and_crashes");
    let replica_of = |primary: &TestServer| {
        let port = primary.port().to_string();
        start(&[&PAIRED[..], &["--replicaof", "127.0.0.1", &port]].concat()).expect("another one")
    };
    let mut replica = replica_of(&primary);
    let mut follower = Follower { after: "0".to_owned(), last: 0, diverged: 0, has_diverged: false };
    let mut number: u64 = 0;
    for round in 0..braid_tests::random::number("BRAID_ROUNDS", 6) {
        let (mut client, mut its) = (primary.connect(), replica.connect());
        wait_until_in_sync(&mut client, &mut its);
        follower.read_all(&mut client);
        for _ in 0..random.u32(1..100) {
            number += 1;
            client.ok(&format!("SET order:1 {number}"));
        }
        wait_until_in_sync(&mut client, &mut its);
        follower.read_all(if random.bool() { &mut client } else { &mut its });
        if random.bool() {
            client.ok(&format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
            wait_for("the replica leads", || {
                its.call("ROLE").elements().expect("a list")[0].text() == "master"
            });
            std::mem::swap(&mut primary, &mut replica);
        } else {
            if random.bool() {
                replica.signal(Signal::STOP);
            }
            let more: Vec<u8> = (number + 1..=number + random.u64(1..50))
                .map(|number| braid_tests::request(&format!("SET order:1 {number}")))
                .collect::<Vec<_>>()
                .concat();
            client.send(&more);
            // What this reads may be lost.
            follower.read_all(&mut primary.connect());
            primary.signal(Signal::KILL);
            replica.signal(Signal::CONT);
            its.ok("REPLICAOF NO ONE");
            let next = replica_of(&replica);
            primary = std::mem::replace(&mut replica, next);
            number = primary.connect().call("GET order:1").text().parse().expect("a number");
        }
        follower.read_all(&mut primary.connect());
        let has_all = if follower.has_diverged { follower.last >= number } else { follower.last == number };
        assert!(has_all, "round {round}: {} of {number}", follower.last);
    }
    println!("{number} changes, {} gaps after lost ones", follower.diverged);
}

#[test]
fn ids_continue_after_a_crash_with_an_append_only_file() {
    let more = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut server) = start(&more) else { return };
    let mut client = server.connect();
    for number in 0..100 {
        client.ok(&format!("SET order:{number} v"));
    }
    let before = read(&mut client, "orders", "0");
    let last = before.last().expect("entries").0.clone();
    server.signal(Signal::KILL);
    server.wait();
    let folder = server.directory().to_str().expect("a name").to_owned();
    let arguments = FEEDS.iter().chain(&more).map(|&word| word.to_owned());
    let arguments = arguments.chain(["--dir".to_owned(), folder]).collect();
    let again = TestServer::start_with(Options { arguments, ..Options::default() });
    let mut client = again.connect();
    assert_eq!(read(&mut client, "orders", &last), [], "no gap: nothing was missed");
    client.ok("SET order:new v");
    let after = read(&mut client, "orders", &last);
    assert!(after.len() == 1 && after[0].1.contains("key=order:new"), "{after:?}");
    let number = |id: &str| id.split('-').next().and_then(|id| id.parse::<u64>().ok()).expect("a number");
    assert!(number(&after[0].0) > number(&last));
    // A reader that had not read everything is told.
    let missed = read(&mut client, "orders", &before[50].0);
    assert!(missed[0].1.starts_with("gap reason=dropped"), "{missed:?}");
    assert_eq!(missed[1..], after);
}

#[test]
fn feeds_that_cannot_be_are_refused_at_the_start() {
    if !braid_tests::server::is_braid() {
        return;
    }
    for (words, error) in [
        (&["--change-feed", "feed", "*"][..], "each feed has a name"),
        (&["--change-feed", "a", "*", "keys", "--change-feed", "a", "b", "keys"], "two feeds have one name"),
        (&["--change-feed", "a", "*", "keys", "--cluster-enabled", "yes"], "not supported in cluster mode"),
        (
            &["--change-feed", "a", "*", "keys", "--active-replica", "yes"],
            "not supported with active-replica",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = std::process::Command::new(braid_tests::server::program_under_test())
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(folder.path())
            .args(words)
            .output()
            .expect("a program");
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(text.contains(error), "{words:?}: {text}");
    }
}
