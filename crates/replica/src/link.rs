// SPDX-License-Identifier: BSD-3-Clause
//! The thread of the link to a primary: it connects, introduces this server, takes over the
//! dataset or continues from its offset, and applies the stream until the connection ends; then
//! it starts over.
//!
//! One thread for the life of the server, started when it first becomes a replica. Roles change
//! while it works: it compares the generation ([`braid_replication::link::Link`]) whenever it has
//! stopped the world, and abandons its work if that has changed.

mod dual_channel;

use std::cell::{OnceCell, RefCell};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_clients::{Address, ClientRecord, client_flags};
use braid_config::{ReplCompression, ReplDisklessLoad};
use braid_durable::{append_only, backup, history};
use braid_executor::engine::Engine;
use braid_executor::processors::{self, Work};
use braid_executor::threads;
use braid_executor::world;
use braid_net::outgoing::Outgoing;
use braid_persistence::temporary::{Purpose, create_temporary, temporary_path};
use braid_persistence::{Prefetch, PrefetchReader, files};
use braid_process::connector::{ConnectError, Connector};
use braid_replication::failover::FailoverPhase;
use braid_replication::link::handshake::{Introduction, SyncReply, ask_for_stream, introduce};
use braid_replication::link::payload::{Frame, Payload, read_frame};
use braid_replication::link::peer::{Peer, Watch};
use braid_replication::link::{Link, LinkError, Phase, Primary};

use super::apply::Applier;
use super::apply_pool::Received;
use super::dataset::{Beside, Incoming};
use crate::{apply, dataset, end_failover, role};

/// Read timeout, so that the thread checks the clock regularly.
const TICK: Duration = Duration::from_millis(100);
/// Delay between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// The same in a group, where a new primary may not know yet that it is one: at first, and at most.
const GROUP_RETRY: Duration = Duration::from_millis(2);
const GROUP_RETRY_MAX: Duration = Duration::from_millis(50);
/// How long the attempts follow each other so quickly. Then the primary is gone, not late.
const GROUP_HASTE: Duration = Duration::from_secs(2);
/// The longest delay after full syncs that cannot be loaded: each one is work for the primary.
const UNSUPPORTED_RETRY_MAX: Duration = Duration::from_secs(60);
/// Interval of acknowledgements.
const ACK_EVERY: Duration = Duration::from_secs(1);
/// Interval of heartbeats during a full sync.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// Bytes of a full sync copied to a file in one go.
const COPY_BYTES: usize = 1 << 20;
/// Maximum bytes of the stream received while clients are paused.
const HELD_MAX: usize = 64 << 20;
/// Bytes of the stream received during a full sync that are applied in one go.
const PORTION: usize = 16 << 20;
/// Maximum bytes between the end of a dump and that of the full sync.
const TAIL_MAX: u64 = 1024;

/// Starts the link's thread if this server is a replica, unless it is running.
pub fn start_link(engine: &Engine) {
    let link = &engine.replication.link;
    if !link.is_replica() || link.has_thread.swap(true, SeqCst) {
        return;
    }
    let thread = threads::spawn(engine, "replica-link", |engine| {
        processors::bind_thread(engine, Work::Background);
        run(engine);
    });
    if let Err(error) = thread {
        log::warn!("Can't start the thread of the link to the primary: {error}");
        link.has_thread.store(false, SeqCst);
    }
}

