// SPDX-License-Identifier: BSD-3-Clause
//! A full disk: reads are served, writes are refused, and once there is space again, all
//! acknowledged writes are written. The test limits the server's file size, which makes writes
//! fail as on a full disk.

use std::path::{Path, PathBuf};

use braid_tests::server::is_braid;
use braid_tests::small_disk::{LoopDisk, SmallDisk};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

fn start(folder: &Path, policy: &str) -> TestServer {
    let folder = folder.to_str().expect("a readable path");
    TestServer::start(&["--dir", folder, "--appendonly", "yes", "--appendfsync", policy])
}

fn limit_file_size(server: &TestServer, bytes: Option<u64>) {
    let most = getrlimit(Resource::Fsize).maximum;
    let process = Pid::from_raw(i32::try_from(server.process_id()).expect("a process")).expect("a process");
    prlimit(Some(process), Resource::Fsize, Rlimit { current: bytes.or(most), maximum: most })
        .expect("a limit");
}

fn increment(folder: &Path) -> PathBuf {
    folder.join("appendonlydir").join("appendonly.aof.1.incr.aof")
}

fn len(path: &Path) -> u64 {
    path.metadata().expect("the file is there").len()
}

const REFUSED: &str = "MISCONF Errors writing to the AOF file: File too large";

fn value(number: usize) -> String {
    format!("{number}{}", "x".repeat(20_000))
}

/// Writes until a write is refused; returns the number of acknowledged values. The connection may
/// end.
fn fill(server: &TestServer) -> usize {
    let mut client = server.connect();
    for number in 0..100_000 {
        client.send(&braid_tests::words::encode(&["SET", &format!("key:{number}"), &value(number)]));
        let reply = client.read();
        if reply.is_error() {
            assert_eq!(reply.text(), REFUSED);
            return number;
        }
        assert_eq!(reply, Value::ok());
    }
    panic!("the disk is never full");
}

#[track_caller]
fn check_keys(client: &mut RawClient, count: usize) {
    for number in 0..count {
        assert_eq!(client.call(&format!("GET key:{number}")), Value::bulk(value(number)));
    }
}

fn a_full_disk(policy: &str) {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path(), policy);
    let mut client = server.connect();
    client.ok("SET before 1");
    client.call("WAITAOF 1 0 0");
    limit_file_size(&server, Some(len(&increment(folder.path())) + 100_000));
    let acknowledged = fill(&server);

    wait_for("the failure to be seen", || client.call("SET another 1").text() == REFUSED);
    let field = |client: &mut RawClient, name: &str| client.info_field("persistence", name);
    assert_eq!(field(&mut client, "aof_last_write_status").as_deref(), Some("err"));
    check_keys(&mut client, acknowledged);
    assert_eq!(client.call("EVAL \"return redis.pcall('set','x','1')\" 0").text(), REFUSED);
    assert_eq!(client.call("EVAL \"return redis.call('get','before')\" 0").text(), "1");

    limit_file_size(&server, None);
    wait_for("writes to be accepted again", || client.call("SET after 1") == Value::ok());
    assert_eq!(field(&mut client, "aof_last_write_status").as_deref(), Some("ok"));
    assert!(server.log().contains("AOF write error looks solved."), "{}", server.log());
    assert_eq!(client.call("WAITAOF 1 0 0").elements().and_then(|counts| counts[0].integer()), Some(1));
    server.signal(Signal::KILL);
    drop(server);

    let server = start(folder.path(), policy);
    let mut client = server.connect();
    check_keys(&mut client, acknowledged);
    assert_eq!(client.call("GET after").text(), "1");
    assert!(client.call("GET another").is_null());
}

#[test]
fn a_full_disk_with_fsync_always() {
    a_full_disk("always");
}

#[test]
fn a_full_disk_with_fsync_every_second() {
    a_full_disk("everysec");
}

/// Several clients write in pipelines until they are refused. Returns each client's number of
/// acknowledged values.
fn fill_in_pipelines(server: &TestServer, refused: &str) -> Vec<usize> {
    const PIPELINE: usize = 16;
    let write = |writer: usize| {
        let mut client = server.connect();
        for first in (0..1_000_000).step_by(PIPELINE) {
            let requests: Vec<Vec<u8>> = (first..first + PIPELINE)
                .map(|number| {
                    braid_tests::words::encode(&[
                        "SET",
                        &format!("key:{writer}:{number}"),
                        &format!("{number:0500}"),
                    ])
                })
                .collect();
            client.send(&requests.concat());
            let replies: Vec<Value> = (0..PIPELINE).map(|_| client.read()).collect();
            let written = replies.iter().take_while(|reply| **reply == Value::ok()).count();
            if written < PIPELINE {
                assert!(replies[written..].iter().all(|reply| reply.text() == refused), "{replies:?}");
                return first + written;
            }
        }
        panic!("the disk is never full");
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    })
}

#[track_caller]
fn check_all_there(client: &mut RawClient, acknowledged: &[usize]) {
    for (writer, &count) in acknowledged.iter().enumerate() {
        let missing = (0..count)
            .filter(|number| client.call(&format!("STRLEN key:{writer}:{number}")).integer() != Some(500));
        assert_eq!(missing.count(), 0, "client {writer} lost some of {count} acknowledged values");
    }
}

