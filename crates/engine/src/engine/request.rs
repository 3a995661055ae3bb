// SPDX-License-Identifier: BSD-3-Clause
//! A request on its way through the dispatcher: the client that sent it, the thread that executes
//! it, its arguments and its reply.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::blob::Blob;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_resp::reply::ReplyBuffer;

use crate::engine::Engine;
use crate::engine::call::Others;
use crate::session::{Session, session_attention};
use crate::worker::Worker;

/// One request. A loop makes it of what it holds apart; nothing of it is kept when it is done.
pub struct Request<'r> {
    pub engine: &'r Engine,
    pub worker: &'r mut Worker,
    pub session: &'r mut Session,
    /// The client's replies, behind which this one's goes.
    pub reply: &'r mut ReplyBuffer,
    /// The name first.
    pub args: &'r [&'r [u8]],
    /// Arguments that were received into allocations of their own.
    pub blobs: &'r [Blob],
    /// The thread's other clients, if the request may take long.
    pub others: Others<'r>,
}

impl Request<'_> {
    /// The thread's slot.
    #[inline]
    pub fn slot(&self) -> usize {
        self.worker.context.slot
    }

    /// The time by which keys have expired or not for the client. For the source of an import
    /// nothing has.
    #[inline]
    pub fn now(&self) -> i64 {
        let imports = self.session.attention & session_attention::IMPORTS != 0;
        if imports && self.engine.keyspace.settings.keeps_expired.load(Relaxed) {
            return NOTHING_EXPIRED;
        }
        self.worker.now_ms
    }
}
