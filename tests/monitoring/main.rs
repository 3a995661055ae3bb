// SPDX-License-Identifier: BSD-3-Clause
//! Monitoring as operators set it up: a real Prometheus that scrapes the server, the alert rules
//! and the dashboard of `deploy/`, and redis_exporter. Tests of programs that are not installed
//! are skipped with a message, or fail if `CI` is set.
//!
//!   cargo test -p braid-tests --test monitoring
//!
//! Debian's packages: prometheus (with promtool), prometheus-redis-exporter.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use braid_tests::http::{get, metric};
use braid_tests::server::{free_port, stock};
use braid_tests::{Etcd, RawClient, TestServer, request, wait_for, wait_for_within};
use serde_json::Value;

/// Number of rules in `deploy/prometheus/braid.rules.yml`.
const RULES: usize = 42;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// Finds a program by any of its names.
fn program(test: &str, names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
    });
    if found.is_none() {
        let message = format!("{test}: there is no {} on PATH", names[0]);
        assert!(std::env::var_os("CI").is_none(), "{message}");
        println!("skipped, {message}");
    }
    found
}

/// A process that is killed on drop, however the test ends.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Process {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().expect("the program starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The data of Prometheus's answer at an API path.
fn ask(port: u16, path: &str) -> Value {
    let body = get(port, path).unwrap_or_else(|| panic!("Prometheus does not answer {path}"));
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    assert_eq!(answer["status"], "success", "{path}: {answer}");
    answer["data"].clone()
}

/// The current samples of an expression.
fn query(port: u16, expression: &str) -> Vec<Value> {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    ask(port, &format!("/api/v1/query?query={encoded}"))["result"].as_array().expect("samples").clone()
}

/// A server with activity for every metric that the dashboard shows: replicas, refusals, errors,
/// slow commands. One of the replicas is a server that receives a full sync. Also a server in
/// cluster mode, two active-active servers, and, if etcd is available, the only server of a
/// group.
struct Watched {
    server: TestServer,
    /// Port of the metrics.
    port: u16,
    replica_port: u16,
    _replica: RawClient,
    _syncing: TestServer,
    /// Servers in other modes, and the ports of their metrics.
    others: Vec<(TestServer, u16)>,
    member: Option<Member>,
}

/// A server in a group, and the port of its metrics.
struct Member {
    port: u16,
    _server: TestServer,
    _etcd: Etcd,
}

impl Member {
    /// Starts a server and waits until it serves as its group's primary.
    fn start() -> Option<Member> {
        let etcd = Etcd::start()?;
        let port = free_port();
        let group = ["--group-name", "g", "--node-name", "n", "--etcd-endpoints", etcd.endpoint()];
        let more = ["--sync-writes", "yes", "--metrics-port", &port.to_string()];
        let server = TestServer::start(&[&group[..], &more].concat());
        wait_for("the server is serving its group", || metric(port, "braid_group_serving") == Some(1.0));
        Some(Member { port, _server: server, _etcd: etcd })
    }
}

/// True if only a server in a group exports the expression's metrics.
fn is_of_group(expression: &str) -> bool {
    ["braid_group_", "braid_sync_writes_"].iter().any(|prefix| expression.contains(prefix))
}

/// A cluster of one node, and two servers with active-active replication.
fn in_other_modes() -> Vec<(TestServer, u16)> {
    let start = |arguments: &[&str]| {
        let port = free_port();
        let text = port.to_string();
        (TestServer::start(&[&["--metrics-port", &text][..], arguments].concat()), port)
    };
    let cluster = start(&["--cluster-enabled", "yes"]);
    let one = start(&["--active-replica", "yes", "--active-region", "1"]);
    let peer = format!("127.0.0.1:{}", one.0.port());
    let other = start(&["--active-replica", "yes", "--active-region", "2", "--active-peers", &peer]);
    one.0.connect().ok(&format!("CONFIG SET active-peers 127.0.0.1:{}", other.0.port()));
    for (_, port) in [&one, &other] {
        wait_for("the peer is up", || metric(*port, "braid_active_peer_up") == Some(1.0));
    }
    vec![cluster, one, other]
}

