// SPDX-License-Identifier: BSD-3-Clause
//! Keyspace events: after each command, the server under test and a stock server have published
//! the same events in the same order.

use braid_tests::server::{Peer, newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value};

/// One command per line; a line that begins with `#` is a transaction, whose commands are
/// separated by `;`.
const COMMANDS: &str = r"
SET s 1
SET s 2 EX 100
SET s 3 KEEPTTL
SET s 4 NX
SET s 5 XX GET
SETNX s 1
SETNX s2 1
SETEX s 100 v
PSETEX s 100000 v
GETSET s w
GETEX s EX 100
GETEX s PERSIST
GETEX s PERSIST
GETEX s EXAT 1
SET s 1
GETDEL s
GETDEL s
MSET a 1 b 2 a 3
MSETNX a 1 c 2
MSETNX c 1 d 2
INCR n
INCRBY n 4
DECR n
DECRBY n 2
INCRBYFLOAT n 1.5
APPEND n 0
APPEND fresh x
SETRANGE n 1 zz
SETRANGE n 1 ''
SETBIT bits 3 1
SETBIT bits 3 1
BITFIELD bits SET u8 0 7 INCRBY u8 8 1
BITFIELD bits GET u8 0
BITOP AND both bits bits
BITOP AND both nosuch nosuch
BITOP AND both nosuch nosuch
PFADD hll a b
PFADD hll a b
PFADD hll c
PFCOUNT hll
PFMERGE merged hll
GET nosuch
MGET nosuch a
EXISTS nosuch
TTL nosuch
HGET nosuch f
DEL a nosuch b
UNLINK c
RENAME d e
RENAMENX e f
RENAMENX f f
MOVE f 1
MOVE f 1
COPY hll hll2
COPY hll hll2
COPY hll hll2 REPLACE
COPY hll hll3 DB 2
SET x 1
EXPIRE x 100
EXPIRE x 100 NX
PEXPIRE x 100000
EXPIREAT x 99999999999
PERSIST x
PERSIST x
EXPIRE x -1
EXPIRE x 100
LPUSH l a b
RPUSH l c
LPUSHX l d
RPUSHX nosuch d
LINSERT l BEFORE a z
LINSERT l BEFORE nosuch z
LSET l 0 q
LPOP l
RPOP l 2
LREM l 0 q
LREM l 0 nosuch
LTRIM l 0 -1
LMOVE l l2 LEFT RIGHT
LMOVE l2 l2 LEFT RIGHT
RPOPLPUSH l l2
RPOPLPUSH l l2
LMPOP 2 l l2 LEFT COUNT 1
LTRIM l2 5 6
BLPOP nosuch l2 0.01
RPUSH l3 a
BLPOP nosuch l3 0
RPUSH l3 a
BLMOVE l3 l4 LEFT LEFT 0
RPUSH sortme 3 1 2
SORT sortme STORE sorted
SORT nosuch STORE sorted
SORT nosuch STORE sorted
HSET h a 1 b 2
HMSET h a 1
HSETNX h a 1
HSETNX h c 1
HINCRBY h a 5
HINCRBYFLOAT h a 1.5
HDEL h nosuch
HDEL h a b
HDEL h c
SADD set a b c d
SADD set a
SREM set nosuch
SREM set a
SMOVE set set2 b
SMOVE set set2 nosuch
SADD set b
SMOVE set set2 b
SPOP set
SPOP set 10
SADD set a b
SADD set2 b c
SINTERSTORE out set set2
SUNIONSTORE out set set2
SDIFFSTORE out set set2
SDIFFSTORE out set set
SDIFFSTORE out set set
SREM set a b
ZADD z 1 a 2 b 3 c 4 d 5 e 6 f
ZADD z 1 a
ZADD z CH 2 a
ZADD z INCR 1 a
ZINCRBY z 1 a
ZREM z nosuch
ZREM z a
ZREMRANGEBYRANK z 0 0
ZREMRANGEBYSCORE z 3 3
ZADD zl 0 a 0 b
ZREMRANGEBYLEX zl [a [a
ZREMRANGEBYLEX zl - +
ZPOPMIN z
ZPOPMAX z 1
ZMPOP 1 z MIN
BZPOPMIN z 0.01
ZADD z 1 a 2 b
BZPOPMAX z 0
BZMPOP 0 1 z MIN
ZADD z 1 a 2 b
ZUNIONSTORE zu 2 z zl
ZINTERSTORE zu 2 z zl
ZDIFFSTORE zu 2 z zl
ZRANGESTORE zr z 0 0
ZRANGESTORE zr z 9 9
GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
GEOSEARCHSTORE gs g FROMLONLAT 15 37 BYRADIUS 200 km
GEORADIUS g 15 37 200 km STORE gr
GEOSEARCHSTORE gs g FROMLONLAT 1 1 BYRADIUS 1 km
GEOSEARCHSTORE gs g FROMLONLAT 1 1 BYRADIUS 1 km
XADD st 1-1 a 1
XADD st 2-1 a 1
XADD st MAXLEN 1 3-1 a 1
XADD nosuch NOMKSTREAM 3-1 a 1
XADD st 4-1 a 1
XGROUP CREATE st g1 0
XGROUP CREATE new g1 $ MKSTREAM
XGROUP CREATECONSUMER st g1 c1
XGROUP CREATECONSUMER st g1 c1
XREADGROUP GROUP g1 c2 COUNT 1 STREAMS st >
XCLAIM st g1 c3 0 3-1
XAUTOCLAIM st g1 c4 0 0
XACK st g1 3-1
XGROUP DELCONSUMER st g1 c1
XGROUP DELCONSUMER st g1 nosuch
XGROUP SETID st g1 0
XGROUP DESTROY st g1
XGROUP DESTROY st g1
XDEL st 3-1
XDEL st 9-9
XTRIM st MAXLEN 5
XTRIM st MAXLEN 0
XSETID st 9-9
SET s text
SET s2 text
EVAL return{redis.call('set','s',1),redis.call('get','gone'),redis.call('del','s')} 2 s gone
MULTI
SET s 1
SET s2 1
LPUSH s 1
DEL s s2
EXEC
";

/// Commands of Redis 8.
const NEWER: &str = "
HSET h f1 v1 f2 v2 f3 v3 f4 v4
HEXPIRE h 1000 FIELDS 2 f1 gone
HEXPIRE h 1000 XX FIELDS 1 f2
HPERSIST h FIELDS 2 f1 f2
HPEXPIREAT h 1 FIELDS 1 f1
HEXPIRE h 0 FIELDS 2 f2 gone
HGETEX h EX 1000 FIELDS 1 f3
HGETEX h PERSIST FIELDS 1 f3
HGETEX h FIELDS 1 f3
HGETEX h EXAT 1 FIELDS 1 f3
HGETDEL h FIELDS 1 f4
HSETEX h EX 1000 FIELDS 1 f1 v1
HSETEX h FNX FIELDS 1 f1 v2
HSETEX h KEEPTTL FIELDS 1 f1 v2
HSETEX h FIELDS 1 f2 v2
HSETEX h EXAT 1 FIELDS 1 gone v
HSETEX h EXAT 1 FIELDS 1 f1 v
HSETEX h EXAT 1 FIELDS 2 f2 v f3 v
HSETEX h EXAT 1 FIELDS 1 f v
HSETEX h FXX EXAT 1 FIELDS 1 f v
HSET h f v
HGETDEL h FIELDS 1 f
";

struct Side {
    _server: TestServer,
    flags: String,
    client: RawClient,
    listener: RawClient,
}

impl Side {
    fn start(server: TestServer, flags: &str) -> Side {
        let (mut client, mut listener) = (server.connect(), server.connect());
        client.ok(&format!("CONFIG SET notify-keyspace-events {flags}"));
        listener.call("HELLO 3");
        listener.call("PSUBSCRIBE __key*");
        Side { _server: server, flags: flags.into(), client, listener }
    }

    /// The events published since the last call.
    fn events(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut value = self.listener.call("PING");
        while value != Value::Simple("PONG".into()) {
            let parts = value.elements().expect("a message");
            found.push(format!("{} {}", parts[2].text(), parts[3].text()));
            value = self.listener.read();
        }
        found
    }
}

#[test]
fn commands_publish_the_same_events_as_stock_servers() {
    let Some(peer) = stock() else {
        println!("skipped, no redis-server on PATH");
        return;
    };
    let mut faults = Vec::new();
    for flags in ["KEAmn", "KEA", "Kgx", "E$lshzt", "Em"] {
        let [mut ours, mut stock] = sides(&peer, flags);
        compare(&mut ours, &mut stock, COMMANDS, &mut faults);
        if flags.contains('x') || flags.contains('A') {
            // The listener's PING may arrive between the messages on the two channels.
            let channels = ['K', 'E'].into_iter().filter(|&kind| flags.contains(kind)).count();
            let expired = |side: &mut Side| {
                side.client.ok("SET stale 1 PX 1");
                let mut all = Vec::new();
                braid_tests::wait_for("the key to expire", || {
                    all.extend(side.events());
                    all.iter().filter(|event| event.contains("expired")).count() == channels
                });
                all
            };
            assert_eq!(expired(&mut ours), expired(&mut stock));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn newer_commands_publish_the_same_events_as_redis_8() {
    let Some(peer) = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis 8")) else {
        println!("skipped, no Redis 8: run tests/peers/install");
        return;
    };
    let mut faults = Vec::new();
    let [mut ours, mut stock] = sides(&peer, "KEA");
    compare(&mut ours, &mut stock, NEWER, &mut faults);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Commands that replace values, with the events that Redis 8.2 sends for keys with other names
/// than `src`.
const REPLACING: [(&str, &str, &str); 21] = [
    ("SET src v; SET k v", "RENAME src k", "new rename_to overwritten"),
    ("SET src v; RPUSH k v", "RENAME src k", "new rename_to overwritten type_changed"),
    (
        "SADD src v; SADD k v",
        "EVAL \"redis.call('RENAME', 'src', 'k')\" 2 src k",
        "new rename_to overwritten",
    ),
    ("SET src v", "RENAME src k", "new rename_to"),
    ("SET k v", "RENAME k k", ""),
    ("SET src v; SET k v", "COPY src k REPLACE", "new copy_to overwritten"),
    ("SET src v; HSET k f v", "COPY src k REPLACE", "new copy_to overwritten type_changed"),
    (
        "SET k v; SELECT 1; ZADD k 1 v; SELECT 0",
        "COPY k k DB 1 REPLACE",
        "new copy_to overwritten type_changed",
    ),
    ("SET src v", "COPY src k REPLACE", "new copy_to"),
    ("SET k v", "RESTORE k 0 @ REPLACE", "new restore overwritten"),
    ("XADD k * f v", "RESTORE k 100000 @ REPLACE", "new restore overwritten type_changed"),
    ("SET src v", "RESTORE k 0 @", "new restore"),
    ("SET k v", "SET k v PXAT 1", "overwritten set expire"),
    ("SET k v", "SET k v XX EXAT 1", "overwritten set expire"),
    ("RPUSH k v", "SET k v PXAT 1", "overwritten type_changed set expire"),
    ("SET k v", "SET k w", "overwritten set"),
    ("SET k v", "SUNIONSTORE k src", "del"),
    ("SET k v; SADD src v", "SUNIONSTORE k src", "overwritten type_changed sunionstore"),
    ("SET k 1", "INCRBYFLOAT k 1.5", "incrbyfloat"),
    ("PFADD k x; PFADD src y", "PFMERGE k src", "pfadd"),
    ("PFADD k x", "PFADD k y", "pfadd"),
];

#[test]
fn replaced_values_are_announced_as_in_redis_8_2() {
    if !braid_tests::server::is_braid() {
        println!("skipped: a stock server may be older");
        return;
    }
    let mut side = Side::start(TestServer::start(&["--enable-debug-command", "yes"]), "EAnoc");
    // A key that was set with a time in the past stays.
    side.client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    side.client.ok("SET payload v");
    let payload = side.client.call("DUMP payload");
    let payload = payload.bytes().expect("a payload").to_vec();
    for (setup, command, expected) in REPLACING {
        side.client.ok("FLUSHALL");
        for text in setup.split("; ") {
            let reply = side.client.call(text);
            assert!(!reply.is_error(), "{text}: {reply}");
        }
        side.events();
        let insert = |word: Vec<u8>| if word == b"@" { payload.clone() } else { word };
        let arguments: Vec<Vec<u8>> = braid_tests::words(command).into_iter().map(insert).collect();
        let reply = side.client.call_arguments(&arguments);
        assert!(!reply.is_error(), "{command}: {reply}");
        let told = side.events().into_iter().filter_map(|event| {
            let (channel, key) = event.split_once(' ').expect("a channel and a key");
            (key == "k").then(|| channel.split_once("__:").expect("a name").1.to_owned())
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected, "{setup} | {command}");
    }
}

fn sides(peer: &Peer, flags: &str) -> [Side; 2] {
    let ours = TestServer::start(&["--io-threads", "3"]);
    [ours, TestServer::start_program(&peer.program, &[])].map(|server| Side::start(server, flags))
}

/// Runs commands on both sides, and adds those that publish different events to `faults`.
fn compare(ours: &mut Side, stock: &mut Side, commands: &str, faults: &mut Vec<String>) {
    let mut seen = 0;
    for line in commands.lines().filter(|line| !line.is_empty()) {
        let replies = [ours.client.call(line), stock.client.call(line)];
        // SPOP may take any member.
        if !line.starts_with("SPOP") {
            assert_eq!(replies[0], replies[1], "{line}");
        }
        let (one, other) = (ours.events(), stock.events());
        seen += one.len();
        if one != other {
            faults.push(format!("{}: {line}\n  ours  {one:?}\n  stock {other:?}", ours.flags));
        }
    }
    assert!(seen > 5, "{}: {seen}", ours.flags);
}
