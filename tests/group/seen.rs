// SPDX-License-Identifier: BSD-3-Clause
//! A group as operators see it: INFO, the metrics, the page, and one line in each server's log
//! for each change of role.

use braid_tests::browser::{self, Browser, lists, section};
use braid_tests::http::metric;
use braid_tests::server::free_port;
use braid_tests::{Etcd, TestServer, Value, request, wait_for};
use rustix::process::Signal;

use crate::Group;

/// A group whose servers each have a metrics port.
struct Seen {
    group: Group,
    ports: Vec<u16>,
}

impl Seen {
    fn start(count: usize) -> Option<Seen> {
        Seen::start_with(count, &[])
    }

    fn start_with(count: usize, more: &[&str]) -> Option<Seen> {
        let mut group = Group { etcd: Etcd::start()?, servers: Vec::new(), more: Vec::new() };
        let mut ports = Vec::new();
        for index in 0..count {
            let port = free_port();
            group.more = arguments(port);
            group.more.extend(more.iter().copied().map(String::from));
            let server = group.start_server(index, None);
            group.servers.push(server);
            ports.push(port);
        }
        group.wait_until_in_sync();
        // Wait until each of them has read the record.
        for server in &group.servers {
            let all: Vec<String> = (0..count).map(|index| format!("n{index}")).collect();
            wait_for("the server knows the in-sync set", || field(server, "group_in_sync") == all.join(","));
        }
        Some(Seen { group, ports })
    }

    /// Restarts a server that has ended.
    fn restart(&mut self, index: usize) {
        self.group.more = arguments(self.ports[index]);
        self.group.restart(index);
    }

    fn primary(&self) -> usize {
        self.group.primary().expect("a primary")
    }

    fn metric(&self, server: usize, name: &str) -> f64 {
        metric(self.ports[server], name).unwrap_or_else(|| panic!("no {name}"))
    }
}

fn arguments(metrics_port: u16) -> Vec<String> {
    ["--metrics-port", &metrics_port.to_string(), "--sync-writes", "yes"].map(String::from).into()
}

fn field(server: &TestServer, name: &str) -> String {
    server.connect().info_field("group", name).unwrap_or_else(|| panic!("no {name}"))
}

/// A field `name=value` of a member's line.
fn of_member(server: &TestServer, member: usize, part: &str) -> String {
    let line = field(server, &format!("group_member{member}"));
    let found = line.split(',').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == part);
    found.unwrap_or_else(|| panic!("no {part} in {line}")).1.to_owned()
}

#[test]
fn info_and_metrics_show_members_and_service() {
    // A member that is stopped below stays in the set until that has been observed, even on a
    // busy machine.
    let patient = ["--lease-time", "6000", "--sync-timeout", "6000"];
    let Some(seen) = Seen::start_with(3, &patient) else { return };
    let (leads, servers) = (seen.primary(), &seen.group.servers);
    for (index, server) in servers.iter().enumerate() {
        let is_primary = index == leads;
        assert_eq!(field(server, "group_serving"), if is_primary { "1" } else { "0" });
        let why = if is_primary { String::new() } else { format!("it is a replica of n{leads}") };
        assert_eq!(field(server, "group_not_serving_reason"), why);
        let silent: i64 = field(server, "group_etcd_last_answer_ms").parse().expect("a number");
        assert!((0..2000).contains(&silent), "{silent}");
        for member in 0..3 {
            let part = |name: &str| of_member(server, member, name);
            assert_eq!((part("state"), part("in_sync")), ("up".into(), "1".into()));
            assert_eq!(part("role"), if member == leads { "primary" } else { "replica" });
            // The primary knows all links, a replica only its own.
            let knows = if is_primary { member != leads } else { member == index };
            assert_eq!(part("link"), if knows { "up" } else { "unknown" }, "n{member} at n{index}");
            let lag: i64 = part("lag_bytes").parse().expect("a number");
            assert_eq!(lag >= 0, is_primary && member != leads, "n{member} at n{index}: {lag}");
        }
        let its = |name: &str| seen.metric(index, name);
        assert_eq!((its("braid_group_epoch"), its("braid_group_etcd_up")), (1.0, 1.0));
        assert_eq!((its("braid_group_members"), its("braid_group_in_sync_members")), (3.0, 3.0));
        assert_eq!(its("braid_group_primary"), f64::from(u8::from(is_primary)));
        assert_eq!(its("braid_group_serving"), f64::from(u8::from(is_primary)));
        assert!(
            (0.0..=6.0).contains(&its("braid_group_lease_seconds")),
            "{}",
            its("braid_group_lease_seconds")
        );
        assert!(its("braid_group_etcd_last_answer_seconds") < 2.0);
        assert_eq!(its("braid_group_primary_changes_total"), 0.0);
    }
    // Synchronous writes are counted one by one.
    let mut client = servers[leads].connect();
    let count = |what: &str| seen.metric(leads, &format!("braid_sync_writes_{what}"));
    let before = count("acknowledged_total");
    for number in 0..10 {
        client.ok(&format!("SET key {number}"));
    }
    assert_eq!((count("acknowledged_total") - before, count("waiting")), (10.0, 0.0));
    let silent = &servers[(leads + 1) % 3];
    silent.signal(Signal::STOP);
    client.send(&request("SET key waits"));
    wait_for("the reply waits", || count("waiting") == 1.0);
    silent.signal(Signal::CONT);
    assert_eq!(client.read(), Value::Simple("OK".into()));
    assert_eq!((count("waiting"), count("acknowledged_total") - before), (0.0, 11.0));
    assert_eq!(field(&servers[leads], "sync_writes_acknowledged"), count("acknowledged_total").to_string());
    client.ok("CONFIG SET min-sync-replicas 5");
    assert!(client.call("SET key refused").text().starts_with("NOREPLICAS"));
    assert_eq!((count("refused_total"), count("uncertain_total")), (1.0, 0.0));
    assert_eq!(count("replicas_min"), 5.0);
    client.ok("CONFIG SET sync-writes no");
    assert_eq!(metric(seen.ports[leads], "braid_sync_writes_waiting"), None);
}