fn watched() -> Watched {
    let port = free_port();
    let text = port.to_string();
    let server = TestServer::start(&[
        "--metrics-port",
        &text,
        "--io-threads",
        "2",
        "--appendonly",
        "yes",
        "--maxmemory",
        "1gb",
        "--slowlog-log-slower-than",
        "0",
    ]);
    let mut replica = server.connect();
    replica.ok("REPLCONF listening-port 12345 capa psync2");
    replica.send(&request("PSYNC ? -1"));
    let mut client = server.connect();
    client.ok("ACL SETUSER app on >secret +@all -flushall ~app:*");
    client.ok("SET due 1 EX 1000");
    wait_for("the first replica is online", || {
        client.info_field("replication", "slave0").is_some_and(|line| line.contains("state=online"))
    });
    // The sync takes longer than the test.
    for number in 0..200 {
        client.ok(&format!("SET filled:{number} value"));
    }
    client.ok("CONFIG SET rdb-key-save-delay 5000000 repl-diskless-sync-delay 0");
    let replica_port = free_port();
    let syncing = TestServer::start(&[
        "--metrics-port",
        &replica_port.to_string(),
        "--repl-diskless-load",
        "flush-before-load",
    ]);
    syncing.connect().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    wait_for("the full sync begins", || {
        let in_progress = syncing.connect().info_field("replication", "master_sync_in_progress");
        in_progress.as_deref() == Some("1")
    });
    let (others, member) = (in_other_modes(), Member::start());
    let watched =
        Watched { server, port, replica_port, _replica: replica, _syncing: syncing, others, member };
    watched.work();
    watched
}

impl Watched {
    /// The ports of all servers' metrics.
    fn ports(&self) -> Vec<u16> {
        let others = self.others.iter().map(|(_, port)| *port);
        let member = self.member.iter().map(|member| member.port);
        [self.port, self.replica_port].into_iter().chain(others).chain(member).collect()
    }

    /// Runs commands of all kinds, including some that are refused.
    fn work(&self) {
        let mut client = self.server.connect();
        for number in 0..50 {
            client.ok(&format!("SET key:{number} value"));
            client.call(&format!("GET key:{}", number * 2));
        }
        client.call("INCR key:1");
        client.ok("AUTH app secret");
        client.call("FLUSHALL");
        client.call("GET key:1");
        for (server, _) in &self.others {
            server.connect().call("INCR key:1");
        }
    }
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(deploy("grafana/braid.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// Expressions of a dashboard with their panels' titles and their legends' texts.
fn expressions(dashboard: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let panels = dashboard["panels"].as_array().expect("panels");
    let of_panel = |panel: &Value| -> Vec<_> {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let title = text(&panel["title"]);
        targets
            .iter()
            .map(|target| (title.clone(), text(&target["expr"]), text(&target["legendFormat"])))
            .collect()
    };
    panels.iter().flat_map(of_panel).collect()
}

/// An expression with Grafana's variables substituted.
fn filled_in(expression: &str) -> String {
    expression.replace("$job", "braid").replace("$instance", ".*").replace("$__rate_interval", "1m")
}

#[test]
fn the_rules_fire_when_they_should() {
    let Some(promtool) = program("the_rules_fire_when_they_should", &["promtool"]) else { return };
    let check = |arguments: &[&str], file: &str| {
        let output = Command::new(&promtool).args(arguments).arg(deploy(file)).output().expect("promtool");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "promtool {arguments:?} {file}: {text}");
        text
    };
    let text = check(&["check", "rules", "--lint-fatal"], "prometheus/braid.rules.yml");
    assert!(text.contains(&format!("{RULES} rules found")), "{text}");
    check(&["check", "config", "--lint-fatal"], "prometheus/prometheus.yml");
    check(&["test", "rules"], "prometheus/braid.rules.test.yml");
    // Each alert has a test in which it fires.
    let read = |file: &str| std::fs::read_to_string(deploy(file)).expect("a file");
    let (rules, tests) = (read("prometheus/braid.rules.yml"), read("prometheus/braid.rules.test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(alerts.len(), RULES);
    for alert in alerts {
        let fires = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels:");
        assert!(tests.contains(&fires), "no test in which {alert} fires");
    }
}

#[test]
fn the_metrics_pass_prometheus_own_check() {
    let Some(promtool) = program("the_metrics_pass_prometheus_own_check", &["promtool"]) else { return };
    let watched = watched();
    for port in watched.ports() {
        let metrics = get(port, "/metrics").expect("metrics");
        let mut check = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool");
        check.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("promtool reads");
        let output = check.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && text.is_empty(), "{text}");
    }
}

#[test]
fn the_dashboard_has_the_shape_that_grafana_reads() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    assert!(dashboard["uid"] == "braid" && dashboard["id"].is_null() && dashboard["title"] == "Braid");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    assert!(variables[0]["type"] == "datasource" && variables[0]["query"] == "prometheus");
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: duplicate panel id");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap_or_else(|| panic!("{title}: {name}"));
        assert!(at("w") > 0 && at("x") + at("w") <= 24, "{title}: wider than the page");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(places.insert((x, y)), "{title} overlaps another panel");
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title}");
        let mut references = BTreeSet::new();
        for target in targets {
            assert!(references.insert(target["refId"].as_str().expect("a refId")), "{title}");
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let expression = target["expr"].as_str().expect("an expression");
            assert!(expression.contains("job=\"$job\", instance=~\"$instance\""), "{title}: {expression}");
        }
    }
}

