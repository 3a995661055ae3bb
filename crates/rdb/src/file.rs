// SPDX-License-Identifier: BSD-3-Clause
//! Dump files: all databases with their keys.
//!
//! ```text
//! file:    "REDIS" or "VALKEY", version in decimal digits (9 bytes in all), records, 255,
//!          CRC-64 of everything before it (8 bytes; 0: none)
//! record:  250, name, text                 a note about the file (two strings)
//!          245, text                       a library of functions
//!          247, module's id, ...           a module's auxiliary data
//!          254, number                     the database of the following keys
//!          251, keys, expiring keys        their numbers
//!          244, slot, keys, expiring keys  the same for a slot of a cluster
//!          [253, seconds (4) | 252, ms (8)] [248, idle seconds] [249, frequency (1)] type, name,
//!          value
//! ```
//! Versions before 5 end without a checksum.
//!
//! A note `braid-no-evict` before a key's type says that the key is protected from eviction.
//!
//! KeyDB also writes notes about keys: one may appear between a key's expiry and its type
//! (`mvcc-tstamp`, the time of its last change), and two follow the key for each expiring member
//! (`keydb-subexpire-key`, the member, and `keydb-subexpire-when`, Unix time in ms).

use std::io::{self, Read, Write};

use braid_base::crc::crc64;

use crate::decode::Decoder;
use crate::encode::Encoder;
use crate::error::{Error, Fault};
use crate::rdb_type::{RECORDS_FROM, RdbType};
use crate::read::module_name;
use crate::source::Stream;
use crate::target::Format;
use crate::write::ValueRef;

const SLOT_SIZE: u8 = RECORDS_FROM;
const FUNCTION: u8 = 245;
const FUNCTION_PRE_RELEASE: u8 = 246;
const MODULE_DATA: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const NOTE: u8 = 250;
const SIZE: u8 = 251;
const EXPIRY_MS: u8 = 252;
const EXPIRY_S: u8 = 253;
const DATABASE: u8 = 254;
const END: u8 = 255;

/// KeyDB's notes about an expiring member: its name, and its expiry.
const KEYDB_MEMBER: &str = "keydb-subexpire-key";
const KEYDB_WHEN: &str = "keydb-subexpire-when";

/// A note of our own about the next key: it is not evicted. Other servers skip it.
const PROTECTED_NOTE: &[u8] = b"braid-no-evict";

/// Length of the signature and version.
const MAGIC_LEN: usize = 9;
/// The first version with a checksum.
const VERSION_CHECKSUM: u16 = 5;

/// A key's idle time or access frequency, depending on the eviction policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Seconds since its last use.
    Idle(u64),
    /// The logarithmic counter of uses.
    Frequency(u8),
}

/// What a file says of a key besides its value and its expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    pub access: Option<Access>,
    /// It is not evicted (BLESS).
    pub is_protected: bool,
}

impl From<Access> for Traits {
    fn from(access: Access) -> Traits {
        Traits { access: Some(access), is_protected: false }
    }
}

/// A sink that buffers small writes and computes the checksum.
struct Summed<W> {
    out: W,
    buffer: Vec<u8>,
    /// `None` if no checksum is wanted.
    crc: Option<u64>,
    written: u64,
    /// The buffer is not flushed.
    held: bool,
}

const BUFFER: usize = 256 * 1024;

impl<W: Write> Summed<W> {
    fn pass_on(&mut self) -> io::Result<()> {
        if let Some(crc) = &mut self.crc {
            *crc = crc64(*crc, &self.buffer);
        }
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        // Frees memory after a large value.
        self.buffer.shrink_to(4 * BUFFER);
        Ok(())
    }
}

impl<W: Write> Write for Summed<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER && !self.held {
            self.pass_on()?;
            if bytes.len() > BUFFER {
                if let Some(crc) = &mut self.crc {
                    *crc = crc64(*crc, bytes);
                }
                self.out.write_all(bytes)?;
                self.written += bytes.len() as u64;
                return Ok(bytes.len());
            }
        }
        self.buffer.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.out.flush()
    }
}

