// SPDX-License-Identifier: BSD-3-Clause
//! The manifest of an append-only file: which files belong to it, and their order.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b
//! file appendonly.aof.1.incr.aof seq 1 type h
//! file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//! One line per file, with pairs of a key and its value; unknown keys are skipped. The base comes
//! first, then the history (files that a rewrite has replaced, due for removal), then the
//! increments. Names are quoted like words of the configuration if they need it. Lines that begin
//! with `#` are comments.
//!
//! This is the manifest as a value; [`super::Folder`] does the I/O. The manifest's text is not
//! trusted: any fault is an error, since omitting a data file would lose its data.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// All keys as of a rewrite.
    Base,
    /// Changes since.
    Incr,
    /// Replaced by a rewrite; to be removed.
    History,
}

impl FileKind {
    fn letter(self) -> char {
        match self {
            FileKind::Base => 'b',
            FileKind::Incr => 'i',
            FileKind::History => 'h',
        }
    }
}

/// A file of an append-only file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name in the folder; never a path.
    pub name: OsString,
    /// Its number: bases and increments are numbered separately, each in ascending order.
    pub seq: i64,
}

/// The files of an append-only file. Empty before the first one exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub base: Option<FileInfo>,
    /// Files to be removed.
    pub history: Vec<FileInfo>,
    /// In the order in which they were written; the last one is being appended to.
    pub incrs: Vec<FileInfo>,
}

/// A fault in a manifest, in Redis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    #[error("Found an empty AOF manifest")]
    Empty,
    #[error("The AOF manifest file contains too long line")]
    LongLine,
    #[error("Invalid AOF manifest file format")]
    Format,
    #[error("File can't be a path, just a filename")]
    Path,
    #[error("Found duplicate base file information")]
    DuplicateBase,
    #[error("Found a non-monotonic sequence number")]
    Order,
    #[error("Unknown AOF file type")]
    Kind,
}

