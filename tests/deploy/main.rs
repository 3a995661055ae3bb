// SPDX-License-Identifier: BSD-3-Clause
//! Deployments: the server under its systemd unit's restrictions, what it tells a service manager,
//! `deploy/install`, the manifests for Kubernetes, the group of `deploy/group` and
//! `deploy/compose.yaml`.
//!
//!   cargo test -p braid-tests --test deploy
//!
//! Needs etcd-server, redis-tools, python3-seccomp, python3-yaml and systemd (the package, for
//! `systemd-analyze`; it need not run). The Helm chart is checked by `tests/deploy/charts`, by
//! hand.

mod compose;
mod group;
mod install;
mod kubernetes;
mod supervision;
mod unit;

use std::path::{Path, PathBuf};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// A file under deploy/.
fn deploy(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

/// Whether what a test needs is there. In CI it must be; elsewhere the test says that it is
/// skipped.
fn is_there(test: &str, what: &str, found: bool) -> bool {
    assert!(found || std::env::var_os("CI").is_none(), "{test}: there is no {what}");
    if !found {
        println!("{test}: skipped, there is no {what}");
    }
    found
}

/// Whether a program runs.
fn runs(program: &str, arguments: &[&str]) -> bool {
    std::process::Command::new(program)
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
