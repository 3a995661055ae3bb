// SPDX-License-Identifier: BSD-3-Clause
//! What peers may take: the backlog of units in the order in which they were applied here, and the
//! peers that wait for more.
//!
//! A unit comes in once it is in the log on disk, where peers may take it from when the backlog has
//! dropped it. Peers tell what they have applied, so nothing is kept of a peer beyond a position
//! that saves it from looking through the backlog each time. For one that is here, or takes a full
//! copy, more units are kept than for those that are away, so that it does not need another copy as
//! soon as it has merged that one.

use std::collections::BTreeMap;

use braid_active::backlog::Backlog;
use braid_active::logs::Cursor;
use braid_active::{Region, Stamp, Vector};

use super::codec::{members_text, table_text, vector_text};
use super::disk_backlog::DiskBacklog;
use super::question::Question;
use braid_resp::reply::ReplyBuffer;

/// The right to answer a peer that waits.
pub(crate) trait Answers: Send {
    /// False if the peer has gone.
    fn is_wanted(&self) -> bool;
    /// A reply in the peer's protocol.
    fn buffer(&self) -> ReplyBuffer;
    fn give(self: Box<Self>, reply: ReplyBuffer);
}

/// A peer that waits for something new.
struct Waiting {
    question: Question,
    answer: Box<dyn Answers>,
    until_ms: i64,
}

/// How far a peer has got that asks here.
#[derive(Clone, Copy, Debug)]
struct Taker {
    /// It has applied everything before.
    position: u64,
    heard_ms: i64,
    /// It has kept up since it was away last.
    is_current: bool,
    /// Until when it may be silent, as it takes a full copy.
    copies_until_ms: i64,
    answered_ms: Option<i64>,
    line: Line,
    /// It is sent what is on disk, from there on; everything that is in memory comes after that.
    reads_disk: Option<Cursor>,
}

impl Taker {
    /// It asks all the time.
    fn asks(&self, now_ms: i64) -> bool {
        now_ms - self.heard_ms < SILENCE_MS
    }

    fn takes_copy(&self, now_ms: i64) -> bool {
        now_ms < self.copies_until_ms
    }

    /// It will go on from its position in memory.
    fn is_here(&self, now_ms: i64) -> bool {
        self.reads_disk.is_none() && (self.asks(now_ms) || self.takes_copy(now_ms))
    }
}

/// How long an answer and the next question take at least: the line's part of a peer's lag, which
/// nothing that is done here makes shorter. The least of the present stretch of time and of the
/// last.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    since_ms: i64,
    now: Option<u64>,
    last: Option<u64>,
}

/// Such a stretch, in ms.
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

/// How far a peer is behind this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Behind {
    /// Age of the oldest unit that it may lack, in ms; of those in memory if it is sent older ones
    /// from disk.
    pub ms: u64,
    /// Bytes that it may lack, about.
    pub bytes: u64,
}

/// How long a peer may take for a full copy, in ms.
const COPY_MS: i64 = 600_000;
/// So many times the bytes that are kept for those that are away are kept for a peer that is here.
const KEPT_FOR_TAKERS: usize = 8;

/// Milliseconds of silence after which a peer is away. One that has nothing to apply asks each
/// second.
const SILENCE_MS: i64 = 5000;

/// See the module.
#[derive(Default)]
pub(crate) struct Outbox {
    pub backlog: Backlog,
    pub disk: DiskBacklog,
    /// Everything that was applied and is in the log.
    pub applied: Vector,
    /// What regions have on disk, as far as it was heard of; this server's own as well.
    pub on_disk: BTreeMap<Region, Vector>,
    /// Regions and identities, for peers.
    pub members: BTreeMap<u8, String>,
    waiting: Vec<Waiting>,
    takers: BTreeMap<Region, Taker>,
}

/// What a peer is sent.
pub(super) enum Share<'o> {
    /// Units, and where the peer goes on.
    Units(Vec<&'o [u8]>, u64),
    /// Units that are to be read from disk first.
    Disk(Cursor),
    /// Neither backlog reaches back so far.
    Copy,
}

