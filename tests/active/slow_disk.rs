// SPDX-License-Identifier: BSD-3-Clause
//! A disk that takes long, or is full, holds up neither reads nor the merging of peers' units. A
//! failed sync is not followed by trust in the next one.

use super::crash::kept;
use super::{field, link_all, server, server_with, wait_until_equal};
use braid_tests::preload::failing_syncs;
use braid_tests::small_disk::{LoopDisk, SmallDisk};
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

#[test]
fn units_of_peers_are_merged_while_the_disk_is_frozen() {
    let Some(disk) = LoopDisk::mount(64 << 20) else { return };
    let folder = disk.path().to_str().expect("a name");
    let (one, two) = (server(1, &["--dir", folder]), server(2, &[]));
    link_all(&[&one, &two]);
    let (mut client, mut other) = (one.connect(), two.connect());
    client.ok("SET own before");
    wait_until_equal(&[&one, &two]);
    disk.freeze();
    for round in 0..5 {
        other.ok(&format!("SET theirs {round}"));
        wait_for("the peer's write", || client.call("GET theirs").text() == round.to_string());
    }
    // The disk may have stood still for so long already that the first of these writes waits.
    let mut writer = one.connect();
    writer.send(b"SET own after\r\n");
    wait_for("the log to wait for the disk", || field(&one, "active_log_unwritten_bytes") > 0);
    // What is not in the log is not sent.
    assert_eq!(other.call("GET own").text(), "before");
    // Writes wait, as for a peer that is behind; reads do not.
    let mut sent = 1;
    wait_for("a write to wait", || {
        writer.send(b"SET own later\r\n");
        sent += 1;
        field(&one, "active_throttled") > 0
    });
    assert_eq!(client.call("GET theirs").text(), "4");
    assert!(disk.thaw());
    for _ in 0..sent {
        assert_eq!(writer.read().text(), "OK");
    }
    wait_until_equal(&[&one, &two]);
    assert_eq!(other.call("GET own").text(), "later");
    wait_for("everything to be written", || field(&one, "active_log_unwritten_bytes") == 0);
}

/// The disk is full in the middle of a unit. The log continues where the last complete one ends.
#[test]
fn the_log_is_whole_after_the_disk_was_full() {
    let Some(disk) = SmallDisk::mount("24m") else {
        println!("skipped: mounting a disk needs root");
        return;
    };
    let two = server(2, &[]);
    let mut one = kept(1, disk.path(), &["--active-lag-max", "0"]);
    link_all(&[&one, &two]);
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 16 << 20]).expect("there is room");
    let mut client = one.connect();
    let value = "v".repeat(300_000);
    let mut count = 0;
    wait_for("the disk to be full", || {
        client.ok(&format!("SET key:{count} {value}{count}"));
        count += 1;
        !one.connect().info_field("active", "active_trouble").unwrap_or_default().is_empty()
    });
    assert!(one.log().contains("the log cannot be written"), "{}", one.log());
    two.connect().ok("SET theirs 1");
    wait_for("the peer's write", || client.call("GET theirs").text() == "1");
    std::fs::remove_file(filler).expect("there");
    wait_until_equal(&[&one, &two]);
    wait_for("the trouble to be over", || {
        one.connect().info_field("active", "active_trouble").as_deref() == Some("")
    });
    one.signal(Signal::KILL);
    one.wait();
    let one = kept(1, disk.path(), &[]);
    let mut client = one.connect();
    assert_eq!(client.call("DBSIZE"), Value::Integer(count + 1), "{}", one.log());
    for key in 0..count {
        assert_eq!(client.call(&format!("GET key:{key}")).text(), format!("{value}{key}"));
    }
}

/// After a sync has failed, Linux drops what it could not write, and the next sync succeeds.
#[test]
fn a_log_whose_sync_has_failed_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(environment) = failing_syncs(folder.path()) else {
        println!("skipped: needs a C compiler");
        return;
    };
    let place = folder.path().to_str().expect("a name");
    let two = server(2, &[]);
    let mut one = server_with(1, &["--dir", place], environment);
    link_all(&[&one, &two]);
    let (mut client, mut other) = (one.connect(), two.connect());
    client.ok("SET before 1");
    wait_until_equal(&[&one, &two]);
    let failing = folder.path().join("failing");
    std::fs::write(&failing, "").expect("a file");
    client.ok("SET unsynced 1");
    other.ok("SET theirs 1");
    let trouble = |server: &TestServer| server.connect().info_field("active", "active_trouble");
    wait_for("a sync to fail", || trouble(&one).is_some_and(|text| text.contains("cannot be synced")));
    // What the disk holds of the log from now on.
    let logs = || {
        let names = folder.path().read_dir().expect("a folder").map(|entry| entry.expect("readable").path());
        names.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect::<Vec<_>>()
    };
    let lost = logs();
    std::fs::remove_file(failing).expect("there");
    wait_for("the trouble to be over", || trouble(&one).as_deref() == Some(""));
    client.ok("SET after 1");
    wait_until_equal(&[&one, &two]);
    one.signal(Signal::KILL);
    one.wait();
    for path in lost.iter().filter(|path| path.exists()) {
        let len = path.metadata().expect("there").len() as usize;
        std::fs::write(path, vec![0; len]).expect("written");
    }
    let one = kept(1, folder.path(), &[]);
    let mut client = one.connect();
    assert_eq!(client.call("MGET before unsynced theirs after").to_string(), r#"["1", "1", "1", "1"]"#);
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
}
