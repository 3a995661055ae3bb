// SPDX-License-Identifier: BSD-3-Clause
//! Shared state of active-active replication, and the orders for its thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use braid_active::change::Kind;
use braid_active::replica::State;
use braid_active::{Region, Stamp, Vector};
use braid_base::clock::unix_ms;
use braid_config::Config;
use braid_executor::engine::Engine;
use braid_executor::services::{self, ActiveLog};
use braid_journal::Reader;
use braid_persistence::active::CopyFile;
use parking_lot::Mutex;

use super::batch::Batch;
use super::copies::CopyRequest;
use super::on_disk::OnDisk;
use super::outbox::{Answers, Outbox};
use super::refusals::{Refusals, Refused};

/// Version of the protocol between servers. Any other version is refused.
pub const PROTOCOL: i64 = 4;

/// This server as its peers know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalIdentity {
    /// Random, for the life of the dataset.
    pub identity: String,
    pub region: u8,
    /// The number was configured, or others know it: it can no longer change.
    pub is_final: bool,
    /// Other regions and their servers' identities.
    pub members: BTreeMap<u8, String>,
    /// Permanently removed regions, one bit each.
    pub gone: u64,
}

impl LocalIdentity {
    /// True if the identity may own the region's number.
    pub(crate) fn fits(&self, region: u8, identity: &str) -> bool {
        match self.members.get(&region) {
            _ if self.has_removed(region) => false,
            _ if region == self.region => identity == self.identity,
            Some(known) => known == identity,
            None => true,
        }
    }

    /// Why a server whose identity does not [fit](LocalIdentity::fits) is refused.
    pub(crate) fn misfit(&self, region: u8) -> String {
        match self.has_removed(region) {
            true => removed_text(region),
            false => format!(
                "region {region} belongs to another server: give each server its own active-region. A server \
                 whose folder was lost begins as a new region, and the former one is removed by ACTIVE FORGET"
            ),
        }
    }

    pub(crate) fn has_removed(&self, region: u8) -> bool {
        self.gone >> region & 1 == 1
    }

    /// Notes removals that another server knows of, but for this server's own. Returns the new
    /// ones.
    pub(crate) fn take_removed(&mut self, gone: u64) -> u64 {
        let new = gone & !self.gone & !(1 << self.region);
        self.gone |= new;
        self.members.retain(|region, _| new >> region & 1 == 0);
        new
    }

    /// The numbers in use, one bit each.
    pub(crate) fn taken(&self) -> u64 {
        self.members.keys().fold(self.gone | 1 << self.region, |taken, region| taken | 1 << region)
    }
}

fn removed_text(region: u8) -> String {
    format!(
        "region {region} was removed by ACTIVE FORGET: begin with an empty folder and another active-region"
    )
}

/// Counters for INFO.
#[derive(Default)]
pub(crate) struct Figures {
    /// Units created by this server.
    pub own: AtomicU64,
    /// Applied units of other servers.
    pub merged: AtomicU64,
    /// Received units that were already known.
    pub known: AtomicU64,
    /// Units taken by peers.
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    /// How many of the sent units were read from disk.
    pub sent_from_disk: AtomicU64,
    pub copies_sent: AtomicU64,
    pub copies_merged: AtomicU64,
    /// The part of the full copy being merged that is left, in percent.
    pub copy_left_percent: AtomicU64,
    /// Requests that had to be sent as their result.
    pub results: AtomicU64,
    pub type_conflicts: AtomicU64,
    /// Values that lost to concurrent ones, by type.
    pub conflicts: [AtomicU64; Kind::ALL.len()],
    /// How often writes had to wait for peers.
    pub throttled: AtomicU64,
    pub tombstones: AtomicU64,
    /// Keys with evicted content that has not been rewritten.
    pub evicted: AtomicU64,
    /// Short strings that are in memory once, in the keyspace.
    pub shared: AtomicU64,
    pub log_bytes: AtomicU64,
    /// Bytes of units that wait to be written to the log.
    pub log_unwritten_bytes: AtomicU64,
    /// How far this server's stamps are ahead of its own clock, in ms.
    pub clock_ahead_ms: AtomicU64,
}

