// SPDX-License-Identifier: BSD-3-Clause
//! Nobody leads: no member of the in-sync set is left, or etcd has not answered yet. What servers
//! tell clients and operators meanwhile.

use braid_tests::http::get;
use braid_tests::server::{Options, free_port};
use braid_tests::{Etcd, TestServer, wait_for};
use rustix::process::Signal;

use crate::{Group, arguments};

fn why(server: &TestServer) -> String {
    server.connect().info_field("group", "group_not_serving_reason").expect("a reason")
}

#[test]
fn a_group_that_nobody_may_lead_says_why_and_keeps_quiet() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let primary = group.primary().expect("a primary");
    let others: Vec<usize> = (0..3).filter(|&index| index != primary).collect();
    // The primary dies alone in the set, and returns without its files.
    others.iter().for_each(|&index| group.servers[index].signal(Signal::STOP));
    wait_for("the primary is alone in sync", || {
        group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 1)
    });
    let member = group.record()["primary"].as_str().expect("a primary").to_owned();
    group.servers[primary].signal(Signal::KILL);
    group.servers[primary].wait();
    others.iter().for_each(|&index| group.servers[index].signal(Signal::CONT));
    group.restart(primary);
    let short = member.split_once('/').map(|(node, run)| format!("{node}/{}", &run[..8])).expect("a member");
    let begin = format!("no member of the in-sync set {short} is alive; start one with its own files, or ");
    for server in &group.servers {
        wait_for("INFO has the reason", || why(server).starts_with(&begin));
        assert!(why(server).contains("FAILOVER TAKEOVER"), "{}", why(server));
        let refusal = server.connect().call("SET key 1").to_string();
        assert!(refusal.contains("MASTERDOWN No server may lead"), "{refusal}");
        let line = format!("No server may lead the group: {begin}");
        wait_for("the log has the reason", || server.log().contains(&line));
        assert_eq!(server.log().matches(&line).count(), 1, "{}", server.log());
    }
    // Nobody takes the new process for the old primary: neither it itself nor the others.
    let own = format!("Connecting to MASTER 127.0.0.1:{}", group.servers[primary].port());
    assert_eq!(group.servers[primary].log().matches(&own).count(), 0, "{}", group.servers[primary].log());
    for &index in &others {
        let log = group.servers[index].log();
        assert!(log.contains(&format!("The process of n{primary} that was the primary has ended")), "{log}");
    }
    // An operator decides.
    group.servers[others[0]].connect().ok("FAILOVER TAKEOVER");
    wait_for("the chosen server leads", || group.primary() == Some(others[0]));
    group.wait_until_in_sync();
    for server in &group.servers {
        wait_for("the reason is gone", || !why(server).contains("no member of the in-sync set"));
    }
    let refusal = group.servers[primary].connect().call("SET key 1").to_string();
    assert!(refusal.contains("READONLY"), "{refusal}");
}

#[test]
fn a_new_group_waits_for_no_members_but_those_it_knows() {
    // The delay is far longer than the test's patience.
    let late = ["--repl-diskless-sync-delay", "3600"];
    let Some(group) = Group::start(3, &late) else { return };
    group.servers[group.primary().expect("a primary")].connect().ok("SET key 1");
}

#[test]
fn a_node_without_records_is_not_ready() {
    let Some(mut etcd) = Etcd::start() else { return };
    etcd.stop();
    for is_cluster in [true, false] {
        let metrics = free_port();
        let mut arguments = arguments(etcd.endpoint(), 0);
        arguments.extend(["--metrics-port".into(), metrics.to_string()]);
        if is_cluster {
            arguments[0] = "--cluster-name".into();
            arguments.extend(["--cluster-enabled", "yes"].map(String::from));
        }
        let server = TestServer::start_with(Options { arguments, ..Options::default() });
        let ready = || get(metrics, "/ready").unwrap_or_default();
        wait_for("the state of etcd is known", || {
            // Without naming the section.
            let info = server.connect().call("INFO").text();
            info.contains("group_etcd_status:down") && info.contains("group_etcd_error:cannot connect to")
        });
        assert_eq!(ready(), "{\"status\":\"no-records\"}\n");
        let says_ready = || server.log().contains("Ready to accept connections tcp");
        if is_cluster {
            let told = "Waiting for the cluster's records: this node serves no slot before etcd answers";
            wait_for("the log tells what is missing", || server.log().contains(told));
            assert!(!says_ready(), "{}", server.log());
        }
        etcd.restart();
        wait_for("the server is ready", || ready() == "{\"status\":\"ready\"}\n");
        wait_for("the log says so", says_ready);
        assert!(server.connect().call("INFO").text().contains("group_etcd_status:up"));
        drop(server);
        etcd.stop();
    }
    // A server without a group has no such section.
    let alone = TestServer::start(&[]);
    assert!(!alone.connect().call("INFO").text().contains("# Group"));
}
