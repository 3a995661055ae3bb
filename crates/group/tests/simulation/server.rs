// SPDX-License-Identifier: BSD-3-Clause
//! A miniature server: a log of numbers, the member's state machine, and held replies.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use braid_group::{
    CleanShutdown, Confirmed, Duty, Follower, Local, Member, MemberId, Orders, Rules, Timing, Transaction,
};

/// Rules of the data path that can be dropped, in addition to [`Rules`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// A reply waits for every member of the set.
    pub waits_for_all: bool,
    /// Acknowledgements start over under each epoch.
    pub counts_anew: bool,
    /// A restarted process is another member.
    pub renames: bool,
    /// The right to serve is checked again after requests were received, and before replies are
    /// sent.
    pub looks_again: bool,
    /// At level `disk` a member acknowledges only what is on its disk.
    pub waits_for_disk: bool,
    /// A read waits until the data it reveals is acknowledged.
    pub reads_wait: bool,
    /// A member that refuses its primary acknowledges nothing.
    pub refuses: bool,
    /// The old files stay until those of the replacing dataset are complete.
    pub keeps_old_files: bool,
    /// The level at which replies wait follows the orders, not only this server's settings.
    pub follows_level: bool,
    /// A member's right starts when the probe it answers was sent.
    pub counts_from_probe: bool,
    /// A server that shuts down cleanly does nothing after it has saved its data.
    pub stops_before_saving: bool,
    /// A server in the middle of a full sync leaves no note when it ends.
    pub notes_whole_only: bool,
    /// The note of a clean shutdown is removed before the next process communicates.
    pub removes_note: bool,
    /// A reply reveals only what enough replicas have had, also after the set has shrunk.
    pub keeps_minimum: bool,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            waits_for_all: true,
            counts_anew: true,
            renames: true,
            looks_again: true,
            waits_for_disk: true,
            reads_wait: true,
            refuses: true,
            keeps_old_files: true,
            follows_level: true,
            counts_from_probe: true,
            stops_before_saving: true,
            notes_whole_only: true,
            removes_note: true,
            keeps_minimum: true,
        }
    }
}

/// A held reply.
#[derive(Clone, Debug)]
pub struct Held {
    pub epoch: u64,
    /// The log length it waits for.
    pub len: usize,
    /// The number written or read.
    pub number: u64,
    pub is_write: bool,
    /// The highest number acknowledged or read before the request was sent: a read must not return
    /// less.
    pub floor: u64,
    /// The tick at which its request was executed.
    pub since: u64,
}

/// A member's acknowledgements under the present epoch.
#[derive(Clone, Copy, Default, Debug)]
pub struct Heard {
    pub probed: u64,
    pub in_memory: usize,
    pub on_disk: usize,
}

/// A clock that drifts.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub begin: u64,
    /// Units per tick; 1000 is exact.
    pub rate: u64,
}

impl Clock {
    pub fn at(&self, tick: u64) -> u64 {
        self.begin + tick * self.rate
    }
}

pub struct Server {
    pub member: Member,
    pub runs: u32,
    pub clock: Clock,
    pub timing: Timing,
    pub paused_until: u64,
    pub log: Arc<Vec<u64>>,
    /// Its settings make replies wait for the disk.
    pub at_disk: bool,
    /// The contents of its files.
    pub files: Arc<Vec<u64>>,
    /// The length of the log known to be in the files; 0 for a log that has replaced another.
    pub synced: usize,
    pub followers: BTreeMap<MemberId, Heard>,
    pub followers_epoch: u64,
    pub orders: Orders,
    /// The clock at the last step, used if `looks_again` is off.
    pub looked: u64,
    pub acknowledged: u64,
    pub refuses: bool,
    pub previous_run: Option<Arc<str>>,
    pub run_on_disk: Option<Arc<str>>,
    /// The former process's clean shutdown, if its note was found.
    pub clean_shutdown: Option<CleanShutdown>,
    /// The note of a clean shutdown on disk, and the log saved with it.
    pub note: Option<(CleanShutdown, Arc<Vec<u64>>)>,
    /// When the process that is shutting down ends, and what it leaves.
    pub ends: Option<(u64, Legacy)>,
    pub has_data: bool,
    pub hears_primary: bool,
    /// A full sync lasts until then; meanwhile it has no data.
    pub loads_until: u64,
    pub lease: Option<i64>,
    pub held: VecDeque<Held>,
    /// What enough replicas have had, in memory and on disk.
    pub confirmed: [Confirmed; 2],
    /// The primary as last seen.
    pub last_primary: Option<MemberId>,
    /// How often this process has succeeded another primary.
    pub terms: u64,
    /// Replicas that writes need.
    pub minimum: usize,
    /// How long a member may keep replies waiting, in units of the clock; 0: any time.
    pub patience: u64,
    /// Unanswered requests to etcd by number: the request, when it was sent, and when to give up.
    pub pending: BTreeMap<u64, (Pending, u64, u64)>,
    /// Position of the last stream message: its epoch and time of sending.
    pub last_stream: (u64, u64),
    pub registered: bool,
    pub offered: Option<u64>,
}

