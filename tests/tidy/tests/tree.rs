// SPDX-License-Identifier: BSD-3-Clause
//! Applies the rules to this repository. Remaining violations are listed in `allowed.txt`:
//!
//!   BLESS=1 cargo test -p braid-tidy      regenerates the list; it may only shrink

use std::fs;
use std::path::Path;

use braid_tidy::{Tree, allowed, check};

#[test]
fn the_tree_is_tidy() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("tests/tidy is in the workspace");
    let tree = Tree::read(root).expect("the sources can be read");
    assert!(tree.rust().count() > 300, "the sources were not found");
    let violations = check(&tree);
    let list = here.join("allowed.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&list, allowed::render(&allowed::count(&violations))).expect("the list is written");
        return;
    }
    let list = allowed::parse(&fs::read_to_string(&list).unwrap_or_default()).expect("the list");
    let complaints = allowed::compare(&violations, &list);
    assert!(complaints.is_empty(), "{} complaints:\n  {}", complaints.len(), complaints.join("\n  "));
}
