// SPDX-License-Identifier: BSD-3-Clause
//! What an index holds: its fields and their options.
//!
//! A schema only grows (FT.ALTER adds fields), so a field's number is its identity in postings,
//! records and plans. A schema is immutable once an index has it: a change makes a new one.

use crate::text::{Language, StopWords};

/// The number of a field within its schema.
pub type FieldId = u16;

/// Sets of text fields are words of 128 bits.
pub const TEXT_FIELDS_MAX: usize = 128;
pub const FIELDS_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Text {
        weight: f64,
        stem: bool,
    },
    Tag {
        separator: Option<u8>,
        case_sensitive: bool,
    },
    Numeric,
    Geo,
    /// The vectors are in the caller's index ([`crate::execute::Vectors`]).
    Vector,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in queries: the alias if there is one.
    pub name: Box<str>,
    /// Where the value is in the document: a hash field or a JSON path.
    pub path: Box<str>,
    pub kind: Kind,
    /// Its values are kept in the index, for sorting and grouping without loading.
    pub sortable: bool,
    /// A sortable text keeps its letters' case.
    pub keep_case: bool,
    /// Sortable only.
    pub no_index: bool,
    /// `ismissing(@field)` is answered.
    pub index_missing: bool,
    /// The empty text is a value that can be searched.
    pub index_empty: bool,
}

impl Field {
    pub fn new(name: &str, kind: Kind) -> Field {
        Field {
            name: name.into(),
            path: name.into(),
            kind,
            sortable: false,
            keep_case: false,
            no_index: false,
            index_missing: false,
            index_empty: false,
        }
    }

    pub fn text(name: &str) -> Field {
        Field::new(name, Kind::Text { weight: 1.0, stem: true })
    }

    pub fn tag(name: &str) -> Field {
        Field::new(name, Kind::Tag { separator: Some(b','), case_sensitive: false })
    }

    pub fn numeric(name: &str) -> Field {
        Field::new(name, Kind::Numeric)
    }

    pub fn sortable(mut self) -> Field {
        self.sortable = true;
        self
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SchemaError {
    #[error("Duplicate field in schema - {0}")]
    Duplicate(String),
    #[error("Schema is limited to {FIELDS_MAX} fields")]
    TooManyFields,
    #[error("Schema is limited to {TEXT_FIELDS_MAX} TEXT fields")]
    TooManyTextFields,
}

#[derive(Clone, Debug)]
pub struct Schema {
    fields: Vec<Field>,
    /// Per field, its bit in sets of text fields.
    text_bits: Vec<Option<u8>>,
    pub stop_words: StopWords,
    /// Of documents that name none.
    pub language: Language,
}

impl Schema {
    /// # Errors
    ///
    /// If two fields have one name, or there are too many.
    pub fn new(fields: Vec<Field>) -> Result<Schema, SchemaError> {
        let mut schema = Schema {
            fields: Vec::new(),
            text_bits: Vec::new(),
            stop_words: StopWords::default(),
            language: Language::English,
        };
        for field in fields {
            schema.push(field)?;
        }
        Ok(schema)
    }

    /// Adds a field at the end.
    ///
    /// # Errors
    ///
    /// If a field has its name, or there are too many.
    pub fn push(&mut self, field: Field) -> Result<(), SchemaError> {
        if self.fields.len() == FIELDS_MAX {
            return Err(SchemaError::TooManyFields);
        }
        if self.find(&field.name).is_some() {
            return Err(SchemaError::Duplicate(field.name.into()));
        }
        let texts = self.text_bits.iter().flatten().count();
        let is_text = matches!(field.kind, Kind::Text { .. });
        if is_text && texts == TEXT_FIELDS_MAX {
            return Err(SchemaError::TooManyTextFields);
        }
        self.text_bits.push(is_text.then_some(texts as u8));
        self.fields.push(field);
        Ok(())
    }

    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[usize::from(id)]
    }

    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.fields.iter().position(|field| &*field.name == name).map(|at| at as FieldId)
    }

    /// The field's bit in sets of text fields; 0 if it is not a text.
    pub fn text_mask(&self, id: FieldId) -> u128 {
        self.text_bits[usize::from(id)].map_or(0, |bit| 1 << bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_numbers_its_fields_and_refuses_a_second_of_one_name() {
        let mut schema =
            Schema::new(vec![Field::numeric("n"), Field::text("t"), Field::tag("g"), Field::text("u")])
                .unwrap();
        assert_eq!(schema.find("g"), Some(2));
        assert_eq!((schema.text_mask(1), schema.text_mask(3), schema.text_mask(0)), (1, 2, 0));
        let error = schema.push(Field::tag("t")).unwrap_err();
        assert_eq!(error.to_string(), "Duplicate field in schema - t");
    }

    #[test]
    fn the_number_of_fields_is_limited() {
        let texts = (0..=TEXT_FIELDS_MAX).map(|n| Field::text(&n.to_string())).collect();
        assert_eq!(Schema::new(texts).unwrap_err(), SchemaError::TooManyTextFields);
        let fields = (0..=FIELDS_MAX).map(|n| Field::numeric(&n.to_string())).collect();
        assert_eq!(Schema::new(fields).unwrap_err(), SchemaError::TooManyFields);
    }
}
