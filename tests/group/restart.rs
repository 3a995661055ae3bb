// SPDX-License-Identifier: BSD-3-Clause
//! All servers of a group, or some of them, end together and restart with their files.

use std::time::Instant;

use braid_tests::small_disk::Place;
use braid_tests::{TestServer, Value, folders, wait_for};
use rustix::process::Signal;

use crate::writer::Writer;
use crate::{Group, number};

/// A group whose servers' folders outlive them.
struct Lasting {
    group: Group,
    folders: Vec<Place>,
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
        Lasting::start_in((0..count).map(|_| Place::folder()).collect(), more)
    }

    fn start_in(folders: Vec<Place>, more: &[&str]) -> Option<Lasting> {
        let folder = |index: usize| folders[index].path().display().to_string();
        let group = Group::start_each(folders.len(), more, |index| vec!["--dir".into(), folder(index)])?;
        Some(Lasting { group, folders })
    }

    fn kill_all(&mut self) {
        // All are stopped first, so that none of them sees another one end.
        for signal in [Signal::STOP, Signal::KILL] {
            self.group.servers.iter().for_each(|server| server.signal(signal));
        }
        for server in &mut self.group.servers {
            server.wait();
        }
    }

    /// The power of all disks fails. All servers have ended.
    fn fail_power(&self) {
        self.folders.iter().for_each(Place::fail_power);
    }

    /// Ends all servers together by SIGTERM.
    fn end_all(&mut self) {
        // A server refuses to exit while the first base of its append-only file is being written,
        // as after a full sync.
        for server in &self.group.servers {
            let mut client = server.connect();
            wait_for("the server can shut down", || {
                let is_linked =
                    client.info_field("replication", "master_link_status").is_none_or(|is| is == "up");
                let wants_file = client.call("CONFIG GET appendonly").to_string().contains("yes");
                let persistence = client.info("persistence");
                is_linked
                    && persistence.contains(&format!("aof_enabled:{}\r", u8::from(wants_file)))
                    && persistence.contains("aof_rewrite_in_progress:0")
            });
        }
        self.group.servers.iter().for_each(|server| server.signal(Signal::TERM));
        for server in &mut self.group.servers {
            assert!(server.wait().success(), "{}", server.log());
        }
    }

    /// Number of lines of the file that names the files' member. The second line records a clean
    /// shutdown.
    fn member_lines(&self, index: usize) -> usize {
        let text = std::fs::read_to_string(self.folders[index].path().join("group-member"));
        text.map_or(0, |text| text.lines().count())
    }

    /// The member ID that a server has registered in etcd.
    fn member(&self, index: usize) -> Option<String> {
        let client = self.group.client();
        let node = client.get(format!("/braid/g/node/n{index}").as_bytes()).expect("an answer")?;
        let node: serde_json::Value = serde_json::from_slice(&node.value).expect("a record");
        Some(format!("n{index}/{}", node["run"].as_str().expect("a run")))
    }

    fn members(&self) -> Vec<Option<String>> {
        (0..self.group.servers.len()).map(|index| self.member(index)).collect()
    }

    /// Waits until all servers are members that the record does not name, so that none of them
    /// leads by itself.
    fn wait_until_no_member_may_lead(&self) {
        wait_for("all servers are new members", || {
            let record = self.group.record();
            let set = record["in-sync"].as_array().expect("a set");
            self.members()
                .into_iter()
                .all(|member| member.is_some_and(|member| !set.iter().any(|id| *id == member)))
        });
        assert_eq!(self.group.primary(), None);
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
fn disk_synced_group_recovers_after_all_servers_crash() {
    recovers_after_all_crash((0..3).map(|_| Place::folder()).collect());
}

#[test]
fn disk_synced_group_recovers_after_a_power_failure() {
    let Some(disks) = (0..3).map(|_| Place::disk(256 << 20)).collect() else { return };
    recovers_after_all_crash(disks);
}

/// A group whose primary's folder has been replaced by an older copy; the number of acknowledged
/// writes, and the primary.
fn with_an_older_copy() -> Option<(Lasting, i64, usize)> {
    let mut lasting = Lasting::start(3, &ON_DISK)?;
    wait_for("the record has on-disk set", || lasting.is_on_disk());
    let primary = lasting.group.wait_for_primary();
    let writer = Writer::start(&lasting.group.servers, true);
    wait_for("some writes", || writer.acknowledged() >= 50);
    let copy = tempfile::tempdir().expect("a folder");
    folders::copy(lasting.folders[primary].path(), copy.path(), |_| false);
    let copied = writer.acknowledged();
    wait_for("more writes", || writer.acknowledged() >= copied + 100);
    assert_eq!(lasting.group.primary(), Some(primary));
    lasting.kill_all();
    let seen = writer.stop();
    let folder = lasting.folders[primary].path();
    folders::clear(folder, |_| false);
    folders::copy(copy.path(), folder, |_| false);
    Some((lasting, seen.acknowledged, primary))
}

#[test]
fn a_member_on_an_older_copy_lets_the_others_lead() {
    let Some((mut lasting, acknowledged, old)) = with_an_older_copy() else { return };
    lasting.start_again(old);
    (0..3).filter(|&index| index != old).for_each(|index| lasting.start_again(index));
    let primary = lasting.group.wait_for_primary();
    assert_ne!(primary, old, "{}", lasting.group.logs());
    wait_for("it serves the acknowledged writes", || number_at(&lasting, primary) >= acknowledged);
    wait_for("all are in sync again", || {
        lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 3)
    });
    assert!(number_at(&lasting, primary) >= acknowledged);
}