impl Share<'_> {
    /// How many units are sent, and their bytes.
    pub(super) fn sent(&self) -> (u64, u64) {
        match self {
            Share::Units(units, _) => (units.len() as u64, units.iter().map(|unit| unit.len() as u64).sum()),
            Share::Disk(_) | Share::Copy => (0, 0),
        }
    }
}

/// An answer to a peer that has waited.
pub(super) struct Ripe {
    pub answer: Box<dyn Answers>,
    pub reply: ReplyBuffer,
    /// Units in it, and their bytes.
    pub sent: (u64, u64),
}

impl Outbox {
    /// What a peer lacks; `None` if that is nothing.
    pub(super) fn share(&self, question: &Question) -> Option<Share<'_>> {
        self.share_of(question, |_| true)
    }

    /// The same of units whose first stamps are asked for.
    fn share_of(&self, question: &Question, is_wanted: impl Fn(Stamp) -> bool) -> Option<Share<'_>> {
        let Some(units) = self.backlog.since_position(&question.applied, question.position) else {
            return Some(self.disk.place_for(question).map_or(Share::Copy, Share::Disk));
        };
        let (mut some, mut bytes, mut position) = (Vec::new(), 0, self.backlog.end());
        for (at, unit, _) in units.filter(|(.., first)| is_wanted(*first)) {
            if !some.is_empty() && bytes + unit.len() > question.bytes_max {
                position = at;
                break;
            }
            bytes += unit.len();
            some.push(unit);
        }
        (!some.is_empty()).then_some(Share::Units(some, position))
    }

    /// Writes the answer to a peer: how it goes on, what regions have on disk, who they are, what
    /// this server has applied, and the units. Without any it goes on where it was.
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

    /// Has a peer wait until there is something for it, or until a time.
    pub(super) fn wait(&mut self, question: Question, answer: Box<dyn Answers>, until_ms: i64) {
        self.waiting.push(Waiting { question, answer, until_ms });
    }

    /// Whether there is something for a peer that it has not made itself.
    fn has_news(&self, question: &Question) -> bool {
        let units = self.backlog.since_position(&question.applied, question.position);
        units.is_none_or(|mut units| units.any(|(.., first)| !question.is_of_asker(first)))
    }

    /// A peer asks: how far it has got. Without a position it says so by what it has applied.
    pub(super) fn note_taker(&mut self, question: &Question, now_ms: i64) {
        let lacking = self.backlog.since_position(&question.applied, question.position);
        let reads_disk = if lacking.is_none() { self.disk.place_for(question) } else { None };
        let position = match question.position {
            _ if reads_disk.is_some() => self.backlog.begin(),
            0 => {
                let first = lacking.into_iter().flatten().next();
                first.map_or(self.backlog.end(), |(position, ..)| position)
            }
            position => position,
        };
        let known = self.takers.get(&question.region).filter(|taker| taker.asks(now_ms));
        let mut line = known.map_or_else(Line::default, |taker| taker.line);
        if let Some(answered_ms) = known.and_then(|taker| taker.answered_ms) {
            line.note((now_ms - answered_ms).max(0) as u64, now_ms);
        }
        let is_current = reads_disk.is_none() && known.is_some_and(|taker| taker.is_current);
        let taker = Taker {
            position,
            heard_ms: now_ms,
            is_current,
            copies_until_ms: 0,
            answered_ms: None,
            line,
            reads_disk,
        };
        self.takers.insert(question.region, taker);
    }

    /// A peer has been answered.
    pub(super) fn note_answer(&mut self, region: Region, now_ms: i64) {
        if let Some(taker) = self.takers.get_mut(&region) {
            taker.answered_ms = Some(now_ms);
        }
    }

    /// A peer is told to take a full copy, which will have all that there is now.
    pub(super) fn note_copy(&mut self, region: Region, now_ms: i64) {
        let end = self.backlog.end();
        if let Some(taker) = self.takers.get_mut(&region) {
            (taker.position, taker.copies_until_ms, taker.reads_disk) = (end, now_ms + COPY_MS, None);
            // It has to catch up then, for which nobody waits.
            taker.is_current = false;
        }
    }

    /// Drops old units so that the rest takes no more than so many bytes; more of them while peers
    /// that are here need them. The regions of such peers that will need a full copy all the same,
    /// if there is no backlog on disk.
    pub(super) fn trim(&mut self, bytes_max: usize, now_ms: i64) -> Vec<Region> {
        let begin = self.backlog.begin();
        let here = self.takers.values().filter(|taker| taker.is_here(now_ms));
        let needed = here.map(|taker| taker.position).filter(|position| *position >= begin).min();
        self.backlog.trim_before(needed.unwrap_or(u64::MAX), bytes_max);
        self.backlog.trim(bytes_max.saturating_mul(KEPT_FOR_TAKERS));
        let new_begin = self.backlog.begin();
        let lost = |taker: &Taker| {
            !self.disk.is_wanted && taker.is_here(now_ms) && (begin..new_begin).contains(&taker.position)
        };
        self.takers.iter().filter(|(_, taker)| lost(taker)).map(|(region, _)| *region).collect()
    }

    /// How far a peer is behind, unless it is away or has never asked.
    pub(crate) fn behind(&self, region: Region, now_ms: i64) -> Option<Behind> {
        let taker = self.takers.get(&region).filter(|taker| taker.asks(now_ms))?;
        Some(self.behind_of(taker, now_ms))
    }

    fn behind_of(&self, taker: &Taker, now_ms: i64) -> Behind {
        let made_ms = self.backlog.made_ms(taker.position);
        Behind {
            ms: made_ms.map_or(0, |made_ms| (now_ms as u64).saturating_sub(made_ms)),
            bytes: match taker.reads_disk {
                Some(cursor) => self.disk.logs.bytes_from(cursor),
                None => self.backlog.bytes_since(taker.position) as u64,
            },
        }
    }

    /// How many ms the peer is behind that is so most, beyond what its line takes, of those that
    /// are here and have kept up with the bound so far: who comes back is not waited for until it
    /// has caught up.
    pub(super) fn lag_ms(&mut self, bound_ms: u64, now_ms: i64) -> Option<u64> {
        let mut takers = std::mem::take(&mut self.takers);
        // One that takes its first copy is a member soon.
        takers
            .retain(|region, taker| self.members.contains_key(&region.number()) || taker.takes_copy(now_ms));
        let follows = |taker: &Taker| !taker.takes_copy(now_ms) && taker.reads_disk.is_none();
        let here = takers.values_mut().filter(|taker| taker.asks(now_ms) && follows(taker));
        let lags = here.filter_map(|taker| {
            // A unit waits for up to two turns of the line: an answer that there is something may
            // have none with it, and that it has arrived is said by the question after.
            let ms = self.behind_of(taker, now_ms).ms.saturating_sub(2 * taker.line.ms());
            taker.is_current |= ms <= bound_ms;
            taker.is_current.then_some(ms)
        });
        let most = lags.max();
        self.takers = takers;
        most
    }

    /// What a peer that waits lacks, if all of it was made here (`me`). What others made it may
    /// have got from them since it has asked.
    fn own_share(&self, question: &Question, me: Option<Region>) -> Option<Share<'_>> {
        let is_wanted = |first: Stamp| !question.is_of_asker(first);
        let mut units = self.backlog.since_position(&question.applied, question.position)?;
        let is_all_own = units.all(|(.., first)| Some(first.region()) == me || !is_wanted(first));
        if is_all_own { self.share_of(question, is_wanted) } else { None }
    }

    /// Answers to peers for which there is something, or whose time has come; to be given without
    /// the outbox's lock. They have what was made here. For what others made a peer asks again at
    /// once, and says what it has by then.
    pub(super) fn ripe(&mut self, now_ms: i64, me: Option<Region>) -> Vec<Ripe> {
        let mut ripe = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            let waiting = &self.waiting[index];
            let is_wanted = waiting.answer.is_wanted();
            if is_wanted && now_ms < waiting.until_ms && !self.has_news(&waiting.question) {
                // What there is, is known to it: not to be looked through again.
                let end = self.backlog.end();
                let question = &mut self.waiting[index].question;
                question.position = end;
                if let Some(taker) = self.takers.get_mut(&question.region) {
                    taker.position = end;
                }
                index += 1;
                continue;
            }
            let Waiting { answer, question, .. } = self.waiting.swap_remove(index);
            if !is_wanted {
                continue;
            }
            self.note_answer(question.region, now_ms);
            let mut reply = answer.buffer();
            let share = self.own_share(&question, me);
            let sent = share.as_ref().map_or((0, 0), Share::sent);
            self.reply(share.as_ref(), question.position, &mut reply);
            ripe.push(Ripe { answer, reply, sent });
        }
        ripe
    }

    /// Takes note of what regions say they have on disk. True if that is news.
    pub(super) fn note_on_disk(&mut self, table: &BTreeMap<Region, Vector>, me: Option<Region>) -> bool {
        let mut is_news = false;
        for (region, vector) in table {
            if Some(*region) == me {
                continue;
            }
            let known = self.on_disk.entry(*region).or_default();
            if !known.includes(vector) {
                known.join(vector);
                is_news = true;
            }
        }
        is_news
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

    /// A unit of region 1, made at a time.
    fn push(outbox: &mut Outbox, ms: i64) {
        let stamp = Stamp::at((NOON + ms) as u64, region(1));
        let run = Run { start: Stamp::start(region(1)), last: stamp };
        outbox.backlog.push_of(stamp, run, b"0123456789");
        outbox.applied.add(run);
    }

    fn ask(outbox: &mut Outbox, position: u64, ms: i64) {
        let applied = if position == 0 { Vector::default() } else { outbox.applied.clone() };
        let question = Question { applied, position, cursor: None, bytes_max: 1 << 20, region: region(2) };
        outbox.note_taker(&question, NOON + ms);
        outbox.note_answer(region(2), NOON + ms);
    }

    fn outbox() -> Outbox {
        Outbox { members: BTreeMap::from([(2, String::new())]), ..Outbox::default() }
    }

    #[test]
    fn a_peer_that_falls_behind_is_told_from_one_that_comes_back() {
        let mut outbox = outbox();
        let lag = |outbox: &mut Outbox, ms| outbox.lag_ms(100, NOON + ms);
        assert_eq!(lag(&mut outbox, 0), None, "nobody asks");
        push(&mut outbox, 0);
        // It comes back, and is far behind: no client waits for it.
        ask(&mut outbox, 0, 1_000);
        assert_eq!(lag(&mut outbox, 1_000), None);
        assert_eq!(outbox.behind(region(2), NOON + 1_000).map(|behind| behind.ms), Some(1_000));
        // It has caught up, and falls behind again.
        ask(&mut outbox, 1, 1_000);
        assert_eq!(lag(&mut outbox, 1_010), Some(0));
        push(&mut outbox, 1_010);
        assert_eq!(lag(&mut outbox, 1_500), Some(490));
        assert!(outbox.behind(region(2), NOON + 1_500).is_some_and(|behind| behind.bytes >= 10));
        // It says nothing any more.
        assert_eq!(lag(&mut outbox, 1_000 + SILENCE_MS), None);
        assert_eq!(outbox.behind(region(2), NOON + 1_000 + SILENCE_MS), None);
        ask(&mut outbox, 1, 20_000);
        assert_eq!(lag(&mut outbox, 20_000), None, "it comes back");
    }

    #[test]
    fn what_the_line_takes_is_no_lag() {
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
        assert!(late.is_empty() && begin > 50, "nobody is here: {begin}");
        // It is no member yet, and has nothing.
        let question = Question {
            applied: Vector::default(),
            position: 0,
            cursor: None,
            bytes_max: 1 << 20,
            region: region(2),
        };
        outbox.note_taker(&question, NOON + 100);
        assert!(matches!(outbox.share(&question), Some(Share::Copy)));
        outbox.note_copy(region(2), NOON + 100);
        assert_eq!(outbox.lag_ms(20, NOON + 101), None, "nobody waits for it");
        push_many(&mut outbox, 100, 200);
        assert_eq!(trim(&mut outbox, 9_000), (Vec::new(), 100));
        // It has merged the copy, and goes on from there.
        let question = Question {
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
        outbox.note_taker(&question, NOON + 9_000);
        assert!(matches!(outbox.share(&question), Some(Share::Units(units, _)) if units.len() == 100));
        assert_eq!(trim(&mut outbox, 9_001), (Vec::new(), 100));
        // Not without an end.
        push_many(&mut outbox, 200, 600);
        let (late, begin) = trim(&mut outbox, 9_002);
        assert!(late == [region(2)] && begin > 200, "{late:?} {begin}");
        // It has gone.
        let (late, after) = trim(&mut outbox, 9_000 + SILENCE_MS);
        assert!(late.is_empty() && after > begin);
    }

    /// Memory is not kept for it, and no client waits for it, however young what is in memory is.
    #[test]
    fn a_peer_that_is_sent_units_from_disk_is_on_its_way_back() {
        let mut outbox = outbox();
        outbox.disk.is_wanted = true;
        outbox.disk.logs.push(0, Vector::default());
        (0..100).for_each(|ms| push(&mut outbox, ms));
        outbox.disk.logs.set_len(5_000);
        assert!(outbox.trim(1_000, NOON + 100).is_empty());
        let mut question = Question {
            applied: Vector::default(),
            position: 0,
            cursor: None,
            bytes_max: 1 << 20,
            region: region(2),
        };
        let begin = Cursor { number: 0, offset: 0 };
        outbox.note_taker(&question, NOON + 100);
        assert!(matches!(outbox.share(&question), Some(Share::Disk(from)) if from == begin));
        assert_eq!(outbox.behind(region(2), NOON + 100).map(|behind| behind.bytes), Some(5_000));
        (100..200).for_each(|ms| push(&mut outbox, ms));
        assert!(outbox.trim(1_000, NOON + 200).is_empty());
        assert!(outbox.backlog.begin() > 150, "more is kept for it");
        assert_eq!(outbox.lag_ms(1_000, NOON + 200), None);
        // It goes on, and comes to what is in memory.
        question.cursor = Some(Cursor { number: 0, offset: 3_000 });
        assert!(matches!(outbox.share(&question), Some(Share::Disk(from)) if Some(from) == question.cursor));
        let last = Stamp::at((NOON + 190) as u64, region(1));
        question.applied.add(Run { start: Stamp::start(region(1)), last });
        outbox.note_taker(&question, NOON + 201);
        assert!(matches!(outbox.share(&question), Some(Share::Units(units, _)) if units.len() == 9));
        assert_eq!(outbox.lag_ms(1_000, NOON + 201), Some(10));
        // There is no log any more.
        outbox.disk.is_wanted = false;
        question.applied = Vector::default();
        assert!(matches!(outbox.share(&question), Some(Share::Copy)));
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

    /// A unit of a region's run that started at a position.
    fn push_of(outbox: &mut Outbox, number: u8, start: u64, position: u64) {
        let stamp = |position| Stamp::of(region(number), position).expect("a place");
        let run = Run { start: stamp(start), last: stamp(position) };
        outbox.backlog.push_of(stamp(position), run, b"0123456789");
        outbox.applied.add(run);
    }

    #[test]
    fn a_peer_that_waits_is_given_what_was_made_here() {
        let mut outbox = outbox();
        push_of(&mut outbox, 2, 50, 51);
        let answered = |outbox: &mut Outbox, units: &[(u8, u64, u64)]| {
            let (applied, position) = (outbox.applied.clone(), outbox.backlog.end());
            let question =
                Question { applied, position, cursor: None, bytes_max: 1 << 20, region: region(2) };
            outbox.wait(question, Box::new(Nobody), i64::MAX);
            units.iter().for_each(|(number, start, at)| push_of(outbox, *number, *start, *at));
            let ripe = outbox.ripe(NOON, Some(region(1)));
            outbox.waiting.clear();
            ripe.first().map(|ripe| ripe.sent)
        };
        assert_eq!(answered(&mut outbox, &[(1, 0, 1), (1, 0, 2)]), Some((2, 20)));
        // Its own is nothing new, and not sent.
        assert_eq!(answered(&mut outbox, &[(2, 50, 52)]), None);
        assert_eq!(answered(&mut outbox, &[(2, 50, 53), (1, 0, 3)]), Some((1, 10)));
        // For what others made it asks again; and it may have lost what it made before a crash.
        assert_eq!(answered(&mut outbox, &[(1, 0, 4), (3, 0, 1)]), Some((0, 0)));
        assert_eq!(answered(&mut outbox, &[(2, 0, 1)]), Some((0, 0)));
    }
}
