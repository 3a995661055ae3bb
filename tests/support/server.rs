// SPDX-License-Identifier: BSD-3-Clause
//! A server process for one test: started on a free port in a folder of its own, stopped on drop.
//!
//! The program under test is `BRAID_TEST_SERVER`. Default: the `braid-server` beside the test
//! executable (`target/PROFILE`); if there is none, it is built once with
//! `cargo build --release -p braid-server`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::RawClient;
use crate::process;
use crate::wait::{PATIENCE, wait_for_within};

/// How to start a server.
#[derive(Clone, Default)]
pub struct Options {
    /// The program; `None` means the program under test.
    pub program: Option<PathBuf>,
    /// A configuration file; the harness's own arguments come after it.
    pub config_file: Option<PathBuf>,
    /// Arguments after the harness's own, which they override.
    pub arguments: Vec<String>,
    /// `ulimit -n` for the process.
    pub open_files_max: Option<u32>,
    /// The port; `None` means a free one.
    pub port: Option<u16>,
    /// Omit `--bind`, which the test sets itself.
    pub no_bind: bool,
    /// Environment variables of the process.
    pub environment: Vec<(&'static str, OsString)>,
}

/// Makes the options of a server whose locks do nothing. `None` if the program under test was built
/// without assertions, and so always has them. The server does not get `BRAID_TEST_ARGS`: in some
/// threading models it would not need locks.
pub fn without_locks() -> Option<fn() -> Options> {
    let options = || Options {
        program: Some(program_under_test().clone()),
        environment: vec![("BRAID_NO_LOCKS", "yes".into())],
        ..Options::default()
    };
    let is_possible = TestServer::start_with(options()).log().contains("BRAID_NO_LOCKS");
    if !is_possible {
        println!("skipped: the server under test was built without assertions");
    }
    is_possible.then_some(options)
}

/// A running server process.
pub struct TestServer {
    child: Child,
    port: u16,
    directory: TempDir,
    is_program_under_test: bool,
}

impl TestServer {
    /// Starts the program under test with these arguments after the harness's own.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> TestServer {
        TestServer::start_with(Options { arguments: owned(arguments), ..Options::default() })
    }

    /// Starts another program, for comparison.
    #[track_caller]
    pub fn start_program(program: &Path, arguments: &[&str]) -> TestServer {
        TestServer::start_with(Options {
            program: Some(program.into()),
            arguments: owned(arguments),
            ..Options::default()
        })
    }

    /// Starts a server; panics with its log if it does not come up.
    #[track_caller]
    pub fn start_with(options: Options) -> TestServer {
        for _ in 0..5 {
            let mut server = TestServer::spawn(&options);
            let ready =
                wait_for_within(PATIENCE, || server.answers() && server.listens() || !server.is_alive());
            if ready && server.is_alive() {
                return server;
            }
            let log = server.log();
            // Another process may have taken the port between the probe and the server's bind.
            // Retry only in that case.
            assert!(log.contains("ddress already in use"), "the server did not come up; its log:\n{log}");
        }
        panic!("no free port found");
    }

    fn spawn(options: &Options) -> TestServer {
        let directory = tempfile::Builder::new().prefix("braid-test-").tempdir().expect("a temporary folder");
        let port = options.port.unwrap_or_else(free_port);
        let is_program_under_test = options.program.is_none();
        let program = options.program.clone().unwrap_or_else(|| program_under_test().clone());
        let mut command = match options.open_files_max {
            None => Command::new(&program),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &limit.to_string()]).arg(&program);
                shell
            }
        };
        command.args(&options.config_file);
        command.envs(options.environment.iter().map(|(name, value)| (name, value)));
        command.args(["--port", &port.to_string()]).arg("--dir").arg(directory.path());
        command.args(["--save", ""]);
        if !options.no_bind {
            command.args(["--bind", "127.0.0.1"]);
        }
        if is_program_under_test && let Ok(more) = std::env::var("BRAID_TEST_ARGS") {
            command.args(more.split_whitespace());
        }
        command.args(&options.arguments);
        let log = File::create(directory.path().join("server.log")).expect("a log file");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        TestServer { child, port, directory, is_program_under_test }
    }

    /// True if the server answers a PING; a request for a password counts as an answer.
    fn answers(&self) -> bool {
        let Ok(mut client) = RawClient::tcp(self.address()) else { return false };
        let _ = client.set_patience(Duration::from_secs(2));
        client.try_send(b"PING\r\n").is_ok()
            && client.try_read().is_ok_and(|reply| {
                let text = reply.text();
                text == "PONG" || text.starts_with("NOAUTH")
            })
    }

    /// True if this server, and not another process, listens on the port.
    fn listens(&self) -> bool {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        let files = files.into_iter().flatten().flatten();
        let own: Vec<PathBuf> = files.filter_map(|file| std::fs::read_link(file.path()).ok()).collect();
        let mut sockets =
            ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().flat_map(|table| listening(table, self.port));
        sockets.any(|socket| own.iter().any(|file| file.as_os_str() == socket.as_str()))
    }

    /// Opens a connection that works in bytes.
    #[track_caller]
    pub fn connect(&self) -> RawClient {
        RawClient::tcp(self.address()).expect("the server accepts connections")
    }

    /// Opens a connection of the redis crate.
    #[track_caller]
    pub fn connect_redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a valid address");
        client.get_connection().expect("the server accepts connections")
    }

    /// The server's URL for redis clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process ID.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The server's working folder.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The server's standard output and error so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.path().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True while the process runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal; see [`process::signal`].
    pub fn signal(&self, signal: Signal) {
        process::signal(&self.child, signal);
    }

    /// Waits until the process has ended; panics on timeout.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server did not exit; its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// True if this is Braid, judged by the program's name. Tests of features that only Braid has
    /// check this.
    pub fn is_braid(&self) -> bool {
        self.is_program_under_test && is_braid()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "last lines of the server's log:\n{}",
                lines[lines.len().saturating_sub(30)..].join("\n")
            );
        }
        if !self.is_alive() {
            return;
        }
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        if !wait_for_within(Duration::from_secs(5), || !self.is_alive()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The sockets that listen on a port, as links to them are named. The kernel lists those that
/// listen before the others, and is asked for little more than a row at a time: to list the others
/// takes it 10 ms if there are none, and 100 ms after tests with many connections.
fn listening(table: &str, port: u16) -> impl Iterator<Item = String> {
    const ROW: usize = 150;
    let local = format!(":{port:04X}");
    let rows = File::open(table).into_iter().flat_map(|file| BufReader::with_capacity(ROW, file).lines());
    // Number, local address, remote address, state (0A: listening), ..., inode; headings above.
    rows.skip(1)
        .map_while(Result::ok)
        .map_while(move |row| {
            let words: Vec<&str> = row.split_whitespace().collect();
            let (address, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
            let is_on_port = address.ends_with(&local);
            (*state == "0A").then(|| is_on_port.then(|| format!("socket:[{inode}]")))
        })
        .flatten()
}

/// True if the program under test is Braid, judged by its name.
pub fn is_braid() -> bool {
    program_under_test().file_name().is_some_and(|name| name.to_string_lossy().contains("braid"))
}

/// The program under test.
pub fn program_under_test() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("BRAID_TEST_SERVER") {
        Some(program) => program.into(),
        None => server_in_target_dir().unwrap_or_else(build),
    })
}

