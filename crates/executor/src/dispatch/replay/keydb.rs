// SPDX-License-Identifier: BSD-3-Clause
//! Replays requests that only KeyDB writes to an append-only file, as equivalent requests known
//! here.
//!
//! An active replica of KeyDB writes changes of other servers in the form in which it received
//! them: `RREPLAY` holds a stream of requests, `KEYDB.MVCCRESTORE` a value with the time of its
//! last change. KeyDB uses these times to decide between concurrent changes. The file has only
//! changes that were applied, so the last one wins here. The same stream may occur twice,
//! however: it is identified by its source server and its time, which increases.

use braid_keyspace::Txn;
use braid_keyspace::txn::KeyRef;
use braid_persistence::aof::{AofRecord, CommandReader};

use super::{Replay, ReplayError};
use crate::engine::Engine;

/// Maximum nesting depth of streams: servers forward the streams they receive.
const DEPTH_MAX: usize = 8;

impl Replay {
    /// Runs a request whose name or number of arguments is unknown; returns `error` if KeyDB has
    /// no such request either.
    #[cold]
    pub(super) fn run_of_keydb(
        &mut self,
        engine: &Engine,
        txn: &mut Txn<'_>,
        args: &[&[u8]],
        error: ReplayError,
    ) -> Result<(), ReplayError> {
        let is = |name: &str| args.first().is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
        match args {
            [_, server, requests, more @ ..] if is("rreplay") => {
                let time =
                    more.get(1).and_then(|time| std::str::from_utf8(time).ok()?.parse().ok()).unwrap_or(0);
                if time > 0 {
                    let last = self.servers.entry((*server).into()).or_default();
                    if *last >= time {
                        return Ok(());
                    }
                    *last = time;
                }
                self.replay_stream(engine, txn, requests, more.first().copied())
            }
            // A missing time is -1.
            [_, key, _, time, payload] if is("keydb.mvccrestore") => {
                let time = if time.starts_with(b"-") { b"0" } else { *time };
                self.run(engine, txn, &[b"RESTORE", key, time, payload, b"REPLACE", b"ABSTTL"])
            }
            [_, key, ..] if is("keydb.cron") => {
                log::warn!("key '{}' is skipped: a job of KeyDB's KEYDB.CRON", key.escape_ascii());
                Ok(())
            }
            [_, key, member] if is("persist") => self.keep_member(engine, txn, key, member),
            _ => Err(error),
        }
    }

    /// Runs another server's requests, in the given database if there is one.
    fn replay_stream(
        &mut self,
        engine: &Engine,
        txn: &mut Txn<'_>,
        requests: &[u8],
        db: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        if self.depth == DEPTH_MAX {
            return Err(ReplayError::Stream("too deep"));
        }
        if let Some(db) = db {
            self.run(engine, txn, &[b"SELECT", db])?;
        }
        self.depth += 1;
        let mut reader = CommandReader::new(requests, Some(requests.len() as u64));
        let ended = loop {
            match reader.read() {
                Ok(Some(AofRecord::Command)) => {
                    let args: Vec<&[u8]> = reader.args().collect();
                    if let Err(error) = self.run(engine, txn, &args) {
                        break Err(error);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(_) => break Err(ReplayError::Stream("not a stream of requests")),
            }
        };
        self.depth -= 1;
        ended
    }

    /// PERSIST of a member.
    fn keep_member(
        &mut self,
        engine: &Engine,
        txn: &mut Txn<'_>,
        key: &[u8],
        member: &[u8],
    ) -> Result<(), ReplayError> {
        txn.set_db(self.session.db);
        let keys = [KeyRef { key, hash: engine.keyspace.hash(key), write: false }];
        let words = txn.with_keys(&keys, |txn| txn.read(key)?.value_type().descriptor()?.members.as_ref());
        match words {
            Some(words) => {
                let (command, count) = (words.persist.as_bytes(), words.count.as_bytes());
                self.run(engine, txn, &[command, key, count, b"1", member])
            }
            None => Ok(()),
        }
    }
}
