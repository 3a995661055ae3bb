// SPDX-License-Identifier: BSD-3-Clause
//! The file `group-member`: which run of which node the files in this folder belong to.

use std::io::{Read, Write};
use std::sync::Arc;

use braid_group::MemberId;
use braid_persistence::files;

const FILE: &str = "group-member";

/// The run of the process that was here before under the same name, if there was one. From now on
/// the files are those of `id`.
pub(super) fn take(id: &MemberId) -> Option<Arc<str>> {
    let path = std::env::current_dir().unwrap_or_default().join(FILE);
    let mut text = String::new();
    let read = files::open(&path).and_then(|mut file| file.read_to_string(&mut text));
    let former = read.ok().and_then(|_| text.trim().parse::<MemberId>().ok());
    let temporary = path.with_extension("tmp");
    let written = files::create(&temporary)
        .and_then(|mut file| {
            writeln!(file, "{id}")?;
            file.sync_all()
        })
        .and_then(|()| files::replace(&temporary, &path));
    if let Err(error) = written {
        log::warn!("{} could not be written: {error}", path.display());
    }
    former.filter(|former| former.node == id.node).map(|former| former.run)
}
