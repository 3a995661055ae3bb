// SPDX-License-Identifier: BSD-3-Clause
//! Why a query is not answered.

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SearchError {
    /// In the words of the vector index.
    #[error("{0}")]
    Vectors(String),
    #[error("Property `{0}` not loaded nor in schema")]
    SortField(String),
}