/// `target/PROFILE/braid-server` of the profile the tests were built with.
fn server_in_target_dir() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let program = test.parent()?.parent()?.join("braid-server");
    program.is_file().then_some(program)
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let test = std::env::current_exe().expect("the test's own path");
    let target = test.ancestors().nth(3).expect("target/PROFILE/deps/TEST");
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "braid-server", "--target-dir"])
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "braid-server cannot be built; BRAID_TEST_SERVER may name another program");
    target.join("release").join("braid-server")
}

/// The path of a workspace program: in `BRAID_TEST_PROGRAMS`, or else beside the test, built if
/// necessary.
pub fn tool(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("BRAID_TEST_PROGRAMS") {
        return PathBuf::from(folder).join(name);
    }
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    let path = profile.join(name);
    // Built even if the file exists: cargo knows whether it is up to date. Concurrent tests wait
    // for each other.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", name, "--target-dir"]).arg(profile.parent().expect("target"));
    match profile.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => {}
        Some(profile) => {
            build.args(["--profile", profile]);
        }
    }
    let built = build.status().is_ok_and(|status| status.success());
    assert!(built || path.is_file(), "{name} cannot be built");
    path
}

/// A stock server to compare with.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The program.
    pub program: PathBuf,
    /// Its version as in `--version`: `redis 7.0.15`, `valkey 9.1.2`.
    pub version: String,
}

/// A stock Redis 7: the `redis-server` on PATH (Debian 12 has 7.0), or `redis7-server` in
/// `BRAID_PEERS_DIR`. If there is neither, the `redis-server` on PATH, whatever its version.
pub fn stock() -> Option<Peer> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find_map(|folder| peer(&folder.join("redis-server")));
    let is_7 = |peer: &Peer| peer.version.starts_with("redis 7.");
    let unpacked = || peer(&PathBuf::from(std::env::var_os("BRAID_PEERS_DIR")?).join("redis7-server"));
    found.clone().filter(is_7).or_else(unpacked).or(found)
}

/// The newer stock servers in `BRAID_PEERS_DIR`.
pub fn newer_peers() -> Vec<Peer> {
    let Some(folder) = std::env::var_os("BRAID_PEERS_DIR").map(PathBuf::from) else { return Vec::new() };
    ["redis-server", "valkey-server"].iter().filter_map(|name| peer(&folder.join(name))).collect()
}

/// A program as a peer; `None` if it does not print its version as Redis and Valkey do.
pub fn peer(program: &Path) -> Option<Peer> {
    // "Redis server v=7.0.15 sha=...": first word and version.
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text.split_whitespace().next()?.to_lowercase();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(Peer { program: program.into(), version: format!("{name} {version}") })
}

/// The first of the ports that tests use, below the range that the system uses for outgoing
/// connections, and how many of them are one program's: several run at once, and none may take a
/// port on which another is about to restart a server.
const PORTS: u32 = 15_000;
const RANGE: u32 = 2_500;
const RANGES: u32 = 6;

/// A port without a listener.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(2_654_435_761) % RANGE;
    for _ in 0..RANGE {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (first_port() + start.wrapping_add(step) % RANGE) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// The first port of this process's range. A range is taken by locking a file, until the process
/// ends. If all are taken the process shares one.
fn first_port() -> u32 {
    static TAKEN: OnceLock<(u32, Option<File>)> = OnceLock::new();
    let take = |range: u32| {
        let folder = std::env::temp_dir().join("braid-test-ports");
        std::fs::create_dir_all(&folder).ok()?;
        let file = File::create(folder.join(range.to_string())).ok()?;
        file.try_lock().is_ok().then_some((range, Some(file)))
    };
    let (range, _) =
        TAKEN.get_or_init(|| (0..RANGES).find_map(take).unwrap_or((std::process::id() % RANGES, None)));
    PORTS + range * RANGE
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}
