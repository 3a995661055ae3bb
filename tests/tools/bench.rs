// SPDX-License-Identifier: BSD-3-Clause
//! braid-bench: it sends the requests it reports, counts their replies, and reports failures.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use braid_tests::cluster::Cluster;
use braid_tests::{TestServer, wait_for};
use rustix::process::{Pid, Signal, kill_process};

fn bench() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| crate::program("braid-bench"))
}

/// The braid-bench command line for a server.
fn command(server: &TestServer, arguments: &str) -> Command {
    let mut command = Command::new(bench());
    command.args(["-p", &server.port().to_string()]).args(arguments.split_whitespace());
    command
}

fn run(server: &TestServer, arguments: &str) -> Output {
    command(server, arguments).output().expect("braid-bench starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs braid-bench with `--csv`; returns each result's columns by name.
#[track_caller]
fn measured(server: &TestServer, arguments: &str) -> Vec<HashMap<String, String>> {
    let output = run(server, &format!("--csv {arguments}"));
    assert!(output.status.success(), "{}", text(&output));
    table(&String::from_utf8_lossy(&output.stdout))
}

fn table(csv: &str) -> Vec<HashMap<String, String>> {
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('"').split("\",\"").map(str::to_owned).collect() };
    let mut lines = csv.lines();
    let header = cells(lines.next().expect("a header"));
    lines.map(|line| header.iter().cloned().zip(cells(line)).collect()).collect()
}

#[track_caller]
fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is not a number: {row:?}"))
}

fn info(server: &TestServer, section: &str) -> String {
    let mut client = server.connect_redis();
    redis::cmd("INFO").arg(section).query(&mut client).expect("INFO succeeds")
}

/// Number of calls of a command.
fn calls(server: &TestServer, name: &str) -> u64 {
    let text = info(server, "commandstats");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
    line.and_then(|line| line.split(',').next()).map_or(0, |count| count.parse().expect("a count"))
}

fn keys(server: &TestServer) -> u64 {
    redis::cmd("DBSIZE").query(&mut server.connect_redis()).expect("DBSIZE succeeds")
}

