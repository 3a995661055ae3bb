// SPDX-License-Identifier: BSD-3-Clause
//! BACKUP: what is restored is the dataset at the moment of BACKUP SEAL, and its errors.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value, wait_for};

use super::DataFolder;

const ARGUMENTS: [&str; 4] = ["--enable-debug-command", "yes", "--save", ""];

fn status(client: &mut RawClient, field: &str) -> String {
    let status = client.call("BACKUP STATUS");
    let fields = status.elements().expect("fields");
    let at = fields.iter().position(|name| name.text() == field).expect("the field");
    fields[at + 1].text()
}

fn wait_for_state(client: &mut RawClient, state: &str) {
    wait_for(state, || {
        let found = status(client, "state");
        assert!(found != "failed" || state == "failed", "{}", status(client, "error"));
        found == state
    });
}

/// A server whose append-only file is the backup of another one.
fn restore(server: &TestServer) -> (DataFolder, TestServer) {
    let place = DataFolder::new();
    let from = server.directory().join("backupdir");
    let to = place.path().join("appendonlydir");
    fs::create_dir(&to).expect("a folder");
    for file in fs::read_dir(from).expect("the backup") {
        let file = file.expect("a file");
        fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
    let restored = place.start(&ARGUMENTS);
    (place, restored)
}

fn fill(client: &mut RawClient, round: u32) {
    for number in 0..300 {
        client.ok(&format!("SET key:{number} {round}:{number}"));
        client.call(&format!("RPUSH list:{} {round}:{number}", number % 7));
    }
    client.ok("MULTI");
    client.call("SET in:transaction one");
    client.call(&format!("INCRBY counter {round}"));
    client.call("EXEC");
    client.ok(&format!("SET expiring {round} PX 100000000"));
    client.ok("SELECT 3");
    client.ok(&format!("SET other {round}"));
    client.ok("SELECT 0");
}

/// With the append-only file off, on, and rewritten meanwhile; on a replica as well.
#[test]
fn a_backup_is_the_dataset_when_it_was_sealed() {
    if !is_braid() {
        return;
    }
    for (appendonly, is_replica) in [("no", false), ("yes", false), ("yes", true)] {
        let primary = TestServer::start(&[&ARGUMENTS[..], &["--appendonly", appendonly]].concat());
        let mut writer = primary.connect();
        let port = primary.port().to_string();
        let replica = is_replica
            .then(|| TestServer::start(&[&ARGUMENTS[..], &["--replicaof", "127.0.0.1", &port]].concat()));
        let server = replica.as_ref().unwrap_or(&primary);
        let mut client = server.connect();
        if is_replica {
            wait_for("the replica to be served", || {
                client.info_field("replication", "master_link_status").as_deref() == Some("up")
            });
        }
        let in_sync = |writer: &mut RawClient, client: &mut RawClient| {
            let digest = writer.call("DEBUG DIGEST");
            wait_for("the same data", || client.call("DEBUG DIGEST") == digest);
            digest
        };
        fill(&mut writer, 1);
        in_sync(&mut writer, &mut client);
        assert_eq!(status(&mut client, "state"), "idle");
        client.ok("BACKUP START");
        wait_for_state(&mut client, "incrementing");
        assert_eq!(client.info_field("persistence", "backup_in_progress").as_deref(), Some("1"));
        let paths = client.call("BACKUP LIST");
        assert!(paths.to_string().contains("backupdir/appendonly.aof.1.base.rdb"), "{paths}");
        fill(&mut writer, 2);
        if appendonly == "yes" && !is_replica {
            super::rewrite(&mut client);
        }
        writer.call("DEL list:3");
        let sealed = in_sync(&mut writer, &mut client);
        client.ok("BACKUP SEAL");
        assert_eq!(status(&mut client, "state"), "sealed");
        assert_ne!(status(&mut client, "end_time"), "0");
        assert_eq!(client.info_field("persistence", "backup_in_progress").as_deref(), Some("0"));
        let paths = client.call("BACKUP LIST");
        let paths = paths.elements().expect("paths");
        assert!(paths.len() == 3 && paths.iter().all(|path| fs::metadata(path.text()).is_ok()), "{paths:?}");
        fill(&mut writer, 3);
        let (_place, restored) = restore(server);
        assert_eq!(restored.connect().call("DEBUG DIGEST"), sealed, "appendonly {appendonly}");
        client.ok("BACKUP CLEANUP");
        assert_eq!(status(&mut client, "state"), "idle");
        let left = fs::read_dir(server.directory().join("backupdir")).expect("the folder").count();
        assert_eq!(left, 0);
    }
}

/// What was acknowledged before BACKUP SEAL is in the backup, and of each connection a prefix.
#[test]
fn writers_go_on_while_a_backup_is_made() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&[&ARGUMENTS[..], &["--io-threads", "4"]].concat());
    let mut client = server.connect();
    for number in 0..20_000 {
        client.send(&braid_tests::request(&format!("SET base:{number} {number}")));
    }
    (0..20_000).for_each(|_| _ = client.read());
    let (ends, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    let before: Vec<u64> = std::thread::scope(|scope| {
        for (number, done) in acknowledged.iter().enumerate() {
            let mut writer = server.connect();
            let ends = &ends;
            scope.spawn(move || {
                while !ends.load(SeqCst) {
                    let next = done.load(SeqCst) + 1;
                    assert_eq!(
                        writer.call(&format!("RPUSH log:{number} {next}")),
                        Value::Integer(next as i64)
                    );
                    done.store(next, SeqCst);
                }
            });
        }
        client.ok("BACKUP START");
        wait_for_state(&mut client, "incrementing");
        wait_for("writes", || acknowledged.iter().all(|done| done.load(SeqCst) > 100));
        let before = acknowledged.iter().map(|done| done.load(SeqCst)).collect();
        client.ok("BACKUP SEAL");
        ends.store(true, SeqCst);
        before
    });
    let (_place, restored) = restore(&server);
    let mut restored = restored.connect();
    assert_eq!(restored.call("GET base:19999").text(), "19999");
    for (number, (least, most)) in before.iter().zip(&acknowledged).enumerate() {
        let all = restored.call(&format!("LRANGE log:{number} 0 -1"));
        let all: Vec<u64> =
            all.elements().expect("a list").iter().map(|one| one.text().parse().expect("a number")).collect();
        assert!(all.iter().copied().eq(1..=all.len() as u64), "a prefix");
        assert!((*least..=most.load(SeqCst)).contains(&(all.len() as u64)), "{} of {least}", all.len());
    }
}

