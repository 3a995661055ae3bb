// SPDX-License-Identifier: BSD-3-Clause
//! Runs the blocks marked `runnable` and compares their output with the following block
//! `text output`, if there is one. The blocks are written for port 6379, which is replaced by the
//! port of a server of their own.
//!
//! Each language needs the installation by tests/clients/install. Without it the language's
//! blocks are skipped with a message, or fail if `CI` is set. The Rust block is compiled, not
//! run: its text must equal hello.rs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use braid_tests::TestServer;

use crate::text::{Block, split};
use crate::{pages, root};

fn clients() -> PathBuf {
    root().join("tests/clients")
}

fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// The command that runs a block of this language in `folder`; the error names what is missing.
fn command(language: &str, code: &str, folder: &Path) -> Result<Command, String> {
    let write = |name: &str, code: &str| fs::write(folder.join(name), code).expect("a file can be written");
    let missing = |what: &str| Err(format!("{language}: no {what}"));
    match language {
        "sh" => {
            for program in ["redis-cli", "openssl"] {
                if code.contains(program) && !is_on_path(program) {
                    return missing(program);
                }
            }
            let mut command = Command::new("sh");
            command.args(["-euc", code]);
            Ok(command)
        }
        "python" => {
            let python = clients().join("python/venv/bin/python");
            if !python.is_file() {
                return missing("redis-py");
            }
            write("hello.py", code);
            let mut command = Command::new(python);
            command.arg("hello.py");
            Ok(command)
        }
        "js" => {
            let modules = clients().join("node/node_modules");
            if !modules.is_dir() {
                return missing("ioredis");
            }
            write("hello.mjs", code);
            symlink(modules, folder.join("node_modules")).expect("a link can be made");
            let mut command = Command::new("node");
            command.arg("hello.mjs");
            Ok(command)
        }
        "go" => {
            if !clients().join("go/bin/client-test").is_file() {
                return missing("go-redis");
            }
            write("main.go", code);
            for name in ["go.mod", "go.sum"] {
                fs::copy(clients().join("go").join(name), folder.join(name)).expect("a file can be copied");
            }
            let mut command = Command::new("go");
            command.args(["run", "."]).env("GOFLAGS", "-mod=mod");
            Ok(command)
        }
        "java" => {
            let libraries = clients().join("java/target/lib");
            if !libraries.is_dir() {
                return missing("Jedis");
            }
            write("Hello.java", code);
            let mut command = Command::new("java");
            command.arg("-cp").arg(format!("{}/*", libraries.display())).arg("Hello.java");
            Ok(command)
        }
        _ => panic!("no command runs {language}"),
    }
}

/// Runs a block; `None` if a prerequisite is missing.
fn run(block: &Block, language: &str, port: u16) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    // redis-cli takes the port as an option; the other programs contain it in their text.
    let code =
        block.body.replace("6379", &port.to_string()).replace("redis-cli ", &format!("redis-cli -p {port} "));
    let mut command = match command(language, &code, folder.path()) {
        Ok(command) => command,
        Err(missing) => {
            assert!(std::env::var_os("CI").is_none(), "{missing} (tests/clients/install)");
            println!("skipped, a snippet in {missing}");
            return None;
        }
    };
    let output = command.current_dir(folder.path()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "line {}: {}\n{text}\n{errors}", block.line, output.status);
    Some(text)
}

#[test]
fn runnable_blocks_run() {
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut marked = 0;
    for page in pages() {
        let (_, blocks) = split(&page.text);
        for (index, block) in blocks.iter().enumerate() {
            let Some(language) = block.info.strip_suffix(" runnable") else { continue };
            marked += 1;
            if language == "rust" {
                let program = include_str!("hello.rs");
                let program = program.split_once('\n').map_or(program, |(_licence, code)| code);
                assert_eq!(block.body, program, "{}: tests/docs/hello.rs differs", page.name());
                continue;
            }
            let output = run(block, language, server.port());
            let next = blocks.get(index + 1).filter(|next| next.info == "text output");
            if let (Some(output), Some(expected)) = (output, next) {
                assert_eq!(output, expected.body, "{}, line {}", page.name(), block.line);
            }
        }
    }
    assert!(marked >= 6, "only {marked} blocks are marked as runnable");
}
