// SPDX-License-Identifier: BSD-3-Clause
//! Series in dump files and DUMP: the form of Redis Stack's module, found by comparing its files.
//!
//! ```text
//! 7                 a module's value
//! module's ID       "TSDB-TYPE" in nine characters of 6 bits, then the version 8 of the form
//! then fields, each after its kind (2 a number, 4 a double, 5 a string):
//! string            the series' key; used for its rules only, so it may be empty without any
//! numbers           retention, chunk size, encoding (1 plain, 2 compressed), last time
//! double            last value
//! numbers           samples, duplicate policy (0 none), 1 and a string if it has a source, else 0
//! number, double    times and values that are ignored
//! number            of labels, then the two strings of each
//! number            of rules, then for each: target, bucket, alignment, aggregator, start of the
//!                   open bucket (all ones: none), and what the aggregator keeps
//! number            of chunks, then each chunk:
//!                   plain: first time, samples, size, a string of times and values
//!                   compressed: size, samples, bits, the first sample, the last time, interval,
//!                   value, window, a string of words
//! 0                 the end
//! ```
//! Other servers have no such type; for them the key is left out.

use std::collections::VecDeque;
use std::io;

use braid_containers::cow::CowBox;
use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::Sample;
use super::chunk::{Chunk, Plain, SAMPLE_BYTES};
use super::fold::{Area, Fold, Kind, State};
use super::labels::Labels;
use super::links::{Links, Rule};
use super::packed::{Head, Packed};
use super::value::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, Policy, Series, Settings};
use crate::module_fields::{
    read_double, read_end, read_number, read_text, write_double, write_end, write_number, write_text,
};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x4d20_c1f9_360f_1008;

const PLAIN: u64 = 1;
const PACKED: u64 = 2;
/// The start of the open bucket if there is none.
const NOT_OPEN: u64 = u64::MAX;
/// Chunks grow by samples in their middle, but no further than this.
const GROWN_MAX: u64 = CHUNK_SIZE_MAX * 2;

impl SavedObject for Series {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(ID)?;
        let mut out = Fields(out);
        out.string(self.own_name())?;
        let settings = &self.settings;
        let last = self.last().unwrap_or_default();
        let encoding = if settings.is_packed { PACKED } else { PLAIN };
        out.numbers(&[settings.retention_ms, u64::from(settings.chunk_size), encoding, last.time])?;
        out.double(last.value)?;
        out.numbers(&[self.total(), settings.policy.map_or(0, |policy| policy as u64)])?;
        out.number(u64::from(self.source().is_some()))?;
        self.source().map_or(Ok(()), |source| out.string(source))?;
        out.number(settings.ignore_ms)?;
        out.double(settings.ignore_difference)?;
        out.number(self.labels().iter().count() as u64)?;
        for (name, value) in self.labels().iter() {
            out.string(name)?;
            out.string(value)?;
        }
        out.number(self.rules().len() as u64)?;
        self.rules().iter().try_for_each(|rule| out.rule(rule))?;
        out.number(self.chunk_count() as u64)?;
        self.chunks.iter().try_for_each(|chunk| out.chunk(chunk))?;
        write_end(out.0)
    }
}

/// Writes fields after their kinds.
struct Fields<'o, 'w>(&'o mut ValueEncoder<'w>);

impl Fields<'_, '_> {
    fn number(&mut self, number: u64) -> io::Result<()> {
        write_number(self.0, number)
    }

    fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.iter().try_for_each(|&number| self.number(number))
    }

    fn double(&mut self, value: f64) -> io::Result<()> {
        write_double(self.0, value)
    }

    fn string(&mut self, text: &[u8]) -> io::Result<()> {
        write_text(self.0, text)
    }

    fn rule(&mut self, rule: &Rule) -> io::Result<()> {
        self.string(&rule.target)?;
        self.numbers(&[rule.span, rule.align, rule.kind as u64, rule.open.unwrap_or(NOT_OPEN)])?;
        match rule.fold.state {
            State::Mean { sum, count, overflown } => {
                self.double(sum)?;
                self.double(count)?;
                self.number(overflown.into())
            }
            State::Sum(value) | State::Count(value) | State::Last(value) => self.double(value),
            State::Extremes { max, min } => {
                self.double(max)?;
                self.double(min)
            }
            State::First(first) => {
                self.double(first.unwrap_or(0.0))?;
                self.number(first.is_none().into())
            }
            State::Moments { sum, squares, count } => {
                self.double(sum)?;
                self.double(squares)?;
                self.number(count)
            }
            State::Area(area) => {
                self.double(area.area)?;
                self.number(area.last.time)?;
                self.double(area.last.value)?;
                let is_first = area.is_first.into();
                self.numbers(&[area.start, area.end, area.from, area.to, is_first, area.count, 0])
            }
        }
    }

    fn chunk(&mut self, chunk: &Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Plain(plain) => {
                let first = plain.samples.first().map_or(0, |first| first.time);
                self.numbers(&[first, plain.samples.len() as u64, plain.size.into()])?;
                let mut bytes = Vec::with_capacity(plain.size as usize);
                for sample in &plain.samples {
                    bytes.extend_from_slice(&sample.time.to_le_bytes());
                    bytes.extend_from_slice(&sample.value.to_bits().to_le_bytes());
                }
                // Stock servers copy as many bytes as the chunk's size.
                bytes.resize(plain.size as usize, 0);
                self.string(&bytes)
            }
            Chunk::Packed(packed) => {
                let head = packed.head();
                self.numbers(&[packed.size.into(), head.count.into(), head.bits.into()])?;
                self.numbers(&[head.first.value.to_bits(), head.first.time])?;
                self.numbers(&[head.last.time, head.interval, head.last.value.to_bits()])?;
                self.numbers(&[head.leading.into(), head.trailing.into()])?;
                let mut bytes = Vec::with_capacity(packed.size as usize);
                packed.words().iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
                bytes.resize(packed.size as usize, 0);
                self.string(&bytes)
            }
        }
    }
}

/// Reads a series, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let name: Box<[u8]> = read_text(decoder)?.into();
    let (retention_ms, chunk_size, encoding) =
        (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let sized = (CHUNK_SIZE_MIN..=CHUNK_SIZE_MAX).contains(&chunk_size) && chunk_size.is_multiple_of(8);
    decoder.ensure(sized, "a time series with an unknown chunk size")?;
    decoder.ensure(matches!(encoding, PLAIN | PACKED), "a time series with an unknown encoding")?;
    let _last_time = read_number(decoder)?;
    let _last_value = read_double(decoder)?;
    let (total, policy) = (read_number(decoder)?, read_number(decoder)?);
    let policy = match policy {
        0 => None,
        known => {
            let policy = Policy::numbered(known);
            Some(policy.ok_or_else(|| decoder.corrupt("a time series with an unknown policy"))?)
        }
    };
    let mut links = Links { name, ..Links::default() };
    if read_number(decoder)? != 0 {
        links.source = Some(read_text(decoder)?.into());
    }
    let (ignore_ms, ignore_difference) = (read_number(decoder)?, read_double(decoder)?);
    let settings = Settings {
        retention_ms,
        chunk_size: chunk_size as u32,
        is_packed: encoding == PACKED,
        policy,
        ignore_ms,
        ignore_difference,
    };
    let mut labels = Vec::new();
    for _ in 0..read_number(decoder)? {
        labels.push((read_text(decoder)?.to_vec(), read_text(decoder)?.to_vec()));
    }
    let labels = Labels::new(labels.iter().map(|(name, value)| (&**name, &**value)));
    let labels = labels.ok_or_else(|| decoder.corrupt("a time series with too long a label"))?;
    for _ in 0..read_number(decoder)? {
        links.rules.push(rule(decoder)?);
    }
    let chunks = chunks(decoder, &settings, total)?;
    read_end(decoder)?;
    let mut series = Series::from_parts(settings, labels, chunks, total);
    if links.source.is_some() || !links.rules.is_empty() {
        series.set_links(links);
    }
    Ok(Object::new(series))
}

fn chunks(
    decoder: &mut ValueDecoder<'_>,
    settings: &Settings,
    total: u64,
) -> Result<VecDeque<CowBox<Chunk>>, Error> {
    let mut chunks = VecDeque::new();
    let (mut before, mut samples) = (None, 0u64);
    for _ in 0..read_number(decoder)? {
        let mut chunk = match settings.is_packed {
            true => packed(decoder)?,
            false => plain(decoder)?,
        };
        chunk.shrink();
        let follows = chunk.first().is_none_or(|first| before < Some(first.time));
        decoder.ensure(follows, "a time series whose chunks are not in order")?;
        samples = samples.saturating_add(u64::from(chunk.count()));
        if let Some(last) = chunk.last() {
            before = Some(last.time);
            chunks.push_back(CowBox::new(chunk));
        }
    }
    decoder.ensure(samples == total, "a time series with another number of samples")?;
    if chunks.is_empty() {
        chunks.push_back(CowBox::new(Chunk::new(settings.is_packed, settings.chunk_size)));
    }
    Ok(chunks)
}

