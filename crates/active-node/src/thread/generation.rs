// SPDX-License-Identifier: BSD-3-Clause
//! New generations of the files, full copies for peers, digests, and garbage collection: work
//! over all keys that may take long. It is done in pieces, with other work of the thread in
//! between.
//!
//! A generation begins with a new log. The state of that moment is saved while changes continue
//! ([`braid_active::saved`]), and another thread writes it, since files can be slow. Once it is
//! complete the manifest names it. If it is not completed, the logs simply follow each other.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use braid_active::saved::{Digester, Digesting, PIECE, Piece, Saver};
use braid_persistence::active::{ObsoleteFiles, StateFile};

use super::Thread;
use crate::codec::vector_text;
use crate::copies::{Copy, CopyRequest};
use crate::files::write_state;
use crate::outbox::Answers;

/// A new generation begins when the log is as large as the state and at least this large; another
/// log begins when one reaches this size.
const LOG_MIN: u64 = 64 << 20;
/// Delay after a generation that was not completed.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the thread works on pieces before it turns to other work.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Maximum number of pieces waiting to be written.
const WAITING: usize = 8;

/// A message to the thread that writes a state.
enum Part {
    More(Vec<u8>),
    Last(Vec<u8>),
    /// The generation is in effect: these files may be removed.
    Counts(ObsoleteFiles),
}

/// A generation in progress.
struct Generation {
    number: u64,
    parts: SyncSender<Part>,
    /// The next part, if the channel was full.
    ready: Option<Part>,
    outcome: Receiver<io::Result<u64>>,
}

enum Target {
    Files(Generation),
    Copy(Copy),
    /// `logged`: the number of the last chunk of units that the digest covers. They are in the log
    /// when it is sent.
    Digest {
        answers: Vec<Box<dyn Answers>>,
        digester: Digester,
        logged: u64,
    },
}

/// Incremental work in progress. `saver` is `None` once it has produced its last piece.
pub(super) struct Saving {
    saver: Option<Saver>,
    target: Target,
}

pub(super) fn told(error: &io::Error) -> String {
    format!("the state cannot be written: {error}")
}

/// Writes the parts it receives; runs on a thread of its own.
fn write_parts(mut file: StateFile, parts: &Receiver<Part>, outcome: &SyncSender<io::Result<u64>>) {
    let result = loop {
        let (bytes, is_last) = match parts.recv() {
            Ok(Part::More(bytes)) => (bytes, false),
            Ok(Part::Last(bytes)) => (bytes, true),
            // The generation was abandoned.
            Ok(Part::Counts(_)) | Err(_) => return file.remove(),
        };
        match file.write(&bytes) {
            Ok(()) if is_last => break file.finish(),
            Ok(()) => {}
            Err(error) => {
                file.remove();
                break Err(error);
            }
        }
    };
    let _ = outcome.send(result);
    while let Ok(part) = parts.recv() {
        if let Part::Counts(former) = part {
            former.remove();
        }
    }
}