#[test]
fn exactly_the_requested_commands_are_sent() {
    let server = TestServer::start(&[]);
    let rows = measured(&server, "-t set,get -n 3001 -P 8 -c 7 --threads 2 -r 100 -d 32");
    assert_eq!((calls(&server, "set"), calls(&server, "get")), (3001, 3001));
    let names: Vec<&str> = rows.iter().map(|row| row["test"].as_str()).collect();
    assert_eq!(names, ["SET", "GET"]);
    for row in &rows {
        assert!(number(row, "rps") > 0.0 && row["errors"] == "0", "{row:?}");
        let percentiles =
            ["min_latency_ms", "p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "p99_9_latency_ms"];
        let values: Vec<f64> = percentiles.iter().map(|name| number(row, name)).collect();
        assert!(values.is_sorted() && values[0] > 0.0, "{values:?}");
        assert!(number(row, "server_us_per_request") >= 0.0);
    }
    assert!(keys(&server) <= 100);
    let value: Vec<u8> =
        redis::cmd("GET").arg("key:000000000007").query(&mut server.connect_redis()).unwrap();
    assert_eq!(value, [b'x'; 32]);
}

#[test]
fn rate_beyond_capacity_still_sends_all_requests() {
    let server = TestServer::start(&[]);
    measured(&server, "-t set -n 3000 --rate 1000000 -c 2 --threads 2");
    assert_eq!(calls(&server, "set"), 3_000);
}

#[test]
fn sequential_keys_cover_the_range_once() {
    let server = TestServer::start(&[]);
    measured(&server, "-t set -n 500 -r 500 --key-pattern S -c 9 --threads 3 -P 4");
    assert_eq!(keys(&server), 500);
    // `--fill` does that too, here in another database; then no read misses.
    let rows = measured(&server, "--ratio 0:1 -n 300 -r 700 --fill --dbnum 3 -3");
    assert_eq!(rows[0]["misses"], "0");
    let keyspace = info(&server, "keyspace");
    assert!(keyspace.contains("db3:keys=700,"), "{keyspace}");
}

#[test]
fn iterations_flush_only_when_asked_to_and_have_an_interval() {
    let server = TestServer::start(&[]);
    measured(&server, "-n 10 -t set");
    let rows = measured(&server, "-t get -n 500 -r 50 --iterations 5 --warm-up 0.02");
    assert_eq!((calls(&server, "flushdb"), keys(&server)), (0, 1));
    let (low, mean, high) =
        (number(&rows[0], "rps_low"), number(&rows[0], "rps"), number(&rows[0], "rps_high"));
    assert!(low < mean && mean < high, "{low} {mean} {high}");
    measured(&server, "-t get -n 500 -r 50 --iterations 3 --flush");
    assert_eq!((calls(&server, "flushdb"), keys(&server)), (3, 0));
}

#[test]
fn a_mixture_has_its_ratio() {
    let server = TestServer::start(&[]);
    measured(&server, "--ratio 1:4 -n 20000 -r 1000 -P 16 -d 10-500 --random-data --key-pattern Z");
    let (sets, gets) = (calls(&server, "set"), calls(&server, "get"));
    assert_eq!(sets + gets, 20_000);
    assert!((3_500..4_500).contains(&sets), "{sets}");
    let sizes: Vec<usize> = (0..20)
        .filter_map(|key| {
            let len = redis::cmd("STRLEN")
                .arg(format!("key:{key:012}"))
                .query(&mut server.connect_redis())
                .unwrap();
            (len > 0).then_some(len)
        })
        .collect();
    assert!(sizes.iter().all(|size| (10..=500).contains(size)) && sizes.iter().any(|size| *size != sizes[0]));
}

#[test]
fn error_replies_are_counted_and_change_the_exit_status() {
    let server = TestServer::start(&[]);
    redis::cmd("SET").arg("text").arg("x").exec(&mut server.connect_redis()).unwrap();
    let output = run(&server, "-n 700 -P 3 LPUSH text a");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("ERRORS      700: WRONGTYPE 700"), "{}", text(&output));
    // Errors within EXEC's array count too.
    let output = run(&server, "-n 10 EVAL bad");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}

#[test]
fn bench_reports_auth_and_connection_errors() {
    let server = TestServer::start(&["--requirepass", "secret"]);
    let refused = run(&server, "-n 10 PING");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("NOAUTH"), "{}", text(&refused));
    let wrong = run(&server, "-a wrong -n 10 PING");
    assert!(wrong.status.code() == Some(1) && text(&wrong).contains("WRONGPASS"), "{}", text(&wrong));
    assert!(run(&server, "-a secret -n 10 PING").status.success());
    assert!(run(&server, "-a secret --user default -3 -n 10 PING").status.success());
    assert_eq!(run(&server, "--no-such-option").status.code(), Some(2));
    let nobody = Command::new(bench()).args(["-s", "/no/such/socket", "-n", "10"]).output().unwrap();
    assert!(
        nobody.status.code() == Some(1) && text(&nobody).contains("/no/such/socket"),
        "{}",
        text(&nobody)
    );
}

#[test]
fn unix_sockets_large_values_and_new_connections_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let server = TestServer::start(&["--unixsocket", path.to_str().unwrap()]);
    let rows = measured(&server, &format!("-s {} -t set,get -n 60 -c 3 -P 5 -d 1m", path.display()));
    assert!(rows.iter().all(|row| row["errors"] == "0"));
    let len: u64 = redis::cmd("STRLEN").arg("key:__rand_int__").query(&mut server.connect_redis()).unwrap();
    assert_eq!(len, 1 << 20);
    measured(&server, "-k 0 -n 200 -c 4 -P 2 -t incr -r 10");
    assert_eq!(calls(&server, "incr"), 200);
    let stats = info(&server, "stats");
    let connections =
        stats.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
    assert!(connections.parse::<u64>().unwrap() >= 100, "{connections}");
}

