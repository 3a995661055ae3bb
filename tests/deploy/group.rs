// SPDX-License-Identifier: BSD-3-Clause
//! `deploy/group`: start, kill of the primary, restart, stop. And `deploy/compose.yaml`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use braid_tests::server::{free_port, is_braid, program_under_test};
use braid_tests::wait_for_within;
use rustix::process::{Pid, Signal, kill_process};

use crate::{deploy, is_there, runs};

/// Time limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A group in a folder of its own. Dropping it kills its remaining processes.
struct Group {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
    ports: Vec<u16>,
    etcd_ports: [u16; 2],
    /// PATH with etcd and redis-cli.
    path: std::ffi::OsString,
}

impl Group {
    fn prepare() -> Group {
        let programs = tempfile::tempdir().expect("a folder");
        let server = std::fs::canonicalize(program_under_test()).expect("the server");
        std::os::unix::fs::symlink(server, programs.path().join("braid-server")).expect("a link");
        let folder = tempfile::tempdir().expect("a folder");
        let peers = std::env::var_os("BRAID_PEERS_DIR").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(peers);
        Group {
            folder,
            programs,
            ports: (0..3).map(|_| free_port()).collect(),
            etcd_ports: [free_port(), free_port()],
            path: std::env::join_paths(folders).expect("folders without colons"),
        }
    }

    fn command(&self, action: &str) -> Command {
        let words = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let mut command = Command::new(deploy("group"));
        command
            .arg(action)
            .env("GROUP_DIR", self.folder.path())
            .env("PROGRAMS", self.programs.path())
            .env("PORTS", words(&self.ports))
            .env("ETCD_PORTS", words(&self.etcd_ports))
            .env("LEASE_MS", "2000")
            .env("PATH", &self.path);
        command
    }

    #[track_caller]
    fn run(&self, action: &str) -> String {
        let output: Output = self.command(action).output().expect("it starts");
        let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "deploy/group {action}: {text}");
        text
    }

    fn pid_file(&self, port: u16) -> PathBuf {
        self.folder.path().join(format!("server-{port}/pid"))
    }

    fn pid(&self, port: u16) -> Option<Pid> {
        read_pid(&self.pid_file(port))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let etcd = self.folder.path().join("etcd/pid");
        let files = self.ports.iter().map(|port| self.pid_file(*port)).chain([etcd]);
        for pid in files.filter_map(|file| read_pid(&file)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The process that a PID file names, if its working folder is the file's folder.
fn read_pid(file: &Path) -> Option<Pid> {
    let pid: i32 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (Some(folder) == std::fs::canonicalize(file.parent()?).ok()).then(|| Pid::from_raw(pid))?
}

/// The client of `deploy/group`, and its output lines.
struct Client {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Client {
    fn start(group: &Group) -> Client {
        let mut child = group.command("client").stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .take_while(|line| sender.send(line.clone()).is_ok())
                .for_each(drop);
        });
        Client { child, lines, seen: Vec::new() }
    }

    /// The next line with this prefix.
    #[track_caller]
    fn wait_for(&mut self, begin: &str) -> String {
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.seen.push(line.clone());
            if line.starts_with(begin) {
                return line;
            }
        }
        panic!("no line '{begin}' in {:#?}", self.seen);
    }

    /// Waits for the next line that counts writes.
    #[track_caller]
    fn wait_for_writes(&mut self) {
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.seen.push(line.clone());
            if line.ends_with(" writes") {
                return;
            }
        }
        panic!("no more writes after {:#?}", self.seen);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port in a line `primary: port 7001, process ...`.
fn port_of(line: &str) -> u16 {
    let words = line.trim_start_matches("primary: port ");
    words.split(',').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line}"))
}

#[test]
fn client_continues_after_the_primary_is_killed() {
    let test = "deploy/group";
    let has_etcd = braid_tests::etcd::program().is_some();
    if !is_braid()
        || !is_there(test, "etcd", has_etcd)
        || !is_there(test, "redis-cli", runs("redis-cli", &["--version"]))
    {
        return;
    }
    let group = Group::prepare();
    let told = group.run("start");
    assert_eq!(told.matches("  master").count(), 1, "{told}");
    assert_eq!(told.matches("  slave").count(), 2, "{told}");
    let pids: Vec<_> = group.ports.iter().map(|port| group.pid(*port)).collect();
    assert!(pids.iter().all(Option::is_some), "{pids:?}");
    // A second start changes nothing.
    group.run("start");
    assert_eq!(group.ports.iter().map(|port| group.pid(*port)).collect::<Vec<_>>(), pids);

    let mut client = Client::start(&group);
    let killed = port_of(&client.wait_for("primary: "));
    kill_process(group.pid(killed).expect("the primary runs"), Signal::KILL).expect("the primary is killed");
    let successor = port_of(&client.wait_for("primary: "));
    assert!(successor != killed && group.ports.contains(&successor));
    client.wait_for("gap: ");
    // The client continues, and the killed server comes back as a replica.
    client.wait_for_writes();
    let told = group.run("start");
    assert!(told.contains(&format!("braid-{successor}  port {successor}")), "{told}");
    assert!(
        told.lines().any(|line| line.starts_with(&format!("braid-{killed} ")) && line.ends_with("slave")),
        "{told}"
    );
    assert!(!client.seen.iter().any(|line| line.starts_with("LOST")), "{:#?}", client.seen);
    drop(client);

    let told = group.run("stop");
    assert!(told.contains("Stopped."), "{told}");
    assert!(wait_for_within(PATIENCE, || group.ports.iter().all(|port| group.pid(*port).is_none())));
    assert_eq!(read_pid(&group.folder.path().join("etcd/pid")), None);
    // A stopped group can be started again with its data.
    let told = group.run("start");
    assert_eq!(told.matches("  master").count(), 1, "{told}");
    let mut client = braid_tests::RawClient::tcp(([127, 0, 0, 1], successor).into()).expect("it listens");
    let reply = client.call("GET group:counter");
    assert!(matches!(&reply, braid_tests::Value::Bulk(text) if text.as_slice() != b"1"), "{reply:?}");
    group.run("stop");
}

#[test]
fn usage_errors_are_reported() {
    let group = Group::prepare();
    let output = group.command("begin").output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let nowhere = tempfile::tempdir().expect("a folder");
    let output = group.command("start").env("PROGRAMS", nowhere.path()).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("braid-server is not built"), "{output:?}");
    assert!(group.run("stop").contains("Nothing runs"));
}
