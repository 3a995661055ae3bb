// SPDX-License-Identifier: BSD-3-Clause
//! Checks an append-only file without a server: the manifest, the base and the increments, or an
//! old single file.
//!
//! Messages and exit codes follow redis-check-aof, because scripts parse them. With [`Task::Fix`]
//! or [`Task::TruncateTo`] the last file with data is truncated; nothing else is ever changed.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use braid_base::system_text::reason;
use braid_persistence::{AofRecord, CommandReader, FileKind, Manifest, ReadError, data_len, ends_data};

/// The task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Check,
    /// Truncate the damaged end of the last file, after confirmation.
    Fix,
    /// Truncate the file after this time, in seconds since the Unix epoch.
    TruncateTo(i64),
}

/// The check failed and the errors have been printed: the exit code is 1.
#[derive(Debug)]
pub struct Failed;

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Failed {
        Failed
    }
}

/// A check: its output, its source of answers, and its state.
pub struct AofCheck<'c> {
    task: Task,
    out: &'c mut dyn Write,
    answers: &'c mut dyn BufRead,
    /// The current time, ms since the Unix epoch.
    now_ms: i64,
    /// Line number of the next part of a command, counted over all files.
    line: u64,
}

/// The outcome of a file's check.
enum Outcome {
    Valid,
    Empty,
    Truncated,
    TruncatedToTime(i64),
}

/// Maximum length of a line with a number; the rest is not read.
const NUMBER_LINE_MAX: usize = 127;
/// Maximum length of an annotation; the rest is not read.
const ANNOTATION_MAX: usize = 1023;

macro_rules! say {
    ($check:expr, $($text:tt)*) => {
        writeln!($check.out, $($text)*)?
    };
}

macro_rules! fail {
    ($check:expr, $($text:tt)*) => {{
        writeln!($check.out, $($text)*)?;
        return Err(Failed);
    }};
}

