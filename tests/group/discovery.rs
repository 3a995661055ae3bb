// SPDX-License-Identifier: BSD-3-Clause
//! Clients written for Sentinel find the primary of a group, and follow it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

use crate::Group;

/// The texts of a reply that is a list.
fn words(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(items) => items.iter().map(Value::text).collect(),
        other => panic!("{other}"),
    }
}

/// The instances of a reply, each as alternating names and values.
fn instances(reply: &Value) -> Vec<Vec<String>> {
    match reply {
        Value::Array(items) => items.iter().map(words).collect(),
        other => panic!("{other}"),
    }
}

fn field(instance: &[String], name: &str) -> String {
    let at = instance.iter().step_by(2).position(|word| word == name);
    instance[2 * at.unwrap_or_else(|| panic!("no {name} in {instance:?}")) + 1].clone()
}

fn address(client: &mut RawClient) -> Vec<String> {
    words(&client.call("SENTINEL GET-MASTER-ADDR-BY-NAME g"))
}

fn own_address(server: &TestServer) -> Vec<String> {
    vec!["127.0.0.1".to_owned(), server.port().to_string()]
}

#[test]
fn every_server_reports_the_primary_and_announces_a_change_once() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let old = group.primary().expect("a primary");
    let primary = own_address(&group.servers[old]);
    for server in &group.servers {
        let mut client = server.connect();
        assert_eq!(address(&mut client), primary);
        assert_eq!(client.call("SENTINEL get-master-addr-by-name other").to_string(), "(nil array)");
        assert_eq!(client.call("SENTINEL MASTER other").text(), "ERR No such master with that name");
        let described = words(&client.call("SENTINEL MASTER g"));
        assert_eq!((field(&described, "flags"), field(&described, "name")), ("master".into(), "g".into()));
        assert_eq!([field(&described, "ip"), field(&described, "port")].to_vec(), primary);
        assert_eq!(
            (field(&described, "num-slaves"), field(&described, "num-other-sentinels")),
            ("2".into(), "2".into())
        );
        assert_eq!(instances(&client.call("SENTINEL MASTERS")), [described]);
        let replicas = instances(&client.call("SENTINEL REPLICAS g"));
        assert!(
            replicas.len() == 2 && replicas.iter().all(|one| field(one, "flags") == "slave"),
            "{replicas:?}"
        );
        assert!(replicas.iter().all(|one| field(one, "port") != primary[1]));
        let others = instances(&client.call("SENTINEL SENTINELS g"));
        let own = server.port().to_string();
        assert!(others.len() == 2 && others.iter().all(|one| field(one, "port") != own), "{others:?}");
        // On a busy machine replicas may be behind for a moment.
        wait_for("a failover is possible", || {
            client.call("SENTINEL CKQUORUM g").text().starts_with("OK 3 usable Sentinels.")
        });
        assert_eq!(
            client.call("SENTINEL NOSUCH").text(),
            "ERR unknown subcommand 'NOSUCH'. Try SENTINEL HELP."
        );
    }
    let mut listeners: Vec<RawClient> = group.servers.iter().map(TestServer::connect).collect();
    for listener in &mut listeners {
        listener.call("SUBSCRIBE +switch-master");
    }
    group.servers[old].signal(Signal::KILL);
    group.servers[old].wait();
    let new = group.wait_for_other(old);
    let now = own_address(&group.servers[new]);
    let told = format!("g {} {} {} {}", primary[0], primary[1], now[0], now[1]);
    for index in (0..3).filter(|&index| index != old) {
        let mut client = group.servers[index].connect();
        wait_for("the server knows the new primary", || address(&mut client) == now);
        let message = words(&listeners[index].read());
        assert_eq!(message, ["message", "+switch-master", &told]);
    }
    // The old primary comes back as a replica: nothing changes for clients.
    group.restart(old);
    group.wait_until_in_sync();
    for index in (0..3).filter(|&index| index != old) {
        assert_eq!(words(&listeners[index].call("PING")), ["pong", ""], "the change was announced twice");
    }
    assert_eq!(address(&mut group.servers[old].connect()), now);
}

#[test]
fn sentinel_is_unknown_without_a_group() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(
        client.call("SENTINEL MASTERS").text(),
        "ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' "
    );
    assert_eq!(client.call("COMMAND INFO sentinel").to_string(), "[(nil)]");
}

fn clients(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language)
}

/// Starts a client program, kills the primary it uses, and waits until the program works with
/// another one.
fn follows(language: &str, installed: &str, command: impl FnOnce(&Path) -> Command) {
    let folder = clients(language);
    if !folder.join(installed).exists() {
        let message = format!("{language}: not installed; run tests/clients/install");
        assert!(std::env::var_os("CI").is_none(), "{message}");
        println!("skipped, {message}");
        return;
    }
    let Some(mut group) = Group::start(3, &[]) else { return };
    let mut command = command(&folder);
    command.arg("g").args(group.servers.iter().map(|server| server.port().to_string()));
    let mut client =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let first = lines.next();
    if !first.as_ref().is_some_and(|line| line.as_ref().is_ok_and(|line| line == "started")) {
        let mut errors = String::new();
        let _ = client.kill();
        let _ = client.stderr.take().expect("a pipe").read_to_string(&mut errors);
        panic!("{language}: {first:?}\n{errors}\n{}", group.logs());
    }
    let primary = group.primary().expect("a primary");
    group.servers[primary].signal(Signal::KILL);
    group.servers[primary].wait();
    let last = lines.next().and_then(Result::ok).unwrap_or_default();
    let status = client.wait().expect("the program ends");
    assert!(
        status.success() && last.starts_with("followed "),
        "{language}: {status}: {last}\n{}",
        group.logs()
    );
}

#[test]
fn redis_py_follows() {
    follows("python", "venv/bin/python", |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("sentinel.py"));
        command
    });
}

#[test]
fn ioredis_follows() {
    follows("node", "node_modules/ioredis", |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("sentinel.mjs"));
        command
    });
}

#[test]
fn go_redis_follows() {
    follows("go", "bin/client-test", |folder| {
        let mut command = Command::new(folder.join("bin/client-test"));
        command.arg("sentinel");
        command
    });
}

#[test]
fn jedis_follows() {
    follows("java", "target/client-test.jar", |folder| {
        let mut command = Command::new("java");
        let path = folder.join("target");
        command
            .arg("-cp")
            .arg(format!("{0}/client-test.jar:{0}/lib/*", path.display()))
            .arg("FollowFailover");
        command
    });
}
