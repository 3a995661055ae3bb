// SPDX-License-Identifier: BSD-3-Clause
//! From a document's values to what the index keeps: words with their places, tags, numbers.
//!
//! This is most of the work of a change, and needs no lock.

use std::ops::Range;

use braid_containers::geohash::Position;
use hashbrown::HashMap;

use super::dictionary::Space;
use super::postings::push_hit;
use super::sort::SortValue;
use crate::schema::{Field, FieldId, Kind, Schema};
use crate::text::{Language, STEMMED_LEN_MIN, Stems, fold_case, tokens};

/// Between the values of one field (JSON arrays): no phrase spans two of them.
const VALUE_GAP: u32 = 100;
/// Tags are cut like words.
const TAG_LEN_MAX: usize = 4096;

/// A value as the document has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Text(&'a [u8]),
    Number(f64),
    /// JSON's booleans are tags only.
    Bool(bool),
}

/// A document as the caller has read it.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    pub key: &'a [u8],
    /// Of the document itself, 0 to 1.
    pub score: f32,
    pub language: Language,
    /// Several values of one field follow each other. Fields that are absent are missing.
    pub values: &'a [(FieldId, Value<'a>)],
}

/// Why a document is not indexed (FT.INFO shows the last one).
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ValueError {
    #[error("Invalid numeric value: '{0}'")]
    Number(String),
    #[error("Invalid geo string")]
    Geo,
    #[error("Invalid JSON type: Boolean type can be represented only by a TAG field")]
    Bool,
    #[error("Invalid JSON type: Numeric type can be represented only by a NUMERIC field")]
    NumberForText,
    #[error("The index has too many different words")]
    TooManyTerms,
}

/// A document's entries.
#[derive(Debug, Default)]
pub struct Analysed {
    pub key: Box<[u8]>,
    pub score: f32,
    /// Of all words, weighted.
    pub len: u32,
    /// The largest frequency of a word.
    pub frequency_max: u32,
    /// Texts and payloads, as ranges of these two.
    pub texts: String,
    pub payloads: Vec<u8>,
    pub words: Vec<(Range<usize>, Range<usize>)>,
    /// Tags, and fields that are missing.
    pub tags: Vec<(Space, Box<str>)>,
    pub numbers: Vec<(FieldId, f64)>,
    pub sort: Vec<(FieldId, SortValue)>,
}

/// One occurrence of a word.
struct Occurrence {
    text: Range<usize>,
    position: u32,
    weight: u32,
    fields: u128,
}

/// Analyses documents; keeps its buffers between them.
#[derive(Default)]
pub struct Analyser {
    occurrences: Vec<Occurrence>,
    positions: Vec<u32>,
    stems: Option<(Language, Stems)>,
    /// The stems of words seen lately: finding one is most of the work of a word.
    known_stems: HashMap<Box<str>, Option<Box<str>>, foldhash::fast::RandomState>,
}

/// Of the stems kept.
const STEMS_MAX: usize = 4096;

impl Analyser {
    /// # Errors
    ///
    /// If a value does not fit its field. The document is then not in the index at all.
    pub fn analyse(&mut self, schema: &Schema, document: &Document<'_>) -> Result<Analysed, ValueError> {
        let mut out = Analysed { key: document.key.into(), score: document.score, ..Analysed::default() };
        if self.stems.as_ref().is_none_or(|(language, _)| *language != document.language) {
            self.stems = Some((document.language, Stems::of(document.language)));
            self.known_stems.clear();
        }
        self.occurrences.clear();
        let mut position = 0;
        for (number, field) in schema.fields().iter().enumerate() {
            let id = number as FieldId;
            let mut values = document.values.iter().filter(|(one, _)| *one == id).map(|(_, value)| *value);
            let Some(first) = values.next() else {
                if field.index_missing {
                    out.tags.push((Space::MISSING, field.name.clone()));
                }
                continue;
            };
            if field.sortable {
                out.sort.push((id, sort_value(field, first)));
            }
            for (nth, value) in std::iter::once(first).chain(values).enumerate() {
                if nth > 0 {
                    position += VALUE_GAP;
                }
                self.value(schema, id, value, &mut out, &mut position)?;
            }
        }
        self.gather(&mut out);
        out.tags.sort_unstable();
        out.tags.dedup();
        Ok(out)
    }