/// Waits until the server has executed a command `count` times.
fn wait_for_calls(server: &TestServer, name: &str, count: u64) {
    wait_for("commands to arrive", || calls(server, name) >= count);
}

fn start(server: &TestServer, arguments: &str) -> Child {
    command(server, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("braid-bench starts")
}

#[test]
fn open_loop_charges_a_stall_to_all_delayed_requests() {
    // A busy machine may delay the generator, which then sends fewer requests, or sends them
    // later, but never more.
    let mut seen = Vec::new();
    let is_charged = (0..5).any(|_| {
        let server = TestServer::start(&[]);
        let child = start(&server, "--csv --rate 1000 --duration 1.5 -c 10 -t get");
        wait_for_calls(&server, "get", 100);
        let stall = Duration::from_millis(400);
        server.signal(Signal::STOP);
        let begun = Instant::now();
        while begun.elapsed() < stall {
            std::thread::sleep(stall.saturating_sub(begun.elapsed()));
        }
        server.signal(Signal::CONT);
        let output = child.wait_with_output().unwrap();
        let rows = table(&String::from_utf8_lossy(&output.stdout));
        let (p95, max) = (number(&rows[0], "p95_latency_ms"), number(&rows[0], "max_latency_ms"));
        let calls = calls(&server, "get") as f64;
        seen.push((p95, max, calls));
        // 400 of 1500 requests were due during the stall; their median wait was 200 ms. A closed
        // loop of 10 connections would have counted 10 slow requests.
        assert!(p95 > 150.0 && calls < 1520.0, "{rows:?}, {calls} calls");
        max >= 399.0 && calls > 1480.0
    });
    assert!(is_charged, "p95, maximum, calls: {seen:?}");
}

#[test]
fn interrupt_prints_the_results_so_far() {
    let server = TestServer::start(&[]);
    let child = start(&server, "-t get --duration 60 -c 5");
    wait_for_calls(&server, "get", 1000);
    let id = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("INTERRUPTED") && said.contains("requests/s"), "{said}");
}

#[test]
fn a_server_that_goes_away_is_an_error() {
    let mut server = TestServer::start(&[]);
    let child = start(&server, "-t get --duration 60 -c 5");
    wait_for_calls(&server, "get", 1000);
    server.signal(Signal::KILL);
    server.wait();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("closed a connection") || text(&output).contains("cannot"),
        "{}",
        text(&output)
    );
}

