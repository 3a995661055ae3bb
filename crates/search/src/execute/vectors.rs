// SPDX-License-Identifier: BSD-3-Clause
//! The caller's vector indexes, as queries see them.
//!
//! A graph of vectors is one for all parts, so it is not here. It knows documents by the
//! [`DocRef`] that [`crate::index::Index::put`] returned; a reference that is out of date is
//! ignored when results are gathered.

use super::bits::DocSet;
use crate::index::DocRef;
use crate::query::VectorOptions;
use crate::schema::FieldId;

pub trait Vectors {
    /// The nearest documents, if given among those allowed only, with their distances, in any
    /// order.
    ///
    /// # Errors
    ///
    /// What the client is told, for instance of a vector of the wrong size.
    fn nearest(
        &self,
        field: FieldId,
        vector: &[u8],
        count: usize,
        options: &VectorOptions,
        allowed: Option<&DocSet>,
    ) -> Result<Vec<(DocRef, f64)>, String>;

    /// All documents within a distance, in any order.
    ///
    /// # Errors
    ///
    /// What the client is told.
    fn within(
        &self,
        field: FieldId,
        vector: &[u8],
        radius: f64,
        options: &VectorOptions,
    ) -> Result<Vec<(DocRef, f64)>, String>;
}

/// For indexes without vectors.
pub struct NoVectors;

impl Vectors for NoVectors {
    fn nearest(
        &self,
        _: FieldId,
        _: &[u8],
        _: usize,
        _: &VectorOptions,
        _: Option<&DocSet>,
    ) -> Result<Vec<(DocRef, f64)>, String> {
        Ok(Vec::new())
    }

    fn within(&self, _: FieldId, _: &[u8], _: f64, _: &VectorOptions) -> Result<Vec<(DocRef, f64)>, String> {
        Ok(Vec::new())
    }
}