    fn value(
        &mut self,
        schema: &Schema,
        id: FieldId,
        value: Value<'_>,
        out: &mut Analysed,
        position: &mut u32,
    ) -> Result<(), ValueError> {
        let field = schema.field(id);
        match (&field.kind, value) {
            (Kind::Vector, _) => {}
            (Kind::Numeric, Value::Number(number)) if !number.is_nan() => {
                number_entry(field, id, number, out)
            }
            (Kind::Numeric, Value::Number(_)) => return Err(ValueError::Number("nan".to_owned())),
            (Kind::Numeric, Value::Text(text)) => {
                let number = parse_number(text)
                    .ok_or_else(|| ValueError::Number(String::from_utf8_lossy(text).into_owned()))?;
                number_entry(field, id, number, out);
            }
            (Kind::Geo, Value::Text(text)) => {
                let cell = parse_position(text).ok_or(ValueError::Geo)?.score();
                number_entry(field, id, cell, out);
            }
            (Kind::Tag { separator, case_sensitive }, value) => {
                let text = match value {
                    Value::Text(text) => String::from_utf8_lossy(text),
                    Value::Bool(value) => if value { "true" } else { "false" }.into(),
                    Value::Number(_) => return Err(ValueError::NumberForText),
                };
                if !field.no_index {
                    let separator = separator.map_or('\0', char::from);
                    for tag in text.split(separator) {
                        let tag = tag.trim_matches(|one: char| one.is_ascii_whitespace());
                        if tag.is_empty() && !(field.index_empty && text.is_empty()) {
                            continue;
                        }
                        let tag = &tag[..tag.floor_char_boundary(TAG_LEN_MAX)];
                        let tag = if *case_sensitive { tag.into() } else { fold_case(tag) };
                        out.tags.push((Space::tags(id), tag.into()));
                    }
                }
            }
            (Kind::Text { weight, stem }, Value::Text(text)) => {
                if !field.no_index {
                    let text = String::from_utf8_lossy(text);
                    let weight = (*weight as u32).max(1);
                    self.words(schema, &text, weight, *stem, schema.text_mask(id), out, position);
                    if text.is_empty() && field.index_empty {
                        self.push(out, "", "", *position, weight, schema.text_mask(id));
                    }
                }
            }
            (Kind::Text { .. }, Value::Number(_)) => return Err(ValueError::NumberForText),
            (Kind::Geo, Value::Number(_)) => return Err(ValueError::Geo),
            (_, Value::Bool(_)) => return Err(ValueError::Bool),
        }
        Ok(())
    }

    fn push(&mut self, out: &mut Analysed, mark: &str, word: &str, position: u32, weight: u32, fields: u128) {
        let start = out.texts.len();
        out.texts.push_str(mark);
        out.texts.push_str(word);
        self.occurrences.push(Occurrence { text: start..out.texts.len(), position, weight, fields });
    }

    #[expect(clippy::too_many_arguments, reason = "the field's options, and where to go on")]
    fn words(
        &mut self,
        schema: &Schema,
        text: &str,
        weight: u32,
        stem: bool,
        fields: u128,
        out: &mut Analysed,
        position: &mut u32,
    ) {
        let stems = self.stems.take();
        let mut known = std::mem::take(&mut self.known_stems);
        for token in tokens(text) {
            if schema.stop_words.contains(&token.word) {
                continue;
            }
            *position = position.saturating_add(1);
            out.len = out.len.saturating_add(weight);
            self.push(out, "", &token.word, *position, weight, fields);
            if !stem || token.word.len() < STEMMED_LEN_MIN {
                continue;
            }
            if let Some(known) = known.get(&*token.word) {
                // As in RediSearch the field's weight is the word's alone.
                known.iter().for_each(|stem| self.push(out, "+", stem, *position, 1, fields));
                continue;
            }
            let stem = stems.as_ref().and_then(|(_, stems)| stems.stem(&token.word));
            let stem: Option<Box<str>> = stem.filter(|stem| *stem != token.word).map(|stem| stem.into());
            stem.iter().for_each(|stem| self.push(out, "+", stem, *position, 1, fields));
            if known.len() == STEMS_MAX {
                known.clear();
            }
            known.insert((&*token.word).into(), stem);
        }
        (self.stems, self.known_stems) = (stems, known);
    }

    /// Brings the occurrences of each word together.
    fn gather(&mut self, out: &mut Analysed) {
        let texts = &out.texts;
        self.occurrences.sort_unstable_by(|a, b| {
            (&texts[a.text.clone()], a.position).cmp(&(&texts[b.text.clone()], b.position))
        });
        let mut rest = &self.occurrences[..];
        while let Some(first) = rest.first() {
            let word = &texts[first.text.clone()];
            let same = rest.iter().take_while(|one| &texts[one.text.clone()] == word).count();
            let (occurrences, after) = rest.split_at(same);
            rest = after;
            let frequency = occurrences.iter().fold(0u32, |sum, one| sum.saturating_add(one.weight));
            let fields = occurrences.iter().fold(0, |all, one| all | one.fields);
            self.positions.clear();
            self.positions.extend(occurrences.iter().map(|one| one.position));
            let start = out.payloads.len();
            push_hit(&mut out.payloads, frequency, fields, &self.positions);
            out.words.push((first.text.clone(), start..out.payloads.len()));
            out.frequency_max = out.frequency_max.max(frequency);
        }
    }
}

