// SPDX-License-Identifier: BSD-3-Clause
//! A dump file of Redis Stack with a value of each of its types is loaded by the server under test,
//! saved in the form of Redis 8, and loaded by Redis Stack again: all three give the same answers.
//! `BRAID_STACK` names a program that starts Redis Stack.

use std::fs;
use std::path::Path;

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value};

/// Requests that make the values. `{}` stands for numbers from 0 on, as many as the first item
/// says.
const MAKE: &[(usize, &str)] = &[
    (1, "SET text value"),
    (1, "SET number 12345"),
    (1, "SETRANGE long 40000 end"),
    (1, "SET later v PXAT 4000000000000"),
    (300, "RPUSH list element:{}"),
    (3, "RPUSH few {}"),
    (300, "SADD set member:{}"),
    (20, "SADD numbers {}"),
    (300, "ZADD sorted {}.5 member:{}"),
    (5, "ZADD ranks {} m{}"),
    (300, "HSET hash field:{} value:{}"),
    (5, "HSET small f{} {}"),
    (1, "HPEXPIREAT small 4000000000000 FIELDS 1 f1"),
    (1000, "PFADD loglog item:{}"),
    (250, "XADD stream {}-1 field {} other value"),
    (1, "XGROUP CREATE stream group 0"),
    (1, "XREADGROUP GROUP group consumer COUNT 9 STREAMS stream >"),
    (1, "XACK stream group 1-1 3-1"),
    (
        1,
        "JSON.SET document $ {\"a\":[1,2.5,\"x\",null,true],\"o\":{\"deep\":{\"er\":[]}},\"big\":9007199254740993}",
    ),
    (500, "BF.ADD bloom item:{}"),
    (1, "BF.RESERVE fixed 0.001 1000 NONSCALING"),
    (50, "BF.ADD fixed item:{}"),
    (1, "CF.RESERVE cuckoo 64 BUCKETSIZE 2 EXPANSION 2"),
    (300, "CF.ADD cuckoo item:{}"),
    (20, "CF.DEL cuckoo item:{}"),
    (1, "CMS.INITBYDIM counts 200 5"),
    (300, "CMS.INCRBY counts item:{} 1{}"),
    (1, "TOPK.RESERVE top 5 50 4 0.9"),
    (300, "TOPK.INCRBY top item:{} 1{}"),
    (1, "TDIGEST.CREATE digest COMPRESSION 50"),
    (300, "TDIGEST.ADD digest {}.25"),
    (1, "TS.CREATE series RETENTION 0 DUPLICATE_POLICY SUM LABELS room kitchen type heat"),
    (1, "TS.CREATE plain ENCODING UNCOMPRESSED CHUNK_SIZE 128"),
    (1, "TS.CREATE hourly LABELS room kitchen type mean"),
    (1, "TS.CREATERULE series hourly AGGREGATION avg 60000"),
    (2000, "TS.ADD series 1{}000 {}.5"),
    (100, "TS.ADD plain {} -{}"),
    (50, "FT.SUGADD suggestions word{} {}"),
    (1, "FT.SUGADD suggestions wordless 3 PAYLOAD why"),
];

