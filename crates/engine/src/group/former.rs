// SPDX-License-Identifier: BSD-3-Clause
//! The file `group-member`: which member of the group the files in this folder belong to. A process
//! that starts writes its own name only when it leads or follows: before that they are its former
//! process's.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use braid_group::MemberId;
use braid_persistence::files;

const FILE: &str = "group-member";

fn path() -> PathBuf {
    std::env::current_dir().unwrap_or_default().join(FILE)
}

/// The run of the member of this node whose files these are, if there was one.
pub(super) fn read(node: &str) -> Option<Arc<str>> {
    let mut text = String::new();
    let read = files::open(&path()).and_then(|mut file| file.read_to_string(&mut text));
    let former = read.ok().and_then(|_| text.trim().parse::<MemberId>().ok());
    former.filter(|former| *former.node == *node).map(|former| former.run)
}

/// From now on the files are those of `id`.
pub(super) fn write(id: &MemberId) {
    if read(&id.node).is_some_and(|run| run == id.run) {
        return;
    }
    let path = path();
    if let Err(error) = files::store(&path, format!("{id}\n").as_bytes()) {
        log::warn!("{} could not be written: {error}", path.display());
    }
}