impl Thread<'_> {
    /// True if there is incremental work.
    pub(super) fn has_pieces(&self) -> bool {
        let is_wanted = !self.copies_wanted.is_empty() || !self.digests_wanted.is_empty();
        self.has_garbage || self.saving.is_some() || is_wanted
    }

    /// Continues incremental work for a while. True if more can be done immediately.
    pub(super) fn work_in_pieces(&mut self) -> bool {
        if self.has_garbage {
            self.has_garbage = self.replica.collect_more_garbage();
        }
        if self.saving.is_none() && !self.copies_wanted.is_empty() {
            self.saving = self.copies_wanted.pop_front().map(|request| Saving {
                saver: Some(Saver::begin(&mut self.replica)),
                target: Target::Copy(Copy::begin(request, self.disk.queued())),
            });
        }
        if self.saving.is_none() && !self.digests_wanted.is_empty() {
            let answers = std::mem::take(&mut self.digests_wanted);
            let (digester, logged) = (Digester::begin(&mut self.replica), self.disk.queued());
            let target = Target::Digest { answers, digester, logged };
            self.saving = Some(Saving { saver: None, target });
        }
        let start = Instant::now();
        while let Some(mut saving) = self.saving.take() {
            let has_moved = match &mut saving.target {
                Target::Files(generation) => self.write_on(&mut saving.saver, generation),
                Target::Copy(copy) => self.copy_on(&mut saving.saver, copy),
                Target::Digest { digester, answers, logged } if self.disk.has_written(*logged) => {
                    self.digest_on(digester, answers)
                }
                Target::Digest { .. } => Some(false),
            };
            match (has_moved, saving) {
                (Some(has_moved), saving) => {
                    self.saving = Some(saving);
                    if !has_moved || start.elapsed() >= AT_ONCE {
                        return has_moved || self.has_garbage;
                    }
                }
                (None, Saving { target: Target::Copy(copy), saver: Some(_) }) => {
                    self.end_copy(copy);
                    return true;
                }
                (None, Saving { target: Target::Digest { answers, .. }, .. }) if !answers.is_empty() => {
                    self.digests_wanted.extend(answers);
                    return true;
                }
                (None, _) => {}
            }
        }
        self.has_pieces()
    }

    /// Continues a digest. `None` if it was completed and sent, or has failed.
    fn digest_on(&mut self, digester: &Digester, answers: &mut Vec<Box<dyn Answers>>) -> Option<bool> {
        match digester.go_on(&mut self.replica, PIECE) {
            Digesting::More => Some(true),
            Digesting::Lost => None,
            Digesting::Done(digest) => {
                let digest = digest.wrapping_add(self.unmergeable_digest());
                for answer in answers.drain(..) {
                    let mut reply = answer.buffer();
                    reply.bulk(format!("{digest:016x}").as_bytes());
                    answer.give(reply);
                }
                None
            }
        }
    }

    /// Produces a piece of a full copy; `Some(false)` if the peer must take earlier pieces first.
    /// `None` if the copy is complete or has failed; after a failure `saver` is still set.
    fn copy_on(&mut self, saver: &mut Option<Saver>, copy: &mut Copy) -> Option<bool> {
        if copy.is_given_up(|client| self.engine.clients.registry.get(client).is_some()) {
            return None;
        }
        let Some(one) = saver.as_mut().filter(|_| !copy.is_full()) else {
            // A peer gets nothing that is not in the log.
            let is_sent = self.disk.has_written(copy.logged()) && copy.send(saver.is_none());
            return if is_sent && saver.is_none() { None } else { Some(is_sent) };
        };
        match one.piece(&mut self.replica, PIECE) {
            Piece::More(bytes) => copy.push(bytes),
            Piece::Last(bytes) => {
                copy.push(bytes);
                *saver = None;
            }
            Piece::Lost => return None,
        }
        Some(true)
    }

    pub(super) fn continue_copy(&mut self, request: CopyRequest) {
        match &mut self.saving {
            Some(Saving { target: Target::Copy(copy), .. }) => copy.go_on(request),
            _ => request.refuse(),
        }
    }

    /// Ends a copy that has failed or that the peer has given up.
    fn end_copy(&mut self, copy: Copy) {
        self.replica.stop_saving();
        self.copies_wanted.extend(copy.end());
    }

    /// Passes a piece to the writing thread; `Some(false)` if that is still busy. `None` if the
    /// generation is in effect or has failed.
    fn write_on(&mut self, saver: &mut Option<Saver>, generation: &mut Generation) -> Option<bool> {
        if let Ok(outcome) = generation.outcome.try_recv() {
            self.replica.stop_saving();
            if let Err(error) = &outcome {
                self.makes_room(error);
            }
            let counted = outcome.map_err(|error| told(&error)).and_then(|bytes| {
                let former = self.count(generation.number, bytes, false)?;
                let _ = generation.parts.send(Part::Counts(former));
                Ok(())
            });
            match counted {
                Ok(()) => self.last_attempt = None,
                Err(error) => self.active.note_error(error),
            }
            return None;
        }
        let part = match (generation.ready.take(), &mut *saver) {
            (Some(part), _) => part,
            (None, None) => return Some(false),
            (None, Some(one)) => match one.piece(&mut self.replica, PIECE) {
                Piece::More(bytes) => Part::More(bytes),
                Piece::Last(bytes) => {
                    *saver = None;
                    Part::Last(bytes)
                }
                Piece::Lost => return None,
            },
        };
        match generation.parts.try_send(part) {
            Ok(()) => Some(true),
            Err(TrySendError::Full(part) | TrySendError::Disconnected(part)) => {
                generation.ready = Some(part);
                Some(false)
            }
        }
    }

    /// Begins a generation if the log has become long, or may be incomplete on disk.
    pub(super) fn begin_generation_in_time(&mut self) {
        let is_long = self.files.log_bytes() > LOG_MIN.max(self.state_bytes);
        let is_doubtful = self.files.is_doubtful();
        let may_begin = self.last_attempt.is_none_or(|at| at.elapsed() >= AGAIN);
        if !may_begin || self.replica.is_merging() || !is_long && !is_doubtful {
            return;
        }
        if is_doubtful && !matches!(&self.saving, Some(Saving { target: Target::Files(_), .. })) {
            // More important than a copy or a digest.
            self.stop_saving();
        }
        if self.saving.is_none() {
            self.last_attempt = Some(Instant::now());
            if let Err(error) = self.begin_generation() {
                self.active.note_error(error);
            }
        }
    }

    /// Begins the files of a generation, after everything has been written to the log.
    fn begin_files(&mut self) -> Result<(u64, StateFile), String> {
        self.bring_to_log()?;
        let (number, file) = self.files.begin().map_err(|error| told(&error))?;
        self.note_log(number);
        Ok((number, file))
    }

    /// Registers a new log, which begins after everything applied so far and the copy that is being
    /// merged.
    pub(super) fn note_log(&mut self, number: u64) {
        self.active.outbox.lock().disk.logs.push(number, self.replica.vector_with_copy().clone());
    }

    fn drop_logs(&mut self, first_kept: u64) -> ObsoleteFiles {
        self.active.outbox.lock().disk.logs.drop_before(first_kept);
        self.name_kept_logs(first_kept, self.manifest.generation);
        self.files.drop_logs(first_kept)
    }

    /// After a write error: if the disk is full, removes logs kept for peers. False if there are
    /// none, or the error is another one.
    pub(super) fn makes_room(&mut self, error: &io::Error) -> bool {
        if error.kind() != io::ErrorKind::StorageFull {
            return false;
        }
        let former = self.drop_logs(self.manifest.generation);
        if former.is_empty() {
            return false;
        }
        // The manifest names them until it is next written, which does no harm.
        former.remove();
        log::warn!("Active-active: the disk is full: logs kept for peers were removed");
        true
    }

    /// Removes what can be removed from a full disk, for the log that cannot be written.
    pub(super) fn make_room_for_log(&mut self) {
        self.makes_room(&io::ErrorKind::StorageFull.into());
        self.disk.note_room();
    }

    /// Begins another log when the current one has become long, so that logs kept for peers can
    /// be removed one by one.
    pub(super) fn begin_log_in_time(&mut self) {
        let is_long = self.files.log_len() >= LOG_MIN;
        if !is_long || self.files.is_doubtful() || self.bring_to_log().is_err() {
            return;
        }
        match self.files.begin_next() {
            Ok(number) => self.note_log(number),
            Err(error) => self.active.note_error(format!("the next log cannot be created: {error}")),
        }
    }

    /// The first log that is kept for peers: the generation's own if no earlier one is.
    fn first_kept(&self, generation: u64) -> u64 {
        let most = self.engine.config.active_backlog_disk_size();
        let kept = self.files.first_kept(generation, most);
        let first = self.active.outbox.lock().disk.logs.iter().next().map(|log| log.number);
        kept.max(first.unwrap_or(generation)).min(generation)
    }

    /// Records the logs from `first` up to the generation's as kept for peers.
    fn name_kept_logs(&mut self, first: u64, generation: u64) {
        let outbox = self.active.outbox.lock();
        let kept = outbox.disk.logs.iter().filter(|log| (first..generation).contains(&log.number));
        self.manifest.kept_logs = kept.map(|log| (log.number, vector_text(&log.begin))).collect();
    }

    /// Applies the configured limit to the kept logs.
    pub(super) fn bound_kept_logs(&mut self) {
        let first = self.first_kept(self.manifest.generation);
        {
            let disk = &mut self.active.outbox.lock().disk;
            disk.is_wanted = self.engine.config.active_backlog_disk_size() > 0;
            disk.copy_bytes = self.state_bytes;
            if disk.logs.iter().next().is_none_or(|log| log.number >= first) {
                return;
            }
        }
        let former = self.drop_logs(first);
        self.store_manifest();
        let run = move || former.remove();
        if let Err(error) = std::thread::Builder::new().name("active-files".into()).spawn(run) {
            log::warn!("Active-active: obsolete logs stay until the next start: {error}");
        }
    }

    pub(super) fn begin_generation(&mut self) -> Result<(), String> {
        let (number, file) = self.begin_files()?;
        let (parts, to_write) = sync_channel(WAITING);
        let (result, outcome) = sync_channel(1);
        let run = move || write_parts(file, &to_write, &result);
        std::thread::Builder::new().name("active-files".into()).spawn(run).map_err(|error| told(&error))?;
        let target = Target::Files(Generation { number, parts, ready: None, outcome });
        self.saving = Some(Saving { saver: Some(Saver::begin(&mut self.replica)), target });
        Ok(())
    }

    /// Puts a complete generation into effect. Returns the superseded files, which may be
    /// removed.
    fn count(&mut self, number: u64, bytes: u64, is_end: bool) -> Result<ObsoleteFiles, String> {
        let before = std::mem::replace(&mut self.manifest.generation, number);
        let first = self.first_kept(number);
        self.name_kept_logs(first, number);
        self.manifest.clean = is_end;
        if let Err(error) = self.disk.store_now(&self.manifest) {
            (self.manifest.generation, self.manifest.clean) = (before, false);
            return Err(told(&error));
        }
        self.state_bytes = bytes;
        // The sync that failed is made up for.
        self.has_unsynced |= self.files.is_doubtful();
        self.active.outbox.lock().disk.logs.drop_before(first);
        Ok(self.files.forget(before, number, first))
    }

    /// Writes a generation in one go: at shutdown, and for changes that no log contains.
    pub(super) fn write_generation(&mut self, is_end: bool) -> Result<(), String> {
        self.stop_saving();
        let (number, file) = self.begin_files()?;
        let bytes = write_state(&mut self.replica, file).map_err(|error| told(&error))?;
        self.count(number, bytes, is_end)?.remove();
        let vector = self.replica.vector().clone();
        self.active.note_own_on_disk(vector);
        Ok(())
    }

    /// Aborts the save in progress. Peers get another copy.
    pub(super) fn stop_saving(&mut self) {
        self.replica.stop_saving();
        match self.saving.take() {
            Some(Saving { target: Target::Copy(copy), .. }) => self.end_copy(copy),
            Some(Saving { target: Target::Digest { answers, .. }, .. }) => {
                self.digests_wanted.extend(answers)
            }
            _ => {}
        }
    }
}