#[test]
fn prometheus_scrapes_and_has_an_answer_to_every_query() {
    let Some(prometheus) = program("prometheus_scrapes_and_has_an_answer_to_every_query", &["prometheus"])
    else {
        return;
    };
    let watched = watched();
    let ports = watched.ports();
    let folder = tempfile::tempdir().expect("a folder");
    let read = |file: &str| std::fs::read_to_string(deploy(file)).expect("a file");
    let config = read("prometheus/prometheus.yml")
        .replace(
            "localhost:9121",
            &ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join("\", \""),
        )
        .replace("interval: 15s", "interval: 1s");
    std::fs::write(folder.path().join("prometheus.yml"), config).expect("written");
    std::fs::write(folder.path().join("braid.rules.yml"), read("prometheus/braid.rules.yml"))
        .expect("written");
    let port = free_port();
    let _prometheus = Process::start(
        Command::new(prometheus)
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}")),
    );
    wait_for("Prometheus to answer", || get(port, "/-/ready").is_some_and(|text| text.contains("Ready")));
    wait_for("the first scrape", || {
        let targets = ask(port, "/api/v1/targets");
        targets["activeTargets"].as_array().is_some_and(|all| all.iter().all(|one| one["health"] == "up"))
    });
    let dashboard = dashboard();
    let all = expressions(&dashboard);
    assert!(all.len() > 40, "{}", all.len());
    let can_answer = |expression: &str| watched.member.is_some() || !is_of_group(expression);
    for (title, expression, legend) in all.iter().filter(|(_, expression, _)| can_answer(expression)) {
        let expression = filled_in(expression);
        let mut samples = Vec::new();
        // Rates take two scrapes with activity between them.
        let answered = wait_for_within(Duration::from_secs(60), || {
            samples = query(port, &expression);
            if samples.is_empty() {
                watched.work();
            }
            !samples.is_empty()
        });
        assert!(answered, "{title}: no samples for {expression}");
        // Every sample has the labels that the legend names.
        for part in legend.split("{{").skip(1) {
            let label = part.split("}}").next().unwrap_or_default();
            for sample in &samples {
                assert!(sample["metric"][label].is_string(), "{title}: no {label} in {sample}");
            }
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().expect("annotations") {
        if let Some(expression) = annotation["expr"].as_str() {
            query(port, &filled_in(expression));
        }
    }
    // The dashboard's variables have values.
    for (label, value) in [("job", "braid"), ("instance", &*format!("127.0.0.1:{}", watched.port))] {
        let values = ask(port, &format!("/api/v1/label/{label}/values?match%5B%5D=braid_info"));
        assert!(values.as_array().is_some_and(|all| all.iter().any(|one| one == value)), "{values}");
    }
    // The rules are evaluated, and every metric that they name is exported.
    wait_for("the rules to be evaluated", || {
        let groups = ask(port, "/api/v1/rules")["groups"].as_array().cloned().unwrap_or_default();
        let rules: Vec<&Value> =
            groups.iter().flat_map(|group| group["rules"].as_array()).flatten().collect();
        rules.len() == RULES && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let metrics: String = ports.iter().map(|&port| get(port, "/metrics").expect("metrics")).collect();
    let rules = read("prometheus/braid.rules.yml");
    let names = rules.lines().filter(|line| line.trim().starts_with("expr:")).flat_map(|line| {
        line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .filter(|word| word.starts_with("braid_") || word.starts_with("process_"))
    });
    let mut seen = 0;
    for name in names.filter(|name| can_answer(name)) {
        seen += 1;
        let is_there = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        assert!(metrics.lines().any(is_there), "a rule uses {name}, which is not exported");
    }
    assert!(seen > RULES, "{seen}");
    // A critical alert that fires for a healthy server is wrong.
    let firing = query(port, "ALERTS{alertstate=\"firing\", severity=\"critical\"}");
    assert!(firing.is_empty(), "{firing:?}");
}

/// Names of the metrics that redis_exporter exports for a server.
fn exported(exporter: &Path, server: &TestServer) -> BTreeSet<String> {
    let mut client = server.connect();
    for line in [
        "CONFIG SET latency-monitor-threshold 1 slowlog-log-slower-than 0 appendonly yes",
        "SET key value",
        "XADD stream 1-1 field value",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer STREAMS stream >",
        "INCR key",
        "DEBUG SLEEP 0.02",
    ] {
        client.call(line);
    }
    let port = free_port();
    let _exporter = Process::start(
        Command::new(exporter)
            .arg(format!("-redis.addr=redis://127.0.0.1:{}", server.port()))
            .arg(format!("-web.listen-address=127.0.0.1:{port}"))
            .args(["-include-system-metrics", "-export-client-list", "-check-single-keys=key"])
            .args(["-check-single-streams=stream", "-count-keys=k*"]),
    );
    let mut text = String::new();
    wait_for("the exporter to answer", || {
        text = get(port, "/metrics").unwrap_or_default();
        text.contains("redis_up")
    });
    assert!(text.contains("\nredis_up 1\n"), "{text}");
    assert!(text.contains("\nredis_exporter_last_scrape_error{err=\"\"} 0\n"), "{text}");
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    text.lines().filter(|line| line.starts_with("redis_")).map(name).collect()
}

#[test]
fn redis_exporter_exports_the_same_metrics_for_braid_and_redis() {
    let test = "redis_exporter_exports_the_same_metrics_for_braid_and_redis";
    let Some(exporter) = program(test, &["redis_exporter", "prometheus-redis-exporter"]) else { return };
    let Some(stock) = stock() else {
        assert!(std::env::var_os("CI").is_none(), "{test}: there is no redis-server on PATH");
        println!("skipped, {test}: there is no redis-server on PATH");
        return;
    };
    let arguments = ["--enable-debug-command", "yes"];
    let ours = exported(&exporter, &TestServer::start(&arguments));
    let theirs = exported(&exporter, &TestServer::start_program(&stock.program, &arguments));
    assert!(theirs.len() > 120, "{}", theirs.len());
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "exported for {} but not for Braid: {missing:?}", stock.version);
}