#[test]
fn a_primary_that_may_not_serve_says_why() {
    let Some(seen) = Seen::start(2) else { return };
    let leads = seen.primary();
    let (primary, replica) = (&seen.group.servers[leads], &seen.group.servers[1 - leads]);
    seen.group.etcd.pause();
    replica.signal(Signal::STOP);
    // A reply held when the lease ends is uncertain, and its connection is closed.
    let get = || primary.connect().call("GET key").to_string();
    wait_for("the primary stops serving", || get().contains("MASTERDOWN"));
    wait_for("INFO shows the change", || field(primary, "group_serving") == "0");
    let why = field(primary, "group_not_serving_reason");
    assert_eq!(why, format!("it holds no valid lease, and n{} did not answer", 1 - leads));
    assert_eq!(field(primary, "group_role"), "primary");
    assert_eq!(
        (seen.metric(leads, "braid_group_serving"), seen.metric(leads, "braid_group_primary")),
        (0.0, 1.0)
    );
    assert_eq!(
        (seen.metric(leads, "braid_group_etcd_up"), seen.metric(leads, "braid_group_lease_seconds")),
        (0.0, 0.0)
    );
    assert!(seen.metric(leads, "braid_group_etcd_last_answer_seconds") > 1.0);
    let refused = seen.metric(leads, "braid_group_fenced_refusals_total");
    assert!(get().contains("MASTERDOWN"));
    assert_eq!(seen.metric(leads, "braid_group_fenced_refusals_total"), refused + 1.0);
    // The log follows at the group thread's next step.
    wait_for("the log tells why", || primary.log().contains("This primary is not serving"));
    replica.signal(Signal::CONT);
    wait_for("the primary serves again", || primary.connect().call("GET key") == Value::NullBulk);
    wait_for("INFO shows the change", || field(primary, "group_serving") == "1");
    wait_for("the log tells so", || primary.log().contains("This primary serves again"));
    seen.group.etcd.resume();
    wait_for("etcd is reported as up", || seen.metric(leads, "braid_group_etcd_up") == 1.0);
    let log = primary.log();
    for line in [format!("This primary is not serving: {why}"), "This primary serves again".into()] {
        assert_eq!(log.matches(&line).count(), 1, "{line}\n{log}");
    }
}

