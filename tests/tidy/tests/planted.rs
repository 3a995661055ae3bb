// SPDX-License-Identifier: BSD-3-Clause
//! Every rule on a small made-up tree: a clean tree has no violations, and a planted one is the
//! only one reported.

use std::collections::BTreeMap;

use braid_tidy::{Tree, Violation, allowed, check};

const CLEAN: [(&str, &str); 21] = [
    ("crates/base/Cargo.toml", "[package]\nname = \"braid-base\"\n[dependencies]\nmemchr.workspace = true\n"),
    (
        "crates/base/src/lib.rs",
        "#![forbid(unsafe_code)]\npub mod bytes;\npub mod text;\npub use text::Text;\n",
    ),
    ("crates/base/src/bytes.rs", "pub struct Bytes;\n"),
    ("crates/base/src/text.rs", "use crate::bytes::Bytes;\nuse memchr::memchr;\npub struct Text(Bytes);\n"),
    (
        "crates/keyspace/Cargo.toml",
        "[package]\nname = \"braid-keyspace\"\n[dependencies]\nbraid-base.workspace = true\n",
    ),
    ("crates/keyspace/src/lib.rs", "use braid_base::Text;\npub mod entry;\npub mod txn;\n"),
    ("crates/keyspace/src/entry.rs", "mod block;\npub struct Entry;\npub unsafe fn read() {}\n"),
    ("crates/keyspace/src/entry/block.rs", "use super::Entry;\npub fn of(_: &Entry) {}\n"),
    ("crates/keyspace/src/txn.rs", "fn lock(lock: &Lock) { lock.lock_shared(); }\n"),
    (
        "crates/executor/Cargo.toml",
        "[package]\nname = \"braid-executor\"\n[dependencies]\nbraid-keyspace.workspace = true\n\
         [dev-dependencies]\nbraid-commands.workspace = true\n",
    ),
    (
        "crates/executor/src/lib.rs",
        "#![forbid(unsafe_code)]\nmod dispatch;\nmod locks;\nmod session;\nmod stats;\n",
    ),
    (
        "crates/executor/src/locks.rs",
        "use braid_keyspace::Txn;\nfn lock(k: &Keyspace) { Txn::lock(k); k.stop_world(); }\n",
    ),
    (
        "crates/executor/src/dispatch.rs",
        "use crate::session::Session;\nfn run(_: Session) {}\nfn is(option: &[u8]) -> bool { option == b\"count\" }\n",
    ),
    (
        "crates/executor/src/session.rs",
        "pub struct Session;\n#[cfg(test)]\nmod tests { use crate::dispatch; use braid_commands::ALL; fn t() { std::fs::read(0); Txn::lock(k); } }\n",
    ),
    ("crates/executor/src/stats.rs", "pub fn get(name: &str) -> bool { name == \"get\" }\n"),
    ("docs/architecture.md", "See `executor/dispatch.rs`, entry/block.rs and crates/base; `<family>.rs`.\n"),
    ("docs/compatibility.md", "| command | since |\n|---|---|\n| GET | 1.0.0 |\n| CLIENT KILL | 2.4.0 |\n"),
    (
        "tests/nightly",
        "#!/usr/bin/env bash\nmiri() { cargo miri test; }\ncrash() { true; }\npieces=(\"$@\")\n\
         [ $# != 0 ] || pieces=(miri crash)\n",
    ),
    (
        ".github/workflows/nightly.yml",
        "jobs:\n  matrix:\n    piece: [miri, crash]\n  steps:\n  - run: tests/nightly ${{ matrix.piece }}\n",
    ),
    ("tests/tidy/budgets.txt", "base 900\nkeyspace 20\nexecutor 900\n"),
    ("CONTRIBUTING.md", "# Contributing\n\n```unsafe\ncrates/keyspace/src/entry.rs\n```\n"),
];

