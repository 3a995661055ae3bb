// SPDX-License-Identifier: BSD-3-Clause
//! What is wrong with a query, in Redis's words.

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum QueryError {
    /// The offset is in bytes; the word is the last one up to there.
    #[error("Syntax error at offset {offset} near {near}")]
    Syntax { offset: usize, near: String },
    #[error("No such parameter `{0}`")]
    NoParameter(String),
    #[error("Bad lower range: {0}")]
    LowerRange(String),
    #[error("Bad upper range: {0}")]
    UpperRange(String),
    #[error("Invalid attribute {0}")]
    Attribute(String),
    #[error("Invalid value ({value}) for `{name}`")]
    AttributeValue { name: String, value: String },
    #[error("Invalid GeoFilter unit")]
    GeoUnit,
    #[error("Invalid GeoFilter radius")]
    GeoRadius,
    #[error("Invalid GeoFilter lat/lon")]
    GeoPosition,
    #[error("'ismissing' requires field '{0}' to be defined with 'INDEXMISSING'")]
    MissingNotIndexed(String),
    #[error("Use `INDEXEMPTY` in field creation in order to index and query for empty strings")]
    EmptyNotIndexed,
    #[error("Error parsing vector similarity query: negative radius ({0}) given in a range query")]
    NegativeRadius(String),
    #[error("Error parsing vector similarity parameters: Invalid option")]
    VectorOption,
    #[error("Error parsing vector similarity parameters: Invalid value was given")]
    VectorValue,
    #[error("Error parsing vector similarity parameters: invalid hybrid policy was given")]
    VectorPolicy,
    #[error("Error parsing vector similarity parameters: 'batch size' is irrelevant for 'ADHOC_BF' policy")]
    VectorBatch,
    #[error(
        "Error parsing vector similarity parameters: hybrid query attributes were sent for a non-hybrid query"
    )]
    VectorNotFiltered,
    #[error("Property `{0}` already exists in schema")]
    DistanceName(String),
    #[error("DIALECT 1 understands this query in another way and is not supported: use DIALECT 2")]
    Dialect,
    #[error("Query is too long")]
    TooLong,
    #[error("Query is nested too deeply")]
    TooDeep,
}
