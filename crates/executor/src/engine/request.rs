// SPDX-License-Identifier: BSD-3-Clause
//! A request in the dispatcher: the client, the executing thread, the arguments and the reply.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::blob::Blob;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_resp::reply::ReplyBuffer;

use crate::engine::Engine;
use crate::engine::call::Others;
use crate::session::{Session, session_attention};
use crate::worker::Worker;

/// One request. Built by the loop from its parts and dropped when done.
pub struct Request<'r> {
    pub engine: &'r Engine,
    pub worker: &'r mut Worker,
    pub session: &'r mut Session,
    /// The client's reply buffer; the reply is appended.
    pub reply: &'r mut ReplyBuffer,
    /// Starts with the command's name.
    pub args: &'r [&'r [u8]],
    /// Arguments received into allocations of their own.
    pub blobs: &'r [Blob],
    /// The thread's other clients, for long requests.
    pub others: Others<'r>,
}

impl Request<'_> {
    /// The thread's slot.
    #[inline]
    pub fn slot(&self) -> usize {
        self.worker.context.slot
    }

    /// The time that decides expiry for this client. Nothing has expired for an import source.
    #[inline]
    pub fn now(&self) -> i64 {
        let imports = self.session.attention & session_attention::IMPORTS != 0;
        if imports && self.engine.keyspace.settings.keeps_expired.load(Relaxed) {
            return NOTHING_EXPIRED;
        }
        self.worker.now_ms
    }
}