fn tree() -> BTreeMap<String, String> {
    CLEAN.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// The violations in these files, each of which first gets a licence line.
fn judge(mut files: BTreeMap<String, String>) -> Vec<Violation> {
    for (path, text) in files.iter_mut().filter(|(path, _)| !path.ends_with(".md")) {
        let comment = if path.ends_with(".rs") { "//" } else { "#" };
        let line = format!("{comment} SPDX-License-Identifier: BSD-3-Clause\n");
        // After the interpreter line of a script.
        let at = if text.starts_with("#!/") { text.find('\n').map_or(text.len(), |end| end + 1) } else { 0 };
        text.insert_str(at, &line);
    }
    check(&Tree::new(files))
}

/// The violations after this text is inserted at the start of a Rust file, after its inner
/// attributes, or appended to another file (which may be new).
fn planted(path: &str, text: &str) -> Vec<Violation> {
    let mut files = tree();
    let file = files.entry(path.to_owned()).or_default();
    if path.ends_with(".rs") {
        // After the inner attributes.
        let at = file.rfind("]\n").filter(|_| file.starts_with("#!")).map_or(0, |at| at + 2);
        file.insert_str(at, text);
    } else {
        file.push_str(text);
    }
    judge(files)
}

/// Asserts that this violation, and no other, is reported at this place.
#[track_caller]
fn reports(path: &str, text: &str, rule: &str, place: &str) {
    let mut found = planted(path, text);
    // A planted dependency is also unused.
    found.retain(|one| rule != "layers" || one.rule != "unused");
    // A planted crate has no budget either.
    found.retain(|one| rule == "budget" || one.rule != "budget");
    assert!(!found.is_empty(), "nothing is reported");
    for one in &found {
        assert_eq!((one.rule, one.place.as_str()), (rule, place), "{one}");
    }
}

#[test]
fn a_clean_tree_has_no_offences() {
    assert_eq!(judge(tree()), []);
}

#[test]
fn upward_dependency() {
    let manifest = "crates/base/Cargo.toml";
    reports(manifest, "braid-executor.workspace = true\n", "layers", manifest);
    reports(manifest, "[dependencies.braid-executor]\nworkspace = true\n", "layers", manifest);
    reports(
        manifest,
        "[target.'cfg(unix)'.dependencies]\nbraid-executor = { path = \"\" }\n",
        "layers",
        manifest,
    );
}

#[test]
fn dependency_of_tests_on_a_crate_above() {
    let manifest = "crates/keyspace/Cargo.toml";
    reports(manifest, "[dev-dependencies]\nbraid-executor.workspace = true\n", "layers", manifest);
}

#[test]
fn unused_dependency() {
    let manifest = "crates/base/Cargo.toml";
    reports(manifest, "sha1.workspace = true\n", "unused", manifest);
    reports(manifest, "crossbeam-utils = \"0.8\"\n", "unused", manifest);
    reports(manifest, "[dependencies.sha1]\nworkspace = true\n", "unused", manifest);
    reports(manifest, "[target.'cfg(unix)'.dev-dependencies]\nsha1 = \"1\"\n", "unused", manifest);
    let mut files = tree();
    files.get_mut(manifest).expect("the manifest").push_str("sha1.workspace = true\n");
    files.insert("fuzz/digest.rs".to_owned(), "use sha1::Sha1;\n".to_owned());
    assert_eq!(judge(files.clone()).len(), 1);
    let include = "#[path = \"../../../fuzz/digest.rs\"]\nmod digest;\n";
    files.get_mut("crates/base/src/text.rs").expect("the file").push_str(include);
    assert_eq!(judge(files), [], "a file from elsewhere uses it");
}

#[test]
fn crate_without_a_floor() {
    reports("crates/attic/Cargo.toml", "[package]\n", "layers", "crates/attic/Cargo.toml");
}

#[test]
fn circle_of_two_files() {
    let file = "crates/base/src/bytes.rs";
    reports(file, "use crate::text::Text;\n", "circle", "crates/base");
    reports(file, "fn f(_: crate::text::Text) {}\n", "circle", "crates/base");
    reports(file, "use super::{text, Other};\n", "circle", "crates/base");
    // Through the re-export in lib.rs.
    reports(file, "use crate::Text;\n", "circle", "crates/base");
    assert_eq!(planted(file, "use crate::text::Text;\n").len(), 2, "both files");
}

#[test]
fn circle_of_three_files() {
    let mut files = tree();
    let module = |name: &str| format!("crates/base/src/{name}.rs");
    files.insert(module("lib"), "#![forbid(unsafe_code)]\nmod a;\nmod b;\nmod c;\n".to_owned());
    files.insert(module("a"), "use crate::b::B; pub struct A;".to_owned());
    files.insert(module("b"), "pub struct B(crate::c::C);".to_owned());
    files.insert(module("c"), "pub fn c() -> C { m!(super::a::A) }".to_owned());
    let found = judge(files);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|one| one.rule == "circle" && one.message.contains("3 files")), "{found:?}");
}

#[test]
fn module_and_child_may_import_each_other() {
    assert_eq!(planted("crates/keyspace/src/entry.rs", "use block::of;\n"), []);
}

