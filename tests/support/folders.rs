// SPDX-License-Identifier: BSD-3-Clause
//! Copies of servers' folders, taken while the servers run or put in place of their own.

use std::ffi::OsStr;
use std::path::Path;

/// Copies files and folders into a folder, but for some. A file that vanishes meanwhile is left
/// out.
pub fn copy(from: &Path, to: &Path, is_left_out: impl Fn(&OsStr) -> bool + Copy) {
    let _ = std::fs::create_dir_all(to);
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if is_left_out(&name) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(&name), is_left_out);
        } else {
            let _ = std::fs::copy(&path, to.join(&name));
        }
    }
}

/// Removes a folder's content, but for some.
#[track_caller]
pub fn clear(folder: &Path, is_kept: impl Fn(&OsStr) -> bool) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if !is_kept(&entry.file_name()) {
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
                .expect("removed");
        }
    }
}