fn plain(decoder: &mut ValueDecoder<'_>) -> Result<Chunk, Error> {
    let _first = read_number(decoder)?;
    let (count, size) = (read_number(decoder)?, read_number(decoder)?);
    let bytes = read_text(decoder)?;
    let fits =
        size <= GROWN_MAX && count.saturating_mul(u64::from(SAMPLE_BYTES)) <= size.min(bytes.len() as u64);
    let mut samples: Vec<Sample> = Vec::new();
    let (pairs, _) = bytes.as_chunks::<16>();
    for pair in pairs.iter().take(if fits { count as usize } else { 0 }) {
        let (time, value) = pair.split_at(8);
        let [time, value] = [time, value].map(|half| half.try_into().map_or(0, u64::from_le_bytes));
        samples.push(Sample { time, value: f64::from_bits(value) });
    }
    let is_ordered = samples.is_sorted_by(|one, other| one.time < other.time);
    let is_bounded = samples.last().is_none_or(|last| last.time <= i64::MAX as u64);
    decoder.ensure(fits && is_ordered && is_bounded, "a time series with a damaged chunk")?;
    Ok(Chunk::Plain(Plain { samples, size: size as u32 }))
}

fn packed(decoder: &mut ValueDecoder<'_>) -> Result<Chunk, Error> {
    let (size, count, bits) = (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let (first_value, first_time) = (read_number(decoder)?, read_number(decoder)?);
    let (last_time, interval, last_value) =
        (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let (leading, trailing) = (read_number(decoder)?, read_number(decoder)?);
    let bytes = read_text(decoder)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let narrow = |number: u64| u32::try_from(number).ok();
    let chunk = narrow(count).zip(narrow(bits)).filter(|_| size <= GROWN_MAX).and_then(|(count, bits)| {
        let head = Head {
            count,
            bits,
            first: Sample { time: first_time, value: f64::from_bits(first_value) },
            last: Sample { time: last_time, value: f64::from_bits(last_value) },
            interval,
            leading: u8::try_from(leading).ok()?,
            trailing: u8::try_from(trailing).ok()?,
        };
        Packed::from_parts(head, size as u32, words)
    });
    let chunk = chunk.ok_or_else(|| decoder.corrupt("a time series with a damaged chunk"))?;
    Ok(Chunk::Packed(chunk))
}

fn rule(decoder: &mut ValueDecoder<'_>) -> Result<Rule, Error> {
    let target: Box<[u8]> = read_text(decoder)?.into();
    let (span, align, kind, open) =
        (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let kind = Kind::numbered(kind).filter(|_| span > 0);
    let kind = kind.ok_or_else(|| decoder.corrupt("a time series with an unknown rule"))?;
    let mut rule = Rule::new(&target, kind, span, align);
    rule.open = (open != NOT_OPEN).then_some(open);
    let state = match Fold::new(kind).state {
        State::Mean { .. } => State::Mean {
            sum: read_double(decoder)?,
            count: read_double(decoder)?,
            overflown: read_number(decoder)? != 0,
        },
        State::Sum(_) => State::Sum(read_double(decoder)?),
        State::Count(_) => State::Count(read_double(decoder)?),
        State::Last(_) => State::Last(read_double(decoder)?),
        State::Extremes { .. } => State::Extremes { max: read_double(decoder)?, min: read_double(decoder)? },
        State::First(_) => {
            let first = read_double(decoder)?;
            State::First((read_number(decoder)? == 0).then_some(first))
        }
        State::Moments { .. } => State::Moments {
            sum: read_double(decoder)?,
            squares: read_double(decoder)?,
            count: read_number(decoder)?,
        },
        State::Area(_) => {
            let area = read_double(decoder)?;
            let last = Sample { time: read_number(decoder)?, value: read_double(decoder)? };
            let (start, end, from, to) =
                (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
            let (is_first, count) = (read_number(decoder)? != 0, read_number(decoder)?);
            let _reversed = read_number(decoder)?;
            State::Area(Area { area, last, start, end, from, to, is_first, count })
        }
    };
    rule.fold.state = state;
    Ok(rule)
}
