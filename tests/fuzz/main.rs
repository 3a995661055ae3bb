// SPDX-License-Identifier: BSD-3-Clause
//! The fuzz targets of fuzz/, each given a few hundred random inputs, always the same ones. This
//! keeps the targets compiling, free of lints and true of what they check, without compiling every
//! crate again for the workspace of fuzz/. It looks for no faults: tests/sanitize runs the targets
//! with coverage.

// Each target is written as the root of a program, and several have the module `input`.
#![allow(unused_attributes, clippy::duplicate_mod)]

use std::collections::BTreeSet;
use std::path::Path;

#[path = "../../fuzz/fuzz_targets/active_peer.rs"]
mod active_peer;
#[path = "../../fuzz/fuzz_targets/aof_commands.rs"]
mod aof_commands;
#[path = "../../fuzz/fuzz_targets/collections.rs"]
mod collections;
#[path = "../../fuzz/fuzz_targets/int_set.rs"]
mod int_set;
#[path = "../../fuzz/fuzz_targets/json.rs"]
mod json;
#[path = "../../fuzz/fuzz_targets/listpack.rs"]
mod listpack;
#[path = "../../fuzz/fuzz_targets/rdb_file.rs"]
mod rdb_file;
#[path = "../../fuzz/fuzz_targets/rdb_value.rs"]
mod rdb_value;
#[path = "../../fuzz/fuzz_targets/replication_stream.rs"]
mod replication_stream;
#[path = "../../fuzz/fuzz_targets/resp_parse.rs"]
mod resp_parse;
#[path = "../../fuzz/fuzz_targets/search_query.rs"]
mod search_query;
#[path = "../../fuzz/fuzz_targets/stream_blocks.rs"]
mod stream_blocks;
#[path = "../../fuzz/fuzz_targets/vector_set.rs"]
mod vector_set;

const INPUTS: u64 = 300;

/// Random bytes do not get far in any format, so half of the inputs have only a few different ones.
fn feed(target: fn(&[u8])) {
    for seed in 0..INPUTS {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes_max = if seed % 2 == 0 { u8::MAX } else { 15 };
        let input: Vec<u8> = (0..random.usize(0..600)).map(|_| random.u8(0..=bytes_max)).collect();
        target(&input);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            feed($name::fuzz);
        })*

        const TARGETS: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    active_peer
    aof_commands
    collections
    int_set
    json
    listpack
    rdb_file
    rdb_value
    replication_stream
    resp_parse
    search_query
    stream_blocks
    vector_set
}

/// Every program of fuzz/ is run here, and its Cargo.toml names every file.
#[test]
fn all_targets_are_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("fuzz/Cargo.toml");
    let programs: BTreeSet<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    let files: BTreeSet<String> = std::fs::read_dir(folder.join("fuzz_targets"))
        .expect("fuzz/fuzz_targets")
        .map(|entry| {
            entry.expect("an entry").file_name().to_string_lossy().trim_end_matches(".rs").to_owned()
        })
        .filter(|name| name != "input")
        .collect();
    assert_eq!(programs, TARGETS.iter().copied().collect());
    assert_eq!(files, TARGETS.iter().map(|name| (*name).to_owned()).collect());
}
