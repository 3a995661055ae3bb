// SPDX-License-Identifier: BSD-3-Clause
//! Applies the rules to this repository. Remaining violations are listed in `allowed.txt`:
//!
//!   BLESS=1 cargo test -p braid-tidy      shrinks the list: what is new must be repaired

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
    let file = here.join("allowed.txt");
    let mut list = allowed::parse(&fs::read_to_string(&file).unwrap_or_default()).expect("the list");
    if std::env::var_os("BLESS").is_some() {
        allowed::shrink(&mut list, &allowed::count(&violations));
        fs::write(&file, allowed::render(&list)).expect("the list is written");
    }
    let complaints = allowed::compare(&violations, &list);
    assert!(complaints.is_empty(), "{} complaints:\n  {}", complaints.len(), complaints.join("\n  "));
}