/// Writes a dump file.
pub struct FileWriter<W: Write> {
    encoder: Encoder<Summed<W>>,
    /// The selected database.
    selected: Option<u32>,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file of the given version, which must support all its values
    /// ([`Format::version`]). `compress` is `rdbcompression`, `checksum` is `rdbchecksum`.
    ///
    /// # Errors
    /// If the signature cannot be written.
    pub fn new(out: W, version: u16, compress: bool, checksum: bool) -> io::Result<FileWriter<W>> {
        let buffer = Vec::with_capacity(BUFFER);
        let summed = Summed { out, buffer, crc: checksum.then_some(0), written: 0, held: false };
        let mut encoder = Encoder::new(summed, compress);
        let magic = if version >= crate::VERSION_FIELD_EXPIRY {
            format!("VALKEY{version:03}")
        } else {
            format!("REDIS{version:04}")
        };
        encoder.bytes(magic.as_bytes())?;
        Ok(FileWriter { encoder, selected: None })
    }

    /// Sets the format of values.
    pub fn with_format(mut self, format: Format) -> FileWriter<W> {
        self.encoder = self.encoder.with_format(format);
        self
    }

    /// The format of values.
    pub fn format(&self) -> Format {
        self.encoder.format
    }

    /// Writes a note about the file.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn note(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.encoder.byte(NOTE)?;
        self.encoder.string(name.as_bytes())?;
        self.encoder.string(text.as_bytes())
    }

    /// Writes a library of functions: its code.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.encoder.byte(FUNCTION)?;
        self.encoder.string(code)
    }

    /// Selects the database of the following keys.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn select(&mut self, db: u32) -> io::Result<()> {
        if self.selected != Some(db) {
            self.selected = Some(db);
            self.encoder.byte(DATABASE)?;
            self.encoder.length(u64::from(db))?;
        }
        Ok(())
    }

    /// Selects the database of the following keys, and writes their number and the number of those
    /// with an expiry.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn database(&mut self, db: u32, keys: u64, expiring: u64) -> io::Result<()> {
        self.select(db)?;
        self.encoder.byte(SIZE)?;
        self.encoder.length(keys)?;
        self.encoder.length(expiring)
    }

    /// Writes a key with its value.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn key(
        &mut self,
        name: &[u8],
        value: ValueRef<'_>,
        expire_at: Option<i64>,
        traits: Traits,
    ) -> io::Result<()> {
        self.encoder.key(name, value, expire_at, traits)
    }

    /// Writes a key with a value copied by [`ValueRef::take_packed`].
    ///
    /// # Errors
    /// If the sink fails.
    pub fn packed_key(
        &mut self,
        name: &[u8],
        kind: RdbType,
        packed: &[u8],
        expire_at: Option<i64>,
        traits: Traits,
    ) -> io::Result<()> {
        self.encoder.attributes(expire_at, traits)?;
        self.encoder.kind(kind)?;
        self.encoder.string(name)?;
        self.encoder.packed(kind, packed)
    }

    /// Writes records made by [`encode_key`].
    ///
    /// # Errors
    /// If the sink fails.
    pub fn encoded_keys(&mut self, records: &[u8]) -> io::Result<()> {
        self.encoder.bytes(records)
    }

    /// Keeps all output in memory until [`FileWriter::let_go`] is called, so that no call waits
    /// for the sink.
    pub fn hold(&mut self) {
        self.encoder.sink().held = true;
    }

    /// Ends the hold, and writes the buffer if it is large.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn let_go(&mut self) -> io::Result<()> {
        let sink = self.encoder.sink();
        sink.held = false;
        if sink.buffer.len() >= BUFFER / 2 { sink.pass_on() } else { Ok(()) }
    }

    /// Bytes written so far.
    pub fn written(&mut self) -> u64 {
        self.encoder.sink().written
    }

    /// Ends the file; returns the sink.
    ///
    /// # Errors
    /// If the sink fails: the file is incomplete.
    pub fn finish(mut self) -> io::Result<W> {
        self.encoder.byte(END)?;
        let sink = self.encoder.sink();
        sink.flush()?;
        let sum = sink.crc.unwrap_or(0);
        self.encoder.bytes(&sum.to_le_bytes())?;
        let mut sink = self.encoder.into_inner();
        sink.flush()?;
        Ok(sink.out)
    }
}

impl<W: Write> Encoder<W> {
    /// Writes a key with its value.
    fn key(
        &mut self,
        name: &[u8],
        value: ValueRef<'_>,
        expire_at: Option<i64>,
        traits: Traits,
    ) -> io::Result<()> {
        let format = self.format;
        if format.is_void(value) {
            return Ok(());
        }
        self.attributes(expire_at, traits)?;
        self.kind(format.kind(value))?;
        self.string(name)?;
        self.value(value)?;
        if format.has_notes(value) { self.notes_of_times(value, format.now_ms) } else { Ok(()) }
    }

