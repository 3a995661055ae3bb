// SPDX-License-Identifier: BSD-3-Clause
//! Client libraries of other languages doing real work (redis-py, go-redis, ioredis, Jedis), and
//! programs built on Redis: job queues (BullMQ, Celery, Sidekiq), and servers that communicate
//! through it (Socket.IO).
//!
//!   tests/clients/install && cargo test -p braid-tests --test clients
//!
//! Each script is a program in `clients/FOLDER` that takes the port and checks its own results;
//! its last line states the number of checks passed. The `suite_calls` programs repeat those
//! calls of the libraries' own test suites that servers have answered wrongly. Clients that are
//! not installed are skipped with a message, or fail if `CI` is set.

mod moving;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use braid_tests::TestServer;

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language)
}

/// Runs a client program against a fresh server.
fn run(language: &str, installed: &str, command: impl FnOnce(&Path) -> Command) {
    run_with(language, installed, &[], command);
}

/// As [`run`], with these arguments for the server.
fn run_with(language: &str, installed: &str, arguments: &[&str], command: impl FnOnce(&Path) -> Command) {
    let folder = folder(language);
    if is_skipped(language, &folder.join(installed)) {
        return;
    }
    let server = TestServer::start(&[&["--io-threads", "4"], arguments].concat());
    let mut command = command(&folder);
    command.arg(server.port().to_string());
    if language == "go" && !arguments.is_empty() {
        command.arg(if arguments == CLUSTER { "cluster" } else { "suite" });
    }
    judge(language, &command.output().expect("the program starts"));
}

/// True if a client is not installed, which is a failure if `CI` is set.
fn is_skipped(language: &str, installed: &Path) -> bool {
    if installed.exists() {
        return false;
    }
    let message = format!("{language}: not installed; run tests/clients/install");
    assert!(std::env::var_os("CI").is_none(), "{message}");
    println!("skipped, {message}");
    true
}

/// Asserts that a program reports success and a plausible number of checks.
fn judge(language: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{language}: {}\n{text}\n{errors}", output.status);
    let last = text.lines().last().unwrap_or_default();
    let checks: u32 = last.strip_suffix(" checks passed").and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(checks > 10, "{language}: {text}\n{errors}");
    println!("{language}: {last}");
}

#[test]
fn python() {
    run("python", "venv/bin/python", |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("test_client.py"));
        command
    });
}

/// Makes the client suites treat the server as a recent Redis, and use its commands.
const NEW: &[&str] = &["--redis-version", "8.0.6"];

/// The libraries of the folder `ai`: what they need of search, JSON and suggestions. Their redis-py
/// is also the one that has the latest commands (`newer.py`).
#[test]
fn ai_stack() {
    for program in
        ["redis_py", "newer", "redisvl_index", "langgraph_saver", "langchain_store", "redis_om_models"]
    {
        run("ai", "venv/bin/python", |folder| {
            let mut command = Command::new(folder.join("venv/bin/python"));
            command.args(["-W", "ignore"]).arg(folder.join(format!("{program}.py")));
            command
        });
    }
}

/// A library for the memory of agents: search over hashes.
#[test]
fn agent_memory() {
    run("memory", "venv/bin/python", |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.args(["-W", "ignore"]).arg(folder.join("mem0_memory.py"));
        command
    });
}

#[test]
fn python_suite_calls() {
    run_with("python", "venv/bin/python", NEW, |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("suite_calls.py"));
        command
    });
}

#[test]
fn go() {
    run("go", "bin/client-test", |folder| Command::new(folder.join("bin/client-test")));
}

#[test]
fn go_suite_calls() {
    run_with("go", "bin/client-test", NEW, |folder| Command::new(folder.join("bin/client-test")));
}

#[test]
fn node_suite_calls() {
    run_with("node", "node_modules/redis", NEW, |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("suite_calls.mjs"));
        command
    });
}

#[test]
fn node() {
    run("node", "node_modules/ioredis", |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("test_client.mjs"));
        command
    });
}

#[test]
fn node_json() {
    run("node", "node_modules/redis", |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("json.mjs"));
        command
    });
}

#[test]
fn java() {
    run("java", "target/client-test.jar", |folder| java_program(folder, "ClientTest"));
}

#[test]
fn java_json() {
    run("java", "target/client-test.jar", |folder| java_program(folder, "JsonTest"));
}

#[test]
fn java_suite_calls() {
    run_with("java", "target/client-test.jar", NEW, |folder| java_program(folder, "SuiteCalls"));
}

fn java_program(folder: &Path, name: &str) -> Command {
    let mut command = Command::new("java");
    let libraries = format!(
        "{}:{}/*",
        folder.join("target/client-test.jar").display(),
        folder.join("target/lib").display()
    );
    command.args(["-cp", &libraries, name]);
    command
}

/// A single server that forms a cluster by itself.
const CLUSTER: &[&str] = &["--cluster-enabled", "yes"];

#[test]
fn python_cluster() {
    run_with("python", "venv/bin/python", CLUSTER, |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("cluster.py"));
        command
    });
}

#[test]
fn go_cluster() {
    run_with("go", "bin/client-test", CLUSTER, |folder| Command::new(folder.join("bin/client-test")));
}

#[test]
fn node_cluster() {
    run_with("node", "node_modules/redis", CLUSTER, |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("cluster.mjs"));
        command
    });
}

#[test]
fn java_cluster() {
    run_with("java", "target/client-test.jar", CLUSTER, |folder| java_program(folder, "ClusterTest"));
}

#[test]
fn rust_cluster() {
    let server = TestServer::start(&[&["--io-threads", "4"], CLUSTER].concat());
    let address = format!("redis://127.0.0.1:{}", server.port());
    let client = redis::cluster::ClusterClient::new([address]).expect("an address");
    let mut connection = client.get_connection().expect("a cluster");
    for number in 0..100 {
        let _: () =
            redis::cmd("SET").arg(format!("key:{number}")).arg(number).query(&mut connection).unwrap();
    }
    let value: u32 = redis::cmd("GET").arg("key:42").query(&mut connection).unwrap();
    assert_eq!(value, 42);
    let within: Vec<Option<u32>> = redis::cmd("MGET").arg("{t}a").arg("{t}b").query(&mut connection).unwrap();
    assert_eq!(within, [None, None]);
    let mut pipe = redis::cluster::cluster_pipe();
    for number in 0..100 {
        pipe.cmd("GET").arg(format!("key:{number}"));
    }
    let values: Vec<u32> = pipe.query(&mut connection).unwrap();
    assert_eq!(values, (0..100).collect::<Vec<u32>>());
    let refused = redis::cmd("EVAL").arg("return 1").arg(2).arg("a").arg("b").query::<u32>(&mut connection);
    assert_eq!(refused.expect_err("two slots").code(), Some("CROSSSLOT"));
}

#[test]
fn bullmq() {
    run("bullmq", "node_modules/bullmq", |folder| {
        let mut command = Command::new("node");
        command.arg("--no-warnings").arg(folder.join("test_bullmq.mjs"));
        command
    });
}

#[test]
fn socketio() {
    run("socketio", "node_modules/socket.io", |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("test_socketio.mjs"));
        command
    });
}

#[test]
fn celery() {
    run("celery", "venv/bin/celery", |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("test_celery.py"));
        command
    });
}

#[test]
fn sidekiq() {
    run("sidekiq", "installed", |folder| {
        let mut command = Command::new("ruby");
        command.arg(folder.join("test_sidekiq.rb"));
        command
    });
}