#[test]
fn circle_through_parent_and_child() {
    let circle_with = |line: &str| {
        let mut files = tree();
        let mut put = |name: &str, text: &str| {
            files.entry(format!("crates/keyspace/src/{name}.rs")).or_default().insert_str(0, text);
        };
        put("entry", line);
        put("entry/block", "use crate::txn::Txn;\n");
        put("txn", "use crate::entry::Entry;\npub struct Txn;\n");
        judge(files)
    };
    let found = circle_with("use block::of;\n");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|one| one.rule == "circle" && one.message.contains("3 files")), "{found:?}");
    // The parent does not depend on a name that it only re-exports.
    for line in ["pub use block::of;\n", "pub(crate) use block::of;\n"] {
        assert_eq!(circle_with(line), []);
    }
}

#[test]
fn long_file() {
    let file = "crates/base/src/bytes.rs";
    // The inserted lines come on top of the file's own line and its licence line.
    reports(file, &"\n".repeat(799), "file-length", file);
    assert_eq!(planted(file, &"\n".repeat(798)), []);
}

#[test]
fn long_function() {
    let file = "crates/base/src/bytes.rs";
    let function = |lines: usize| format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
    reports(file, &function(101), "function-length", file);
    assert_eq!(planted(file, &function(100)), []);
}

#[test]
fn long_comment_line() {
    let file = "crates/base/src/bytes.rs";
    reports(file, &format!("    // {}\n", "x".repeat(94)), "comment-length", file);
    assert_eq!(planted(file, &format!("    // {}\n", "x".repeat(93))), []);
}

#[test]
fn document_naming_a_missing_path() {
    let page = "docs/architecture.md";
    for name in ["`executor/nowhere.rs`", "crates/attic", "nowhere.rs", "[x](docs/none.md)", "tests/none"] {
        reports(page, name, "documents", page);
    }
}

#[test]
fn files_in_the_wrong_crate() {
    let file = "crates/executor/src/stats.rs";
    for text in ["use std::fs::File;\n", "use std::{fs, io};\n", "fn f() { std::fs::read(0); }\n"] {
        reports(file, text, "file-access", file);
    }
    assert_eq!(planted("crates/executor/src/session.rs", "#[test]\nfn f() { std::fs::read(0); }\n"), []);
}

#[test]
fn shard_lock_outside_of_the_dispatcher() {
    let file = "crates/executor/src/session.rs";
    for call in ["Txn::lock(k)", "braid_keyspace::Txn::world(k)", "k.stop_world()", "s.lock.lock_exclusive()"]
    {
        reports(file, &format!("fn f() {{ {call}; }}\n"), "shard-locks", file);
    }
}

#[test]
fn connection_beside_the_connector() {
    let file = "crates/executor/src/session.rs";
    for call in ["Outgoing::connect(h, 1, &o)", "braid_net::outgoing::Outgoing::connect(h, 1, &o)"] {
        reports(file, &format!("fn f() {{ {call}; }}\n"), "connections", file);
    }
    assert_eq!(planted(file, "fn f() { connector.connect(h, 1); }\n"), []);
}

#[test]
fn unsafe_in_an_unlisted_file() {
    let file = "crates/keyspace/src/txn.rs";
    reports(file, "fn f() { unsafe { g() } }\n", "unsafe-file", file);
    reports(file, "fn f() { vec![unsafe { g() }] }\n", "unsafe-file", file);
}

#[test]
fn listed_file_without_unsafe() {
    let mut files = tree();
    files.insert("crates/keyspace/src/entry.rs".to_owned(), "mod block;\npub struct Entry;\n".to_owned());
    let root = "use braid_base::Text;\nunsafe extern \"C\" {}\n";
    files.insert("crates/keyspace/src/lib.rs".to_owned(), root.to_owned());
    let found = judge(files);
    let places: Vec<&str> = found.iter().map(|one| one.place.as_str()).collect();
    assert_eq!(places, ["CONTRIBUTING.md", "crates/keyspace/src/lib.rs"]);
}

#[test]
fn crate_without_unsafe_that_does_not_forbid_it() {
    let mut files = tree();
    let root = "crates/base/src/lib.rs";
    files.insert(root.to_owned(), "pub mod bytes;\n".to_owned());
    let found = judge(files);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].rule, found[0].place.as_str()), ("unsafe-forbid", root));
}

