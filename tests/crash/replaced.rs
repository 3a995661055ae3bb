// SPDX-License-Identifier: BSD-3-Clause
//! Files that are replaced while other files of the same dataset are written or read: the newer
//! file stays, and readers get complete files.

use std::path::Path;

use braid_tests::preload::library;
use braid_tests::server::{Options, is_braid};
use braid_tests::{TestServer, wait_for};

/// If the file named by `HOLD` exists, the next snapshot to be synced removes it and waits for a
/// file with that name and `.release`. Opening the file named by `READ` for reading then creates
/// the latter, and waits up to a second for the opened file to be replaced or deleted.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char *name(char *room, const char *end) {
    snprintf(room, 4096, "%s%s", getenv("HOLD"), end);
    return room;
}
static void touch(const char *end) {
    char room[4096];
    int file = (int) syscall(SYS_openat, AT_FDCWD, name(room, end), O_WRONLY | O_CREAT, 0600);
    if (file >= 0) close(file);
}
static int is_there(const char *end) {
    char room[4096];
    return access(name(room, end), F_OK) == 0;
}
static int remove_file(const char *path) { return (int) syscall(SYS_unlink, path); }
static void hold(int descriptor) {
    char room[4096], path[4096] = "";
    snprintf(room, sizeof room, "/proc/self/fd/%d", descriptor);
    if (readlink(room, path, sizeof path - 1) < 0 || !strstr(path, "temp-snapshot-")) return;
    if (remove_file(name(room, "")) == 0) {
        touch(".waits");
        while (!is_there(".release")) usleep(500);
    }
}
int fsync(int descriptor) { hold(descriptor); return (int) syscall(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return (int) syscall(SYS_fdatasync, descriptor); }
int rename(const char *from, const char *to) {
    int result = (int) syscall(SYS_rename, from, to);
    if (strstr(from, "temp-snapshot-") && strstr(to, getenv("READ"))) touch(".replaced");
    return result;
}
int unlink(const char *path) {
    int result = remove_file(path);
    if (strstr(path, getenv("READ"))) touch(".replaced");
    return result;
}
static void before_open(const char *path, int flags) {
    if (strstr(path, getenv("READ")) && (flags & O_ACCMODE) == O_RDONLY && is_there(".waits")) {
        touch(".release");
        for (int round = 0; round < 2000 && !is_there(".replaced"); round++) usleep(500);
    }
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    before_open(path, flags);
    return (int) syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    before_open(path, flags);
    return (int) syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
"#;

/// `None` without a C compiler, or for a server other than Braid.
fn start(folder: &Path, read: &str, more: &[&str]) -> Option<TestServer> {
    let Some(library) = library(folder, LIBRARY).filter(|_| is_braid()) else {
        println!("skipped: needs Braid under test and a C compiler");
        return None;
    };
    let path = folder.to_str().expect("a readable path");
    let own = ["--dir", path, "--enable-debug-command", "yes", "--save", ""];
    Some(TestServer::start_with(Options {
        arguments: own.iter().chain(more).map(|&text| text.to_owned()).collect(),
        environment: vec![
            ("LD_PRELOAD", library.into_os_string()),
            ("HOLD", folder.join("hold").into_os_string()),
            ("READ", read.into()),
        ],
        ..Options::default()
    }))
}

#[test]
fn reload_during_a_background_save_loads_its_own_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = start(folder.path(), "dump.rdb", &[]) else { return };
    let hold = folder.path().join("hold");
    let mut client = server.connect();
    client.ok("SET k old");
    std::fs::write(&hold, "").expect("a file");
    client.call("BGSAVE");
    wait_for("the save to have written its file", || hold.with_extension("waits").exists());
    client.ok("SET k new");
    client.ok("DEBUG RELOAD");
    assert_eq!(client.call("GET k").text(), "new");
    wait_for("the save to be over", || {
        client.info_field("persistence", "rdb_bgsave_in_progress").as_deref() == Some("0")
    });
    client.ok("DEBUG RELOAD NOSAVE");
    assert_eq!(client.call("GET k").text(), "new", "the older file replaced the newer one");
}

/// The same for the append-only file: a rewrite must not remove files that are being loaded.
#[test]
fn aof_load_during_a_rewrite_finds_all_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
    let Some(mut server) = start(folder.path(), "appendonly.aof.1.base.rdb", &more) else { return };
    let hold = folder.path().join("hold");
    let mut client = server.connect();
    client.ok("SET k 1");
    std::fs::write(&hold, "").expect("a file");
    client.call("BGREWRITEAOF");
    wait_for("the rewrite to have written its file", || hold.with_extension("waits").exists());
    client.ok("SET k 2");
    client.ok("DEBUG LOADAOF");
    assert!(server.is_alive());
    assert_eq!(client.call("GET k").text(), "2");
    wait_for("the rewrite to be over", || {
        client.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
    });
    assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
    client.ok("SET l 3");
    client.ok("DEBUG LOADAOF");
    assert_eq!(client.call("MGET k l").to_string(), "[\"2\", \"3\"]");
}
