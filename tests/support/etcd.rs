// SPDX-License-Identifier: BSD-3-Clause
//! etcd servers for tests: each on free ports, with its data in a folder of its own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process;
use crate::server::free_port;
use crate::wait::{wait_for, wait_for_within};

/// The etcd program: in `BRAID_PEERS_DIR`, or else on PATH. If there is none, prints that the
/// test is skipped.
pub fn program() -> Option<PathBuf> {
    let peers = std::env::var_os("BRAID_PEERS_DIR").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = peers.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join("etcd"));
    let found = found.into_iter().find(|program| program.is_file());
    if found.is_none() {
        println!("skipped: no etcd in BRAID_PEERS_DIR or on PATH");
    }
    found
}

/// One etcd server. Dropping it kills it and deletes its data.
pub struct Etcd {
    program: PathBuf,
    arguments: Vec<String>,
    endpoint: String,
    port: u16,
    folder: TempDir,
    child: Option<Child>,
    starts: usize,
}

impl Etcd {
    /// A cluster of one member. `None` without etcd: the test is skipped.
    pub fn start() -> Option<Etcd> {
        let mut etcd = Etcd::prepare(&program()?, "one", None, &[]);
        etcd.cluster_of(&[]);
        etcd.restart();
        Some(etcd)
    }

    /// A server that speaks only TLS, with `server.pem`, `server.key` and `ca.pem` of the folder
    /// (see [`crate::certificates`]). It requires client certificates if `asks_clients`.
    pub fn start_tls(certificates: &Path, asks_clients: bool) -> Option<Etcd> {
        let file = |name: &str| certificates.join(name).to_str().expect("an ASCII path").to_owned();
        let mut more =
            vec!["--cert-file".to_owned(), file("server.pem"), "--key-file".into(), file("server.key")];
        if asks_clients {
            more.extend(["--client-cert-auth".into(), "--trusted-ca-file".into(), file("ca.pem")]);
        }
        let mut etcd = Etcd::prepare(&program()?, "one", Some("https"), &more);
        etcd.cluster_of(&[]);
        etcd.restart();
        Some(etcd)
    }

    /// A cluster of `count` members, all of them serving.
    pub fn start_cluster(count: usize) -> Option<Vec<Etcd>> {
        let program = program()?;
        let mut members: Vec<Etcd> =
            (0..count).map(|index| Etcd::prepare(&program, &format!("m{index}"), None, &[])).collect();
        let peers: Vec<String> = members.iter().map(Etcd::peer).collect();
        for (index, member) in members.iter_mut().enumerate() {
            let others: Vec<_> = peers.iter().enumerate().filter(|(other, _)| *other != index).collect();
            member.cluster_of(&others.into_iter().map(|(_, peer)| peer.clone()).collect::<Vec<_>>());
        }
        // No member serves before a majority has started, so launch all before waiting for any.
        members.iter_mut().for_each(Etcd::launch);
        members.iter().for_each(Etcd::wait_until_ready);
        Some(members)
    }

    fn prepare(program: &Path, name: &str, scheme: Option<&str>, more: &[String]) -> Etcd {
        // In memory if possible: on a busy disk, a write may take as long as a lease.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("a folder for etcd");
        let (port, peer_port) = (free_port(), free_port());
        let scheme = scheme.unwrap_or("http");
        let client = format!("{scheme}://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let data = folder.path().join("data").to_str().expect("an ASCII path").to_owned();
        let mut arguments: Vec<String> =
            ["--name", name, "--data-dir", &data, "--logger", "zap"].map(Into::into).into();
        arguments
            .extend(["--listen-client-urls", &client, "--advertise-client-urls", &client].map(Into::into));
        arguments
            .extend(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer].map(Into::into));
        arguments.extend_from_slice(more);
        // The certificates are issued for this name.
        let endpoint = if scheme == "https" { format!("https://localhost:{port}") } else { client };
        Etcd { program: program.into(), arguments, endpoint, port, folder, child: None, starts: 0 }
    }

    /// This member's `name=address` entry in the list of members.
    fn peer(&self) -> String {
        let after = |flag| {
            let at = self.arguments.iter().position(|argument| argument == flag).expect("a known flag");
            &self.arguments[at + 1]
        };
        format!("{}={}", after("--name"), after("--listen-peer-urls"))
    }

    fn cluster_of(&mut self, others: &[String]) {
        let mut all = vec![self.peer()];
        all.extend_from_slice(others);
        self.arguments.extend(["--initial-cluster".into(), all.join(",")]);
    }