/// If nobody else comes back, it leads. Others keep what it lacks.
#[test]
fn what_a_member_on_an_older_copy_lacks_is_kept() {
    let Some((mut lasting, acknowledged, old)) = with_an_older_copy() else { return };
    lasting.start_again(old);
    wait_for("it leads", || lasting.group.primary() == Some(old));
    let other = (old + 1) % 3;
    lasting.start_again(other);
    let kept = || {
        let entries = std::fs::read_dir(lasting.folders[other].path()).expect("readable").flatten();
        entries.map(|entry| entry.path()).find(|path| {
            path.is_dir()
                && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("divergent-"))
        })
    };
    wait_for("its files are kept", || kept().is_some());
    wait_for("it follows", || {
        let mut client = lasting.group.servers[other].connect();
        client.info_field("replication", "master_link_status").as_deref() == Some("up")
    });
    assert!(lasting.group.servers[other].log().contains("its append-only file is kept in divergent-"));
    // They can be loaded.
    let folder = tempfile::tempdir().expect("a folder");
    folders::copy(&kept().expect("a folder"), &folder.path().join("appendonlydir"), |_| false);
    let dir = folder.path().display().to_string();
    let server = TestServer::start(&["--dir", &dir, "--appendonly", "yes"]);
    assert!(number(&mut server.connect(), "n") >= acknowledged);
}

fn recovers_after_all_crash(folders: Vec<Place>) {
    let Some(mut lasting) = Lasting::start_in(folders, &ON_DISK) else { return };
    wait_for("the record has on-disk set", || lasting.is_on_disk());
    for round in 1..=2 {
        let writer = Writer::start(&lasting.group.servers, true);
        wait_for("some writes", || writer.acknowledged() >= round * 50);
        let before = lasting.group.record()["in-sync"].clone();
        lasting.kill_all();
        let seen = writer.stop();
        lasting.fail_power();
        (0..3).for_each(|index| lasting.start_again(index));
        // Only a member of the previous set can have become the primary.
        let primary = lasting.group.wait_for_primary();
        let record = lasting.group.record();
        let leader = record["primary"].as_str().expect("a primary");
        let was_in_set = before.as_array().is_some_and(|set| set.iter().any(|id| id == leader));
        assert!(was_in_set, "round {round}: {leader} was not in {before}");
        wait_for("the primary serves the acknowledged writes", || {
            let mut client = lasting.group.servers[primary].connect();
            client.call("GET n").text().parse().is_ok_and(|count: i64| count >= seen.acknowledged)
        });
        wait_for("all are in sync again", || {
            lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 3)
        });
        wait_for("the record has on-disk set", || lasting.is_on_disk());
    }
}