    /// Writes the expiry of members as notes, like KeyDB.
    fn notes_of_times(&mut self, value: ValueRef<'_>, now_ms: i64) -> io::Result<()> {
        let (mut written, mut digits, mut time_digits) = (Ok(()), itoa::Buffer::new(), itoa::Buffer::new());
        value.for_each_time(|member, time| {
            if written.is_err() || time < now_ms {
                return;
            }
            let pairs =
                [(KEYDB_MEMBER, member.text(&mut digits)), (KEYDB_WHEN, time_digits.format(time).as_bytes())];
            written = pairs.into_iter().try_for_each(|(name, text)| {
                self.byte(NOTE)?;
                self.string(name.as_bytes())?;
                self.string(text)
            });
        });
        written
    }

    fn attributes(&mut self, expire_at: Option<i64>, traits: Traits) -> io::Result<()> {
        if let Some(time) = expire_at {
            self.byte(EXPIRY_MS)?;
            self.time_ms(time)?;
        }
        if traits.is_protected {
            self.byte(NOTE)?;
            self.string(PROTECTED_NOTE)?;
            self.string(b"1")?;
        }
        match traits.access {
            Some(Access::Idle(seconds)) => {
                self.byte(IDLE)?;
                self.length(seconds)?;
            }
            Some(Access::Frequency(count)) => self.bytes(&[FREQUENCY, count])?,
            None => {}
        }
        Ok(())
    }
}

/// Encodes a key with its value as a record, uncompressed. Empty if none of the value's members
/// is left.
pub fn encode_key(
    name: &[u8],
    value: ValueRef<'_>,
    format: Format,
    expire_at: Option<i64>,
    traits: Traits,
) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::with_capacity(name.len() + 32), false).with_format(format);
    encoder.key(name, value, expire_at, traits).expect("writing to memory cannot fail");
    encoder.into_inner()
}

/// A record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A note about the file.
    Note { name: Vec<u8>, text: Vec<u8> },
    /// The database of the following keys.
    Database(u64),
    /// The number of its keys.
    Size { keys: u64, expiring: u64 },
    /// A library of functions: its code.
    Function(Vec<u8>),
    /// Auxiliary data of a module, skipped.
    ModuleData(String),
    /// A key: its name is [`FileReader::name`], its value must be read by
    /// [`FileReader::name_and_value`] next.
    Key { kind: RdbType, expire_at: Option<i64>, traits: Traits },
    /// The end. `checked`: the file has a checksum, and it matches.
    End { checked: bool },
}

/// Reads a dump file.
pub struct FileReader<R> {
    decoder: Decoder<Stream<R>>,
    name: Vec<u8>,
    checks: bool,
}