/// What a process leaves behind on a clean shutdown.
#[derive(Clone, Debug)]
pub struct Legacy {
    pub log: Arc<Vec<u64>>,
    /// The run that the files belong to, if known.
    pub former: Option<Arc<str>>,
    pub note: Option<CleanShutdown>,
}

/// The kind of a request to etcd.
#[derive(Clone, Debug)]
pub enum Pending {
    Read,
    Grant,
    KeepAlive,
    Transact(Transaction),
    Other,
}

impl Server {
    pub fn new(index: usize, runs: u32, clock: Clock, tick: u64, timing: Timing, rules: Rules) -> Server {
        let id = MemberId::new(["a", "b", "c", "d", "e"][index], &format!("{runs}"));
        Server {
            member: Member::new(id, timing, rules, clock.at(tick)),
            runs,
            clock,
            timing,
            paused_until: 0,
            log: Arc::default(),
            at_disk: false,
            files: Arc::default(),
            synced: 0,
            followers: BTreeMap::new(),
            followers_epoch: 0,
            orders: Orders::default(),
            looked: 0,
            acknowledged: clock.at(tick),
            refuses: false,
            previous_run: None,
            run_on_disk: None,
            clean_shutdown: None,
            note: None,
            ends: None,
            has_data: false,
            hears_primary: false,
            loads_until: 0,
            lease: None,
            held: VecDeque::new(),
            confirmed: Default::default(),
            last_primary: None,
            terms: 0,
            minimum: 0,
            patience: 0,
            pending: BTreeMap::new(),
            last_stream: (0, 0),
            registered: false,
            offered: None,
        }
    }

    pub fn id(&self) -> &MemberId {
        self.member.id()
    }

    /// The epoch it leads.
    pub fn leads(&self) -> Option<u64> {
        match self.orders.duty {
            Duty::Lead { epoch } => Some(epoch),
            _ => None,
        }
    }

    pub fn may_serve(&self, tick: u64, path: &Path) -> bool {
        let now = if path.looks_again { self.clock.at(tick) } else { self.looked };
        self.leads().is_some() && now < self.orders.serve_until
    }

    /// Whether replies wait for the disk.
    pub fn waits_for_disk(&self, path: &Path) -> bool {
        self.at_disk || self.orders.at_disk && path.follows_level
    }

    /// True if replies up to this log length may be sent.
    pub fn is_acknowledged(&mut self, len: usize, path: &Path) -> bool {
        let at_disk = self.waits_for_disk(path);
        let has = |id: &MemberId| {
            let of = |heard: &Heard| if at_disk { heard.on_disk } else { heard.in_memory };
            self.followers.get(id).is_some_and(|heard| of(heard) >= len)
        };
        let required = &self.orders.required;
        let is_on_own_disk = !at_disk || self.synced >= len;
        let enough = if path.waits_for_all {
            required.iter().all(has)
        } else {
            required.is_empty() || required.iter().any(has)
        };
        let is_confirmed = self.minimum == 0 || !path.keeps_minimum || self.confirmed(at_disk) > len as u64;
        is_on_own_disk && enough && is_confirmed
    }

    /// One more than the log length that may be revealed as far as the minimum is concerned.
    fn confirmed(&mut self, at_disk: bool) -> u64 {
        let of = |id: &MemberId| {
            let heard = self.followers.get(id)?;
            Some(if at_disk { heard.on_disk } else { heard.in_memory } as u64 + 1)
        };
        let all = self.orders.required.iter().map(|id| of(id).unwrap_or(0)).min().unwrap_or(u64::MAX);
        self.confirmed[usize::from(at_disk)].update(all, self.orders.size, self.minimum)
    }

