// SPDX-License-Identifier: BSD-3-Clause
//! Passes the name of the cargo profile to `src/build.rs`. Cargo tells build scripts only whether
//! it is like `dev` or like `release`, but names the output folder after the profile.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // target/PROFILE/build/braid-base-HASH/out
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = folder.ancestors().nth(3).and_then(|profile| profile.file_name()).unwrap_or_default();
    let profile = match profile.to_string_lossy() {
        name if name == "debug" => "dev".into(),
        name => name,
    };
    println!("cargo::rustc-env=BRAID_PROFILE={profile}");
}
