// SPDX-License-Identifier: BSD-3-Clause
//! A disk that takes long, or is full, holds up neither reads nor the merging of peers' units.

use super::crash::kept;
use super::{field, link_all, server, wait_until_equal};
use braid_tests::small_disk::{FreezableDisk, SmallDisk};
use braid_tests::{Value, wait_for};
use rustix::process::Signal;

#[test]
fn units_of_peers_are_merged_while_the_disk_is_frozen() {
    let Some(disk) = FreezableDisk::mount(64 << 20) else {
        println!("skipped: mounting a disk needs root, e2fsprogs and loop devices");
        return;
    };
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
    client.ok("SET own after");
    wait_for("the write to wait for the log", || field(&one, "active_log_unwritten_bytes") > 0);
    // What is not in the log is not sent.
    assert_eq!(other.call("GET own").text(), "before");
    // Writes wait, as for a peer that is behind; reads do not.
    let mut writer = one.connect();
    writer.send(b"SET own later\r\n");
    wait_for("the next write to wait", || field(&one, "active_throttled") > 0);
    assert_eq!(client.call("GET theirs").text(), "4");
    assert!(disk.thaw());
    assert_eq!(writer.read().text(), "OK");
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