/// Writes are refused while there is still space for all acknowledged ones, so a kill loses none
/// of them.
fn a_full_disk_and_a_kill(folder: &Path, policy: &str, refused: &str, fill: impl FnOnce(&TestServer)) {
    if !is_braid() {
        return;
    }
    let server = start(folder, policy);
    server.connect().ok("SET before 1");
    fill(&server);
    let acknowledged = fill_in_pipelines(&server, refused);
    assert!(acknowledged.iter().sum::<usize>() > 1000, "{acknowledged:?}");
    // The last acknowledged writes may take a few milliseconds to reach the file.
    let mut client = server.connect();
    wait_for("the file to have all writes", || {
        client.info_field("persistence", "aof_buffer_length").as_deref() == Some("0")
    });
    server.signal(Signal::KILL);
    drop(server);
    let server = start(folder, policy);
    check_all_there(&mut server.connect(), &acknowledged);
}

#[test]
fn a_full_disk_and_a_kill_lose_nothing_that_was_acknowledged() {
    let full = "MISCONF Errors writing to the AOF file: No space left on device";
    for policy in ["everysec", "no"] {
        let Some(disk) = SmallDisk::mount("24m") else {
            println!("skipped: mounting a disk needs root");
            return;
        };
        a_full_disk_and_a_kill(disk.path(), policy, full, |_| ());
    }
}

#[test]
fn a_limit_on_files_and_a_kill_lose_nothing_that_was_acknowledged() {
    for policy in ["everysec", "no"] {
        let folder = tempfile::tempdir().expect("a folder");
        let increment = increment(folder.path());
        a_full_disk_and_a_kill(folder.path(), policy, REFUSED, |server| {
            limit_file_size(server, Some(len(&increment) + (16 << 20)));
        });
    }
}

/// A disk that accepts nothing for a while holds no client up for as long, unless its reply must
/// wait for the disk.
#[test]
fn writes_go_on_while_the_disk_is_frozen() {
    if !is_braid() {
        return;
    }
    let Some(disk) = LoopDisk::mount(64 << 20) else { return };
    let mut server = start(disk.path(), "everysec");
    let mut client = server.connect();
    client.ok("SET before x");
    client.call("WAITAOF 1 0 0");
    disk.freeze();
    // From then on writers wait, but never for long.
    wait_for("the disk to fall behind", || {
        client.ok("SET during x");
        client.info_field("persistence", "aof_delayed_fsync").as_deref() != Some("0")
    });
    (0..10).for_each(|number| client.ok(&format!("SET key:{number} x")));
    assert!(disk.thaw(), "the writes waited for the disk");
    client.call("WAITAOF 1 0 0");
    server.signal(Signal::KILL);
    server.wait();
    let server = start(disk.path(), "everysec");
    assert_eq!(server.connect().call("DBSIZE"), Value::Integer(12));
}

/// Preallocated space does not belong to the file, and is released at the end.
#[test]
fn reserved_space_is_given_back() {
    use std::os::unix::fs::MetadataExt;
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = start(folder.path(), "everysec");
    let mut client = server.connect();
    client.ok("SET k v");
    client.call("WAITAOF 1 0 0");
    let data = increment(folder.path()).metadata().expect("the file is there");
    assert!(data.len() < 1000);
    let file = std::fs::File::create(folder.path().join("other")).expect("a file");
    if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 4096).is_ok() {
        assert!(data.blocks() * 512 >= 1 << 20, "{} blocks are allocated", data.blocks());
    }
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let data = increment(folder.path()).metadata().expect("the file is there");
    assert!(data.blocks() * 512 < 64 << 10, "{} blocks are allocated", data.blocks());
}

/// A long reply is sent in pieces while other replies of its batch are made, but not before the
/// preceding writes are on disk.
#[test]
fn a_long_reply_does_not_run_ahead_of_the_disk() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path(), "always");
    let mut client = server.connect();
    assert_eq!(client.call_arguments(&["RPUSH", "long", &"y".repeat(15_000)]).integer(), Some(1));
    for _ in 0..8 {
        client.call("SORT long BY nosort GET # GET # STORE long");
    }
    limit_file_size(&server, Some(1));
    client.send(b"SET small 1\r\nLRANGE long 0 -1\r\n");
    assert_eq!(client.read().text(), REFUSED);
}

/// A client whose change cannot be written to disk is neither left waiting nor told that the
/// change is on disk.
#[test]
fn a_change_that_cannot_be_put_on_disk_is_not_acknowledged() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path(), "always");
    let mut reader = server.connect();
    reader.ok("SET before 1");
    // The space written ahead still has room for small changes.
    limit_file_size(&server, Some(len(&increment(folder.path()))));
    let mut writer = server.connect();
    writer.send(&braid_tests::words::encode(&["SET", "large", &"x".repeat(3 << 20)]));
    assert_eq!(writer.read().text(), REFUSED);
    writer.read_to_close().expect("the connection ends");
    assert_eq!(reader.call("GET before").text(), "1");
    assert_eq!(reader.call("SET small 1").text(), REFUSED);
}

/// However long a write takes, the reply does not come before it is complete.
#[test]
fn a_reply_waits_for_a_slow_write() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a readable path");
    let more =
        ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let server = TestServer::start(&more);
    let mut client = server.connect();
    client.ok("DEBUG AOF-FLUSH-SLEEP 300000");
    let begin = std::time::Instant::now();
    client.ok("SET k v");
    assert!(begin.elapsed() >= std::time::Duration::from_millis(300));
    client.ok("DEBUG AOF-FLUSH-SLEEP 0");
    assert_eq!(client.call("GET k").text(), "v");
}