/// A fault in a manifest, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    pub fault: ManifestFault,
    /// The number of the line, from 1, and the line, unless the text could not be split into lines.
    pub line: Option<(usize, Vec<u8>)>,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(out)?;
        match &self.line {
            Some((number, line)) => write!(out, " (at line {number}: '{}')", String::from_utf8_lossy(line)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ManifestError {}

impl ManifestError {
    /// The log messages for the error, as in Redis.
    pub fn messages(&self) -> Vec<String> {
        let mut messages = vec!["*** FATAL AOF MANIFEST FILE ERROR ***".to_owned()];
        if let Some((number, line)) = &self.line {
            messages.push(format!("Reading the manifest file, at line {number}"));
            messages.push(format!(">>> '{}'", String::from_utf8_lossy(line)));
        }
        messages.push(self.fault.to_string());
        messages
    }
}

/// Maximum length of a line with its end, in bytes.
const LINE_MAX: usize = 1024;
/// Larger numbers are refused, so that there is always a next one.
const SEQ_MAX: i64 = i64::MAX / 2;

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// If the text is empty, does not end with a line end, has a line that is too long or
    /// malformed, names a path instead of a file, an unknown type or two bases, or has increments
    /// out of order.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let whole = |fault| ManifestError { fault, line: None };
        if text.is_empty() {
            return Err(whole(ManifestFault::Empty));
        }
        let mut manifest = Manifest::default();
        let (mut rest, mut number) = (text, 0);
        while !rest.is_empty() {
            // Redis reads this much at a time: the rest of a longer comment counts as another
            // line.
            let end = rest.iter().take(LINE_MAX).position(|&byte| byte == b'\n');
            let (line, tail) = rest.split_at(end.map_or(LINE_MAX.min(rest.len()), |end| end + 1));
            (rest, number) = (tail, number + 1);
            if line[0] == b'#' {
                continue;
            }
            // The last line must also be terminated: otherwise it may be incomplete.
            if end.is_none() || line.contains(&0) {
                return Err(whole(ManifestFault::LongLine));
            }
            let line = trim(line);
            manifest
                .add_line(line)
                .map_err(|fault| ManifestError { fault, line: Some((number, line.to_vec())) })?;
        }
        Ok(manifest)
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), ManifestFault> {
        let words = braid_resp::inline::split_words(line).map_err(|_| ManifestFault::Format)?;
        // Additional pairs are allowed: later versions may add some.
        if words.len() < 6 || !words.len().is_multiple_of(2) {
            return Err(ManifestFault::Format);
        }
        let (mut name, mut seq, mut letter) = (None, 0, None);
        for pair in words.chunks_exact(2) {
            let (key, value) = (&pair[0], &pair[1]);
            if key.eq_ignore_ascii_case(b"file") {
                if value.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
                    return Err(ManifestFault::Path);
                }
                name = Some(value);
            } else if key.eq_ignore_ascii_case(b"seq") {
                seq = leading_number(value);
            } else if key.eq_ignore_ascii_case(b"type") {
                letter = value.first();
            }
        }
        let (Some(name), Some(letter)) = (name, letter) else { return Err(ManifestFault::Format) };
        if name.is_empty() || name.contains(&0) || seq == 0 || seq > SEQ_MAX {
            return Err(ManifestFault::Format);
        }
        let info = FileInfo { name: OsString::from_vec(name.clone()), seq };
        match letter {
            b'b' if self.base.is_some() => return Err(ManifestFault::DuplicateBase),
            b'b' => self.base = Some(info),
            b'h' => self.history.push(info),
            b'i' if seq <= self.incrs.last().map_or(0, |last| last.seq) => return Err(ManifestFault::Order),
            b'i' => self.incrs.push(info),
            _ => return Err(ManifestFault::Kind),
        }
        Ok(())
    }

    /// The manifest in its file format.
    pub fn format(&self) -> Vec<u8> {
        let base = self.base.iter().map(|info| (FileKind::Base, info));
        let history = self.history.iter().map(|info| (FileKind::History, info));
        let incrs = self.incrs.iter().map(|info| (FileKind::Incr, info));
        let mut text = Vec::new();
        for (kind, info) in base.chain(history).chain(incrs) {
            text.extend_from_slice(b"file ");
            push_word(&mut text, info.name.as_bytes());
            text.extend_from_slice(format!(" seq {} type {}\n", info.seq, kind.letter()).as_bytes());
        }
        text
    }

    /// True if there is neither a base nor an increment: nothing to load.
    pub fn has_no_data(&self) -> bool {
        self.base.is_none() && self.incrs.is_empty()
    }

    /// The data files, in the order of loading.
    pub fn data(&self) -> impl DoubleEndedIterator<Item = (FileKind, &FileInfo)> {
        let base = self.base.iter().map(|info| (FileKind::Base, info));
        base.chain(self.incrs.iter().map(|info| (FileKind::Incr, info)))
    }

    /// Adds a new base, for a rewrite that is complete or about to begin, and moves the previous
    /// base to the history. `appendfilename` is the prefix of its name; `rdb`: a dump file, else
    /// commands. Returns the new base.
    pub fn begin_base(&mut self, appendfilename: &str, rdb: bool) -> FileInfo {
        let seq = self.base.as_ref().map_or(0, |base| base.seq);
        let format = if rdb { "rdb" } else { "aof" };
        let next = self.next(seq, |seq| format!("{appendfilename}.{seq}.base.{format}"));
        self.history.splice(0..0, self.base.replace(next.clone()));
        next
    }

    /// Adds a new increment, which is written to from now on, and returns it.
    pub fn begin_incr(&mut self, appendfilename: &str) -> FileInfo {
        let seq = self.incrs.last().map_or_else(|| self.incr_seq_of_history(appendfilename), |last| last.seq);
        let next = self.next(seq, |seq| format!("{appendfilename}.{seq}.incr.aof"));
        self.incrs.push(next.clone());
        next
    }

    /// Moves increments that a new base replaces into the history: all but the last `keep`.
    pub fn retire_incrs(&mut self, keep: usize) {
        let retired = self.incrs.len().saturating_sub(keep);
        // Newest first, as in Redis.
        self.history.splice(0..0, self.incrs.drain(..retired).rev().collect::<Vec<_>>());
    }

    /// The highest number of an increment in the history. If all increments have been retired,
    /// numbers continue after it.
    fn incr_seq_of_history(&self, appendfilename: &str) -> i64 {
        let is_incr = |info: &&FileInfo| {
            info.name.as_bytes() == format!("{appendfilename}.{}.incr.aof", info.seq).as_bytes()
        };
        self.history.iter().filter(is_incr).map(|info| info.seq).max().unwrap_or(0)
    }

    /// The file after number `seq`. Skips names that the manifest contains: a file of the history
    /// will be removed.
    fn next(&self, seq: i64, name: impl Fn(i64) -> String) -> FileInfo {
        let files = || self.base.iter().chain(&self.history).chain(&self.incrs);
        let mut seq = seq.max(0);
        loop {
            seq += 1;
            let name = OsString::from(name(seq));
            if files().all(|info| info.name != name) {
                return FileInfo { name, seq };
            }
        }
    }
}

/// Strips blanks and line ends from both ends.
fn trim(mut line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    while let [first, tail @ ..] = line
        && is_blank(first)
    {
        line = tail;
    }
    while let [head @ .., last] = line
        && is_blank(last)
    {
        line = head;
    }
    line
}

/// The number at the start of `text`, parsed like C's `atoll`: 0 if there is none, the nearest
/// representable number if it is too large.
fn leading_number(text: &[u8]) -> i64 {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let text = &text[blanks..];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let magnitude = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0i64, |number, byte| number.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    if negative { -magnitude } else { magnitude }
}

/// Writes a word, quoted if needed. (Stock servers do not quote a word that contains a single
/// quote, and then cannot read it.)
fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return out.extend_from_slice(word);
    }
    braid_resp::inline::push_quoted(out, word);
}

/// A name for display.
pub(super) fn shown(name: &OsStr) -> impl fmt::Display + '_ {
    name.display()
}

#[cfg(test)]
mod tests;
