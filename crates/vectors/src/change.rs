// SPDX-License-Identifier: BSD-3-Clause
//! Changes of a graph: vectors are added, replaced and removed.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::near::{self, Near};
use crate::store::{Graph, NONE};
use crate::{Error, LEN_MAX, LEVEL_MAX, link};

impl Graph {
    /// Adds a vector and returns its number. The label is for the caller's own use. `ef` is the
    /// number of candidates for its links; the level is from [`Graph::level_from`].
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's, or the graph is full.
    pub fn add(&mut self, vector: &[f32], label: u64, ef: usize, level: u8) -> Result<u32, Error> {
        self.add_near(vector, label, ef, level, None)
    }

    /// Finds the vectors that [`Graph::add`] would consider for links; reads only, so that it can
    /// run beside other readers, or on a clone. [`Graph::add_near`] takes them.
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's.
    pub fn look_around(&self, vector: &[f32], ef: usize, level: u8) -> Result<Near, Error> {
        let query = self.query(vector)?;
        Ok(near::look_around(self, &query.words, ef, level))
    }

    /// [`Graph::add`], which takes the candidates for links from [`Graph::look_around`]. The same
    /// graph results if nothing has changed since. If something has, [`Near`] must have been told.
    ///
    /// # Errors
    /// As [`Graph::add`].
    pub fn add_near(
        &mut self,
        vector: &[f32],
        label: u64,
        ef: usize,
        level: u8,
        near: Option<&Near>,
    ) -> Result<u32, Error> {
        self.check(vector)?;
        let id = self.len();
        if id >= LEN_MAX {
            return Err(Error::Full);
        }
        self.vectors.reserve(id + 1);
        self.nodes.reserve(id + 1);
        let id = id as u32;
        self.vectors.own(id);
        self.nodes.own(id);
        *self.len.get_mut() += 1;
        self.enter(vector, id, label, ef, level.min(LEVEL_MAX), near);
        Ok(id)
    }

    /// True if one more vector of this level needs no more memory.
    pub(crate) fn has_room(&self, level: u8) -> bool {
        let len = self.len();
        let uppers = self.upper_len.load(Relaxed) as usize + usize::from(level.min(LEVEL_MAX));
        let records = self.vectors.capacity().min(self.nodes.capacity()).min(LEN_MAX);
        len < records && uppers <= self.uppers.capacity()
    }

    /// Makes memory for so many more vectors.
    pub(crate) fn make_room(&mut self, count: usize) {
        let len = (self.len() + count).min(LEN_MAX);
        self.vectors.reserve(len);
        self.nodes.reserve(len);
        // One in `links` has an upper record, roughly.
        let uppers = count / self.shape.links as usize * 2 + usize::from(LEVEL_MAX);
        self.uppers.reserve(self.upper_len.load(Relaxed) as usize + uppers);
    }

    /// [`Graph::add_near`] beside threads that walk. Nobody else may change the graph, which must
    /// [have room](Graph::has_room) and share no blocks.
    pub(crate) fn add_beside(
        &self,
        vector: &[f32],
        label: u64,
        ef: usize,
        level: u8,
        near: Option<&Near>,
    ) -> Result<u32, Error> {
        self.check(vector)?;
        let (id, level) = (self.len() as u32, level.min(LEVEL_MAX));
        let norm = self.codec.encode(vector, self.vectors.get(id));
        self.init_records(id, norm, label, level);
        link::insert(&mut link::Beside(self), id, ef, level, near);
        self.len.store(id + 1, Release);
        Ok(id)
    }

    /// Writes the record of a vector that has none yet, and links it.
    fn enter(&mut self, vector: &[f32], id: u32, label: u64, ef: usize, level: u8, near: Option<&Near>) {
        let norm = self.codec.encode(vector, self.vectors.get(id));
        self.uppers.reserve(self.upper_len.load(Relaxed) as usize + usize::from(level));
        for record in 0..u32::from(level) {
            self.uppers.own(self.upper_len.load(Relaxed) + record);
        }
        self.init_records(id, norm, label, level);
        link::insert(&mut link::Exclusive(self), id, ef, level, near);
    }

