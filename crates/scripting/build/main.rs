//! Builds Lua 5.1 from the source that the `lua-src` crate carries, with the changes of `patches.rs`.
//!
//! The server needs tables that scripts cannot change, and fixes for what has been found in Lua 5.1.5 since its last release. Both
//! belong into the interpreter itself. A change names the text that it replaces; if that is not there as often as it says the build fails,
//! so that a newer source is never built half patched.

mod patches;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What of Lua's source is built: the core and the libraries that scripts get. No files, no processes, no modules, no debugger.
const FILES: &[&str] = &[
    "lapi", "lauxlib", "lbaselib", "lcode", "ldebug", "ldo", "ldump", "lfunc", "lgc", "llex", "lmathlib",
    "lmem", "lobject", "lopcodes", "lparser", "lstate", "lstring", "lstrlib", "ltable", "ltablib", "ltm",
    "lundump", "lvm", "lzio",
];

fn main() {
    println!("cargo:rerun-if-changed=build");
    let source = lua_source();
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

/// The folder of Lua's source within the `lua-src` crate, wherever cargo keeps that.
fn lua_source() -> PathBuf {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    // Of the dependencies for other platforms nothing need be on this machine.
    let platform = env::var_os("TARGET").expect("cargo sets TARGET");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform"])
        .arg(platform)
        .current_dir(manifest)
        .output()
        .expect("cargo metadata runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(|path| PathBuf::from(path.replace("\\\\", "\\")))
        .filter_map(|path| path.parent().map(|crate_folder| crate_folder.join("lua-5.1.5")))
        .find(|folder| folder.join("lapi.c").is_file());
    found.unwrap_or_else(|| {
        panic!("no Lua 5.1.5 source among the dependencies: {}", String::from_utf8_lossy(&output.stderr))
    })
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
    assert_eq!(used, patches::PATCHES.len(), "a change names a file that is not there");
}
