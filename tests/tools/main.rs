//! The tools as users run them: braid-bench and braid-top as programs, against the server under test.
//!
//!   cargo test -p braid-tests --test tools
//!
//! The programs are looked for beside the test executable and built if they are not there.

mod bench;
mod top;

use std::path::PathBuf;
use std::process::Command;

/// The path of a program of this workspace; built once if need be.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    let path = profile.join(name);
    // Built even if it is there: cargo knows whether it is up to date. Two tests at once wait for each other.
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