    /// Members for which a reply has waited too long.
    fn slow(&self, tick: u64, path: &Path) -> Vec<MemberId> {
        let at_disk = self.waits_for_disk(path);
        let is_late = |held: &&Held| (tick - held.since) * 1000 > self.patience;
        let Some(late) = self.held.iter().find(is_late).filter(|_| self.patience > 0) else {
            return Vec::new();
        };
        let lacks = |id: &&MemberId| {
            self.followers.get(*id).is_none_or(|heard| {
                let len = if at_disk { heard.on_disk } else { heard.in_memory };
                len < late.len
            })
        };
        // A joining member has its own time.
        let records = self.member.shard();
        let is_in = |id: &&MemberId| records.is_some_and(|shard| shard.in_sync.contains(*id));
        self.orders.required.iter().filter(is_in).filter(lacks).cloned().collect()
    }

    pub fn local(&self, tick: u64, path: &Path) -> Local {
        let at_disk = self.waits_for_disk(path);
        let follower = |(id, heard): (&MemberId, &Heard)| Follower {
            id: id.clone(),
            probed: heard.probed,
            acknowledged: (if at_disk { heard.on_disk } else { heard.in_memory }) as u64,
            is_syncing: true,
        };
        Local {
            end: self.log.len() as u64,
            history: "h".into(),
            offset: self.log.len() as u64,
            has_data: self.has_data,
            is_whole: self.loads_until <= tick && !self.awaits_data(),
            previous_run: self.previous_run.clone(),
            run_on_disk: self.run_on_disk.clone(),
            clean_shutdown: self.clean_shutdown.clone(),
            at_disk: self.at_disk,
            synced: self.synced as u64,
            acknowledged: self.acknowledged,
            refuses: self.refuses,
            hears_primary: self.hears_primary,
            priority: 100,
            stays_replica: false,
            followers: self.followers.iter().map(follower).collect(),
            slow: self.slow(tick, path),
            patience: self.patience,
            minimum: self.minimum,
        }
    }

    /// Applies new orders.
    pub fn apply(&mut self, orders: Orders, tick: u64, path: &Path) {
        self.looked = self.clock.at(tick);
        self.refuses = orders.duty == Duty::Refuse;
        if let Duty::Lead { epoch } = orders.duty {
            if self.leads().is_none() && self.last_primary.as_ref() != Some(self.id()) {
                let end = self.log.len() as u64;
                self.confirmed.iter_mut().for_each(|confirmed| confirmed.begin(end));
                self.terms += 1;
            }
            if self.followers_epoch != epoch {
                self.followers_epoch = epoch;
                if path.counts_anew {
                    self.followers.clear();
                }
            }
        } else {
            self.held.clear();
        }
        let epoch = match orders.duty {
            Duty::Lead { epoch } => Some(epoch),
            _ => None,
        };
        self.held.retain(|held| Some(held.epoch) == epoch);
        self.orders = orders;
        self.last_primary = self.member.shard().map(|shard| shard.primary.clone());
    }

    /// What it would leave behind if it shut down cleanly now.
    pub fn legacy(&self, tick: u64, path: &Path) -> Legacy {
        let is_whole = self.loads_until <= tick && !self.awaits_data() || !path.notes_whole_only;
        let (former, note) = match self.member.name() {
            Some(name) => {
                let epoch = self.member.shard().map_or(0, |shard| shard.epoch);
                (Some(name.run.clone()), Some(CleanShutdown { run: name.run.clone(), epoch }))
            }
            // It has not communicated, so the process before it still counts.
            None => (self.previous_run.clone().or(self.run_on_disk.clone()), self.clean_shutdown.clone()),
        };
        // An incomplete dataset is not saved.
        let log = Arc::clone(if is_whole { &self.log } else { &self.files });
        Legacy { log, former, note: note.filter(|_| is_whole) }
    }

    /// Reads the note of the former process's clean shutdown, before doing anything else.
    pub fn take_note(&mut self, path: &Path) {
        let note = if path.removes_note { self.note.take() } else { self.note.clone() };
        if let Some((shutdown, _)) = note {
            self.clean_shutdown = Some(shutdown);
        }
    }

    /// Writes everything to disk.
    pub fn sync(&mut self) {
        if !self.awaits_data() {
            self.synced = self.log.len();
            self.files = Arc::clone(&self.log);
        }
    }

    /// It has discarded its own history and has not received the new one yet.
    pub fn awaits_data(&self) -> bool {
        self.log.is_empty() && self.loads_until > 0
    }

    pub fn append(&mut self, number: u64) {
        Arc::make_mut(&mut self.log).push(number);
    }
}
