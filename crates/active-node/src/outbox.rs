// SPDX-License-Identifier: BSD-3-Clause
//! Units for peers: the backlog of units in the order in which they were applied here, and the
//! peers that wait for more.
//!
//! A unit enters once it is in the log on disk, from which peers can read it after the backlog
//! has dropped it. Peers state what they have applied, so nothing is kept per peer but a
//! position, which saves searching the backlog each time. More units are kept for a peer that is
//! present or takes a full copy than for absent peers, so that it does not need another copy as
//! soon as it has merged the first.

use std::collections::BTreeMap;

use braid_active::backlog::Backlog;
use braid_active::logs::Cursor;
use braid_active::{Region, Stamp, Vector};
use braid_resp::reply::ReplyBuffer;

use super::codec::{members_text, table_text, vector_text};
use super::disk_backlog::DiskBacklog;
use super::pull_request::PullRequest;

/// The right to answer a waiting peer.
pub(crate) trait Answers: Send {
    /// False if the peer has disconnected.
    fn is_wanted(&self) -> bool;
    /// An empty reply buffer in the peer's protocol.
    fn buffer(&self) -> ReplyBuffer;
    fn give(self: Box<Self>, reply: ReplyBuffer);
}

/// A peer waiting for new units.
struct Waiting {
    request: PullRequest,
    answer: Box<dyn Answers>,
    until_ms: i64,
}

/// Progress of a peer that pulls from this server.
#[derive(Clone, Copy, Debug)]
struct PullProgress {
    /// The peer has applied everything before this position.
    position: u64,
    heard_ms: i64,
    /// The peer has kept up since it was last away.
    is_current: bool,
    /// Until when the peer may be silent because it takes a full copy.
    copies_until_ms: i64,
    answered_ms: Option<i64>,
    line: Line,
    /// Set while the peer is sent units from disk, from this cursor on; all units in memory come
    /// after them.
    reads_disk: Option<Cursor>,
}

impl PullProgress {
    /// True if the peer pulls regularly.
    fn asks(&self, now_ms: i64) -> bool {
        now_ms - self.heard_ms < SILENCE_MS
    }

    fn takes_copy(&self, now_ms: i64) -> bool {
        now_ms < self.copies_until_ms
    }

    /// True if the peer will continue from its position in memory.
    fn is_here(&self, now_ms: i64) -> bool {
        self.reads_disk.is_none() && (self.asks(now_ms) || self.takes_copy(now_ms))
    }
}

/// The minimum time from an answer to the next request: the network's part of a peer's lag,
/// which this server cannot reduce. It is the minimum over the current and the previous window.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    since_ms: i64,
    now: Option<u64>,
    last: Option<u64>,
}

/// Length of such a window, in ms.
const STRETCH_MS: i64 = 10_000;

impl Line {
    fn note(&mut self, took_ms: u64, now_ms: i64) {
        if now_ms - self.since_ms >= STRETCH_MS {
            *self = Line { since_ms: now_ms, now: None, last: self.now };
        }
        self.now = Some(self.now.map_or(took_ms, |least| least.min(took_ms)));
    }

    fn ms(&self) -> u64 {
        [self.now, self.last].into_iter().flatten().min().unwrap_or(0)
    }
}

/// A peer's lag behind this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Behind {
    /// Age of the oldest unit the peer may lack, in ms; of the oldest one in memory if it is sent
    /// older units from disk.
    pub ms: u64,
    /// Approximate bytes the peer may lack.
    pub bytes: u64,
}

/// How long a peer may take for a full copy, in ms.
const COPY_MS: i64 = 600_000;
/// A present peer may hold this many times the bytes kept for absent peers.
const KEPT_FOR_TAKERS: usize = 8;

/// Milliseconds of silence after which a peer counts as away. A peer with nothing to apply asks
/// every second.
const SILENCE_MS: i64 = 5000;

