// SPDX-License-Identifier: BSD-3-Clause
//! The files of the root folder are a list: what a program started there leaves behind is not part
//! of the project.

use super::violation;
use crate::house::ROOT_FILES;
use crate::{Tree, Violation};

pub const NAME: &str = "root-file";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.files().map(|(path, _)| path);
    let foreign = files.filter(|path| !path.contains('/') && !ROOT_FILES.contains(path));
    let message = "a file that is not on the list of the root folder's files (tests/tidy/src/house.rs)";
    foreign.map(|path| violation(NAME, path, 0, message.to_owned())).collect()
}
