// SPDX-License-Identifier: BSD-3-Clause
//! A disk whose sync fails: it is unknown which data is on it, so writes are refused until the
//! server has rewritten the file by itself, once the disk works again. A preloaded library makes
//! the syncs fail.

use std::ffi::OsString;
use std::path::Path;

use braid_tests::preload::failing_syncs;
use braid_tests::server::{Options, is_braid};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

fn start(folder: &Path, environment: Vec<(&'static str, OsString)>, policy: &str) -> TestServer {
    let folder = folder.to_str().expect("a readable path");
    let arguments = ["--dir", folder, "--appendonly", "yes", "--appendfsync", policy];
    let arguments = arguments.map(str::to_owned).to_vec();
    TestServer::start_with(Options { arguments, environment, ..Options::default() })
}

const REFUSED: &str = "MISCONF Errors writing to the AOF file: Input/output error";

fn a_disk_that_fails(policy: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(environment) = failing_syncs(folder.path()).filter(|_| is_braid()) else {
        println!("skipped: needs Braid under test and a C compiler");
        return;
    };
    let server = start(folder.path(), environment, policy);
    let mut client = server.connect();
    client.ok("SET before 1");
    let synced = |client: &mut RawClient| {
        client.call("WAITAOF 1 0 0").elements().and_then(|counts| counts[0].integer()) == Some(1)
    };
    assert!(synced(&mut client));
    std::fs::write(folder.path().join("failing"), "").expect("a file");
    let mut writer = server.connect();
    writer.send(b"SET under-way 1\r\n");
    match policy {
        "always" => {
            assert_eq!(writer.read().text(), REFUSED);
            writer.read_to_close().expect("the connection ends");
        }
        _ => assert_eq!(writer.read(), Value::ok(), "acknowledged before the fsync"),
    }
    wait_for("the failure to be seen", || client.call("SET another 1").text() == REFUSED);
    let status = |client: &mut RawClient| client.info_field("persistence", "aof_last_write_status");
    assert_eq!(status(&mut client).as_deref(), Some("err"));
    assert_eq!(client.call("GET before").text(), "1");
    assert_eq!(client.call("EVAL \"return redis.pcall('set','x','1')\" 0").text(), REFUSED);

    std::fs::remove_file(folder.path().join("failing")).expect("it is there");
    wait_for("writes to be accepted again", || client.call("SET after 1") == Value::ok());
    assert_eq!(status(&mut client).as_deref(), Some("ok"));
    assert!(server.log().contains("AOF write error looks solved."), "{}", server.log());
    assert!(synced(&mut client));
    server.signal(Signal::KILL);
    drop(server);

    let server = start(folder.path(), Vec::new(), policy);
    let mut client = server.connect();
    assert_eq!(client.call("MGET before under-way after").to_string(), "[\"1\", \"1\", \"1\"]");
}

#[test]
fn a_disk_that_fails_with_fsync_always() {
    a_disk_that_fails("always");
}

#[test]
fn a_disk_that_fails_with_fsync_every_second() {
    a_disk_that_fails("everysec");
}
