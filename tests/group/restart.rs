// SPDX-License-Identifier: BSD-3-Clause
//! All servers of a group end at once and start again with their files, or some of them.

use braid_tests::{Value, wait_for};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::writer::Writer;
use crate::{Group, number};

/// A group whose servers have folders that outlive them.
struct Lasting {
    group: Group,
    folders: Vec<TempDir>,
}

const ON_DISK: [&str; 10] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--sync-writes",
    "yes",
    "--sync-level",
    "disk",
    "--min-sync-replicas",
    "1",
];

impl Lasting {
    fn start(count: usize, more: &[&str]) -> Option<Lasting> {
        let folders: Vec<TempDir> = (0..count).map(|_| tempfile::tempdir().expect("a folder")).collect();
        let folder = |index: usize| folders[index].path().display().to_string();
        let group = Group::start_each(count, more, |index| vec!["--dir".into(), folder(index)])?;
        Some(Lasting { group, folders })
    }

    fn kill_all(&mut self) {
        // Stopped first: none of them sees another one's end.
        for signal in [Signal::STOP, Signal::KILL] {
            self.group.servers.iter().for_each(|server| server.signal(signal));
        }
        for server in &mut self.group.servers {
            server.wait();
        }
    }

    fn start_again(&mut self, index: usize) {
        let folder = self.folders[index].path().display().to_string();
        let port = self.group.servers[index].port();
        let more = ["--dir".to_owned(), folder];
        self.group.servers[index] = self.group.start_server_with(index, Some(port), &more);
    }

    fn is_on_disk(&self) -> bool {
        self.group.record()["on-disk"].as_bool() == Some(true)
    }
}

#[test]
fn a_group_whose_replies_waited_for_the_disk_goes_on_after_all_servers_died() {
    let Some(mut lasting) = Lasting::start(3, &ON_DISK) else { return };
    wait_for("the record says that all is on disk", || lasting.is_on_disk());
    for round in 1..=2 {
        let writer = Writer::start(&lasting.group.servers, true);
        wait_for("some writes", || writer.acknowledged() >= round * 50);
        let before = lasting.group.record()["in-sync"].clone();
        lasting.kill_all();
        let seen = writer.stop();
        (0..3).for_each(|index| lasting.start_again(index));
        // Nobody else has ever been the primary since.
        let primary = lasting.group.wait_for_primary();
        let record = lasting.group.record();
        let leader = record["primary"].as_str().expect("a primary");
        let was_in_set = before.as_array().is_some_and(|set| set.iter().any(|id| id == leader));
        assert!(was_in_set, "round {round}: {leader} was not in {before}");
        wait_for("it serves", || {
            let mut client = lasting.group.servers[primary].connect();
            client.call("GET n").text().parse().is_ok_and(|count: i64| count >= seen.acknowledged)
        });
        wait_for("all are in sync again", || {
            lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 3)
        });
        wait_for("the record says that all is on disk", || lasting.is_on_disk());
    }
}

#[test]
fn memory_counts_again_only_when_the_record_says_so() {
    let Some(lasting) = Lasting::start(2, &ON_DISK) else { return };
    wait_for("the record says that all is on disk", || lasting.is_on_disk());
    let epoch = lasting.group.epoch();
    for server in &lasting.group.servers {
        assert_eq!(server.connect().call("CONFIG SET sync-level memory").text(), "OK");
    }
    wait_for("the record says that memory counts", || !lasting.is_on_disk());
    assert!(lasting.group.epoch() > epoch, "what was said before does not count");
    let primary = lasting.group.wait_for_primary();
    wait_for("it serves", || lasting.group.servers[primary].connect().call("SET a 1").text() == "OK");
    for server in &lasting.group.servers {
        assert_eq!(server.connect().call("CONFIG SET sync-level disk").text(), "OK");
    }
    wait_for("the record says that all is on disk", || lasting.is_on_disk());
}

#[test]
fn a_group_that_had_it_in_memory_waits_for_an_operator() {
    let more = ["--appendonly", "yes", "--sync-writes", "yes"];
    let Some(mut lasting) = Lasting::start(2, &more) else { return };
    let primary = lasting.group.wait_for_primary();
    let mut client = lasting.group.servers[primary].connect();
    assert_eq!(client.call("SET n 5").text(), "OK");
    // The group promises no more than both servers' memory, and the one that takes over below may
    // have been the replica.
    let on_disk = client.call("WAITAOF 1 1 60000");
    assert_eq!(on_disk, Value::Array(vec![Value::Integer(1), Value::Integer(1)]));
    assert!(!lasting.is_on_disk());
    lasting.kill_all();
    (0..2).for_each(|index| lasting.start_again(index));

    wait_for("the old primary's lease is gone", || {
        let servers = lasting.group.servers.iter();
        let mut refusals = servers.map(|server| server.connect().call("FAILOVER TAKEOVER").text());
        // The one that is asked first takes over, if it may.
        refusals.next().is_some_and(|reply| reply == "OK")
    });
    let primary = lasting.group.wait_for_primary();
    assert_eq!(primary, 0);
    let mut client = lasting.group.servers[0].connect();
    wait_for("it serves", || client.call("GET n").text() == "5");
    assert_eq!(number(&mut client, "n"), 5);
    assert!(client.call("FAILOVER TAKEOVER").text().contains("is the primary already"));
    assert!(lasting.group.servers[0].log().contains("acknowledged writes that it lacks are lost"));
    wait_for("the other one follows", || {
        lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 2)
    });
    let mut other = lasting.group.servers[1].connect();
    assert!(other.call("FAILOVER TAKEOVER").text().contains("the primary is alive"));
}