#[test]
fn servers_are_compared_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = (folder.path().join("page.html"), folder.path().join("out.json"));
    let server = braid_tests::server::program_under_test().display().to_string();
    let output = Command::new(bench())
        .args([
            "compare", "--rounds", "2", "-n", "2000", "-c", "5", "-r", "100", "--ratio", "1:1", "-P", "1,8",
            "--csv",
        ])
        .arg("--report")
        .arg(&page)
        .arg("--json-file")
        .arg(&json)
        .arg(format!("one={server}"))
        .arg(format!("two={server} --io-threads 1"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let rows = table(&String::from_utf8_lossy(&output.stdout));
    let places: Vec<(&str, &str)> =
        rows.iter().map(|row| (row["server"].as_str(), row["pipeline"].as_str())).collect();
    assert_eq!(places, [("one", "1"), ("two", "1"), ("one", "8"), ("two", "8")]);
    assert_eq!(rows[0]["ratio"], "1.0000");
    assert!(number(&rows[1], "ratio") > 0.0 && rows.iter().all(|row| row["iterations"] == "2"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("By pipeline depth") && page.contains("</svg>") && !page.contains("http"));
    assert!(std::fs::read_to_string(json).unwrap().contains("\"baseline\": \"one\""));
    let broken =
        Command::new(bench()).args(["compare", "-n", "10", &format!("{server} --no-such-thing x")]).output();
    let broken = broken.unwrap();
    assert!(broken.status.code() == Some(1) && text(&broken).contains("last output"), "{}", text(&broken));
    // The reason, without an empty table before it.
    assert!(text(&broken).contains("no-such-thing"), "{}", text(&broken));
    assert!(!text(&broken).contains("requests/s"), "{}", text(&broken));
}

/// A cluster of two shards; `None` without etcd. Long leases outlast stalls of a busy machine,
/// because refusals without a lease are not under test here.
fn cluster() -> Option<Cluster> {
    Cluster::create(2, 2, &["--lease-time", "6000"]).filter(|_| braid_tests::server::is_braid())
}

fn field(row: &HashMap<String, String>, name: &str) -> u64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

#[test]
fn a_cluster_gets_each_request_where_its_key_is() {
    let Some(cluster) = cluster() else { return };
    let entry = &cluster.nodes[1];
    // Every key once, and then as many requests as specified.
    let rows = measured(entry, "--cluster --ratio 1:3 -n 5003 -r 3000 --fill -P 8 -c 12 --threads 2");
    assert_eq!((field(&rows[0], "errors"), field(&rows[0], "misses")), (0, 0));
    assert_eq!(cluster.nodes.iter().map(keys).sum::<u64>(), 3_000);
    let all = |name: &str| cluster.nodes.iter().map(|node| calls(node, name)).sum::<u64>();
    assert_eq!(all("set") + all("get"), 3_000 + 5_003);
    for node in &cluster.nodes {
        assert!(!info(node, "errorstats").contains("MOVED"), "a request was sent to the wrong node");
        assert!(keys(node) > 1_000 && calls(node, "get") > 1_000);
    }
    // One key for all requests, of a command whose key is not its first argument; then a command
    // without a key.
    let rows = measured(entry, "--cluster -n 500 -c 4 OBJECT ENCODING some:key");
    assert_eq!((all("object|encoding"), field(&rows[0], "errors")), (500, 0));
    let rows = measured(entry, "--cluster -n 500 -c 4 ECHO hello");
    assert_eq!((all("echo"), field(&rows[0], "errors")), (500, 0));
    assert!(cluster.nodes.iter().all(|node| calls(node, "echo") > 0));
    // `--flush` empties all nodes.
    measured(entry, "--cluster -t get -n 10 -r 100 --flush");
    assert_eq!(cluster.nodes.iter().map(keys).sum::<u64>(), 0);
    // Requests of an open loop go to the right nodes as well.
    let rows = measured(entry, "--cluster --ratio 1:3 --rate 3000 -n 2000 -r 3000 -c 6 --threads 2");
    assert_eq!((field(&rows[0], "errors"), all("set") + all("get")), (0, 3_000 + 5_003 + 10 + 2_000));
    // So do requests that wait for a connection.
    measured(entry, "--cluster --ratio 1:3 --rate 1000000 -n 2000 -r 3000 -c 6 --threads 2");
    assert_eq!(all("set") + all("get"), 3_000 + 5_003 + 10 + 4_000);
    assert!(cluster.nodes.iter().all(|node| !info(node, "errorstats").contains("MOVED")));
    let told = text(&run(entry, "--cluster -n 10 -c 3 --threads 2"));
    assert!(told.contains("need at least 4 connections"), "{told}");
    let alone = TestServer::start(&[]);
    assert!(text(&run(&alone, "--cluster -n 10")).contains("CLUSTER SLOTS"));
}

#[test]
fn redirections_are_followed_also_to_new_nodes() {
    follow_redirections("-P 4");
}

#[test]
fn redirections_of_an_open_loop_are_followed() {
    follow_redirections("-P 4 --rate 4000");
}

fn follow_redirections(more: &str) {
    let Some(mut cluster) = cluster() else { return };
    cluster.add_node();
    let new = cluster.nodes[2].port();
    cluster.client(0).ok(&format!("CLUSTER MEET 127.0.0.1 {new}"));
    cluster.wait_for("all nodes know the new node", || (0..3).all(|index| cluster.lines(index).len() == 3));
    let mut child = command(
        &cluster.nodes[0],
        &format!("--cluster --ratio 1:1 -r 5000 --duration 3600 -c 8 {more} --json"),
    )
    .stdout(Stdio::piped())
    .spawn()
    .expect("braid-bench starts");
    cluster.wait_for("braid-bench to write", || keys(&cluster.nodes[0]) > 1_000);
    cluster.move_slots(0, 1, "0 3000");
    cluster.move_slots(1, 2, "8192 12000");
    cluster.wait_for("requests to reach the new node", || {
        calls(&cluster.nodes[2], "set") > 1_000 && calls(&cluster.nodes[2], "get") > 1_000
    });
    let id = Pid::from_raw(child.id().try_into().expect("a pid")).expect("a pid");
    kill_process(id, Signal::INT).expect("it runs");
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut told).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let result = &told["results"][0];
    assert!(result["redirected"].as_u64().is_some_and(|count| count > 0), "{result}");
    assert_eq!(result["errors"], 0, "{result}");
}

#[test]
fn a_cluster_of_processes_is_compared() {
    let Some(stock) = braid_tests::server::stock() else { return };
    let output = Command::new(bench())
        .args("compare --rounds 1 -n 2000 -r 500 --fill -c 8 -t set,get --markdown".split(' '))
        .arg(format!("cluster=cluster:2:{}", stock.program.display()))
        .arg(format!("one={}", braid_tests::server::program_under_test().display()))
        .output()
        .expect("braid-bench starts");
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("a cluster of 2 processes): ") && told.contains("memory MB"), "{told}");
    let rows: Vec<&str> = told.lines().filter(|line| line.contains("| cluster |")).collect();
    assert_eq!(rows.len(), 2, "{told}");
    // The memory column has the total of both processes: a number, not a dash.
    assert!(rows.iter().all(|row| !row.trim_end().ends_with("| - |")), "{told}");
    let wrong =
        Command::new(bench()).args(["compare", "cluster:x:redis-server"]).output().expect("it starts");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong).contains("is not a cluster: cluster:PROCESSES:COMMAND LINE"), "{}", text(&wrong));
}