fn number_entry(field: &Field, id: FieldId, number: f64, out: &mut Analysed) {
    // -0 and 0 are one value.
    let number = number + 0.0;
    if !field.no_index && !out.numbers.contains(&(id, number)) {
        out.numbers.push((id, number));
    }
}

fn sort_value(field: &Field, value: Value<'_>) -> SortValue {
    match (&field.kind, value) {
        (Kind::Numeric, Value::Text(text)) => parse_number(text).map_or(SortValue::None, SortValue::Number),
        (_, Value::Number(number)) => SortValue::Number(number),
        (_, Value::Bool(value)) => SortValue::Text(if value { "true" } else { "false" }.into()),
        (_, Value::Text(text)) => {
            let text = String::from_utf8_lossy(text);
            SortValue::Text(if field.keep_case { text.into() } else { fold_case(&text).into() })
        }
    }
}

/// A number as C's `strtod` reads it, all of the text, without spaces before it.
pub fn parse_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| !number.is_nan());
    }
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"))?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok()? as f64;
    Some(if negative { -number } else { number })
}

/// `longitude,latitude` or both with a space between.
fn parse_position(text: &[u8]) -> Option<Position> {
    let text = std::str::from_utf8(text).ok()?;
    let (longitude, latitude) = text.split_once(',').or_else(|| text.split_once(' '))?;
    Position::new(longitude.trim().parse().ok()?, latitude.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analyse(schema: &Schema, values: &[(FieldId, Value<'_>)]) -> Result<Analysed, ValueError> {
        let document = Document { key: b"k", score: 1.0, language: Language::English, values };
        Analyser::default().analyse(schema, &document)
    }

    fn words(analysed: &Analysed) -> Vec<&str> {
        analysed.words.iter().map(|(text, _)| &analysed.texts[text.clone()]).collect()
    }

    #[test]
    fn words_have_stems_weights_and_places() {
        let heavy = Field::new("u", Kind::Text { weight: 2.5, stem: false });
        let schema = Schema::new(vec![Field::text("t"), heavy]).unwrap();
        let values = [(0, Value::Text(b"Running the runs, alpha")), (1, Value::Text(b"alpha runs"))];
        let analysed = analyse(&schema, &values).unwrap();
        assert_eq!(words(&analysed), ["+run", "alpha", "running", "runs"]);
        // 3 words of weight 1 and 2 of weight 2.
        assert_eq!((analysed.len, analysed.frequency_max), (7, 3), "alpha: 1 and 2");
    }

    #[test]
    fn tags_are_cut_trimmed_and_folded() {
        let exact = Field::new("c", Kind::Tag { separator: Some(b';'), case_sensitive: true });
        let schema = Schema::new(vec![Field::tag("g"), exact]).unwrap();
        let values = [(0, Value::Text(b"p, Q r ,,p")), (1, Value::Text(b"A,b;C"))];
        let analysed = analyse(&schema, &values).unwrap();
        let tags: Vec<&str> = analysed.tags.iter().map(|(_, tag)| &**tag).collect();
        assert_eq!(tags, ["p", "q r", "A,b", "C"]);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let schema =
            Schema::new(vec![Field::numeric("n"), Field::new("l", Kind::Geo), Field::text("t")]).unwrap();
        for bad in [&b""[..], b" 7", b"x", b"nan", b"0x", b"1 "] {
            assert!(
                matches!(analyse(&schema, &[(0, Value::Text(bad))]), Err(ValueError::Number(_))),
                "{bad:?}"
            );
        }
        for bad in [&b"1"[..], b"x,1", b"181,0", b""] {
            assert_eq!(analyse(&schema, &[(1, Value::Text(bad))]).unwrap_err(), ValueError::Geo);
        }
        assert_eq!(analyse(&schema, &[(2, Value::Bool(true))]).unwrap_err(), ValueError::Bool);
        for (good, number) in
            [(&b"0x10"[..], 16.0), (b"-inf", f64::NEG_INFINITY), (b"1e3", 1000.0), (b"-0", 0.0)]
        {
            assert_eq!(analyse(&schema, &[(0, Value::Text(good))]).unwrap().numbers, [(0, number)]);
        }
    }

    #[test]
    fn missing_and_empty_values_are_entries_where_asked() {
        let mut tag = Field::tag("g");
        (tag.index_missing, tag.index_empty) = (true, true);
        let schema = Schema::new(vec![tag]).unwrap();
        assert_eq!(&*analyse(&schema, &[]).unwrap().tags[0].1, "g");
        let empty = analyse(&schema, &[(0, Value::Text(b""))]).unwrap();
        assert_eq!(empty.tags, [(Space::tags(0), "".into())]);
    }
}
