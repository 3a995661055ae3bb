// SPDX-License-Identifier: BSD-3-Clause
//! Libraries loaded into a server under test before the C library, to replace some of its
//! functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Syncs fail while the file named by `FAILING` exists.
const FAILING_SYNCS: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int forced(int descriptor, long number) {
    if (access(getenv("FAILING"), F_OK) == 0) { errno = EIO; return -1; }
    return (int) syscall(number, descriptor);
}
int fsync(int descriptor) { return forced(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return forced(descriptor, SYS_fdatasync); }
"#;

/// Builds a library in a folder; `None` without a C compiler.
pub fn library(folder: &Path, text: &str) -> Option<PathBuf> {
    let (source, library) = (folder.join("disk.c"), folder.join("disk.so"));
    std::fs::write(&source, text).expect("a file");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    built.is_ok_and(|status| status.success()).then_some(library)
}

/// The environment of a server whose syncs fail while the folder has a file `failing`; `None`
/// without a C compiler.
pub fn failing_syncs(folder: &Path) -> Option<Vec<(&'static str, OsString)>> {
    let library = library(folder, FAILING_SYNCS)?;
    Some(vec![("LD_PRELOAD", library.into_os_string()), ("FAILING", folder.join("failing").into_os_string())])
}
