// SPDX-License-Identifier: BSD-3-Clause
//! What FT.CREATE says of an index, read from its arguments.
//!
//! The arguments themselves are kept: files and replicas get them as they came.

mod field;

use braid_search::aggregate::{Expression, parse_expression};
use braid_search::schema::{Field, FieldId, Schema};
use braid_search::text::{Language, StopWords};
use braid_spec::CommandError;

use crate::arguments::{Arguments, error, lossy};

pub use field::{Algorithm, ElementType, VectorField, parse_field};

/// How a field is described beyond the schema.
#[derive(Clone, Debug, Default)]
pub struct FieldExtra {
    pub phonetic: Option<String>,
    pub has_suffixes: bool,
    pub unf: bool,
    /// INDEXEMPTY and INDEXMISSING, which may stand among the options of a kind.
    pub index_empty: bool,
    pub index_missing: bool,
    pub vector: Option<VectorField>,
}

/// FILTER: an expression over fields of the document.
#[derive(Clone, Debug)]
pub struct Filter {
    pub text: String,
    pub expression: Expression,
    /// The properties that it reads, by column.
    pub inputs: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Definition {
    pub name: Box<[u8]>,
    pub is_json: bool,
    /// At least one; the empty one is all keys.
    pub prefixes: Vec<Box<[u8]>>,
    pub filter: Option<Filter>,
    pub language: Language,
    pub language_field: Option<Box<[u8]>>,
    pub score: f32,
    pub score_field: Option<Box<[u8]>>,
    pub schema: Schema,
    /// By field.
    pub extras: Vec<FieldExtra>,
    pub has_offsets: bool,
    pub has_highlights: bool,
    pub has_fields: bool,
    pub has_frequencies: bool,
    pub skips_scan: bool,
    pub stop_words: Option<Vec<Box<[u8]>>>,
}

/// Reads FT.CREATE's arguments after the name of the index.
///
/// # Errors
/// What is wrong with them, in RediSearch's words.
pub fn parse(name: &[u8], args: &[&[u8]]) -> Result<Definition, CommandError> {
    let mut args = Arguments::new(args);
    let mut definition = Definition {
        name: name.into(),
        is_json: false,
        prefixes: Vec::new(),
        filter: None,
        language: Language::English,
        language_field: None,
        score: 1.0,
        score_field: None,
        schema: Schema::new(Vec::new()).map_err(|wrong| error(wrong.to_string()))?,
        extras: Vec::new(),
        has_offsets: true,
        has_highlights: true,
        has_fields: true,
        has_frequencies: true,
        skips_scan: false,
        stop_words: None,
    };
    while !args.is_empty() && !args.take("SCHEMA") {
        parse_option(&mut definition, &mut args)?;
        if args.is_empty() {
            return Err(error("No schema found"));
        }
    }
    if args.is_empty() {
        return Err(error("Fields arguments are missing"));
    }
    definition.add_fields(&mut args)?;
    if definition.prefixes.is_empty() {
        definition.prefixes.push(Box::default());
    }
    definition.schema.language = definition.language;
    if let Some(words) = &definition.stop_words {
        definition.schema.stop_words = StopWords::of(words.iter().map(|word| lossy(word)));
    }
    Ok(definition)
}

fn parse_option(definition: &mut Definition, args: &mut Arguments<'_>) -> Result<(), CommandError> {
    let word = args.next().unwrap_or_default();
    match word.to_ascii_uppercase().as_slice() {
        b"ON" => {
            let kind = args.value("ON")?;
            definition.is_json = match kind.to_ascii_uppercase().as_slice() {
                b"HASH" => false,
                b"JSON" => true,
                _ => return Err(error(format!("Invalid rule type: {}", lossy(kind)))),
            };
        }
        b"PREFIX" => definition.prefixes = args.counted("PREFIX")?.iter().map(|&one| one.into()).collect(),
        b"FILTER" => definition.filter = Some(parse_filter(&lossy(args.value("FILTER")?))?),
        b"LANGUAGE" => {
            let language = Language::parse(args.value("LANGUAGE")?);
            definition.language = language.ok_or_else(|| error("Invalid language"))?;
        }
        b"LANGUAGE_FIELD" => definition.language_field = Some(args.value("LANGUAGE_FIELD")?.into()),
        b"SCORE" => {
            let score: f64 = args.number("SCORE").map_err(|_| error("Invalid score"))?;
            if !(0.0..=1.0).contains(&score) {
                return Err(error("Invalid score"));
            }
            definition.score = score as f32;
        }
        b"SCORE_FIELD" => definition.score_field = Some(args.value("SCORE_FIELD")?.into()),
        b"PAYLOAD_FIELD" => drop(args.value("PAYLOAD_FIELD")?),
        b"TEMPORARY" => {
            args.value("TEMPORARY")?;
            return Err(error("TEMPORARY indexes are not supported"));
        }
        b"MAXTEXTFIELDS" => {}
        b"NOOFFSETS" => (definition.has_offsets, definition.has_highlights) = (false, false),
        b"NOHL" => definition.has_highlights = false,
        b"NOFIELDS" => definition.has_fields = false,
        b"NOFREQS" => definition.has_frequencies = false,
        b"SKIPINITIALSCAN" => definition.skips_scan = true,
        b"ASYNC" => {}
        b"STOPWORDS" => {
            definition.stop_words = Some(args.counted("STOPWORDS")?.iter().map(|&one| one.into()).collect());
        }
        _ => return Err(error(format!("Unknown argument `{}`", lossy(word)))),
    }
    Ok(())
}

fn parse_filter(text: &str) -> Result<Filter, CommandError> {
    let mut inputs: Vec<String> = Vec::new();
    let expression = parse_expression(text, |name| {
        let at = inputs.iter().position(|one| one == name);
        Ok(at.unwrap_or_else(|| {
            inputs.push(name.to_owned());
            inputs.len() - 1
        }))
    });
    let expression = expression.map_err(|wrong| error(wrong.to_string()))?;
    Ok(Filter { text: text.to_owned(), expression, inputs })
}

impl Definition {
    /// Reads fields up to the end of the arguments and adds them to the schema.
    ///
    /// # Errors
    /// What is wrong with one of them; the definition is of no use then.
    pub fn add_fields(&mut self, args: &mut Arguments<'_>) -> Result<(), CommandError> {
        while !args.is_empty() {
            let (field, extra) = parse_field(args, self.is_json)?;
            self.schema.push(field).map_err(|wrong| error(wrong.to_string()))?;
            self.extras.push(extra);
        }
        Ok(())
    }

    /// Whether keys of this name may be documents.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The fields with vectors.
    pub fn vector_fields(&self) -> impl Iterator<Item = (FieldId, &VectorField)> {
        let fields = self.extras.iter().enumerate();
        fields.filter_map(|(id, extra)| extra.vector.as_ref().map(|vector| (id as FieldId, vector)))
    }

    /// The field that queries call by this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.schema.find(name).map(|id| self.schema.field(id))
    }
}