    fn launch(&mut self) {
        assert!(self.child.is_none(), "etcd is already running");
        let log: File =
            OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a log for etcd");
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Do not inherit the settings of the machine's own etcd.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")) {
            command.env_remove(name);
        }
        self.child = Some(command.spawn().expect("etcd starts"));
        self.starts += 1;
    }

    fn wait_until_ready(&self) {
        // Until the cluster has agreed on its version, calls newer than the oldest version are
        // refused.
        let is_ready = || {
            let log = self.log();
            log.matches("serving client traffic").count() >= self.starts
                && log.contains("enabled capabilities for version")
        };
        assert!(wait_for_within(Duration::from_secs(60), is_ready), "etcd is not ready: {}", self.log());
    }

    /// Starts the server again after [`stop`](Etcd::stop) or [`kill`](Etcd::kill), with the same
    /// data and ports.
    pub fn restart(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    /// `http://127.0.0.1:port`, or `https://localhost:port`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The log of all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            process::signal(child, signal);
        }
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub fn stop(&mut self) {
        self.resume();
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            wait_for("etcd to stop", || child.try_wait().expect("a child").is_some());
        }
    }

    /// Backs up the data with the `etcdctl` from etcd's own folder. `None` without `etcdctl`,
    /// with a note that the test is skipped.
    pub fn back_up(&self) -> Option<PathBuf> {
        let backup = self.folder.path().join("backup");
        let file = backup.to_str().expect("an ASCII path");
        self.control(&["--endpoints", &self.endpoint, "snapshot", "save", file]).then_some(backup)
    }

    /// Kills the server and restarts it with the data of a backup, as an operator would after
    /// data loss.
    pub fn restore(&mut self, backup: &Path) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("its data is deleted");
        let file = backup.to_str().expect("an ASCII path");
        let mut arguments = vec!["snapshot", "restore", file];
        let kept = ["--name", "--data-dir", "--initial-cluster", "--initial-advertise-peer-urls"];
        for pair in self.arguments.windows(2).filter(|pair| kept.contains(&pair[0].as_str())) {
            arguments.extend([pair[0].as_str(), pair[1].as_str()]);
        }
        assert!(self.control(&arguments), "etcdctl is missing");
        self.restart();
    }

    /// Kills the server and restarts it without any data.
    pub fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("its data is deleted");
        self.restart();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs etcdctl. False if it is missing.
    fn control(&self, arguments: &[&str]) -> bool {
        let program = self.program.with_file_name("etcdctl");
        if !program.is_file() {
            println!("skipped: no {}", program.display());
            return false;
        }
        let output = Command::new(program).env("ETCDCTL_API", "3").args(arguments).output();
        let output = output.expect("etcdctl starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends one request to the JSON gateway, without TLS, and returns the reply's body. For test
    /// setup.
    pub fn post(&self, path: &str, body: &str) -> String {
        self.post_as(None, path, body)
    }

    /// [`Etcd::post`] with the token of a login.
    fn post_as(&self, token: Option<&str>, path: &str, body: &str) -> String {
        let login = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("etcd listens");
        let length = body.len();
        write!(socket, "POST {path} HTTP/1.0\r\nHost: etcd\r\n{login}Content-Length: {length}\r\n\r\n{body}")
            .expect("etcd accepts the request");
        let mut reply = String::new();
        socket.read_to_string(&mut reply).expect("etcd replies");
        assert!(reply.contains(" 200 OK"), "{path}: {reply}");
        reply.split_once("\r\n\r\n").expect("a header and a body").1.to_owned()
    }

    /// Requires logins from now on: as `root`, with all rights, or as `user`, who may read and
    /// write keys in `first..end`. Both have the same password.
    pub fn enable_auth(&self, user: &str, password: &str, first: &str, end: &str) {
        use base64::Engine;
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        for name in ["root", user] {
            self.post("/v3/auth/user/add", &format!(r#"{{"name":"{name}","password":"{password}"}}"#));
            self.post("/v3/auth/role/add", &format!(r#"{{"name":"{name}"}}"#));
            self.post("/v3/auth/user/grant", &format!(r#"{{"user":"{name}","role":"{name}"}}"#));
        }
        let (key, range_end) = (base64(first), base64(end));
        let permission = format!(r#"{{"permType":"READWRITE","key":"{key}","range_end":"{range_end}"}}"#);
        self.post("/v3/auth/role/grant", &format!(r#"{{"name":"{user}","perm":{permission}}}"#));
        self.enable_auth_again();
    }

    /// Requires the logins that are defined.
    pub fn enable_auth_again(&self) {
        self.post("/v3/auth/enable", "{}");
    }

    /// Requires no logins any more. `password`: that of `root`.
    pub fn disable_auth(&self, password: &str) {
        let login = format!(r#"{{"name":"root","password":"{password}"}}"#);
        let reply = self.post("/v3/auth/authenticate", &login);
        let token = reply.split_once(r#""token":""#).and_then(|(_, rest)| rest.split('"').next());
        self.post_as(Some(token.expect("a token")), "/v3/auth/disable", "{}");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