impl<'c> AofCheck<'c> {
    /// A check that writes to `out` and, before it changes anything in [`Task::Fix`], reads an
    /// answer from `answers`.
    pub fn new(
        task: Task,
        out: &'c mut dyn Write,
        answers: &'c mut dyn BufRead,
        now_ms: i64,
    ) -> AofCheck<'c> {
        AofCheck { task, out, answers, now_ms, line: 1 }
    }

    /// Checks a manifest with its files, or a single file.
    ///
    /// # Errors
    /// If a file cannot be read, is not an append-only file or is damaged, unless it was repaired.
    /// The reasons have been printed.
    pub fn run(&mut self, path: &Path) -> Result<(), Failed> {
        if self.is_manifest(path)? {
            return self.check_parts(path);
        }
        let is_dump = self.is_dump(path)?;
        say!(self, "Start checking Old-Style AOF");
        let name = path.display().to_string();
        let outcome = self.check_file(&name, path, true, is_dump)?;
        self.conclude(&outcome, &name, "AOF")
    }

    /// True if a line of the file begins like those of a manifest.
    fn is_manifest(&mut self, path: &Path) -> Result<bool, Failed> {
        let mut file = BufReader::new(self.open(path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            // Lines of a manifest are never longer.
            if file.by_ref().take(1024).read_until(b'\n', &mut line)? == 0 {
                return Ok(false);
            }
            if line.starts_with(b"file") {
                return Ok(true);
            }
        }
    }

    fn is_dump(&mut self, path: &Path) -> Result<bool, Failed> {
        let mut magic = Vec::new();
        self.open(path)?.take(8).read_to_end(&mut magic)?;
        Ok(magic.len() == 8 && (magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY")))
    }

    fn open(&mut self, path: &Path) -> Result<File, Failed> {
        match File::open(path) {
            Ok(file) if file.metadata()?.is_dir() => {
                fail!(self, "Cannot read file {}: it is a directory; give the manifest in it", path.display())
            }
            Ok(file) => Ok(file),
            Err(error) => fail!(self, "Cannot open file {}: {}", path.display(), reason(&error)),
        }
    }

    fn check_parts(&mut self, path: &Path) -> Result<(), Failed> {
        say!(self, "Start checking Multi Part AOF");
        let mut text = Vec::new();
        self.open(path)?.read_to_end(&mut text)?;
        let manifest = match Manifest::parse(&text) {
            Ok(manifest) => manifest,
            Err(error) => {
                for message in error.messages() {
                    say!(self, "{message}");
                }
                return Err(Failed);
            }
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut told_of_increments = false;
        for (index, (kind, info)) in manifest.data().enumerate() {
            let (name, path) = (info.name.display().to_string(), folder.join(&info.name));
            let is_base = kind == FileKind::Base;
            let is_dump = is_base && self.is_dump(&path)?;
            if is_base {
                let format = if is_dump { "RDB" } else { "RESP" };
                say!(self, "Start to check BASE AOF ({format} format).");
            } else if !told_of_increments {
                told_of_increments = true;
                say!(self, "Start to check INCR files.");
            }
            let is_last = ends_data(&manifest, index, |info| folder.join(&info.name));
            let outcome = self.check_file(&name, &path, is_last, is_dump)?;
            self.conclude(&outcome, &name, if is_base { "BASE AOF" } else { "INCR AOF" })?;
        }
        say!(self, "All AOF files and manifest are valid");
        Ok(())
    }

    fn conclude(&mut self, outcome: &Outcome, name: &str, kind: &str) -> Result<(), Failed> {
        match outcome {
            Outcome::Valid => say!(self, "{kind} {name} is valid"),
            Outcome::Empty => say!(self, "{kind} {name} is empty"),
            Outcome::Truncated => say!(self, "Successfully truncated AOF {name}"),
            Outcome::TruncatedToTime(time) => {
                say!(self, "Successfully truncated AOF {name} to timestamp {time}");
            }
        }
        Ok(())
    }

    /// Checks one file; `name` is its name in messages.
    fn check_file(
        &mut self,
        name: &str,
        path: &Path,
        is_last: bool,
        is_dump: bool,
    ) -> Result<Outcome, Failed> {
        // Only a task that may truncate the file needs write access.
        let mut file = match OpenOptions::new().read(true).write(self.task != Task::Check).open(path) {
            Ok(file) => file,
            Err(error) => {
                fail!(self, "Cannot open file {}: {}, aborting...", path.display(), reason(&error))
            }
        };
        let len = file.metadata()?.len();
        // A dump may end with zeros, which belong to its checksum.
        let size = if is_dump { len } else { data_len(&mut file)? };
        let ahead = len - size;
        if ahead > 0 {
            say!(self, "AOF {name} ends with {ahead} zeros, preallocated by 'appendfsync always'");
        }
        if size == 0 {
            return Ok(Outcome::Empty);
        }
        let mut from = 0;
        if is_dump {
            let findings = crate::check_rdb(&path.display().to_string(), &file, Some(size), self.now_ms);
            self.out.write_all(findings.lines.as_bytes())?;
            if !findings.is_good {
                fail!(self, "RDB preamble of AOF file is not sane, aborting.");
            }
            say!(self, "RDB preamble is OK, proceeding with AOF tail...");
            from = findings.bytes;
        }
        file.seek(SeekFrom::Start(from))?;
        let mut input =
            Input { file: BufReader::with_capacity(1 << 20, file.take(size - from)), position: from, size };
        let mut state = State { good_up_to: from, ..State::default() };
        if let Some(cut) = self.walk(&mut input, &mut state, path, name, is_last)? {
            if input.file.get_ref().get_ref().set_len(cut).is_err() {
                let time = if let Task::TruncateTo(time) = self.task { time } else { 0 };
                fail!(self, "Failed to truncate AOF {} to timestamp {time}", path.display());
            }
            return Ok(Outcome::TruncatedToTime(if let Task::TruncateTo(time) = self.task {
                time
            } else {
                0
            }));
        }
        if let Some((at, good)) = wrong_checksum(path, from, state.good_up_to)? {
            state = State {
                error: "Wrong checksum: the commands before it have changed since they were written"
                    .to_owned(),
                error_at: at,
                good_up_to: good,
                ..State::default()
            };
        }
        self.judge(&input, state, name, is_last)
    }

    /// Reads commands and annotations until the end or the first error. Returns the position at
    /// which to truncate the file, if truncation was requested and is needed.
    fn walk(
        &mut self,
        input: &mut Input,
        state: &mut State,
        path: &Path,
        name: &str,
        is_last: bool,
    ) -> Result<Option<u64>, Failed> {
        loop {
            if state.multi == 0 {
                state.good_up_to = input.position;
            }
            let Some(first) = input.peek()? else {
                state.at_end = true;
                return Ok(None);
            };
            match first {
                b'#' => {
                    let begin = input.position;
                    state.error_at = begin;
                    let line = input.line(ANNOTATION_MAX)?;
                    if self.is_too_late(&line)? {
                        self.check_cut(begin, path, is_last)?;
                        return Ok(Some(begin));
                    }
                }
                b'*' => {
                    if !self.command(input, state, path)? {
                        return Ok(None);
                    }
                }
                _ => {
                    say!(self, "AOF {name} format error");
                    return Ok(None);
                }
            }
        }
    }

    /// True if an annotation dates the following commands later than the requested truncation
    /// time.
    fn is_too_late(&mut self, line: &[u8]) -> Result<bool, Failed> {
        let Task::TruncateTo(time) = self.task else { return Ok(false) };
        let Some(text) = line.strip_prefix(b"#TS:") else { return Ok(false) };
        let (found, rest) = leading_number(text);
        match found {
            Some(found) if rest.first() == Some(&b'\r') => Ok(found > time),
            _ => fail!(self, "Invalid timestamp annotation"),
        }
    }

    /// Checks that a file may be truncated at an annotation.
    fn check_cut(&mut self, at: u64, path: &Path, is_last: bool) -> Result<(), Failed> {
        let Task::TruncateTo(time) = self.task else { return Ok(()) };
        let path = path.display();
        if at == 0 {
            fail!(self, "AOF {path} has nothing before timestamp {time}, aborting...");
        }
        if !is_last {
            say!(
                self,
                "Failed to truncate AOF {path} to timestamp {time} to offset {at} because it is not the last file."
            );
            fail!(
                self,
                "If you insist, please delete all files after this file according to the manifest file and delete the corresponding \
                 records in manifest file manually. Then re-run redis-check-aof."
            );
        }
        Ok(())
    }

    /// Reads a command. False if it is invalid or incomplete.
    fn command(&mut self, input: &mut Input, state: &mut State, path: &Path) -> Result<bool, Failed> {
        let Some(count) = self.number(input, state, b'*')? else { return Ok(false) };
        if count < 1 {
            // Servers refuse such a command.
            state.error = format!("Expected at least one argument, got: {count}");
            return Ok(false);
        }
        for index in 0..count {
            let Some(len) = self.number(input, state, b'$')? else { return Ok(false) };
            if !(0..=i64::MAX - 2).contains(&len) {
                state.error =
                    format!("Expected to read string of {len} bytes, which is not in the suitable range");
                return Ok(false);
            }
            state.error_at = input.position;
            let (kept, read) = input.skip(len as u64 + 2)?;
            if read < len as u64 + 2 {
                state.error = format!("Expected to read {} bytes, got {read} bytes", len + 2);
                return Ok(false);
            }
            let (argument, end) = kept.split_at(kept.len() - 2);
            if !self.line_end(end, state) {
                return Ok(false);
            }
            if index == 0 && !state.note_name(argument, path) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a line with a number after a prefix. `None` if it is invalid, with no message if the
    /// file ends here.
    fn number(&mut self, input: &mut Input, state: &mut State, prefix: u8) -> Result<Option<i64>, Failed> {
        state.error_at = input.position;
        let line = input.line(NUMBER_LINE_MAX)?;
        match line.first() {
            None => {
                state.at_end = true;
                return Ok(None);
            }
            Some(&found) if found != prefix => {
                let (prefix, found) = (char::from(prefix), char::from(found));
                state.error = format!("Expected prefix '{prefix}', got: '{found}'");
                return Ok(None);
            }
            Some(_) => {}
        }
        let (number, rest) = leading_number(&line[1..]);
        Ok(if self.line_end(rest, state) { Some(number.unwrap_or(0)) } else { None })
    }

    /// Checks for a line end; if there is one, the line number advances.
    fn line_end(&mut self, bytes: &[u8], state: &mut State) -> bool {
        if bytes.starts_with(b"\r\n") {
            self.line += 1;
            return true;
        }
        // Like C's signed `char`.
        let shown = |index: usize| bytes.get(index).map_or(0, |&byte| i32::from(byte as i8));
        state.error = format!("Expected \\r\\n, got: {:02x}{:02x}", shown(0), shown(1));
        false
    }

    /// Reports the result for a file, and truncates its invalid end if requested.
    fn judge(
        &mut self,
        input: &Input,
        mut state: State,
        name: &str,
        is_last: bool,
    ) -> Result<Outcome, Failed> {
        if state.at_end && state.multi != 0 && state.error.is_empty() {
            state.error = "Reached EOF before reading EXEC for MULTI".to_owned();
        }
        if !state.error.is_empty() {
            say!(self, "0x{:>16x}: {}", state.error_at, state.error);
        }
        let (size, good, line) = (input.size, state.good_up_to, self.line);
        let rest = size.saturating_sub(good);
        if let (Task::TruncateTo(time), 0) = (self.task, rest) {
            say!(self, "Truncate nothing in AOF {name} to timestamp {time}");
            return Ok(Outcome::Valid);
        }
        say!(
            self,
            "AOF analyzed: filename={name}, size={size}, ok_up_to={good}, ok_up_to_line={line}, diff={rest}"
        );
        if rest == 0 {
            return Ok(Outcome::Valid);
        }
        if self.task != Task::Fix {
            fail!(self, "AOF {name} is not valid. Use the --fix option to try fixing it.");
        }
        if !is_last {
            fail!(self, "Failed to truncate AOF {name} because it is not the last file");
        }
        say!(self, "This will shrink the AOF {name} from {size} bytes, with {rest} bytes, to {good} bytes");
        write!(self.out, "Continue? [y/N]: ")?;
        self.out.flush()?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer).is_err() || !answer.to_lowercase().starts_with('y') {
            fail!(self, "Aborting...");
        }
        let file = input.file.get_ref().get_ref();
        if file.set_len(good).and_then(|()| file.sync_all()).is_err() {
            fail!(self, "Failed to truncate AOF {name}");
        }
        Ok(Outcome::Truncated)
    }
}

/// The state of a file's check.
#[derive(Default)]
struct State {
    /// Everything up to here is valid, and no transaction is open.
    good_up_to: u64,
    /// Number of open transactions; 0 or 1 in a valid file.
    multi: i32,
    /// The error, and the position of the invalid item. Empty if the file ends within a command, at
    /// the end of a line.
    error: String,
    error_at: u64,
    at_end: bool,
}

impl State {
    /// Tracks transactions. False if one begins or ends in the wrong place.
    fn note_name(&mut self, name: &[u8], path: &Path) -> bool {
        if name.eq_ignore_ascii_case(b"multi") {
            self.multi += 1;
            if self.multi != 1 {
                self.error = format!("Unexpected MULTI in AOF {}", path.display());
                return false;
            }
        } else if name.eq_ignore_ascii_case(b"exec") {
            self.multi -= 1;
            if self.multi != 0 {
                self.error = format!("Unexpected EXEC in AOF {}", path.display());
                return false;
            }
        }
        true
    }
}

/// The bytes of a file.
struct Input {
    file: BufReader<io::Take<File>>,
    position: u64,
    size: u64,
}

impl Input {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.file.fill_buf()?.first().copied())
    }

    /// A line with its end, or its first `max` bytes.
    fn line(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.file.by_ref().take(max as u64).read_until(b'\n', &mut line)?;
        self.position += line.len() as u64;
        Ok(line)
    }

    /// Skips bytes. Returns the significant ones (a short name, and the last two bytes), and the
    /// number of bytes skipped.
    fn skip(&mut self, len: u64) -> io::Result<(Vec<u8>, u64)> {
        const NAME_MAX: u64 = 16;
        let mut kept = Vec::new();
        let mut read = 0;
        if len > NAME_MAX + 2 {
            let middle = len - 2;
            read += io::copy(&mut self.file.by_ref().take(middle), &mut io::sink())?;
        }
        read += self.file.by_ref().take(len - read.min(len)).read_to_end(&mut kept)? as u64;
        self.position += read;
        Ok((kept, read))
    }
}

/// The position of the first wrong checksum between two positions of a file, and the position up
/// to which all are right. The range must contain only commands and annotations.
fn wrong_checksum(path: &Path, from: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut reader = CommandReader::resume(file.take(to - from), Some(to), from, Vec::new());
    let mut good = from;
    loop {
        match reader.read() {
            Ok(Some(AofRecord::Checked)) => good = reader.position(),
            Ok(Some(_)) => {}
            Err(ReadError::Checksum { position }) => return Ok(Some((position, good))),
            Err(ReadError::Io(error)) => return Err(error),
            // Other errors have already been found.
            Ok(None) | Err(_) => return Ok(None),
        }
    }
}

/// The number at the start of a text, parsed like C's `strtol`, and the rest. `None` if it is too
/// large.
fn leading_number(text: &[u8]) -> (Option<i64>, &[u8]) {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let sign = usize::from(matches!(text.get(blanks), Some(b'-' | b'+')));
    let digits = text[blanks + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return (Some(0), text);
    }
    let (number, rest) = text.split_at(blanks + sign + digits);
    let number = std::str::from_utf8(&number[blanks..]).ok();
    (number.and_then(|number| number.parse().ok()), rest)
}

const USAGE: &str =
    "Usage: braid-check-aof [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>";

const HELP: &str = "
Checks an append-only file without a server: all files named in a manifest, or a single file of an
old version. Reports whether they can be loaded, or where they are damaged.

  --fix                   truncate the damaged end of the last file, after asking
  --truncate-to-timestamp SECONDS
                          remove everything written after this time, in seconds since 1970 (UTC);
                          the file has timestamps if written with aof-timestamp-enabled yes
  -h, --help              print this text
  -v, --version           print the version

Without an option nothing is changed. Stop the server and copy the directory before truncating.

Exit status: 0 if the files can be loaded, or were repaired; 1 if they are damaged or cannot be
read, and for a wrong command line.

Example: braid-check-aof --fix /var/lib/braid/appendonlydir/appendonly.aof.manifest
";

/// Runs the program with its arguments; returns the exit code.
pub fn main(
    arguments: &[impl AsRef<OsStr>],
    out: &mut dyn Write,
    answers: &mut dyn BufRead,
    now_ms: i64,
) -> u8 {
    let words: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let (task, path) = match &words[..] {
        [word] if *word == "--help" || *word == "-h" => {
            let _ = write!(out, "{USAGE}\n{HELP}");
            return 0;
        }
        [word] if *word == "--version" || *word == "-v" => {
            let _ = writeln!(out, "braid-check-aof {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        [word] if word.as_encoded_bytes().starts_with(b"-") => {
            let _ = writeln!(
                out,
                "braid-check-aof: unknown option or missing file: '{}'\n{USAGE}",
                word.display()
            );
            return 1;
        }
        [path] => (Task::Check, *path),
        [option, path] if *option == "--fix" => (Task::Fix, *path),
        [option, time, path] if *option == "--truncate-to-timestamp" => {
            match time.to_str().and_then(|time| time.parse().ok()) {
                Some(time) => (Task::TruncateTo(time), *path),
                None => {
                    let _ = writeln!(out, "Invalid timestamp, aborting...");
                    return 1;
                }
            }
        }
        _ => {
            let _ = writeln!(out, "{USAGE}");
            return 1;
        }
    };
    let checked = AofCheck::new(task, out, answers, now_ms).run(Path::new(path));
    u8::from(checked.is_err())
}

#[cfg(test)]
mod tests;