#[test]
fn command_recognised_by_its_name() {
    for file in
        ["crates/executor/src/dispatch.rs", "crates/threading/src/write.rs", "crates/scripting/src/api.rs"]
    {
        for test in [
            "x == \"get\"",
            "x != \"client|kill\"",
            "matches!(x, Some(\"get\"))",
            "x.eq_ignore_ascii_case(b\"GET\")",
            "[\"a\", \"get\"].contains(x)",
            "match x { \"get\" => true, _ => false }",
        ] {
            reports(file, &format!("fn f() -> bool {{ {test} }}\n"), "command-name", file);
        }
    }
}

#[test]
fn source_without_its_licence() {
    for path in ["tests/api/other.rs", "deploy/other.yaml", "tests/other"] {
        let without = BTreeMap::from([(path.to_owned(), "#!/bin/sh\n".to_owned())]);
        let found = check(&Tree::new(without.clone()));
        let found: Vec<_> = found.iter().map(|one| (one.rule, one.place.as_str())).collect();
        assert_eq!(found, [("licence", path)]);
        assert_eq!(judge(without), [], "{path}");
    }
}

#[test]
fn workflow_naming_a_missing_script_or_option() {
    let workflow = ".github/workflows/nightly.yml";
    for call in ["tests/none", "tests/nightly mirri", "FAST=1 tests/nightly --fast", "cd .; tests/gone x"] {
        reports(workflow, &format!("  - run: {call}\n"), "workflows", workflow);
    }
    let script = "tests/nightly";
    reports(script, "other() { tests/other || true; }\n", "workflows", script);
    let known = "  - run: tests/nightly miri --test && tests/nightly crash -p some # tests/none\n";
    assert_eq!(planted(workflow, known).len(), 1, "only the option");
}

#[test]
fn workflow_without_a_piece_of_the_nightly_script() {
    let mut files = tree();
    let nightly = files.get_mut("tests/nightly").expect("the script");
    *nightly = nightly.replace("miri crash", "miri crash jepsen");
    let found = judge(files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].rule == "workflows" && found[0].message.contains("jepsen is not in the matrix"));
}

#[test]
fn foreign_file_in_the_root_folder() {
    reports("nodes.conf", "vars currentEpoch 0\n", "root-file", "nodes.conf");
    assert_eq!(planted("deny.toml", "[licenses]\n"), []);
}

#[test]
fn identifier_with_a_replaced_word() {
    let file = "crates/base/src/bytes.rs";
    for (text, identifier) in [
        ("fn settle_it() {}\n", "settle_it"),
        ("const CALM_MAX: u8 = 1;\n", "CALM_MAX"),
        ("enum E { ImportSeat }\n", "ImportSeat"),
        ("macro_rules! m { () => { wants_news } }\n", "wants_news"),
        ("struct Told;\n", "Told"),
    ] {
        reports(file, text, "word", identifier);
    }
    // Other words, comments, texts, and names of tests, which are sentences.
    for text in [
        "fn told(seated: Placed) {}\n",
        "// settle\n",
        "const TEXT: &str = \"settle\";\n",
        "fn one_that_does_not_settle() {}\n",
    ] {
        assert_eq!(planted(file, text), []);
    }
    // Once, wherever and however often it occurs.
    assert_eq!(planted(file, "fn settle() { settle() }\nfn other() { settle() }\n").len(), 1);
}