#[test]
fn memory_counts_again_only_when_the_record_says_so() {
    let Some(lasting) = Lasting::start(2, &ON_DISK) else { return };
    wait_for("the record has on-disk set", || lasting.is_on_disk());
    let epoch = lasting.group.epoch();
    for server in &lasting.group.servers {
        assert_eq!(server.connect().call("CONFIG SET sync-level memory").text(), "OK");
    }
    wait_for("the record has on-disk cleared", || !lasting.is_on_disk());
    assert!(lasting.group.epoch() > epoch, "the epoch did not rise");
    let primary = lasting.group.wait_for_primary();
    wait_for("a primary serves", || lasting.group.servers[primary].connect().call("SET a 1").text() == "OK");
    for server in &lasting.group.servers {
        assert_eq!(server.connect().call("CONFIG SET sync-level disk").text(), "OK");
    }
    wait_for("the record has on-disk set", || lasting.is_on_disk());
}

#[test]
fn a_group_that_had_it_in_memory_waits_for_an_operator() {
    let more = ["--appendonly", "yes", "--sync-writes", "yes"];
    let Some(mut lasting) = Lasting::start(2, &more) else { return };
    let primary = lasting.group.wait_for_primary();
    let mut client = lasting.group.servers[primary].connect();
    assert_eq!(client.call("SET n 5").text(), "OK");
    // The group guarantees only that both servers have a write in memory, and the server that
    // takes over below may have been the replica.
    let on_disk = client.call("WAITAOF 1 1 60000");
    assert_eq!(on_disk, Value::Array(vec![Value::Integer(1), Value::Integer(1)]));
    assert!(!lasting.is_on_disk());
    lasting.kill_all();
    (0..2).for_each(|index| lasting.start_again(index));

    wait_for("the old primary's lease has expired", || {
        let servers = lasting.group.servers.iter();
        let mut refusals = servers.map(|server| server.connect().call("FAILOVER TAKEOVER").text());
        // The first server asked takes over, if it may.
        refusals.next().is_some_and(|reply| reply == "OK")
    });
    let primary = lasting.group.wait_for_primary();
    assert_eq!(primary, 0);
    let mut client = lasting.group.servers[0].connect();
    wait_for("the new primary serves", || client.call("GET n").text() == "5");
    assert_eq!(number(&mut client, "n"), 5);
    assert!(client.call("FAILOVER TAKEOVER").text().contains("is already the primary"));
    assert!(lasting.group.servers[0].log().contains("acknowledged writes that it lacks are lost"));
    wait_for("the other server is in sync", || {
        lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 2)
    });
    let mut other = lasting.group.servers[1].connect();
    assert!(other.call("FAILOVER TAKEOVER").text().contains("the primary is alive"));
}

/// Options for servers whose replies wait for each other's memory, with one kind of files.
fn in_memory<'a>(files: &[&'a str]) -> Vec<&'a str> {
    [files, &["--sync-writes", "yes", "--min-sync-replicas", "1"]].concat()
}

#[test]
fn in_memory_group_recovers_automatically_after_clean_shutdown() {
    for files in [["--save", "3600 1"], ["--appendonly", "yes"]] {
        let Some(mut lasting) = Lasting::start(2, &in_memory(&files)) else { return };
        for round in 1..=2 {
            let writer = Writer::start(&lasting.group.servers, true);
            let before = lasting.group.wait_for_primary();
            let known = number_at(&lasting, before);
            wait_for("some writes", || writer.acknowledged() >= known + 50);
            let set = lasting.group.record()["in-sync"].clone();
            lasting.end_all();
            let seen = writer.stop();
            assert_eq!([0, 1].map(|index| lasting.member_lines(index)), [2, 2], "{}", lasting.group.logs());
            let begin = Instant::now();
            (0..2).for_each(|index| lasting.start_again(index));
            // A server that has loaded its files replies before it has joined its group.
            wait_for("the shutdown notes are used up", || {
                [0, 1].map(|index| lasting.member_lines(index)) == [1, 1]
            });
            let primary = lasting.group.wait_for_primary();
            println!("{files:?}: a primary after {:?}", begin.elapsed());
            let record = lasting.group.record();
            let was_in_set = set.as_array().is_some_and(|set| set.contains(&record["primary"]));
            assert!(was_in_set, "round {round}: {} was not in {set}", record["primary"]);
            assert!(!seen.went_back);
            wait_for("it serves acknowledged writes", || number_at(&lasting, primary) >= seen.acknowledged);
            wait_for("both are in sync again", || {
                lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 2)
            });
        }
        // After a crash, the servers are new members, as without these files.
        let members = lasting.members();
        lasting.kill_all();
        (0..2).for_each(|index| lasting.start_again(index));
        lasting.wait_until_no_member_may_lead();
        let other = lasting.members();
        assert!(members.iter().zip(&other).all(|(before, after)| before != after));
    }
}