    /// Gives an existing number another vector, as if it were removed and added; its label stays.
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's.
    pub fn replace(&mut self, id: u32, vector: &[f32], ef: usize, level: u8) -> Result<(), Error> {
        self.replace_near(id, vector, ef, level, None)
    }

    /// [`Graph::replace`] with what [`Graph::look_around`] has found for the new vector.
    ///
    /// # Errors
    /// As [`Graph::replace`].
    pub fn replace_near(
        &mut self,
        id: u32,
        vector: &[f32],
        ef: usize,
        level: u8,
        near: Option<&Near>,
    ) -> Result<(), Error> {
        // Always looked for while the old vector is there: the result is the same either way.
        let found = if near.is_none() { Some(self.look_around(vector, ef, level)?) } else { None };
        let near = near.or(found.as_ref());
        self.check(vector)?;
        let label = self.label(id);
        self.detach(id);
        self.vectors.own(id);
        self.nodes.own(id);
        self.enter(vector, id, label, ef, level.min(LEVEL_MAX), near);
        Ok(())
    }

    /// Removes a vector and repairs the graph around it. The last vector gets its number: if that
    /// is another one, the number it had is returned.
    pub fn remove(&mut self, id: u32) -> Option<u32> {
        self.detach(id);
        let last = self.len() as u32 - 1;
        if id != last {
            link::renumber(&mut link::Exclusive(self), last, id);
        }
        *self.len.get_mut() = last;
        self.vectors.shrink(last as usize);
        self.nodes.shrink(last as usize);
        self.uppers.shrink(self.upper_len.load(Relaxed) as usize);
        (id != last).then_some(last)
    }

    /// Takes a vector out of all levels: its links go, its neighbours are linked anew, its upper
    /// records are released.
    fn detach(&mut self, id: u32) {
        let level = self.level(id);
        let (entry, _) = self.entry();
        let orphans: Vec<Vec<u32>> =
            (0..=level).map(|level| link::unlink(&mut link::Exclusive(self), id, level)).collect();
        if entry == id {
            self.choose_entry(id, &orphans);
        }
        for (level, orphans) in orphans.iter().enumerate() {
            link::repair(&mut link::Exclusive(self), orphans, level as u8);
        }
        for _ in 0..level {
            self.release_upper(self.node(id)[0].load(Relaxed), id);
        }
    }

    /// Makes another vector the entry: a former neighbour of the old one on the highest level
    /// that has one, else any vector of the highest level.
    fn choose_entry(&mut self, old: u32, orphans: &[Vec<u32>]) {
        let mut best = orphans.last().and_then(|top| top.first()).map(|&id| (self.level(id), id));
        if best.is_none_or(|(level, _)| usize::from(level) + 1 < orphans.len()) {
            let others =
                (0..self.upper_len.load(Relaxed)).map(|record| self.uppers.get(record)[0].load(Relaxed));
            best = others.filter(|&id| id != old).map(|id| (self.level(id), id)).max();
        }
        let any = (0..self.len() as u32).find(|&id| id != old).map(|id| (self.level(id), id));
        let (level, entry) = best.or(any).unwrap_or((0, NONE));
        self.set_entry(entry, level);
    }

    /// Releases the first upper record of a vector; the last record takes its place.
    fn release_upper(&mut self, record: u32, of: u32) {
        let above = self.uppers.get(record)[1].load(Relaxed);
        self.nodes.own(of);
        self.node(of)[0].store(above, Relaxed);
        *self.upper_len.get_mut() -= 1;
        let last = self.upper_len.load(Relaxed);
        if record == last {
            return;
        }
        let owner = self.uppers.get(last)[0].load(Relaxed);
        self.uppers.own(record);
        self.uppers.copy_record(last, record);
        // The one word that refers to the moved record: in the owner's node, or in an upper
        // record below it.
        let mut at = self.node(owner)[0].load(Relaxed);
        if at == last {
            self.nodes.own(owner);
            self.node(owner)[0].store(record, Relaxed);
            return;
        }
        while at != NONE {
            let next = self.uppers.get(at)[1].load(Relaxed);
            if next == last {
                self.uppers.own(at);
                self.uppers.get(at)[1].store(record, Relaxed);
                return;
            }
            at = next;
        }
    }
}
