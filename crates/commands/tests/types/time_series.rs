// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the time series commands.

use braid_commands::testing::Tester;
use braid_resp::reply::Protocol;

const OK: &str = "+OK\r\n";
const BLOCKED: &str =
    "-ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode\r\n";

#[test]
fn samples_are_added_merged_and_returned() {
    Tester::new().check(&[
        ("TS.ADD t 1000 5", ":1000\r\n"),
        ("TS.ADD t 1000 6", BLOCKED),
        ("TS.ADD t 1000 6 ON_DUPLICATE SUM", ":1000\r\n"),
        ("TS.GET t", "*2\r\n:1000\r\n+11\r\n"),
        ("TS.ADD t 500 0.1", ":500\r\n"),
        ("TS.RANGE t - +", "*2\r\n*2\r\n:500\r\n+1E-1\r\n*2\r\n:1000\r\n+11\r\n"),
        ("TS.REVRANGE t - + COUNT 1", "*1\r\n*2\r\n:1000\r\n+11\r\n"),
        ("TS.MADD t 2000 1 none 1 1 t 2000 2 t x 1 t 1 x", &format!("*5\r\n:2000\r\n-ERR TSDB: the key is not a TSDB key\r\n{BLOCKED}-ERR TSDB: invalid timestamp\r\n-ERR TSDB: invalid value\r\n")),
        ("TS.INCRBY t 2.5 TIMESTAMP 3000", ":3000\r\n"),
        ("TS.DECRBY t 1 TIMESTAMP 3000", ":3000\r\n"),
        ("TS.GET t", "*2\r\n:3000\r\n+2.5\r\n"),
        ("TS.DEL t 0 999", ":1\r\n"),
        ("TS.RANGE t - + FILTER_BY_TS 1000 3000", "*2\r\n*2\r\n:1000\r\n+11\r\n*2\r\n:3000\r\n+2.5\r\n"),
        ("TS.RANGE t - + FILTER_BY_VALUE 1 3 COUNT 1", "*1\r\n*2\r\n:2000\r\n+1\r\n"),
        ("TYPE t", "+TSDB-TYPE\r\n"),
    ]);
}

#[test]
fn buckets_are_aligned_and_stamped() {
    let mut tester = Tester::new();
    tester.run("TS.CREATE t");
    tester.run("TS.MADD t 3 1 t 7 2 t 12 3 t 18 4 t 25 5");
    let pairs = |pairs: &[(u64, &str)]| {
        let each = pairs.iter().map(|(time, value)| format!("*2\r\n:{time}\r\n+{value}\r\n"));
        format!("*{}\r\n{}", pairs.len(), each.collect::<String>())
    };
    tester.check(&[
        ("TS.RANGE t - + AGGREGATION sum 10", &pairs(&[(0, "3"), (10, "7"), (20, "5")])),
        ("TS.RANGE t 5 20 ALIGN start AGGREGATION sum 10", &pairs(&[(5, "5"), (15, "4")])),
        ("TS.RANGE t - + ALIGN 7 AGGREGATION sum 10", &pairs(&[(0, "1"), (7, "5"), (17, "9")])),
        ("TS.RANGE t - + AGGREGATION sum 10 BUCKETTIMESTAMP +", &pairs(&[(10, "3"), (20, "7"), (30, "5")])),
        (
            "TS.RANGE t - + AGGREGATION twa 10",
            &pairs(&[(0, "1.8428571428571427"), (10, "3.4885714285714284"), (20, "4.642857142857142")]),
        ),
        ("TS.REVRANGE t - + AGGREGATION max 10 COUNT 2", &pairs(&[(20, "5"), (10, "4")])),
        ("TS.RANGE t 0 9 AGGREGATION count 2 EMPTY", &pairs(&[(2, "1"), (4, "0"), (6, "1")])),
        ("TS.RANGE t - + ALIGN 5", "-ERR TSDB: ALIGN parameter can only be used with AGGREGATION\r\n"),
        ("TS.RANGE t - + AGGREGATION sum 0", "-ERR TSDB: bucketDuration must be greater than zero\r\n"),
    ]);
}