/// The backlogs, the vectors they belong to, and the peers that pull from this server.
#[derive(Default)]
pub(crate) struct Outbox {
    pub backlog: Backlog,
    pub disk: DiskBacklog,
    /// Everything that has been applied and is in the log.
    pub applied: Vector,
    /// The regions' on-disk vectors as far as known, including this server's own.
    pub on_disk: BTreeMap<Region, Vector>,
    /// Regions and identities, sent to peers.
    pub members: BTreeMap<u8, String>,
    waiting: Vec<Waiting>,
    pulls: BTreeMap<Region, PullProgress>,
}

/// The answer to a pull.
pub(super) enum Share<'o> {
    /// Units, and the position at which the peer continues.
    Units(Vec<&'o [u8]>, u64),
    /// Units to be read from disk first.
    Disk(Cursor),
    /// Neither backlog reaches back far enough.
    Copy,
}

impl Share<'_> {
    /// The number of units sent, and their bytes.
    pub(super) fn sent(&self) -> (u64, u64) {
        match self {
            Share::Units(units, _) => (units.len() as u64, units.iter().map(|unit| unit.len() as u64).sum()),
            Share::Disk(_) | Share::Copy => (0, 0),
        }
    }
}

/// An answer for a peer that has waited.
pub(super) struct Ripe {
    pub answer: Box<dyn Answers>,
    pub reply: ReplyBuffer,
    /// Number of units in it, and their bytes.
    pub sent: (u64, u64),
}

