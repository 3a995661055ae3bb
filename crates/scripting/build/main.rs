// SPDX-License-Identifier: BSD-3-Clause
//! Builds Lua 5.1 from `third_party/lua-5.1.5`, with the changes of `patches.rs`.
//!
//! The server needs tables that scripts cannot change, and fixes for weaknesses found in Lua 5.1.5
//! since its last release. Both belong in the interpreter itself. A change names the text that it
//! replaces; if that does not occur exactly as often as stated the build fails, so that a newer
//! source is never built half patched.

mod patches;

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The Lua sources to build: the core and the libraries that scripts may use. No files, no
/// processes, no modules, no debugger.
const FILES: &[&str] = &[
    "lapi", "lauxlib", "lbaselib", "lcode", "ldebug", "ldo", "ldump", "lfunc", "lgc", "llex", "lmathlib",
    "lmem", "lobject", "lopcodes", "lparser", "lstate", "lstring", "lstrlib", "ltable", "ltablib", "ltm",
    "lundump", "lvm", "lzio",
];

fn main() {
    println!("cargo:rerun-if-changed=build");
    // Inside the repository, so that it is found however Braid is built: offline, vendored, by
    // `cargo install --git`.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let source = PathBuf::from(manifest).join("../../third_party/lua-5.1.5");
    println!("cargo:rerun-if-changed={}", source.display());
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lua-5.1.5");
    copy_patched(&source, &target);
    let mut build = cc::Build::new();
    build.include(&target).warnings(false).define("LUA_USE_POSIX", None).flag_if_supported("-fno-common");
    // Lua relies on signed numbers wrapping around in a few places.
    build.flag_if_supported("-fwrapv");
    for file in FILES {
        build.file(target.join(file).with_extension("c"));
    }
    build.compile("braid_lua51");
}

fn copy_patched(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the build folder can be written");
    let mut used = 0;
    for entry in fs::read_dir(from).expect("the source folder can be read") {
        let path = entry.expect("the source folder can be read").path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if !name.ends_with(".c") && !name.ends_with(".h") {
            continue;
        }
        let mut text = fs::read_to_string(&path).expect("Lua's source is text");
        for patch in patches::PATCHES.iter().filter(|patch| patch.file == name) {
            let count = text.matches(patch.before).count();
            assert!(
                count == patch.times,
                "{name}: {count} places to change, not {}: {}",
                patch.times,
                patch.why
            );
            text = text.replace(patch.before, patch.after);
            used += 1;
        }
        let target = to.join(name);
        if fs::read_to_string(&target).is_ok_and(|present| present == text) {
            continue;
        }
        fs::write(target, text).expect("the build folder can be written");
    }
    assert_eq!(used, patches::PATCHES.len(), "a patch names a missing file");
}