/// Times and sizes at the ends of what is allowed.
#[test]
fn extreme_times_and_sizes() {
    let mut tester = Tester::new();
    tester.check(&[
        ("TS.ADD t 9223372036854775807 1", ":9223372036854775807\r\n"),
        ("TS.ADD t 9223372036854775808 1", "-ERR TSDB: invalid timestamp\r\n"),
        ("TS.ADD t -1 1", "-ERR TSDB: invalid timestamp, must be a nonnegative integer\r\n"),
        ("TS.ADD t 0 -0", ":0\r\n"),
        (
            "TS.RANGE t - + AGGREGATION sum 9223372036854775807 BUCKETTIMESTAMP +",
            "*2\r\n*2\r\n:9223372036854775807\r\n+0\r\n*2\r\n:9223372036854775807\r\n+1\r\n",
        ),
        (
            "TS.RANGE t - + ALIGN 9223372036854775807 AGGREGATION count 9223372036854775806",
            "*2\r\n*2\r\n:0\r\n+1\r\n*2\r\n:9223372036854775807\r\n+1\r\n",
        ),
        (
            "TS.CREATE s CHUNK_SIZE 40",
            "-ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]\r\n",
        ),
        ("TS.CREATE s RETENTION 9223372036854775807 CHUNK_SIZE 1048576", OK),
        ("TS.ADD s 5 1e308", ":5\r\n"),
        ("TS.ADD s 5 1e400", "-ERR TSDB: invalid value\r\n"),
        ("TS.INCRBY s inf TIMESTAMP 6", ":6\r\n"),
        ("TS.INCRBY s -inf TIMESTAMP 7", "-ERR TSDB: invalid increase/decrease value\r\n"),
        ("TS.DEL t 0 9223372036854775807", ":2\r\n"),
    ]);
    let refused = tester.run("TS.ADD u 0 1");
    assert_eq!(refused, ":0\r\n");
    tester.run("TS.ADD u 9000000000 1");
    let many = tester.run("TS.RANGE u - + AGGREGATION count 1 EMPTY");
    assert!(many.starts_with("-ERR TSDB: EMPTY would report more than"), "{many}");
}

#[test]
fn rules_fill_their_targets() {
    let mut tester = Tester::new();
    tester.check(&[
        ("TS.CREATE s", OK),
        ("TS.CREATE c", OK),
        ("TS.CREATERULE s c AGGREGATION sum 10", OK),
        ("TS.ADD s 1 1", ":1\r\n"),
        ("TS.ADD s 5 2", ":5\r\n"),
        ("TS.GET c", "*0\r\n"),
        ("TS.GET c LATEST", "*2\r\n:0\r\n+3\r\n"),
        ("TS.ADD s 11 4", ":11\r\n"),
        ("TS.GET c", "*2\r\n:0\r\n+3\r\n"),
        ("TS.ADD s 3 10", ":3\r\n"),
        ("TS.RANGE c - + LATEST", "*2\r\n*2\r\n:0\r\n+13\r\n*2\r\n:10\r\n+4\r\n"),
        ("TS.DEL s 1 3", ":2\r\n"),
        ("TS.RANGE c - +", "*1\r\n*2\r\n:0\r\n+2\r\n"),
        ("TS.CREATERULE s c AGGREGATION avg 10", "-ERR TSDB: the destination key already has a src rule\r\n"),
        ("TS.CREATERULE c s AGGREGATION avg 10", "-ERR TSDB: the source key already has a source rule\r\n"),
        ("RENAME c d", OK),
        ("RENAME s r", OK),
        ("TS.ADD r 21 1", ":21\r\n"),
        ("TS.GET d", "*2\r\n:10\r\n+4\r\n"),
        ("COPY r copy", ":1\r\n"),
        ("TS.ADD copy 31 1", ":31\r\n"),
        ("TS.GET d", "*2\r\n:10\r\n+4\r\n"),
        ("DEL d", ":1\r\n"),
        ("TS.CREATE d", OK),
        ("TS.ADD r 41 1", ":41\r\n"),
        ("TS.GET d", "*0\r\n"),
        ("TS.DELETERULE r d", "-ERR TSDB: compaction rule does not exist\r\n"),
    ]);
    let info = tester.run("TS.INFO r");
    assert!(info.contains("+rules\r\n*0\r\n"), "{info}");
}