#[test]
fn vectors_are_found_and_their_cost_is_told() {
    let server = TestServer::start(&["--save", ""]);
    let mut client = server.connect_redis();
    let vcard: redis::RedisResult<i64> = redis::cmd("VCARD").arg("none").query(&mut client);
    if vcard.is_err() {
        println!("skipped: a server without vector sets");
        return;
    }
    let address = format!("a=127.0.0.1:{}", server.port());
    let run = |more: &[&str]| {
        let words = ["vectors", "--count", "500", "--dim", "16", "--clusters", "5", "--queries", "50"];
        Command::new(bench()).args(words).arg(&address).args(more).output().expect("braid-bench starts")
    };
    let output = run(&["--ef", "5,400", "-c", "2", "--quantisation", "noquant", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let server_found = &found["servers"][0];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    assert_eq!((&found["vectors"], &server_found["server"]), (&500.into(), &"a".into()));
    assert!(number(&server_found["vadd"]["per_second"]) > 0.0);
    let searches = server_found["vsim"].as_array().expect("searches");
    assert_eq!(searches.len(), 2);
    // EF 400 of 500 elements: exact, but for rounding.
    assert!(number(&searches[1]["recall"]) > 0.99, "{found}");
    assert!(searches.iter().all(|search| number(&search["cost"]["per_second"]) > 0.0));
    assert_eq!((calls(&server, "vadd"), calls(&server, "vsim")), (500, 100));
    assert_eq!(keys(&server), 0);
    // A key that is there is not touched.
    let () = redis::cmd("SET").arg("braid-bench:vectors").arg("x").query(&mut client).expect("SET succeeds");
    let output = run(&["--ef", "5"]);
    assert!(!output.status.success() && text(&output).contains("exists already"), "{}", text(&output));
    assert_eq!((calls(&server, "vadd"), keys(&server)), (500, 1));
    let output = run(&["--ef", "5", "--key", "other", "--markdown"]);
    assert!(output.status.success() && text(&output).contains("| VSIM EF 5 |"), "{}", text(&output));
}