/// The role changes in a server's log, in order: the epoch, and `primary` or the primary it
/// follows.
fn roles(server: &TestServer) -> Vec<(u64, String)> {
    let role = |line: &str| {
        let said = line.split_once("This server is ")?.1;
        let epoch = said.split_once("epoch ")?.1;
        let epoch = epoch.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()?;
        let role = match said.strip_prefix("a replica of ") {
            Some(of) => format!("replica of {}", of.split(' ').next()?),
            None if said.starts_with("now the primary of the group: ") => "primary".to_owned(),
            None => return None,
        };
        Some((epoch, role))
    };
    server.log().lines().filter_map(role).collect()
}

#[test]
fn each_change_of_a_role_is_one_line_in_each_log() {
    let Some(mut seen) = Seen::start(3) else { return };
    // A handover, a crash, and the dead server's return.
    let first = seen.primary();
    seen.group.servers[first].connect().ok("FAILOVER");
    let second = seen.group.wait_for_other(first);
    seen.group.wait_until_in_sync();
    seen.group.servers[second].signal(Signal::KILL);
    seen.group.servers[second].wait();
    let third = seen.group.wait_for_other(second);
    seen.restart(second);
    seen.group.wait_until_in_sync();
    let leaders = [first, second, third];
    for (index, server) in seen.group.servers.iter().enumerate() {
        // The killed server's new process has seen only the last epoch.
        let epochs = if index == second { 3..=3 } else { 1..=3 };
        let expected: Vec<(u64, String)> = epochs
            .map(|epoch| match leaders[epoch as usize - 1] {
                leader if leader == index => (epoch, "primary".to_owned()),
                leader => (epoch, format!("replica of n{leader}")),
            })
            .collect();
        wait_for("the log reports the last role", || roles(server).last() == expected.last());
        assert_eq!(roles(server), expected, "n{index}\n{}", server.log());
    }
    let log = seen.group.servers[first].log();
    assert!(log.contains("This primary is not serving: it is handing over to another server"), "{log}");
    assert!(seen.group.servers[third].log().contains("this server is a candidate to replace it"));
    // Every server that saw both changes counts them equally.
    assert_eq!(seen.metric(third, "braid_group_primary_changes_total"), 2.0);
}

#[test]
fn the_page_shows_the_group() {
    let Some(program) = browser::find() else {
        assert!(std::env::var_os("CI").is_none(), "there is no Chromium on PATH");
        println!("skipped: there is no Chromium on PATH");
        return;
    };
    let Some(mut seen) = Seen::start(3) else { return };
    let leads = seen.primary();
    let mut browser = Browser::start(&program);
    assert_eq!(browser.open(&format!("http://127.0.0.1:{}/", seen.ports[leads])), 200);
    let group = section("Group");
    browser.wait_for(&format!("{group}.checkVisibility()"));
    let says = |text: &str| format!("{group}.querySelector('.hint').innerText.includes('{text}')");
    browser.wait_for(&says(&format!("Group g, epoch 1, 3 of 3 in sync, this is n{leads}, primary, lease ")));
    for (index, server) in seen.group.servers.iter().enumerate() {
        let role = if index == leads { "primary" } else { "replica" };
        let rest = if index == leads { "-\\t-" } else { "up\\t0 B, 0" };
        let line = format!("^n{index}\\t127.0.0.1:{}\\t{role}\\tyes\\t{rest}$", server.port());
        browser.wait_for(&lists("Group", &line));
    }
    let drawn =
        |class: &str, count: usize| format!("{group}.querySelectorAll('svg g.{class}').length === {count}");
    browser.wait_for(&drawn("in-sync", 2));
    browser.wait_for_every_width(&format!("{group}.querySelector('svg').clientWidth > 200"));
    // A member that is down.
    let gone = (leads + 1) % 3;
    seen.group.servers[gone].signal(Signal::KILL);
    seen.group.servers[gone].wait();
    browser.wait_for(&says("2 of 2 in sync"));
    browser.wait_for(&drawn("in-sync", 1));
    assert_eq!(browser.complaints(), &[] as &[String]);
    // A server without a group has no such panel.
    let port = free_port();
    let alone = TestServer::start(&["--metrics-port", &port.to_string()]);
    assert_eq!(browser.open(&format!("http://127.0.0.1:{port}/")), 200);
    browser.wait_for(&format!("{}.querySelector('.hint').innerText.length > 0", section("Replication")));
    assert_eq!(browser.evaluate(&format!("{group}.checkVisibility()")), false);
    assert_eq!(metric(port, "braid_group_epoch"), None);
    drop(alone);
}