/// A transaction that changes a source holds its targets, too, whatever it names.
#[test]
fn rules_work_in_transactions_and_scripts() {
    let mut tester = Tester::new();
    tester.check(&[
        ("TS.CREATE s", OK),
        ("TS.CREATE c", OK),
        ("TS.CREATERULE s c AGGREGATION count 10", OK),
        ("MULTI", OK),
        ("TS.ADD s 1 1", "+QUEUED\r\n"),
        ("TS.ADD s 11 1", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n:1\r\n:11\r\n"),
        ("TS.GET c", "*2\r\n:0\r\n+1\r\n"),
    ]);
    let run = tester.run_args(0, &[b"EVAL", b"return redis.call('TS.ADD', KEYS[1], 21, 1)", b"1", b"s"]);
    assert_eq!(run, b":21\r\n");
    tester.check(&[("TS.GET c", "*2\r\n:10\r\n+1\r\n")]);
}

#[test]
fn series_are_found_by_labels() {
    let mut tester = Tester::new();
    tester.check(&[
        ("TS.CREATE a LABELS l x m 1", OK),
        ("TS.QUERYINDEX l=x", "*1\r\n$1\r\na\r\n"),
        ("TS.CREATE b LABELS l y m 1", OK),
        ("TS.ADD c 5 2 LABELS l y", ":5\r\n"),
        ("TS.ADD b 5 3", ":5\r\n"),
        ("TS.QUERYINDEX l=(x,y)", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("TS.QUERYINDEX l=(x,y) m=", "*1\r\n$1\r\nc\r\n"),
        ("TS.QUERYINDEX m=1 l!=x", "*1\r\n$1\r\nb\r\n"),
        ("TS.QUERYINDEX l!=x", "-ERR TSDB: please provide at least one matcher\r\n"),
        ("TS.QUERYINDEX nonsense", "-ERR TSDB: failed parsing labels\r\n"),
        ("TS.MGET FILTER l=x", "*1\r\n*3\r\n$1\r\na\r\n*0\r\n*0\r\n"),
        (
            "TS.MGET SELECTED_LABELS m q FILTER l=y m=1",
            "*1\r\n*3\r\n$1\r\nb\r\n*2\r\n*2\r\n$1\r\nm\r\n$1\r\n1\r\n*2\r\n$1\r\nq\r\n$-1\r\n*2\r\n:5\r\n+3\r\n",
        ),
        (
            "TS.MRANGE - + WITHLABELS FILTER l=y GROUPBY l REDUCE sum",
            "*1\r\n*3\r\n$3\r\nl=y\r\n*3\r\n*2\r\n$1\r\nl\r\n$1\r\ny\r\n*2\r\n$11\r\n__reducer__\r\n$3\r\nsum\r\n*2\r\n$10\r\n__source__\r\n$3\r\nb,c\r\n*1\r\n*2\r\n:5\r\n+5\r\n",
        ),
        ("TS.ALTER a LABELS l z", OK),
        ("TS.QUERYINDEX l=x", "*0\r\n"),
        ("RENAME a z", OK),
        ("TS.QUERYINDEX l=z", "*1\r\n$1\r\nz\r\n"),
        ("COPY z y", ":1\r\n"),
        ("TS.QUERYINDEX l=z", "*2\r\n$1\r\ny\r\n$1\r\nz\r\n"),
        ("DEL z", ":1\r\n"),
        ("SET y text", OK),
        ("TS.QUERYINDEX l=z", "*0\r\n"),
        ("MULTI", OK),
        ("TS.CREATE n LABELS l z", "+QUEUED\r\n"),
        ("TS.QUERYINDEX l=z", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n*1\r\n$1\r\nn\r\n"),
        ("MOVE n 1", ":1\r\n"),
        ("TS.QUERYINDEX l=z", "*0\r\n"),
        ("SWAPDB 0 1", OK),
        ("TS.QUERYINDEX l=z", "*1\r\n$1\r\nn\r\n"),
        ("FLUSHALL", OK),
        ("TS.QUERYINDEX l=z", "*0\r\n"),
    ]);
}

/// The examples of redis.io's page of TS.QUERYLABELS, and what it says of each case.
#[test]
fn labels_and_their_values_are_listed() {
    let mut tester = Tester::new();
    for (room, kind) in [("study", "temperature"), ("study", "humidity"), ("kitchen", "temperature")] {
        tester.run(&format!("TS.CREATE telemetry:{room}:{kind} LABELS room {room} type {kind}"));
    }
    tester.check(&[
        ("TS.CREATE bare", OK),
        ("TS.CREATE floor LABELS floor 1", OK),
        ("TS.QUERYLABELS LABELS FILTER room=kitchen", "*2\r\n$4\r\nroom\r\n$4\r\ntype\r\n"),
        ("TS.QUERYLABELS VALUES type", "*2\r\n$8\r\nhumidity\r\n$11\r\ntemperature\r\n"),
        ("ts.querylabels values type filter room=kitchen", "*1\r\n$11\r\ntemperature\r\n"),
        ("TS.QUERYLABELS LABELS", "*3\r\n$5\r\nfloor\r\n$4\r\nroom\r\n$4\r\ntype\r\n"),
        ("TS.QUERYLABELS VALUES none", "*0\r\n"),
        ("TS.QUERYLABELS VALUES floor FILTER room=study", "*0\r\n"),
        ("TS.QUERYLABELS LABELS FILTER room=attic", "*0\r\n"),
        ("TS.QUERYLABELS KEYS", "-ERR TSDB: expected LABELS or VALUES\r\n"),
        ("TS.QUERYLABELS VALUES", "-ERR wrong number of arguments for 'ts.querylabels' command\r\n"),
        ("TS.QUERYLABELS LABELS FILTER", "-ERR wrong number of arguments for 'ts.querylabels' command\r\n"),
        ("TS.QUERYLABELS LABELS FILTER nonsense", "-ERR TSDB: failed parsing labels\r\n"),
        ("TS.ALTER floor LABELS level 2", OK),
        ("TS.QUERYLABELS LABELS FILTER level=2", "*1\r\n$5\r\nlevel\r\n"),
        ("TS.QUERYLABELS VALUES floor", "*0\r\n"),
        ("DEL telemetry:study:temperature telemetry:study:humidity floor", ":3\r\n"),
        ("TS.QUERYLABELS VALUES room", "*1\r\n$7\r\nkitchen\r\n"),
        ("TS.QUERYLABELS LABELS", "*2\r\n$4\r\nroom\r\n$4\r\ntype\r\n"),
        ("TS.CREATE floor LABELS floor 3", OK),
        ("TS.QUERYLABELS VALUES floor", "*1\r\n$1\r\n3\r\n"),
    ]);
    tester.speak(0, Protocol::Resp3);
    tester.check(&[("TS.QUERYLABELS VALUES type", "~1\r\n$11\r\ntemperature\r\n")]);
}

/// The examples of redis.io's page of TS.NRANGE, and what it says of each case.
#[test]
fn several_series_are_returned_side_by_side() {
    let mut tester = Tester::new();
    let rows = |rows: &[(u64, &[&str])]| {
        let row = |(time, values): &(u64, &[&str])| {
            let values: String = values.iter().map(|value| format!("+{value}\r\n")).collect();
            format!("*2\r\n:{time}\r\n*{}\r\n{values}", values.matches('+').count())
        };
        format!("*{}\r\n{}", rows.len(), rows.iter().map(row).collect::<String>())
    };
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command\r\n");
    tester.run("TS.CREATE s:1");
    tester.run("TS.CREATE s:2");
    tester.run("TS.MADD s:1 1000 10 s:1 2000 12");
    tester.run("TS.MADD s:2 1000 20 s:2 3000 25");
    let all = [(1000, &["10", "20"][..]), (2000, &["12", "NaN"]), (3000, &["NaN", "25"])];
    let mut back = all;
    back.reverse();
    tester.check(&[
        ("TS.NRANGE 2 s:1 s:2 - +", &rows(&all)),
        ("TS.NREVRANGE 2 s:1 s:2 - +", &rows(&back)),
        ("TS.NRANGE 2 s:1 s:2 - + COUNT 2", &rows(&all[..2])),
        ("TS.NREVRANGE 2 s:1 s:2 - + COUNT 1", &rows(&back[..1])),
        ("TS.NRANGE 3 s:2 s:1 s:2 2500 +", &rows(&[(3000, &["25", "NaN", "25"])])),
        (
            "TS.NRANGE 2 s:1 s:2 - + FILTER_BY_VALUE 11 21",
            &rows(&[(1000, &["NaN", "20"]), (2000, &["12", "NaN"])]),
        ),
        ("TS.NRANGE 2 s:1 s:2 4000 +", "*0\r\n"),
        ("TS.NRANGE 2 s:1 none - +", "-ERR TSDB: the key does not exist\r\n"),
        ("TS.NRANGE 0 s:1 - +", "-ERR TSDB: numkeys must be a positive integer\r\n"),
        ("TS.NRANGE x s:1 - +", "-ERR TSDB: numkeys must be a positive integer\r\n"),
        ("TS.NRANGE 2 s:1 - +", &arity("ts.nrange")),
        ("TS.NREVRANGE 9223372036854775807 s:1 - +", &arity("ts.nrevrange")),
    ]);
    tester.run("TS.MADD s:1 1100 20 s:2 1100 15 s:2 2000 25");
    tester.check(&[
        (
            "TS.NRANGE 2 s:1 s:2 - 2000 AGGREGATION avg sum 1000",
            &rows(&[(1000, &["15", "35"]), (2000, &["12", "25"])]),
        ),
        (
            "TS.NRANGE 2 s:1 s:2 - + AGGREGATION avg,max count 1000 COUNT 2",
            &rows(&[(1000, &["15", "20", "2"]), (2000, &["12", "12", "1"])]),
        ),
        (
            "TS.NRANGE 1 s:1 - + AGGREGATION min,max 1000",
            &rows(&[(1000, &["10", "20"]), (2000, &["12", "12"])]),
        ),
        (
            "TS.NREVRANGE 2 s:1 s:2 - + AGGREGATION first last 1000 BUCKETTIMESTAMP +",
            // As TS.REVRANGE does on Redis Stack: the first sample is the one that is read first.
            &rows(&[(4000, &["NaN", "25"]), (3000, &["12", "25"]), (2000, &["20", "20"])]),
        ),
        ("TS.NRANGE 2 s:1 s:2 - + AGGREGATION avg 1000", "-ERR TSDB: Couldn't parse AGGREGATION\r\n"),
        ("TS.NRANGE 2 s:1 s:2 - + AGGREGATION avg none 1000", "-ERR TSDB: Unknown aggregation type\r\n"),
        (
            "TS.NRANGE 2 s:1 s:2 - + AGGREGATION avg sum 0",
            "-ERR TSDB: bucketDuration must be greater than zero\r\n",
        ),
        ("TS.CREATE d", OK),
        ("TS.CREATERULE s:1 d AGGREGATION sum 1000", OK),
        ("TS.ADD s:1 5000 7", ":5000\r\n"),
        ("TS.NRANGE 2 d s:1 5000 +", &rows(&[(5000, &["NaN", "7"])])),
        ("TS.NRANGE 2 d s:1 5000 + LATEST", &rows(&[(5000, &["7", "7"])])),
        ("SET text t", OK),
        (
            "TS.NRANGE 2 s:1 text - +",
            "-ERR WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
    ]);
    tester.speak(0, Protocol::Resp3);
    tester.check(&[("TS.NRANGE 2 s:1 s:2 3000 3000", "*1\r\n*2\r\n:3000\r\n*2\r\n,nan\r\n,25\r\n")]);
}

#[test]
fn queries_return_what_the_user_may_read() {
    let mut tester = Tester::new();
    tester.client();
    tester.check(&[
        ("TS.CREATE a1 LABELS l x", OK),
        ("TS.CREATE b1 LABELS l x m 1", OK),
        ("ACL SETUSER u on nopass allcommands ~a*", OK),
    ]);
    assert_eq!(tester.run_as(1, "AUTH u x"), OK);
    assert_eq!(tester.run_as(1, "TS.QUERYINDEX l=x"), "-NOPERM No permissions to access a key\r\n");
    assert_eq!(tester.run_as(1, "TS.MGET FILTER l=x"), "-NOPERM No permissions to access a key\r\n");
    assert_eq!(tester.run_as(1, "TS.QUERYINDEX l=x m="), "*1\r\n$2\r\na1\r\n");
    assert_eq!(tester.run("TS.QUERYINDEX l=x"), "*2\r\n$2\r\na1\r\n$2\r\nb1\r\n");
    assert_eq!(tester.run_as(1, "TS.QUERYLABELS LABELS"), "*1\r\n$1\r\nl\r\n");
    assert_eq!(tester.run_as(1, "TS.QUERYLABELS VALUES m FILTER l=x"), "*0\r\n");
    assert_eq!(tester.run("TS.QUERYLABELS VALUES m FILTER l=x"), "*1\r\n$1\r\n1\r\n");
    let refused = "-NOPERM No permissions to access a key\r\n";
    assert_eq!(tester.run_as(1, "TS.NRANGE 2 a1 b1 - +"), refused);
    assert_eq!(tester.run_as(1, "TS.NREVRANGE 1 a1 - +"), "*0\r\n");
}

#[test]
fn resp3_has_maps_and_doubles() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(&[
        ("TS.ADD t 5 0.1 LABELS l x", ":5\r\n"),
        ("TS.GET t", "*2\r\n:5\r\n,0.1\r\n"),
        (
            "TS.MGET WITHLABELS FILTER l=x",
            "%1\r\n$1\r\nt\r\n*2\r\n%1\r\n$1\r\nl\r\n$1\r\nx\r\n*2\r\n:5\r\n,0.1\r\n",
        ),
        (
            "TS.MRANGE - + FILTER l=x",
            "%1\r\n$1\r\nt\r\n*3\r\n%0\r\n%1\r\n$11\r\naggregators\r\n*0\r\n*1\r\n*2\r\n:5\r\n,0.1\r\n",
        ),
    ]);
    assert!(tester.run("TS.INFO t").starts_with("%14\r\n+totalSamples\r\n:1\r\n+memoryUsage\r\n:"));
}

/// The DUMP payload of `TS.CREATE k6` and `TS.ADD k6 1 1` in Redis Stack 7.4.
const DUMP: &[u8] = b"\x07\x81M \xc1\xf96\x0f\x10\x08\x05\x02k6\x02\x00\x02P\x00\x02\x02\x02\x01\x04\x00\x00\x00\x00\x00\x00\xf0?\x02\x01\x02\x00\x02\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x00\x02\x01\x02P\x00\x02\x01\x02\x00\x02\x81?\xf0\x00\x00\x00\x00\x00\x00\x02\x01\x02\x01\x02\x00\x02\x81?\xf0\x00\x00\x00\x00\x00\x00\x02 \x02 \x05\xc36P\x00\x01\x00\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0{\x00\x01\x00\x00\x00\x0c\x00G\xcf\x12:\xe4{\x04\xd4";

#[test]
fn payloads_of_redis_stack_are_read() {
    let mut tester = Tester::new();
    assert_eq!(tester.run_args(0, &[b"RESTORE", b"k", b"0", DUMP]), OK.as_bytes());
    tester.check(&[("TS.RANGE k - +", "*1\r\n*2\r\n:1\r\n+1\r\n"), ("TS.ADD k 2 3", ":2\r\n")]);
    let dump = tester.run_args(0, &[b"DUMP", b"k"]);
    let start = dump.iter().position(|&byte| byte == b'\n').expect("a bulk string") + 1;
    assert_eq!(
        tester.run_args(0, &[b"RESTORE", b"again", b"0", &dump[start..dump.len() - 2]]),
        OK.as_bytes()
    );
    tester.check(&[("TS.RANGE again - +", "*2\r\n*2\r\n:1\r\n+1\r\n*2\r\n:2\r\n+3\r\n")]);
    for at in [12, 40, 60, 100] {
        let mut damaged = DUMP.to_vec();
        damaged[at] ^= 0x5a;
        let reply = tester.run_args(0, &[b"RESTORE", b"bad", b"0", &damaged]);
        assert!(reply.starts_with(b"-"), "byte {at}");
    }
}

/// The examples of redis.io's page of the command.
#[test]
fn a_series_is_read_from_a_time_on() {
    let all = "*3\r\n*2\r\n:100\r\n+1\r\n*2\r\n:200\r\n+2\r\n*2\r\n:300\r\n+3\r\n";
    let last = "*1\r\n*2\r\n:300\r\n+3\r\n";
    let arity = "-ERR wrong number of arguments for 'ts.read' command\r\n";
    Tester::new().check(&[
        ("TS.READ none -", "*0\r\n"),
        ("TS.CREATE s", OK),
        ("TS.READ s +", "*0\r\n"),
        ("TS.MADD s 100 1 s 200 2 s 300 3", "*3\r\n:100\r\n:200\r\n:300\r\n"),
        ("TS.READ s 0", all),
        ("TS.READ s -", all),
        ("TS.READ s 100 BLOCK 0 3", all),
        ("TS.READ s - MAX_COUNT 2", "*2\r\n*2\r\n:100\r\n+1\r\n*2\r\n:200\r\n+2\r\n"),
        ("TS.READ s 201 MAX_COUNT 2 BLOCK 10 1", last),
        ("TS.READ s +", last),
        ("TS.READ s $", "*0\r\n"),
        ("TS.READ s - MAX_COUNT", arity),
        ("TS.READ s - BLOCK 5", arity),
        ("TS.READ s - more", arity),
        ("TS.READ s - MAX_COUNT 1 MAX_COUNT 2", arity),
        ("TS.READ s x", "-ERR TSDB: invalid timestamp\r\n"),
        ("TS.READ s -1", "-ERR TSDB: invalid timestamp\r\n"),
        ("TS.READ s - MAX_COUNT 0", "-ERR TSDB: max_count must be a positive integer\r\n"),
        ("TS.READ s - BLOCK 5 0", "-ERR TSDB: min_count must be a positive integer\r\n"),
        ("TS.READ s - BLOCK -5 1", "-ERR timeout is negative\r\n"),
        ("TS.READ s - BLOCK 5 2 MAX_COUNT 1", "-ERR TSDB: max_count must not be less than min_count\r\n"),
        ("SET text 1", OK),
        (
            "TS.READ text - BLOCK 5 1",
            "-ERR WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        ("MULTI", OK),
        ("TS.READ s $ BLOCK 0 1", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n*0\r\n"),
        (
            "EVAL \"return redis.call('TS.READ', 's', '+', 'BLOCK', '0', '2')\" 1 s",
            "*1\r\n*2\r\n:300\r\n+3\r\n",
        ),
    ]);
}

#[test]
fn a_reader_waits_for_samples() {
    let mut tester = Tester::new();
    let (tail, several, empty) = (tester.client(), tester.client(), tester.client());
    tester.wait_as(tail, "TS.READ s $ BLOCK 0 1");
    tester.wait_as(several, "TS.READ s 100 BLOCK 0 2 MAX_COUNT 5");
    tester.check(&[("TS.ADD s 50 5", ":50\r\n")]);
    assert_eq!(tester.told(tail), "*1\r\n*2\r\n:50\r\n+5\r\n", "a series that was not there begins at 0");
    tester.check(&[("TS.ADD s 100 1", ":100\r\n")]);
    assert!(tester.told(several).is_empty() && tester.is_waiting(several));
    tester.wait_as(tail, "TS.READ s $ BLOCK 0 1");
    tester.check(&[("TS.ADD s 70 7", ":70\r\n")]);
    assert!(tester.told(tail).is_empty() && tester.is_waiting(tail), "older than the last one was");
    tester.check(&[("TS.MADD s 101 2 s 102 3", "*2\r\n:101\r\n:102\r\n")]);
    let three = "*3\r\n*2\r\n:100\r\n+1\r\n*2\r\n:101\r\n+2\r\n*2\r\n:102\r\n+3\r\n";
    assert_eq!(tester.told(several), three);
    assert_eq!(tester.told(tail), "*2\r\n*2\r\n:101\r\n+2\r\n*2\r\n:102\r\n+3\r\n");
    // A key that is removed or replaced ends the wait.
    tester.wait_as(empty, "TS.READ s $ BLOCK 0 1");
    tester.check(&[("DEL s", ":1\r\n")]);
    assert_eq!(tester.told(empty), "*0\r\n");
    tester.check(&[("TS.ADD s 50 5", ":50\r\n")]);
    tester.wait_as(empty, "TS.READ s 60 BLOCK 0 1");
    tester.check(&[("SET s text", OK)]);
    assert_eq!(tester.told(empty), "*0\r\n");
}

/// What a compaction rule makes ends a wait as well.
#[test]
fn a_reader_waits_for_a_bucket() {
    let mut tester = Tester::new();
    let reader = tester.client();
    tester.check(&[
        ("TS.CREATE s", OK),
        ("TS.CREATE hours", OK),
        ("TS.CREATERULE s hours AGGREGATION SUM 100", OK),
    ]);
    tester.wait_as(reader, "TS.READ hours - BLOCK 0 1");
    tester.check(&[("TS.ADD s 10 5", ":10\r\n"), ("TS.ADD s 20 6", ":20\r\n")]);
    assert!(tester.told(reader).is_empty());
    tester.check(&[("TS.ADD s 110 1", ":110\r\n")]);
    assert_eq!(tester.told(reader), "*1\r\n*2\r\n:0\r\n+11\r\n");
}