#[test]
fn a_backup_has_its_errors() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&ARGUMENTS);
    let mut client = server.connect();
    let refusal = |client: &mut RawClient, line: &str| client.call(line).to_string();
    for line in ["BACKUP SEAL", "BACKUP ABORT"] {
        assert!(refusal(&mut client, line).contains("no backup is in progress"), "{line}");
    }
    assert!(refusal(&mut client, "BACKUP CLEANUP").contains("there is no sealed or failed backup"));
    assert_eq!(client.call("BACKUP LIST"), Value::Array(Vec::new()));
    let folder = server.directory().join("backupdir");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("mine"), "kept").expect("a file");
    assert!(refusal(&mut client, "BACKUP START").contains("the backup directory is not empty"));
    fs::remove_file(folder.join("mine")).expect("it is there");
    client.ok("BACKUP START");
    assert!(refusal(&mut client, "BACKUP START").contains("already in progress"));
    wait_for_state(&mut client, "incrementing");
    client.ok("BACKUP ABORT");
    assert_eq!(status(&mut client, "state"), "failed");
    assert_eq!(status(&mut client, "error"), "aborted by BACKUP ABORT");
    assert!(refusal(&mut client, "BACKUP SEAL").contains("no backup is in progress"));
    // The next one removes what the failed one left.
    client.ok("BACKUP START");
    wait_for_state(&mut client, "incrementing");
    client.ok("SET key value");
    client.ok("BACKUP SEAL");
    assert!(refusal(&mut client, "BACKUP SEAL").contains("already sealed"));
    assert!(refusal(&mut client, "BACKUP ABORT").contains("use BACKUP CLEANUP"));
    assert!(refusal(&mut client, "BACKUP START").contains("remove it with BACKUP CLEANUP first"));
    client.ok("CONFIG SET backup-sealed-ttl 1");
    wait_for_state(&mut client, "idle");
    // A dataset from elsewhere ends it.
    client.ok("BACKUP START");
    wait_for_state(&mut client, "incrementing");
    let primary = TestServer::start(&ARGUMENTS);
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    wait_for_state(&mut client, "failed");
    assert!(status(&mut client, "error").contains("another dataset"), "{}", status(&mut client, "error"));
}

/// The end of the server ends the backup as well, whether or not there is an append-only file.
#[test]
fn a_backup_ends_at_shutdown() {
    if !is_braid() {
        return;
    }
    for appendonly in ["no", "yes"] {
        let mut server = TestServer::start(&[&ARGUMENTS[..], &["--appendonly", appendonly]].concat());
        let mut client = server.connect();
        client.ok("BACKUP START");
        wait_for_state(&mut client, "incrementing");
        client.send(b"SHUTDOWN NOSAVE\r\n");
        server.wait();
        let log = server.log();
        assert!(log.contains("The backup has failed: the server was shut down"), "{appendonly}: {log}");
    }
}

/// A folder that cannot be made, and one whose disk is full, are told; clients are served.
#[test]
fn a_backup_without_room_fails() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&ARGUMENTS);
    let mut client = server.connect();
    fs::write(server.directory().join("backupdir"), "a file").expect("a file");
    assert!(client.call("BACKUP START").is_error());
    assert_eq!(status(&mut client, "state"), "idle");
    client.ok("SET key value");
}