#[test]
fn figure_written_twice() {
    const ROWS: &str = "crates/keyspace/src/figures.rs";
    const SECTIONS: &str = "crates/commands/src/server/sections.rs";
    const CATALOGUE: &str = "crates/metrics/src/catalogue.rs";
    let found = |more: &[(&str, &str)]| {
        let row = "pub static HITS: Figure<Engine> = Figure::counter(\"key_hits\", \"braid_hits_total\", \"Hits.\", hits);\n";
        let all = [
            (ROWS, row),
            (SECTIONS, "fn a() { show(&figures::HITS) }\n"),
            (CATALOGUE, "const B: u8 = one!(figures::HITS);\n"),
        ];
        let mut files = tree();
        for (path, text) in all.iter().chain(more) {
            files.entry((*path).to_owned()).or_default().push_str(text);
        }
        let mut found = judge(files);
        found.retain(|one| one.rule == "figure");
        found.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    assert_eq!(found(&[]), [""; 0]);
    assert_eq!(found(&[(SECTIONS, "fn c() { field(\"key_hits\") }\n")]).len(), 1);
    assert_eq!(found(&[(CATALOGUE, "fn d() { counter(\"braid_hits_total\") }\n")]).len(), 1);
    let unused = "pub static MISSES: Figure<Engine> = Figure::gauge(\"misses\", \"braid_misses\", \"Misses.\", misses);\n";
    assert_eq!(found(&[(ROWS, unused)]).len(), 2, "neither shows it");
    let page = "crates/metrics/src/page.html";
    assert_eq!(found(&[(page, "value(\"braid_hits_total\")\n")]), [""; 0]);
    assert_eq!(found(&[(page, "value(\"braid_hits\")\n")]), ["there is no metric braid_hits"]);
    let view = "crates/top/src/view.rs";
    assert_eq!(found(&[(view, "fn e() { number(\"key_hits\") }\n")]), [""; 0]);
    assert_eq!(found(&[(view, "fn e() { number(\"keyhits\") }\n")]), ["the server has no keyhits"]);
}

#[test]
fn crate_larger_than_its_budget() {
    reports("crates/keyspace/src/txn.rs", &"\n".repeat(8), "budget", "crates/keyspace");
    assert_eq!(planted("crates/keyspace/src/txn.rs", &"\n".repeat(7)), []);
    let list = "tests/tidy/budgets.txt";
    for line in ["base\n", "attic 100\n", "base 900 -> 800 docs/design/1.md\n"] {
        reports(list, line, "budget", list);
    }
}

#[test]
fn crate_without_a_budget() {
    let mut files = tree();
    let list = files.get_mut("tests/tidy/budgets.txt").expect("the list");
    *list = list.replace("keyspace 20\n", "");
    let found = judge(files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].rule, found[0].place.as_str()), ("budget", "crates/keyspace"));
}

#[test]
fn budget_raised_without_a_design_page() {
    let with_page = |page: &str| {
        let mut files = tree();
        let list = files.get_mut("tests/tidy/budgets.txt").expect("the list");
        *list = list.replace("base 900", "base 900 -> 1200 docs/design/031-larger.md");
        files.insert("docs/design/031-larger.md".to_owned(), page.to_owned());
        judge(files)
    };
    assert_eq!(with_page("The crate base gets 1,200 lines, because\n"), []);
    let found = with_page("The crate base gets larger.\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].rule == "budget" && found[0].message.contains("1,200 lines"), "{found:?}");
}

#[test]
fn blessing_only_shrinks_the_list() {
    let place = |name: &str| ("word".to_owned(), name.to_owned());
    let mut list = allowed::Counts::from([(place("a"), 3), (place("b"), 2), (place("c"), 1)]);
    allowed::shrink(&mut list, &allowed::Counts::from([(place("a"), 5), (place("b"), 1), (place("d"), 1)]));
    assert_eq!(list, allowed::Counts::from([(place("a"), 3), (place("b"), 1)]));
}

#[test]
fn shipped_package_that_is_optimised_less() {
    let profiles = "[profile.release.package]\nhyper.opt-level = 1\n";
    let dist = "[profile.dist.package]\nhyper.opt-level = 3\n";
    assert_eq!(planted("Cargo.toml", &format!("{profiles}\n{dist}")), []);
    reports("Cargo.toml", profiles, "profiles", "Cargo.toml");
    reports("Cargo.toml", &format!("{profiles}tokio.opt-level = 1\n\n{dist}"), "profiles", "Cargo.toml");
    let (release, dist) = ("[profile.release]\nopt-level = 2\n", "[profile.dist]\ninherits = \"release\"\n");
    assert_eq!(planted("Cargo.toml", &format!("{release}\n{dist}opt-level = 3\n")), []);
    reports("Cargo.toml", &format!("{release}\n{dist}"), "profiles", "Cargo.toml");
}

#[test]
fn the_list_of_exceptions_may_only_shrink() {
    let violations = planted("crates/base/src/bytes.rs", &"\n".repeat(800));
    let list = allowed::count(&violations);
    assert_eq!(allowed::parse(&allowed::render(&list)), Ok(list.clone()));
    assert!(allowed::compare(&violations, &list).is_empty());
    // A new violation, and an entry that is no longer needed.
    let complaint = allowed::compare(&violations, &allowed::Counts::new()).concat();
    assert!(complaint.contains("allowed are 0") && complaint.contains("more than 800"), "{complaint}");
    let complaint = allowed::compare(&[], &list).concat();
    assert!(complaint.contains("shrink it") && complaint.contains("BLESS=1"), "{complaint}");
    assert!(allowed::parse("circle crates/base").is_err());
}