impl<R: Read> FileReader<R> {
    /// Reads the signature and version of a file of `len` bytes, if the length is known. With
    /// `relaxed`, unknown versions are accepted: those between Redis's and Valkey's, and later
    /// ones. Without `checks` the checksum is ignored.
    ///
    /// # Errors
    /// If the input ends or fails, does not begin with a signature, or has a version that is not
    /// accepted.
    pub fn new(input: R, len: Option<u64>, relaxed: bool, checks: bool) -> Result<FileReader<R>, Error> {
        let mut decoder = Decoder::new(Stream::new(input, len, checks), 0);
        let magic: [u8; MAGIC_LEN] = {
            let mut magic = [0; MAGIC_LEN];
            magic.copy_from_slice(decoder.take(MAGIC_LEN)?);
            magic
        };
        let digits = magic.strip_prefix(b"REDIS").or_else(|| magic.strip_prefix(b"VALKEY"));
        let digits = digits.ok_or_else(|| decoder.error(Fault::Signature))?;
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u16>().ok());
        let version = version.unwrap_or(0);
        if version == 0 || !(relaxed || crate::is_known_version(version)) {
            return Err(decoder.error(Fault::Version(version)));
        }
        decoder.version = version;
        Ok(FileReader { decoder, name: Vec::new(), checks })
    }

    /// The version of the file.
    pub fn version(&self) -> u16 {
        self.decoder.version
    }

    /// Number of bytes read.
    pub fn position(&self) -> u64 {
        self.decoder.position()
    }

    /// The name of the last key.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The next record.
    ///
    /// # Errors
    /// If the input ends within a record or fails, a type or an encoding is unknown, or the
    /// checksum at the end does not match.
    pub fn record(&mut self) -> Result<Record, Error> {
        let decoder = &mut self.decoder;
        let (mut expire_at, mut traits) = (None, Traits::default());
        loop {
            let opcode = decoder.byte()?;
            let is_attribute = matches!(opcode, EXPIRY_MS | EXPIRY_S | IDLE | FREQUENCY);
            let has_attributes = expire_at.is_some() || traits != Traits::default();
            if has_attributes && !is_attribute && opcode != NOTE && opcode >= SLOT_SIZE {
                return Err(decoder.corrupt("attributes of a key without a key"));
            }
            match opcode {
                EXPIRY_MS => expire_at = Some(decoder.time_ms()?),
                EXPIRY_S => expire_at = Some(i64::from(decoder.time_s()?) * 1000),
                IDLE => traits.access = Some(Access::Idle(decoder.length()?)),
                FREQUENCY => traits.access = Some(Access::Frequency(decoder.byte()?)),
                NOTE => {
                    let (mut name, mut text) = (Vec::new(), Vec::new());
                    decoder.string_into(&mut name)?;
                    decoder.string_into(&mut text)?;
                    if name == PROTECTED_NOTE {
                        traits.is_protected = true;
                        continue;
                    }
                    if has_attributes {
                        // A note about the next key, which this server does not use.
                        continue;
                    }
                    return Ok(Record::Note { name, text });
                }
                FUNCTION => {
                    let mut code = Vec::new();
                    decoder.string_into(&mut code)?;
                    return Ok(Record::Function(code));
                }
                FUNCTION_PRE_RELEASE => {
                    return Err(decoder.corrupt("functions of a pre-release of Redis 7"));
                }
                MODULE_DATA => {
                    let name = module_name(decoder.length()?);
                    // The event at which the module loads the data, as an unsigned number in the
                    // modules' encoding.
                    decoder.skip_module()?;
                    return Ok(Record::ModuleData(name));
                }
                DATABASE => return Ok(Record::Database(decoder.length()?)),
                SIZE => return Ok(Record::Size { keys: decoder.length()?, expiring: decoder.length()? }),
                SLOT_SIZE => {
                    for _ in 0..3 {
                        decoder.length()?;
                    }
                }
                END => return self.end(),
                number => {
                    let kind = RdbType::from_number(number, decoder.version)
                        .ok_or_else(|| decoder.error(Fault::UnknownType(number)))?;
                    decoder.string_into(&mut self.name)?;
                    return Ok(Record::Key { kind, expire_at, traits });
                }
            }
        }
    }

    fn end(&mut self) -> Result<Record, Error> {
        if self.decoder.version < VERSION_CHECKSUM {
            return Ok(Record::End { checked: false });
        }
        let expected = self.decoder.source().checksum();
        let found = self.decoder.word()?;
        if found == 0 || !self.checks {
            return Ok(Record::End { checked: false });
        }
        if found != expected {
            return Err(self.decoder.error(Fault::Checksum { expected, found }));
        }
        Ok(Record::End { checked: true })
    }

    /// The name of the last key, and the decoder to read its value from.
    pub fn name_and_value(&mut self) -> (&[u8], &mut Decoder<Stream<R>>) {
        (&self.name, &mut self.decoder)
    }

    /// The name of the last key, and its encoded value, if the value has at most `max` bytes and
    /// its end can be found. Otherwise reads nothing; reading the value then reports the error,
    /// if any.
    #[inline]
    pub fn raw_entry(&mut self, kind: RdbType, max: usize) -> Option<(&[u8], &[u8])> {
        let end = self.decoder.position() + max as u64;
        self.decoder.source().keep();
        if self.decoder.skip_value(kind, end).is_err() {
            self.decoder.source().take_back();
            return None;
        }
        Some((&self.name, self.decoder.source().taken()))
    }

    /// The bytes read past the end of the dump, and the stream.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.decoder.into_source().into_rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(version: u16, checksum: bool) -> Vec<u8> {
        let mut writer = FileWriter::new(Vec::new(), version, true, checksum).unwrap();
        writer.note("redis-ver", "7.2.4").unwrap();
        writer.function(b"#!lua name=l\n").unwrap();
        writer.database(0, 2, 1).unwrap();
        writer.key(b"k", ValueRef::Text(b"v"), None, Traits::default()).unwrap();
        writer.key(b"e", ValueRef::Integer(7), Some(4_000_000_000_000), Access::Idle(70).into()).unwrap();
        writer.database(3, 1, 0).unwrap();
        let long = vec![b'x'; 600_000];
        let traits = Traits { access: Some(Access::Frequency(9)), is_protected: true };
        writer.key(b"long", ValueRef::Text(&long), None, traits).unwrap();
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, Error> {
        let mut reader = FileReader::new(bytes, Some(bytes.len() as u64), false, true)?;
        let mut lines = Vec::new();
        loop {
            let record = reader.record()?;
            lines.push(match &record {
                Record::Note { name, text } => {
                    format!("note {}={}", name.escape_ascii(), text.escape_ascii())
                }
                Record::Key { kind, expire_at, traits } => {
                    assert_eq!(*kind, RdbType::STRING);
                    let (name, decoder) = reader.name_and_value();
                    let len = match decoder.text_or_blob()? {
                        Ok(crate::Text::Bytes(text)) => text.len(),
                        Err(blob) => blob.len(),
                        Ok(crate::Text::Integer(_)) => 0,
                    };
                    let Traits { access, is_protected } = traits;
                    let protected = if *is_protected { " protected" } else { "" };
                    format!("{} {len} {expire_at:?} {access:?}{protected}", name.escape_ascii())
                }
                other => format!("{other:?}"),
            });
            if matches!(record, Record::End { .. }) {
                return Ok(lines.join("\n"));
            }
        }
    }

    const EXPECTED: &str = "note redis-ver=7.2.4\n\
        Function([35, 33, 108, 117, 97, 32, 110, 97, 109, 101, 61, 108, 10])\n\
        Database(0)\nSize { keys: 2, expiring: 1 }\nk 1 None None\n\
        e 0 Some(4000000000000) Some(Idle(70))\n\
        Database(3)\nSize { keys: 1, expiring: 0 }\nlong 600000 None Some(Frequency(9)) protected\n";

    #[test]
    fn what_is_written_is_read() {
        for version in [crate::VERSION, crate::VERSION_FIELD_EXPIRY] {
            for checksum in [true, false] {
                let bytes = sample(version, checksum);
                let expected = format!("{EXPECTED}End {{ checked: {checksum} }}");
                assert_eq!(read(&bytes).unwrap(), expected);
            }
        }
        assert!(sample(11, true).starts_with(b"REDIS0011\xfa\x09redis-ver\x057.2.4"));
        assert!(sample(80, true).starts_with(b"VALKEY080"));
    }

    #[test]
    fn a_file_of_redis_7_and_one_of_valkey_9() {
        let redis = b"REDIS0010\xfa\tredis-ver\x067.0.15\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\xbeg\x01k\xfa\x08used-mem\xc2\xd0\xbc\
            \x14\x00\xfa\x08aof-base\xc0\x00\xfe\x00\xfb\x01\x00\x00\x01k\x01v\xff\\D\xd0\xd6\xe6I^\xe7";
        let rest = "note aof-base=0\nDatabase(0)\nSize { keys: 1, expiring: 0 }\nk 1 None None\nEnd { checked: true }";
        let found = read(redis).unwrap();
        assert!(
            found.ends_with(rest) && found.starts_with("note redis-ver=7.0.15\nnote redis-bits=64"),
            "{found}"
        );
        let valkey = b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\xbeg\x01k\xfa\x08used-mem\xc2(\x82\
            \x17\x00\xfa\x08aof-base\xc0\x00\xfe\x00\xfb\x01\x00\x00\x01k\x01v\xff\xb6p\xa1\xa0l\xbf\x8cE";
        let found = read(valkey).unwrap();
        assert!(found.ends_with(rest) && found.starts_with("note valkey-ver=9.1.2"), "{found}");
    }

    #[test]
    fn rdb_errors_report_the_position() {
        let good = sample(11, true);
        let refused = |bytes: &[u8]| read(bytes).unwrap_err();
        assert!(matches!(refused(b"NOSUCH012").fault, Fault::Signature));
        assert!(matches!(refused(b"REDIS0013").fault, Fault::Version(13)));
        assert!(matches!(refused(b"REDIS00x1").fault, Fault::Version(0)));
        for len in [0, 5, 9, 20, 60, good.len() - 1] {
            let error = refused(&good[..len]);
            assert!(matches!(error.fault, Fault::Short), "{len}: {error}");
            assert!(error.position <= len as u64);
        }
        let mut bad = good.clone();
        let at = bad.len() - 20;
        bad[at] ^= 1;
        assert!(matches!(refused(&bad).fault, Fault::Corrupt(_) | Fault::Checksum { .. }));
        let error = refused(b"REDIS0011\xfe\x00\xef");
        assert_eq!((error.position, error.to_string().as_str()), (12, "unknown value type 239 (at byte 12)"));
        assert!(matches!(refused(b"REDIS0011\xfc\0\0\0\0\0\0\0\0\xff").fault, Fault::Corrupt(_)));
    }
}
