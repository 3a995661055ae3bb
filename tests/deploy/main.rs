// SPDX-License-Identifier: BSD-3-Clause
//! Deployments: the server under its systemd unit's restrictions, its notifications to a service
//! manager, its adaptation to the kernel, `deploy/install`, the manifests for Kubernetes, the group
//! of `deploy/group` and `deploy/compose.yaml`.
//!
//!   cargo test -p braid-tests --test deploy
//!
//! Needs etcd-server, redis-tools, python3-seccomp, python3-yaml and systemd (the package, for
//! `systemd-analyze`; it need not run). The Helm chart is checked manually by
//! `tests/deploy/charts`.

mod compose;
mod group;
mod install;
mod kernel;
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

/// True if a test's prerequisite is available. If it is missing, the test fails in CI, and
/// elsewhere prints that it is skipped.
fn is_there(test: &str, what: &str, found: bool) -> bool {
    assert!(found || std::env::var_os("CI").is_none(), "{test}: there is no {what}");
    if !found {
        println!("{test}: skipped, there is no {what}");
    }
    found
}

/// True if a program runs successfully.
fn runs(program: &str, arguments: &[&str]) -> bool {
    std::process::Command::new(program)
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