/// State shared by all threads.
pub struct Active {
    pub(crate) me: Mutex<LocalIdentity>,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) peers: Mutex<Vec<Arc<PeerLink>>>,
    pub(crate) figures: Figures,
    pub(crate) orders: Sender<Order>,
    /// Held by the link that takes a full copy: only one copy exists at a time, on disk and in
    /// memory.
    pub(super) copying: Mutex<()>,
    /// The thread is merging a full copy.
    pub(super) merges_copy: AtomicBool,
    /// Handed to the thread when it starts.
    pub(super) inbox: Mutex<Option<Receiver<Order>>>,
    pub(super) reader: Mutex<Option<Reader>>,
    /// Everything that has been applied, whether or not it is in the log: links pull the rest.
    pub(super) received: Mutex<Vector>,
    /// Progress of the log on disk.
    pub(crate) on_disk: OnDisk,
    /// The files have been read: peers may pull.
    pub(crate) is_ready: AtomicBool,
    /// Why nothing can be written; empty if there is no problem.
    pub(crate) last_error: Mutex<String>,
    /// What other servers refuse.
    pub(crate) refusals: Mutex<Refusals>,
}

/// Creates the shared state if the configuration enables active mode.
///
/// # Errors
/// What is invalid in the configuration.
pub fn of_config(config: &Config) -> Result<Option<Arc<dyn ActiveLog>>, String> {
    if !config.active_replica() {
        let text = config.active_peers();
        return match text.is_empty() && config.active_region() < 0 {
            true => Ok(None),
            false => Err("active-peers and active-region need active-replica yes".into()),
        };
    }
    parse_peers(&config.active_peers())?;
    let (orders, inbox) = channel();
    Ok(Some(Arc::new(Active {
        me: Mutex::default(),
        outbox: Mutex::default(),
        peers: Mutex::default(),
        figures: Figures::default(),
        orders,
        copying: Mutex::default(),
        merges_copy: AtomicBool::new(false),
        inbox: Mutex::new(Some(inbox)),
        reader: Mutex::default(),
        received: Mutex::default(),
        on_disk: OnDisk::default(),
        is_ready: AtomicBool::new(false),
        last_error: Mutex::default(),
        refusals: Mutex::default(),
    })))
}

impl Active {
    pub(crate) fn region(&self) -> Option<Region> {
        Region::new(self.me.lock().region)
    }

    /// True if the link to any peer is up.
    pub(crate) fn has_link(&self) -> bool {
        self.peers.lock().iter().any(|peer| peer.is_up.load(Relaxed))
    }

    /// Records the units that this server has on disk.
    pub(super) fn note_own_on_disk(&self, vector: Vector) {
        let Some(region) = self.region() else { return };
        let known = &mut self.outbox.lock().on_disk;
        let known = known.entry(region).or_default();
        // A sync may end after a later one of another file.
        if vector.includes(known) {
            *known = vector;
        }
    }

    /// Removes the regions that another server says are removed. Returns why that server refuses
    /// this one, if it has removed it.
    pub(crate) fn take_removed(&self, gone: u64) -> Option<Refused> {
        let (new, me) = {
            let mut me = self.me.lock();
            (me.take_removed(gone), me.region)
        };
        for region in (0..64).filter(|number| new >> number & 1 == 1).filter_map(Region::new) {
            let _ = self.orders.send(Order::Forget { region, answer: None });
        }
        (gone >> me & 1 == 1).then(|| Refused { about: Some(me), reason: removed_text(me) })
    }

    /// Another server refuses something, or no longer.
    pub(crate) fn note_refusal(&self, by: u8, refused: Option<Refused>) {
        let line = refused.as_ref().map(|refused| refused.reason.clone());
        if self.refusals.lock().note(by, refused, unix_ms()) {
            match line {
                Some(reason) => log::warn!("Active-active: region {by} refuses changes from here: {reason}"),
                None => log::info!("Active-active: region {by} takes changes from here again"),
            }
        }
    }

    /// Logs a problem once.
    pub(super) fn note_error(&self, error: String) {
        let mut last = self.last_error.lock();
        if *last != error {
            log::warn!("Active-active: {error}");
            *last = error;
        }
    }
}

impl ActiveLog for Active {
    fn region_number(&self) -> u8 {
        self.me.lock().region
    }

    fn merges_copy(&self) -> bool {
        self.merges_copy.load(SeqCst)
    }

    fn offset_on_disk(&self) -> u64 {
        self.on_disk.offset()
    }

    fn ask_for_disk(&self) {
        if self.on_disk.ask() {
            let _ = self.orders.send(Order::ToDisk);
        }
    }

    fn progress_on_disk(&self, offset: u64) -> Option<bool> {
        if self.is_ready.load(Relaxed) { self.on_disk.progress(offset) } else { Some(true) }
    }

    fn wait_until_on_disk(&self, offset: u64) -> bool {
        loop {
            if let Some(outcome) = self.progress_on_disk(offset) {
                return outcome;
            }
            self.ask_for_disk();
            self.on_disk.wait(offset);
        }
    }
}