impl Outbox {
    /// The units a peer lacks; `None` if it lacks none.
    pub(super) fn share(&self, request: &PullRequest) -> Option<Share<'_>> {
        self.share_of(request, |_| true)
    }

    /// [`Outbox::share`], restricted to the units whose first stamps are wanted.
    fn share_of(&self, request: &PullRequest, is_wanted: impl Fn(Stamp) -> bool) -> Option<Share<'_>> {
        let Some(units) = self.backlog.since_position(&request.applied, request.position) else {
            return Some(self.disk.place_for(request).map_or(Share::Copy, Share::Disk));
        };
        let (mut some, mut bytes, mut position) = (Vec::new(), 0, self.backlog.end());
        for (at, unit, _) in units.filter(|(.., first)| is_wanted(*first)) {
            if !some.is_empty() && bytes + unit.len() > request.bytes_max {
                position = at;
                break;
            }
            bytes += unit.len();
            some.push(unit);
        }
        (!some.is_empty()).then_some(Share::Units(some, position))
    }

    /// Writes the answer to a pull: the kind of answer and where the peer continues, the regions'
    /// on-disk vectors, the members, the vector applied here, and the units. Without units the
    /// peer continues at `position`.
    pub(super) fn reply(&self, share: Option<&Share<'_>>, position: u64, reply: &mut ReplyBuffer) {
        let (word, units, position) = match share {
            Some(Share::Copy) => ("copy", &[][..], 0),
            Some(Share::Units(units, position)) => ("units", &units[..], *position),
            Some(Share::Disk(_)) | None => ("units", &[][..], position),
        };
        reply.array(5 + units.len());
        reply.bulk(word.as_bytes());
        reply.bulk(position.to_string().as_bytes());
        reply.bulk(table_text(&self.on_disk).as_bytes());
        reply.bulk(members_text(&self.members).as_bytes());
        reply.bulk(vector_text(&self.applied).as_bytes());
        for unit in units {
            reply.bulk(unit);
        }
    }

    /// Makes a peer wait until there are units for it, or until a deadline.
    pub(super) fn wait(&mut self, request: PullRequest, answer: Box<dyn Answers>, until_ms: i64) {
        self.waiting.push(Waiting { request, answer, until_ms });
    }

    /// True if there is a unit for the peer that it did not create itself.
    fn has_units_for(&self, request: &PullRequest) -> bool {
        let units = self.backlog.since_position(&request.applied, request.position);
        units.is_none_or(|mut units| units.any(|(.., first)| !request.is_of_asker(first)))
    }

    /// Records the progress of a pulling peer. Without a position, its applied vector determines
    /// it.
    pub(super) fn note_pull_request(&mut self, request: &PullRequest, now_ms: i64) {
        let lacking = self.backlog.since_position(&request.applied, request.position);
        let reads_disk = if lacking.is_none() { self.disk.place_for(request) } else { None };
        let position = match request.position {
            _ if reads_disk.is_some() => self.backlog.begin(),
            0 => {
                let first = lacking.into_iter().flatten().next();
                first.map_or(self.backlog.end(), |(position, ..)| position)
            }
            position => position,
        };
        let known = self.pulls.get(&request.region).filter(|pull| pull.asks(now_ms));
        let mut line = known.map_or_else(Line::default, |pull| pull.line);
        if let Some(answered_ms) = known.and_then(|pull| pull.answered_ms) {
            line.note((now_ms - answered_ms).max(0) as u64, now_ms);
        }
        let is_current = reads_disk.is_none() && known.is_some_and(|pull| pull.is_current);
        let pull = PullProgress {
            position,
            heard_ms: now_ms,
            is_current,
            copies_until_ms: 0,
            answered_ms: None,
            line,
            reads_disk,
        };
        self.pulls.insert(request.region, pull);
    }

    /// Records that a peer has been answered.
    pub(super) fn note_answer(&mut self, region: Region, now_ms: i64) {
        if let Some(pull) = self.pulls.get_mut(&region) {
            pull.answered_ms = Some(now_ms);
        }
    }

    /// Records that a peer was told to take a full copy, which contains everything present now.
    pub(super) fn note_copy(&mut self, region: Region, now_ms: i64) {
        let end = self.backlog.end();
        if let Some(pull) = self.pulls.get_mut(&region) {
            (pull.position, pull.copies_until_ms, pull.reads_disk) = (end, now_ms + COPY_MS, None);
            // It must catch up afterwards; no client waits for that.
            pull.is_current = false;
        }
    }

    /// Drops old units so that the rest takes at most `bytes_max` bytes, or more while present
    /// peers need them. Returns the regions of present peers that will need a full copy
    /// nonetheless, if there is no backlog on disk.
    pub(super) fn trim(&mut self, bytes_max: usize, now_ms: i64) -> Vec<Region> {
        let begin = self.backlog.begin();
        let here = self.pulls.values().filter(|pull| pull.is_here(now_ms));
        let needed = here.map(|pull| pull.position).filter(|position| *position >= begin).min();
        self.backlog.trim_before(needed.unwrap_or(u64::MAX), bytes_max);
        self.backlog.trim(bytes_max.saturating_mul(KEPT_FOR_TAKERS));
        let new_begin = self.backlog.begin();
        let lost = |pull: &PullProgress| {
            !self.disk.is_wanted && pull.is_here(now_ms) && (begin..new_begin).contains(&pull.position)
        };
        self.pulls.iter().filter(|(_, pull)| lost(pull)).map(|(region, _)| *region).collect()
    }

    /// A peer's lag, unless the peer is away or has never asked.
    pub(crate) fn behind(&self, region: Region, now_ms: i64) -> Option<Behind> {
        let pull = self.pulls.get(&region).filter(|pull| pull.asks(now_ms))?;
        Some(self.behind_of(pull, now_ms))
    }

    fn behind_of(&self, pull: &PullProgress, now_ms: i64) -> Behind {
        let made_ms = self.backlog.made_ms(pull.position);
        Behind {
            ms: made_ms.map_or(0, |made_ms| (now_ms as u64).saturating_sub(made_ms)),
            bytes: match pull.reads_disk {
                Some(cursor) => self.disk.logs.bytes_from(cursor),
                None => self.backlog.bytes_since(pull.position) as u64,
            },
        }
    }

    /// The largest lag in ms, beyond the network's part, among present peers that have kept up
    /// with the bound so far. A returning peer is not waited for until it has caught up.
    pub(super) fn lag_ms(&mut self, bound_ms: u64, now_ms: i64) -> Option<u64> {
        let mut pulls = std::mem::take(&mut self.pulls);
        // A peer that takes its first copy will be a member soon.
        pulls.retain(|region, pull| self.members.contains_key(&region.number()) || pull.takes_copy(now_ms));
        let follows = |pull: &PullProgress| !pull.takes_copy(now_ms) && pull.reads_disk.is_none();
        let here = pulls.values_mut().filter(|pull| pull.asks(now_ms) && follows(pull));
        let lags = here.filter_map(|pull| {
            // A unit takes up to two round trips: the answer that announces news may carry no
            // unit, and its arrival is confirmed only by the request after it.
            let ms = self.behind_of(pull, now_ms).ms.saturating_sub(2 * pull.line.ms());
            pull.is_current |= ms <= bound_ms;
            pull.is_current.then_some(ms)
        });
        let most = lags.max();
        self.pulls = pulls;
        most
    }

    /// The units a waiting peer lacks, if all of them were created here (`me`). The peer may have
    /// received other regions' units from those regions since it asked.
    fn own_share(&self, request: &PullRequest, me: Option<Region>) -> Option<Share<'_>> {
        let is_wanted = |first: Stamp| !request.is_of_asker(first);
        let mut units = self.backlog.since_position(&request.applied, request.position)?;
        let is_all_own = units.all(|(.., first)| Some(first.region()) == me || !is_wanted(first));
        if is_all_own { self.share_of(request, is_wanted) } else { None }
    }

    /// Answers for peers that have news or whose wait has ended; to be sent without the outbox's
    /// lock. They contain units created here. For other regions' units the peer asks again
    /// immediately and states what it has by then.
    pub(super) fn ripe(&mut self, now_ms: i64, me: Option<Region>) -> Vec<Ripe> {
        let mut ripe = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            let waiting = &self.waiting[index];
            let is_wanted = waiting.answer.is_wanted();
            if is_wanted && now_ms < waiting.until_ms && !self.has_units_for(&waiting.request) {
                // The peer knows all current units; do not search them again.
                let end = self.backlog.end();
                let request = &mut self.waiting[index].request;
                request.position = end;
                if let Some(pull) = self.pulls.get_mut(&request.region) {
                    pull.position = end;
                }
                index += 1;
                continue;
            }
            let Waiting { answer, request, .. } = self.waiting.swap_remove(index);
            if !is_wanted {
                continue;
            }
            self.note_answer(request.region, now_ms);
            let mut reply = answer.buffer();
            let share = self.own_share(&request, me);
            let sent = share.as_ref().map_or((0, 0), Share::sent);
            self.reply(share.as_ref(), request.position, &mut reply);
            ripe.push(Ripe { answer, reply, sent });
        }
        ripe
    }

    /// Merges the regions' reported on-disk vectors. True if they contain news.
    pub(super) fn note_on_disk(&mut self, table: &BTreeMap<Region, Vector>, me: Option<Region>) -> bool {
        let mut has_advanced = false;
        for (region, vector) in table {
            if Some(*region) == me {
                continue;
            }
            let known = self.on_disk.entry(*region).or_default();
            if !known.includes(vector) {
                known.join(vector);
                has_advanced = true;
            }
        }
        has_advanced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_active::vector::Run;

    const NOON: i64 = 1_800_000_000_000;

    fn region(number: u8) -> Region {
        Region::new(number).expect("a region")
    }

    /// Adds a unit of region 1, created at the given time.
    fn push(outbox: &mut Outbox, ms: i64) {
        let stamp = Stamp::at((NOON + ms) as u64, region(1));
        let run = Run { start: Stamp::start(region(1)), last: stamp };
        outbox.backlog.push_of(stamp, run, b"0123456789");
        outbox.applied.add(run);
    }

    fn ask(outbox: &mut Outbox, position: u64, ms: i64) {
        let applied = if position == 0 { Vector::default() } else { outbox.applied.clone() };
        let request = PullRequest { applied, position, cursor: None, bytes_max: 1 << 20, region: region(2) };
        outbox.note_pull_request(&request, NOON + ms);
        outbox.note_answer(region(2), NOON + ms);
    }

    fn outbox() -> Outbox {
        Outbox { members: BTreeMap::from([(2, String::new())]), ..Outbox::default() }
    }

    #[test]
    fn lagging_and_returning_peers_are_distinguished() {
        let mut outbox = outbox();
        let lag = |outbox: &mut Outbox, ms| outbox.lag_ms(100, NOON + ms);
        assert_eq!(lag(&mut outbox, 0), None, "no peer has asked");
        push(&mut outbox, 0);
        // The peer returns and is far behind: no client waits for it.
        ask(&mut outbox, 0, 1_000);
        assert_eq!(lag(&mut outbox, 1_000), None);
        assert_eq!(outbox.behind(region(2), NOON + 1_000).map(|behind| behind.ms), Some(1_000));
        // It catches up, and falls behind again.
        ask(&mut outbox, 1, 1_000);
        assert_eq!(lag(&mut outbox, 1_010), Some(0));
        push(&mut outbox, 1_010);
        assert_eq!(lag(&mut outbox, 1_500), Some(490));
        assert!(outbox.behind(region(2), NOON + 1_500).is_some_and(|behind| behind.bytes >= 10));
        // It goes silent.
        assert_eq!(lag(&mut outbox, 1_000 + SILENCE_MS), None);
        assert_eq!(outbox.behind(region(2), NOON + 1_000 + SILENCE_MS), None);
        ask(&mut outbox, 1, 20_000);
        assert_eq!(lag(&mut outbox, 20_000), None, "a returning peer is not waited for");
    }

    #[test]
    fn network_transit_time_is_not_counted_as_lag() {
        let mut outbox = outbox();
        push(&mut outbox, 0);
        ask(&mut outbox, 1, 0);
        ask(&mut outbox, 1, 200);
        ask(&mut outbox, 1, 450);
        push(&mut outbox, 450);
        assert_eq!(outbox.lag_ms(100, NOON + 500), Some(0));
        assert_eq!(outbox.lag_ms(100, NOON + 1_000), Some(150));
    }

    #[test]
    fn more_is_kept_for_a_peer_that_takes_a_copy() {
        let mut outbox = Outbox::default();
        let push_many = |outbox: &mut Outbox, from, to| (from..to).for_each(|ms| push(outbox, ms));
        let trim = |outbox: &mut Outbox, ms| {
            let late = outbox.trim(1_000, NOON + ms);
            (late, outbox.backlog.begin())
        };
        push_many(&mut outbox, 0, 100);
        let (late, begin) = trim(&mut outbox, 100);
        assert!(late.is_empty() && begin > 50, "no peer is present: {begin}");
        // It is not yet a member and has no data.
        let request = PullRequest {
            applied: Vector::default(),
            position: 0,
            cursor: None,
            bytes_max: 1 << 20,
            region: region(2),
        };
        outbox.note_pull_request(&request, NOON + 100);
        assert!(matches!(outbox.share(&request), Some(Share::Copy)));
        outbox.note_copy(region(2), NOON + 100);
        assert_eq!(outbox.lag_ms(20, NOON + 101), None, "no client waits for a peer that takes a copy");
        push_many(&mut outbox, 100, 200);
        assert_eq!(trim(&mut outbox, 9_000), (Vec::new(), 100));
        // It has merged the copy and continues from there.
        let request = PullRequest {
            applied: {
                let mut applied = Vector::default();
                let last = Stamp::at((NOON + 99) as u64, region(1));
                applied.add(Run { start: Stamp::start(region(1)), last });
                applied
            },
            position: 0,
            cursor: None,
            bytes_max: 1 << 20,
            region: region(2),
        };
        outbox.note_pull_request(&request, NOON + 9_000);
        assert!(matches!(outbox.share(&request), Some(Share::Units(units, _)) if units.len() == 100));
        assert_eq!(trim(&mut outbox, 9_001), (Vec::new(), 100));
        // There is a limit.
        push_many(&mut outbox, 200, 600);
        let (late, begin) = trim(&mut outbox, 9_002);
        assert!(late == [region(2)] && begin > 200, "{late:?} {begin}");
        // It has left.
        let (late, after) = trim(&mut outbox, 9_000 + SILENCE_MS);
        assert!(late.is_empty() && after > begin);
    }

    /// Such a peer holds no memory and delays no client, however recent the units in memory are.
    #[test]
    fn a_peer_that_is_sent_units_from_disk_is_on_its_way_back() {
        let mut outbox = outbox();
        outbox.disk.is_wanted = true;
        outbox.disk.logs.push(0, Vector::default());
        (0..100).for_each(|ms| push(&mut outbox, ms));
        outbox.disk.logs.set_len(5_000);
        assert!(outbox.trim(1_000, NOON + 100).is_empty());
        let mut request = PullRequest {
            applied: Vector::default(),
            position: 0,
            cursor: None,
            bytes_max: 1 << 20,
            region: region(2),
        };
        let begin = Cursor { number: 0, offset: 0 };
        outbox.note_pull_request(&request, NOON + 100);
        assert!(matches!(outbox.share(&request), Some(Share::Disk(from)) if from == begin));
        assert_eq!(outbox.behind(region(2), NOON + 100).map(|behind| behind.bytes), Some(5_000));
        (100..200).for_each(|ms| push(&mut outbox, ms));
        assert!(outbox.trim(1_000, NOON + 200).is_empty());
        assert!(outbox.backlog.begin() > 150, "more units are kept for the peer");
        assert_eq!(outbox.lag_ms(1_000, NOON + 200), None);
        // It continues and reaches the units in memory.
        request.cursor = Some(Cursor { number: 0, offset: 3_000 });
        assert!(matches!(outbox.share(&request), Some(Share::Disk(from)) if Some(from) == request.cursor));
        let last = Stamp::at((NOON + 190) as u64, region(1));
        request.applied.add(Run { start: Stamp::start(region(1)), last });
        outbox.note_pull_request(&request, NOON + 201);
        assert!(matches!(outbox.share(&request), Some(Share::Units(units, _)) if units.len() == 9));
        assert_eq!(outbox.lag_ms(1_000, NOON + 201), Some(10));
        // The disk backlog is off.
        outbox.disk.is_wanted = false;
        request.applied = Vector::default();
        assert!(matches!(outbox.share(&request), Some(Share::Copy)));
    }

    struct Nobody;

    impl Answers for Nobody {
        fn is_wanted(&self) -> bool {
            true
        }

        fn buffer(&self) -> ReplyBuffer {
            ReplyBuffer::new(braid_resp::reply::Protocol::default())
        }

        fn give(self: Box<Self>, _: ReplyBuffer) {}
    }

    /// Adds a unit of a region's run that started at the given position.
    fn push_of(outbox: &mut Outbox, number: u8, start: u64, position: u64) {
        let stamp = |position| Stamp::of(region(number), position).expect("a place");
        let run = Run { start: stamp(start), last: stamp(position) };
        outbox.backlog.push_of(stamp(position), run, b"0123456789");
        outbox.applied.add(run);
    }

    #[test]
    fn waiting_peer_is_sent_only_local_units() {
        let mut outbox = outbox();
        push_of(&mut outbox, 2, 50, 51);
        let answered = |outbox: &mut Outbox, units: &[(u8, u64, u64)]| {
            let (applied, position) = (outbox.applied.clone(), outbox.backlog.end());
            let request =
                PullRequest { applied, position, cursor: None, bytes_max: 1 << 20, region: region(2) };
            outbox.wait(request, Box::new(Nobody), i64::MAX);
            units.iter().for_each(|(number, start, at)| push_of(outbox, *number, *start, *at));
            let ripe = outbox.ripe(NOON, Some(region(1)));
            outbox.waiting.clear();
            ripe.first().map(|ripe| ripe.sent)
        };
        assert_eq!(answered(&mut outbox, &[(1, 0, 1), (1, 0, 2)]), Some((2, 20)));
        // Its own unit is no news and is not sent.
        assert_eq!(answered(&mut outbox, &[(2, 50, 52)]), None);
        assert_eq!(answered(&mut outbox, &[(2, 50, 53), (1, 0, 3)]), Some((1, 10)));
        // For other regions' units it asks again; and it may have lost its own units from before
        // a crash.
        assert_eq!(answered(&mut outbox, &[(1, 0, 4), (3, 0, 1)]), Some((0, 0)));
        assert_eq!(answered(&mut outbox, &[(2, 0, 1)]), Some((0, 0)));
    }
}