fn run(engine: &Arc<Engine>) {
    let link = &engine.replication.link;
    let mut applier = Applier::new(engine);
    // Clients of this server are served in parallel with this thread.
    braid_persistence::take_short_turns();
    let (mut retry, mut retried, mut failing_since) = (GROUP_RETRY, 0, Instant::now());
    let mut unsupported = 0;
    while let Some((primary, generation)) = link.next_target(|| engine.shutdown.is_requested()) {
        if retried != generation {
            (retry, retried, failing_since) = (GROUP_RETRY, generation, Instant::now());
            unsupported = 0;
        }
        let record = OnceCell::new();
        let attempt = Attempt { engine, link, primary, generation, record };
        let outcome = attempt.run(&mut applier);
        let was_up = link.is_up();
        link.set_phase(generation, Phase::Connect);
        role::apply_role(engine);
        match outcome {
            Err(LinkError::CalledOff) | Ok(()) => {}
            // Ended by a change of roles.
            Err(_) if !link.is_current(generation) => {}
            Err(error) => {
                if matches!(error, LinkError::Protocol(_)) {
                    // The last changes may be wrong: only a full sync repairs that.
                    let _world = world::stop(engine);
                    if link.is_current(generation) {
                        engine.replication.state.lock().history.begin_anew();
                    }
                }
                log::warn!("{error}");
                if was_up {
                    (retry, failing_since, unsupported) = (GROUP_RETRY, Instant::now(), 0);
                } else if matches!(error, LinkError::Unsupported) {
                    unsupported += 1;
                    let delay = unsupported_delay(unsupported);
                    if unsupported > 1 {
                        log::warn!(
                            "{unsupported} full syncs in a row cannot be loaded: next attempt in {} seconds, \
                             or with REPLICAOF. See rdb-skip-unsupported",
                            delay.as_secs()
                        );
                    }
                    link.rest(generation, delay);
                } else {
                    link.rest(generation, if engine.group.is_some() { retry } else { RETRY });
                    let is_late = failing_since.elapsed() < GROUP_HASTE;
                    retry = (retry * 2).min(if is_late { GROUP_RETRY_MAX } else { RETRY });
                }
            }
        }
    }
}

/// The delay after so many full syncs in a row that cannot be loaded.
fn unsupported_delay(count: u32) -> Duration {
    RETRY.saturating_mul(1 << (count - 1).min(10)).min(UNSUPPORTED_RETRY_MAX)
}

/// One connection to one primary.
struct Attempt<'e> {
    engine: &'e Engine,
    link: &'e Link,
    primary: Primary,
    generation: u64,
    /// The connection as shown by CLIENT LIST.
    record: OnceCell<Arc<ClientRecord>>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.get() {
            self.engine.clients.registry.remove(record.id);
        }
    }
}

impl Watch for Attempt<'_> {
    fn is_called_off(&self) -> bool {
        let is_killed = || self.record.get().is_some_and(|record| record.has(client_flags::CLOSE_NOW));
        !self.link.is_current(self.generation) || self.engine.shutdown.is_requested() || is_killed()
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.engine.config.repl_timeout_seconds().into())
    }

    fn note_io(&self, bytes: usize) {
        self.link.note_io(bytes);
        if let Some(record) = self.record.get() {
            record.last_active_ms.store(unix_ms(), Relaxed);
        }
    }
}

/// Counts the received bytes of a full sync.
struct Counted<'p, 'a, 'e> {
    payload: &'p mut Payload<'a, Outgoing, Attempt<'e>>,
    link: &'p Link,
}

impl Read for Counted<'_, '_, '_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.payload.read(to)?;
        self.link.full_sync.read.store(self.payload.read, Relaxed);
        Ok(count)
    }
}