/// The value of `n` on a server: 0 if it is missing, -1 if it cannot be read.
fn number_at(lasting: &Lasting, index: usize) -> i64 {
    let reply = lasting.group.servers[index].connect().call("GET n").text();
    if reply.is_empty() { 0 } else { reply.parse().unwrap_or(-1) }
}

#[test]
fn a_good_end_counts_only_with_its_files_and_once() {
    let Some(mut lasting) = Lasting::start(2, &in_memory(&["--save", "3600 1"])) else { return };
    let dump = |lasting: &Lasting, index: usize| lasting.folders[index].path().join("dump.rdb");
    let primary = lasting.group.wait_for_primary();
    let mut client = lasting.group.servers[primary].connect();
    assert_eq!(client.call("SET n 5").text(), "OK");
    let older: Vec<Vec<u8>> = (0..2)
        .map(|index| {
            assert_eq!(lasting.group.servers[index].connect().call("SAVE").text(), "OK");
            std::fs::read(dump(&lasting, index)).expect("a dump")
        })
        .collect();
    assert_eq!(client.call("SET n 6").text(), "OK");
    let before = lasting.members();
    lasting.end_all();
    let newer: Vec<Vec<u8>> =
        (0..2).map(|index| std::fs::read(dump(&lasting, index)).expect("a dump")).collect();
    let notes: Vec<Vec<u8>> = (0..2)
        .map(|index| std::fs::read(lasting.folders[index].path().join("group-member")).expect("a note"))
        .collect();
    // Restore older files.
    for (index, bytes) in older.iter().enumerate() {
        std::fs::write(dump(&lasting, index), bytes).expect("written");
        lasting.start_again(index);
    }
    lasting.wait_until_no_member_may_lead();
    assert!(lasting.group.logs().contains("are not those that member"));
    lasting.kill_all();
    // The files of the clean shutdown, but without its note, which has been used up.
    for (index, bytes) in newer.iter().enumerate() {
        std::fs::write(dump(&lasting, index), bytes).expect("written");
        lasting.start_again(index);
    }
    lasting.wait_until_no_member_may_lead();
    lasting.kill_all();
    // The server with its files and note as it left them continues, and the other one follows.
    std::fs::write(lasting.folders[1].path().join("group-member"), &notes[1]).expect("written");
    (0..2).for_each(|index| lasting.start_again(index));
    wait_for("n1 leads", || lasting.group.primary() == Some(1));
    assert_eq!(lasting.group.record()["primary"].as_str(), before[1].as_deref());
    wait_for("n1 serves", || number_at(&lasting, 1) == 6);
    wait_for("the other server has joined", || {
        lasting.group.record()["in-sync"].as_array().is_some_and(|set| set.len() == 2)
    });
    // Under a newer epoch the same files are a stale copy.
    lasting.kill_all();
    for index in 0..2 {
        std::fs::write(dump(&lasting, index), &newer[index]).expect("written");
        std::fs::write(lasting.folders[index].path().join("group-member"), &notes[index]).expect("written");
        lasting.start_again(index);
    }
    lasting.wait_until_no_member_may_lead();
}

#[test]
fn an_end_that_saves_nothing_or_cannot_leaves_no_note() {
    let Some(mut lasting) = Lasting::start(2, &in_memory(&["--save", "3600 1"])) else { return };
    let primary = lasting.group.wait_for_primary();
    assert_eq!(lasting.group.servers[primary].connect().call("SET n 5").text(), "OK");
    let _ = lasting.group.servers[0].connect().try_send(b"SHUTDOWN NOSAVE NOW\r\n");
    lasting.group.servers[0].wait();
    let dump = lasting.folders[1].path().join("dump.rdb");
    std::fs::remove_file(&dump).expect("the dump of its full sync");
    std::fs::create_dir(&dump).expect("a folder");
    let _ = lasting.group.servers[1].connect().try_send(b"SHUTDOWN NOW FORCE\r\n");
    lasting.group.servers[1].wait();
    assert_eq!([0, 1].map(|index| lasting.member_lines(index)), [1, 1], "{}", lasting.group.logs());
}
