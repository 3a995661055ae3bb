// SPDX-License-Identifier: BSD-3-Clause
//! Support code for tests against a whole server: starting servers, talking to them in bytes,
//! waiting, seeded randomness.
//!
//! Nothing here knows which program is under test, and nothing here may depend on another crate
//! of the workspace: the tests must be able to judge any Redis-compatible server, and must not
//! share a mistake with the code they judge.
//!
//! Environment variables:
//! - `BRAID_TEST_SERVER`: the program under test. Default: `braid-server` of this workspace (see
//!   [`server`]).
//! - `BRAID_TEST_ARGS`: arguments added to every start of it, for example
//!   `--threading-model handoff`.
//! - `BRAID_PEERS_DIR`: folder with stock servers to compare with: `redis-server` 8,
//!   `valkey-server` 9, `redis7-server`, and `etcd`.
//! - `BRAID_TEST_PROGRAMS`: folder with this workspace's tools to test, such as `braid-top`.
//!   Default: they are built.
//! - `BRAID_SEED`: seed of the random tests. Default: a new one, which is printed.
//! - Variables for one kind of test only are listed in the header of its `main.rs`.

pub mod acknowledged;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod etcd;
pub mod folders;
pub mod http;
pub mod preload;
pub mod process;
pub mod random;
pub mod server;
pub mod small_disk;
pub mod value;
pub mod wait;
pub mod words;

pub use client::RawClient;
pub use etcd::Etcd;
pub use server::{Options, TestServer};
pub use value::Value;
pub use wait::{wait_for, wait_for_within};
pub use words::words;

/// A command as text, encoded as a request: `request("SET k \"a b\"")`.
pub fn request(line: &str) -> Vec<u8> {
    words::encode(&words(line))
}

#[cfg(test)]
mod licence {
    use std::path::{Path, PathBuf};

    /// Source files below a folder, except build output and installed packages.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if path.is_dir() {
                if !["target", "node_modules", "venv", "corpus", "testdata"].contains(&&*name) {
                    sources(&path, found);
                }
            } else if [".rs", ".py", ".go", ".mjs", ".java", ".rb"].iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_source_file_names_its_licence() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for folder in ["crates", "tests", "fuzz", "bench", "deploy"] {
            sources(&root.join(folder), &mut files);
        }
        assert!(files.len() > 400, "only {} sources were found", files.len());
        files.retain(|file| {
            let text = std::fs::read_to_string(file).expect("sources are text");
            !text.lines().take(5).any(|line| line.contains("SPDX-License-Identifier: BSD-3-Clause"))
        });
        assert!(files.is_empty(), "no SPDX line: {files:?}");
    }
}