/// Requests whose replies are to be the same. Estimates of filters are asked of items that are in
/// them and of others.
const ASK: &[(usize, &str)] = &[
    (1, "DBSIZE"),
    (1, "MGET text number long later"),
    (1, "PEXPIRETIME later"),
    (1, "LRANGE list 0 -1"),
    (1, "LRANGE few 0 -1"),
    (1, "SORT set ALPHA"),
    (1, "SORT numbers"),
    (1, "ZRANGE sorted 0 -1 WITHSCORES"),
    (1, "ZRANGE ranks 0 -1 WITHSCORES"),
    (300, "HGET hash field:{}"),
    (1, "HLEN hash"),
    (5, "HGET small f{}"),
    (1, "HPEXPIRETIME small FIELDS 2 f0 f1"),
    (1, "PFCOUNT loglog"),
    (1, "XRANGE stream - +"),
    (1, "XPENDING stream group"),
    (1, "XPENDING stream group - + 20 consumer"),
    (1, "XINFO GROUPS stream"),
    (1, "JSON.GET document"),
    (600, "BF.EXISTS bloom item:{}"),
    (100, "BF.EXISTS fixed item:{}"),
    (1, "BF.INFO bloom ITEMS"),
    (1, "BF.INFO bloom CAPACITY"),
    (1, "BF.INFO fixed EXPANSION"),
    (400, "CF.COUNT cuckoo item:{}"),
    (350, "CMS.QUERY counts item:{}"),
    (1, "CMS.INFO counts"),
    (1, "TOPK.LIST top WITHCOUNT"),
    (1, "TOPK.INFO top"),
    (1, "TDIGEST.QUANTILE digest 0 0.1 0.25 0.5 0.75 0.9 0.99 1"),
    (1, "TDIGEST.CDF digest 7 100 250.5"),
    (1, "TS.RANGE series - +"),
    (1, "TS.RANGE plain - +"),
    (1, "TS.RANGE hourly - +"),
    (1, "TS.MGET WITHLABELS FILTER room=kitchen"),
    (1, "TS.QUERYINDEX type=mean"),
    (1, "FT.SUGGET suggestions word MAX 60 WITHPAYLOADS"),
    (1, "FT.SUGLEN suggestions"),
];

fn each(requests: &[(usize, &str)], mut run: impl FnMut(&str)) {
    for (count, request) in requests {
        for number in 0..*count {
            // Streams have no entry 0-0.
            let number = if request.starts_with("XADD") { number + 1 } else { number };
            run(&request.replace("{}", &number.to_string()));
        }
    }
}

/// Pending entries, without the time for which each has been idle.
fn without_idle_times(pending: &[Value]) -> String {
    let parts = pending.iter().map(|entry| match entry.elements() {
        Some([id, consumer, _, deliveries]) => format!("{id} {consumer} {deliveries}"),
        _ => panic!("{entry}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn answers(client: &mut RawClient) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    each(ASK, |request| {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let answer = client.call_arguments(&words);
        let reply = match answer.elements() {
            Some(entries) if request.starts_with("XPENDING stream group -") => without_idle_times(entries),
            // The server under test tells of the size of cells as well.
            Some(parts) if request == "CMS.INFO counts" => format!("{:?}", &parts[..6]),
            _ => answer.to_string(),
        };
        answers.push((request.to_owned(), reply));
    });
    answers
}

#[track_caller]
fn compare(what: &str, expected: &[(String, String)], found: &[(String, String)]) {
    let differ = expected.iter().zip(found).filter(|(one, other)| one != other);
    let differ: Vec<String> = differ
        .map(|((request, one), (_, other))| format!("{request}:\n  {:.300}\n  {:.300}", one, other))
        .collect();
    assert!(differ.is_empty() && expected.len() == found.len(), "{what}:\n{}", differ.join("\n"));
}

fn stack(program: &Path, arguments: &[&str]) -> TestServer {
    TestServer::start_program(program, arguments)
}

#[test]
fn every_type_of_redis_stack_comes_and_goes() {
    let Some(program) = std::env::var_os("BRAID_STACK").filter(|_| is_braid()) else { return };
    let program = Path::new(&program);
    let source = stack(program, &[]);
    let mut client = source.connect();
    each(MAKE, |request| {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let reply = client.call_arguments(&words);
        assert!(!reply.is_error(), "{request}: {reply}");
    });
    let expected = answers(&mut client);
    client.ok("SAVE");
    let file = source.directory().join("dump.rdb");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    fs::copy(&file, folder.path().join("dump.rdb")).expect("a copy");
    let server = TestServer::start(&["--dir", path, "--rdb-target", "redis-8"]);
    let mut client = server.connect();
    compare("loaded here", &expected, &answers(&mut client));
    client.ok("SAVE");

    let back = tempfile::tempdir().expect("a folder");
    let path = back.path().to_str().expect("text");
    fs::copy(folder.path().join("dump.rdb"), back.path().join("dump.rdb")).expect("a copy");
    let target = stack(program, &["--dir", path]);
    compare("loaded there again", &expected, &answers(&mut target.connect()));
}
