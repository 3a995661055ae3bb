// SPDX-License-Identifier: BSD-3-Clause
//! A full sync in parallel with the stream (`dual-channel-replication-enabled`): the full sync
//! comes on a second connection. Meanwhile the first one carries the stream, which is kept in
//! this server's memory instead of the primary's.
//!
//! The primary replies to PSYNC with `+DUALCHANNELSYNC`. The replica opens the second connection
//! and sends `REPLCONF rdb-channel 1` and SYNC. The full sync begins with the line
//! `$ENDOFF:<offset> <id> <database> <client>`. The replica then sends `REPLCONF set-rdb-client-id
//! <client>` and PSYNC with that offset on the first connection, and gets the stream there.
//!
//! Source: valkey 8, `replication.c`; both Valkey and Braid servers speak it in both roles.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use braid_config::ClientClass;
use braid_net::outgoing::Outgoing;
use braid_replication::link::handshake::{
    Introduction, SyncReply, introduce, request_full_sync_on_second_connection,
    request_stream_after_second_connection_sync,
};
use braid_replication::link::peer::Peer;
use braid_replication::link::{Link, LinkError, Phase};

use super::{Attempt, HEARTBEAT_EVERY, TICK};

/// Receives the stream while a full sync is loaded.
struct Receiver<'l> {
    link: &'l Link,
    generation: u64,
    /// The full sync has been loaded, or has failed.
    is_over: &'l AtomicBool,
    /// Maximum bytes kept; beyond that the primary must keep them.
    bytes_max: usize,
}

impl Receiver<'_> {
    /// Returns the connection and the received bytes.
    fn run(&self, mut peer: Peer<Outgoing>) -> Result<(Peer<Outgoing>, Vec<u8>), LinkError> {
        let mut bytes = peer.take_buffer();
        let mut told = Instant::now();
        while !self.is_over.load(Relaxed) {
            if !self.link.is_current(self.generation) {
                return Err(LinkError::CalledOff);
            }
            if told.elapsed() >= HEARTBEAT_EVERY {
                peer.send_bytes(b"\n")?;
                told = Instant::now();
            }
            if bytes.len() >= self.bytes_max {
                std::thread::sleep(TICK);
                continue;
            }
            let count = peer.receive_onto(&mut bytes)?;
            self.link.note_io(count);
            self.link.unapplied.store(bytes.len() as u64, Relaxed);
        }
        Ok((peer, bytes))
    }
}

impl Attempt<'_> {
    /// Takes over a dataset on a second connection. Returns the first one and the bytes received
    /// on it.
    pub(super) fn sync_over_second_connection(
        &self,
        mut peer: Peer<Outgoing>,
    ) -> Result<(Peer<Outgoing>, Vec<u8>), LinkError> {
        self.link.set_phase(self.generation, Phase::Sync);
        let engine = self.engine;
        let mut copy = self.connect(&self.primary)?;
        introduce(&mut copy, self, &Introduction { rdb_channel: true, ..self.introduction() })?;
        let end = request_full_sync_on_second_connection(&mut copy, self)?;
        log::info!("Full resync from master on a second connection: {}:{}", end.id, end.offset);
        match request_stream_after_second_connection_sync(&mut peer, self, &end)? {
            SyncReply::Continue { .. } => {}
            reply => {
                return Err(LinkError::Refused(format!("Unexpected reply to PSYNC from master: {reply:?}")));
            }
        }
        let is_over = AtomicBool::new(false);
        let limit = engine.config.client_output_buffer_limit(ClientClass::Replica).hard_bytes;
        let receiver = Receiver {
            link: self.link,
            generation: self.generation,
            is_over: &is_over,
            bytes_max: usize::try_from(limit).ok().filter(|&bytes| bytes > 0).unwrap_or(usize::MAX),
        };
        std::thread::scope(|scope| {
            let receiving = std::thread::Builder::new()
                .name("replica-stream".into())
                .spawn_scoped(scope, || receiver.run(peer))?;
            let taken = self.take_over(&mut copy, end.id.clone(), end.offset);
            is_over.store(true, Relaxed);
            let received = receiving.join().unwrap_or(Err(LinkError::CalledOff));
            taken?;
            self.link.db.store(u64::from(end.db), Relaxed);
            let (mut peer, bytes) = received?;
            if !self.link.set_hangup(self.generation, peer.stream().hangup()?) {
                return Err(LinkError::CalledOff);
            }
            Ok((peer, bytes))
        })
    }
}