impl Attempt<'_> {
    fn run(&self, applier: &mut Applier) -> Result<(), LinkError> {
        self.link.set_phase(self.generation, Phase::Connecting);
        log::info!("Connecting to MASTER {}", self.primary);
        let mut peer = self.connect(&self.primary)?;
        self.link.set_phase(self.generation, Phase::Handshake);
        self.note_io(0);
        // A sibling that could not serve is not tried again.
        let takes_sibling = !self.link.tried_sibling.swap(false, Relaxed);
        let dual_channel = self.engine.config.dual_channel_replication_enabled();
        introduce(&mut peer, self, &Introduction { takes_sibling, dual_channel, ..self.introduction() })?;
        let (id, offset) = {
            let state = self.engine.replication.state.lock();
            let history = &state.history;
            (history.id().to_owned(), history.offset(self.engine.keyspace.journal.end()))
        };
        let takes_over = self.engine.replication.failover.phase() == FailoverPhase::InProgress;
        let reply = ask_for_stream(&mut peer, self, Some((&id, offset)), takes_over);
        if takes_over {
            match &reply {
                Ok(SyncReply::FullWithoutOffset) | Err(LinkError::Refused(_)) => {
                    end_failover::end_failover(self.engine, "Failover target rejected psync request");
                    return Err(LinkError::CalledOff);
                }
                Ok(_) => end_failover::note_failover_done(self.engine),
                Err(_) => {}
            }
        }
        let mut meanwhile = Vec::new();
        match reply? {
            SyncReply::Continue { id: new } => self.resume(&id, new)?,
            SyncReply::Full { id, offset } => {
                log::info!("Full resync from master: {id}:{offset}");
                self.take_over(&mut peer, id, offset)?;
            }
            SyncReply::FullWithoutOffset => {
                // A new history: no other server knows these offsets.
                self.take_over(&mut peer, braid_replication::random_id(), 0)?;
            }
            SyncReply::Beside => (peer, meanwhile) = self.sync_over_second_connection(peer)?,
            SyncReply::Sibling(sibling) => {
                drop(peer);
                self.link.tried_sibling.store(true, Relaxed);
                return self.copy_from_sibling(&sibling);
            }
        }
        applier.replay.end_file();
        applier.replay.select(self.link.db.load(Relaxed) as u32);
        self.link.set_phase(self.generation, Phase::Connected);
        self.note_accepted();
        role::apply_role(self.engine);
        self.follow(&mut peer, applier, meanwhile)
    }

    /// Takes over the dataset of another replica. Then the primary is asked again, for the stream.
    fn copy_from_sibling(&self, sibling: &Primary) -> Result<(), LinkError> {
        log::info!("Full resync from replica {sibling}");
        let mut peer = self.connect(sibling)?;
        introduce(&mut peer, self, &Introduction { rdb_only: true, ..self.introduction() })?;
        match ask_for_stream(&mut peer, self, None, false)? {
            SyncReply::Full { id, offset } => self.take_over(&mut peer, id, offset),
            reply => Err(LinkError::Refused(format!("Unexpected reply to PSYNC from {sibling}: {reply:?}"))),
        }
    }

    fn connect(&self, to: &Primary) -> Result<Peer<Outgoing>, LinkError> {
        let config = &self.engine.config;
        let timeout = self.timeout();
        let connector = Connector::of_links(config, timeout).with_multipath(config.repl_mptcp());
        let outgoing = connector.connect(&to.host, to.port).map_err(|error| match error {
            ConnectError::Settings(why) => LinkError::Refused(why),
            ConnectError::Socket(error) => {
                LinkError::Refused(format!("Error condition on socket for SYNC: {error}"))
            }
        })?;
        if !self.link.set_hangup(self.generation, outgoing.hangup()?) {
            return Err(LinkError::CalledOff);
        }
        outgoing.set_timeouts(TICK, timeout)?;
        outgoing.set_nodelay(!config.repl_disable_tcp_nodelay())?;
        let (peer, local) = outgoing.addresses()?;
        let clients = &self.engine.clients.registry;
        let record =
            ClientRecord::new(clients.next_id(), -1, Address::Tcp(peer), Address::Tcp(local), unix_ms());
        record.set_flag(client_flags::PRIMARY, true);
        clients.add(Arc::clone(self.record.get_or_init(|| Arc::new(record))));
        log::info!("MASTER <-> REPLICA sync started");
        Ok(Peer::new(outgoing))
    }

    fn introduction(&self) -> Introduction {
        let config = &self.engine.config;
        let port = match (config.replica_announce_port(), config.tls_replication(), config.tls_port()) {
            (0, true, tls) if tls != 0 => tls,
            (0, ..) => config.port(),
            (announced, ..) => announced,
        };
        Introduction {
            user: config.masteruser().to_string(),
            password: config.masterauth().to_string(),
            port,
            ip: config.replica_announce_ip().to_string(),
            member: self.engine.group.as_ref().map(|group| group.introduction()),
            compressed: config.repl_compression() == ReplCompression::Lz4,
            sibling: config.repl_sibling_sync(),
            ..Introduction::default()
        }
    }

    /// The primary continues the stream from this server's offset.
    fn resume(&self, known_as: &str, new: Option<String>) -> Result<(), LinkError> {
        let engine = self.engine;
        let world = dataset::world_of_link(engine, self.generation)?;
        log::info!("Successful partial resynchronization with master.");
        if let Some(new) = new.filter(|new| !new.eq_ignore_ascii_case(known_as)) {
            let mut state = engine.replication.state.lock();
            let at = state.history.offset(engine.keyspace.journal.end());
            log::info!("Master replication ID changed to {new}");
            state.history.rename(new, at);
            drop(state);
            // Replicas learn of it when they reconnect.
            role::disconnect_replicas(engine);
        }
        history::keep_backlog(engine, &world);
        log::info!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        Ok(())
    }

    /// Receives a full sync, which represents an offset of a history, and loads it.
    fn take_over(&self, peer: &mut Peer<Outgoing>, id: String, offset: u64) -> Result<(), LinkError> {
        self.link.set_phase(self.generation, Phase::Sync);
        self.note_accepted();
        let transfer = &self.link.full_sync;
        transfer.read.store(0, Relaxed);
        transfer.total.store(-1, Relaxed);
        let frame = read_frame(peer, self)?;
        if let Some(len) = frame.known_len() {
            transfer.total.store(i64::try_from(len).unwrap_or(i64::MAX), Relaxed);
        }
        self.set_whole(false);
        let way = self.way(&id);
        let size = match frame.known_len() {
            Some(len) => format!("{len} bytes from master"),
            None => "streamed RDB from master with EOF".into(),
        };
        let target = if way.is_none() { "to disk" } else { "to parser" };
        log::info!("MASTER <-> REPLICA sync: receiving {size} {target}");
        match way {
            None => self.load_through_file(peer, frame, id, offset)?,
            Some(beside) => self.load_from_socket(peer, frame, id, offset, beside)?,
        }
        log::info!("MASTER <-> REPLICA sync: Finished with success");
        self.set_whole(true);
        // The append-only file does not have this dataset yet.
        append_only::end_append_only(self.engine);
        backup::dataset_is_replaced(self.engine);
        role::resume_append_only(self.engine);
        Ok(())
    }

    /// Notifies the group that the primary has agreed to send its stream.
    fn note_accepted(&self) {
        if let Some(group) = &self.engine.group {
            group.wake();
        }
    }

    /// Notifies the group that bytes of the stream have arrived.
    fn note_received(&self) {
        if let Some(group) = &self.engine.group {
            group.note_received();
        }
    }

    /// Notifies the group whether this server has the complete dataset.
    fn set_whole(&self, is_whole: bool) {
        if let Some(group) = &self.engine.group {
            group.set_whole(is_whole);
        }
    }

    /// How a full sync is loaded from the socket; `None` if it goes through a file.
    fn way(&self, id: &str) -> Option<Beside> {
        let engine = self.engine;
        match engine.config.repl_diskless_load() {
            ReplDisklessLoad::Disabled => None,
            ReplDisklessLoad::OnEmptyDb => engine.keyspace.is_empty().then_some(Beside::Nothing),
            ReplDisklessLoad::FlushBeforeLoad => Some(Beside::Nothing),
            ReplDisklessLoad::Swapdb => {
                let is_same = engine.replication.state.lock().history.id().eq_ignore_ascii_case(id);
                Some(if is_same { Beside::Served } else { Beside::Kept })
            }
        }
    }

    fn load_through_file(
        &self,
        peer: &mut Peer<Outgoing>,
        frame: Frame,
        id: String,
        offset: u64,
    ) -> Result<(), LinkError> {
        let folder = std::env::current_dir().unwrap_or_default();
        let temporary = temporary_path(&folder, Purpose::Received);
        let path = folder.join(&*self.engine.config.dbfilename());
        let received = self.receive(peer, frame, &temporary);
        let shared = RefCell::new(peer);
        let heartbeat = || {
            // If it cannot be sent, the stream's first read reports that.
            let _ = shared.borrow_mut().send_bytes(b"\n");
        };
        // Before it replaces the dump file and the dataset.
        let verified = received.and_then(|()| self.verify(&temporary, &heartbeat));
        if let Err(error) = verified {
            files::remove(&temporary);
            return Err(error);
        }
        files::replace(&temporary, &path)?;
        let dump = files::open(&path)?;
        let len = Some(dump.metadata()?.len());
        let beside = Beside::Nothing;
        let incoming = Incoming { dump, len, id, offset, beside, heartbeat: &heartbeat, prefetch: None };
        dataset::replace_dataset(self.engine, self.generation, incoming)?;
        if self.engine.config.rdb_del_sync_files() && self.engine.config.save_points().is_empty() {
            files::remove(&path);
        }
        Ok(())
    }

    fn load_from_socket(
        &self,
        peer: &mut Peer<Outgoing>,
        frame: Frame,
        id: String,
        offset: u64,
        beside: Beside,
    ) -> Result<(), LinkError> {
        let len = frame.known_len();
        let mut payload = Payload::new(peer, self, frame);
        let dump = PrefetchReader::new(Counted { payload: &mut payload, link: self.link });
        let prefetch = Some(&dump as &dyn Prefetch);
        let incoming = Incoming { dump: &dump, len, id, offset, beside, heartbeat: &|| (), prefetch };
        let loaded = dataset::replace_dataset(self.engine, self.generation, incoming);
        let (_, unread) = dump.into_source();
        if let Some(failure) = payload.failure.take() {
            return Err(failure);
        }
        loaded?;
        if unread as u64 > TAIL_MAX {
            return Err(LinkError::Protocol("unexpected data after the end of the full sync".into()));
        }
        payload.finish(TAIL_MAX - unread as u64)
    }

    /// Finds out whether a received full sync can be loaded.
    fn verify(&self, path: &std::path::Path, heartbeat: &dyn Fn()) -> Result<(), LinkError> {
        let dump = files::open(path)?;
        let len = Some(dump.metadata()?.len());
        let mut last = Instant::now();
        dataset::verify_full_sync(self.engine, dump, len, &mut || {
            if last.elapsed() >= HEARTBEAT_EVERY {
                last = Instant::now();
                heartbeat();
            }
            !self.is_called_off()
        })
    }

    /// Writes a full sync to a file.
    fn receive(
        &self,
        peer: &mut Peer<Outgoing>,
        frame: Frame,
        path: &std::path::Path,
    ) -> Result<(), LinkError> {
        let mut file = create_temporary(path)?;
        let mut payload = Payload::new(peer, self, frame);
        let mut bytes = vec![0; COPY_BYTES];
        loop {
            match payload.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    file.write_all(&bytes[..count])?;
                    self.link.full_sync.read.store(payload.read, Relaxed);
                }
                Err(error) => return Err(payload.failure.take().unwrap_or(LinkError::Io(error))),
            }
        }
        file.sync_all()?;
        Ok(())
    }

    /// Applies the stream until the connection ends. `meanwhile`: bytes received already.
    fn follow(
        &self,
        peer: &mut Peer<Outgoing>,
        applier: &mut Applier,
        mut meanwhile: Vec<u8>,
    ) -> Result<(), LinkError> {
        let mut received = Received { buffer: peer.take_buffer(), ..Received::default() };
        let mut taken = 0;
        let mut acknowledged = Instant::now();
        let mut heard = Instant::now();
        self.note_received();
        self.acknowledge(peer)?;
        loop {
            if self.is_called_off() {
                return Err(LinkError::CalledOff);
            }
            received.units.parse(&received.buffer)?;
            let is_held = apply::holds_stream(self.engine);
            if !received.units.requests().is_empty() && !is_held {
                let is_asked = applier.apply(self.engine, self.generation, &mut received)?;
                let used = received.units.forget();
                received.buffer.drain(..used);
                if is_asked {
                    // The primary may be waiting for the disk; no client here is.
                    self.engine.append_only.appender.ask(self.engine.keyspace.journal.end());
                    self.acknowledge(peer)?;
                    acknowledged = Instant::now();
                }
            }
            if acknowledged.elapsed() >= ACK_EVERY {
                self.acknowledge(peer)?;
                acknowledged = Instant::now();
            }
            if !meanwhile.is_empty() && !is_held {
                let end = meanwhile.len().min(taken + PORTION);
                received.buffer.extend_from_slice(&meanwhile[taken..end]);
                taken = end;
                if end == meanwhile.len() {
                    meanwhile = Vec::new();
                }
            } else if is_held && received.buffer.len() > HELD_MAX {
                std::thread::sleep(TICK);
                heard = Instant::now();
            } else {
                let count = peer.receive_onto(&mut received.buffer)?;
                if count > 0 {
                    heard = Instant::now();
                    self.note_io(count);
                    self.note_received();
                } else if heard.elapsed() > self.timeout() {
                    return Err(LinkError::Refused("MASTER timeout: no data nor PING received...".into()));
                }
            }
            self.link.unapplied.store(received.buffer.len() as u64, Relaxed);
        }
    }

    /// Sends the primary this server's offset, and how much of that is on disk.
    fn acknowledge(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let engine = self.engine;
        let history = engine.replication.history();
        let offset = history.offset(engine.keyspace.journal.end()).to_string();
        let mut request: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        let on_disk;
        if engine.append_only.on.load(Relaxed) && !engine.append_only.awaits_base() {
            on_disk = history.offset(engine.append_only.appender.synced()).to_string();
            request.extend([&b"FACK"[..], on_disk.as_bytes()]);
        }
        match &engine.group {
            None => peer.send(&request),
            Some(group) => {
                let mut sent = Err(LinkError::CalledOff);
                group.acknowledge(&mut || sent = peer.send(&request));
                sent
            }
        }
    }
}