/// This server's part in active-active replication, if it is on.
pub(crate) fn of(engine: &Engine) -> Option<&Active> {
    services::state_of(&**engine.active.as_ref()?)
}

/// Outcome of applying a peer's data; an error gives the reason for refusing it.
pub(crate) type Merged = Result<(), Refused>;

/// Orders for the thread.
pub(crate) enum Order {
    Units {
        units: Batch,
        answer: SyncSender<Merged>,
    },
    Copy {
        state: Box<State>,
        /// The same copy on disk.
        file: CopyFile,
        answer: SyncSender<Merged>,
    },
    /// A peer requests a full copy, or the next part of its copy.
    MakeCopy(CopyRequest),
    MoreCopy(CopyRequest),
    Digest {
        answer: Box<dyn Answers>,
    },
    Forget {
        region: Region,
        /// `None` if another server has told it.
        answer: Option<Box<dyn Answers>>,
    },
    /// Another server has the same number, and no other server knows this one yet.
    ChangeRegion {
        taken: u64,
    },
    /// Others know this server by its number from now on.
    NumberIsFinal,
    /// A region's on-disk vector has advanced.
    OnDisk,
    /// Replies wait until everything is on disk.
    ToDisk,
    /// The log cannot be written, since the disk is full.
    LogRoom,
    /// A higher ceiling is on disk; `None` if it could not be written.
    Ceiling(Option<Stamp>),
    /// The server shuts down: nothing more is journalled.
    End {
        answer: SyncSender<()>,
    },
}

/// Maximum number of peers; there are no more regions.
const PEERS_MAX: usize = 63;

/// A peer, and the link to it.
pub(crate) struct PeerLink {
    pub host: String,
    pub port: u16,
    /// False once removed from the configuration.
    pub is_wanted: AtomicBool,
    pub is_up: AtomicBool,
    /// Time from the last unit's creation in its region to its application here, in ms.
    pub lag_ms: AtomicU64,
    /// Units and bytes received.
    pub units: AtomicU64,
    pub bytes: AtomicU64,
    pub status: Mutex<PeerStatus>,
}

/// The peer's identity, and the link's last error.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerStatus {
    pub region: Option<u8>,
    pub identity: String,
    /// Why the last attempt ended.
    pub error: String,
    /// It ended since one of the two servers refuses the other's effects or number.
    pub refused: Option<Refused>,
    /// The peer does not know the command ACTIVE: it is another kind of server.
    pub is_foreign: bool,
}

/// Parses addresses: `host:port`, separated by commas or spaces.
pub(crate) fn parse_peers(text: &str) -> Result<Vec<(String, u16)>, String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let mut peers = Vec::new();
    for word in words {
        let (host, port) = word.rsplit_once(':').ok_or(format!("active-peers: '{word}' is not host:port"))?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let port: u16 = port.ok_or(format!("active-peers: '{word}' has no port"))?;
        if host.is_empty() {
            return Err(format!("active-peers: '{word}' has no host"));
        }
        if !peers.contains(&(host.to_owned(), port)) {
            peers.push((host.to_owned(), port));
        }
    }
    match peers.len() > PEERS_MAX {
        true => Err(format!("active-peers: {} peers exceed the maximum", peers.len())),
        false => Ok(peers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_taken_over_but_for_the_own_region() {
        let members = [(2, "b".to_owned()), (3, "c".to_owned())].into();
        let mut me = LocalIdentity { identity: "a".into(), region: 1, members, ..LocalIdentity::default() };
        assert_eq!(me.take_removed(1 << 1 | 1 << 2 | 1 << 9), 1 << 2 | 1 << 9);
        assert!(!me.fits(2, "b") && !me.fits(9, "x") && me.fits(3, "c") && me.fits(1, "a"));
        assert_eq!(me.members.len(), 1);
        assert_eq!(me.take_removed(1 << 2), 0);
        assert!(me.misfit(2).contains("was removed by ACTIVE FORGET"));
        assert!(me.misfit(3).contains("belongs to another server"));
    }

    #[test]
    fn addresses_of_peers() {
        let peers = parse_peers("a:1, b.example:65535 [::1]:7,a:1").expect("good");
        assert_eq!(peers, [("a".into(), 1), ("b.example".into(), 65535), ("[::1]".into(), 7)]);
        assert_eq!(parse_peers(""), Ok(Vec::new()));
        for bad in ["a", "a:", ":1", "a:0", "a:65536"] {
            assert!(parse_peers(bad).is_err(), "{bad}");
        }
    }
}
