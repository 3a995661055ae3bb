// SPDX-License-Identifier: BSD-3-Clause
//! Outcome of loading an append-only file.

use braid_persistence::{Folder, FolderError, Manifest, ReplicationNote, Stopped};

/// Why an append-only file was not loaded. The log has details, except for
/// [`AofLoadError::Stopped`].
#[derive(Debug, thiserror::Error)]
pub enum AofLoadError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{0}")]
    File(String),
    #[error("stopped")]
    Stopped,
    /// Commands after a hole have been executed. The file has been truncated: the load must begin
    /// again.
    #[error("executed commands after a hole")]
    ReadHole,
}

impl From<Stopped> for AofLoadError {
    fn from(_: Stopped) -> AofLoadError {
        AofLoadError::Stopped
    }
}

/// The loaded file, for the writer that continues it.
#[derive(Clone, Debug)]
pub struct AofLoaded {
    pub folder: Folder,
    /// The manifest on disk; empty where there was no append-only file.
    pub manifest: Manifest,
    /// The place of the dataset in the replication history, if the file ends with one.
    pub place: Option<ReplicationNote>,
}
