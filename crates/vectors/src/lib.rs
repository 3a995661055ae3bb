// SPDX-License-Identifier: BSD-3-Clause
//! Nearest neighbours of vectors: a graph that is searched by walking, after Malkov and Yashunin's
//! HNSW, with real deletion.
//!
//! ```text
//! change     add, replace, remove
//! search     searches; matching: with a filter
//! store      the graph in memory
//! beam       the walk of one level, and the descent to it
//! near       the search for the place of a new vector
//! place      what it finds, kept until the vector is added
//! plan       which links a new vector will get
//! link       which vectors are linked: on insertion, and the repair after a removal
//! codec      vectors as words: quantisation and distances
//! kernels    the inner loops, for each kind of processor
//! blocks     memory: records in blocks, shared with a snapshot until they change
//! block      one of them: words, and a count of owners
//! parallel   adding from many threads; locks: their locks
//! shared     walking while vectors are added
//! save       the graph as bytes and back, links included
//! projection projections to fewer dimensions
//! ```
//! Vectors are numbered from 0 without gaps: removal gives the last vector the number of the
//! removed one. Links are mutual on every level, so removal knows who refers to the removed vector
//! and repairs the graph there; nothing is left behind. The same requests in the same order make
//! the same graph on every processor.
//!
//! This crate knows neither names nor attributes of vectors, nor keys, files or threads; its users
//! map numbers to whatever they store. Never reachable: a panic from bytes given to [`Loader`].

mod beam;
mod block;
mod blocks;
mod change;
mod codec;
mod kernels;
mod link;
mod locks;
mod matching;
mod near;
mod parallel;
mod place;
mod plan;
mod projection;
mod save;
mod search;
mod shared;
mod store;

#[cfg(test)]
mod tests;

pub use codec::Codec;
pub use matching::Matches;
pub use near::Near;
pub use parallel::Adder;
pub use place::{Found, State, Visit};
pub use projection::Projection;
pub use save::Loader;
pub use search::{Hit, Query};
pub use shared::{Guest, SharedGraph};
pub use store::Graph;

/// Maximum number of components.
pub const DIM_MAX: u32 = 65_536;
/// Minimum and maximum number of links that a new vector gets on each level.
pub const LINKS: std::ops::RangeInclusive<u32> = 2..=4096;
/// Maximum number of vectors.
pub const LEN_MAX: usize = (1 << 31) - 2;
/// Highest level.
pub const LEVEL_MAX: u8 = 15;

/// What is close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The angle between vectors, whatever their lengths.
    Cosine,
    /// The product of vectors.
    InnerProduct,
    /// The Euclidean distance.
    L2,
}

/// How components are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantisation {
    /// As they are, 4 bytes each.
    F32,
    /// A byte each.
    I8,
    /// The sign only, a bit each.
    Bin,
}

/// What does not change in the life of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub metric: Metric,
    pub quantisation: Quantisation,
    /// Components of a vector.
    pub dim: u32,
    /// Links that a new vector gets on each level (M). A vector can have twice as many on the
    /// lowest level, where all are, and this many on the others.
    pub links: u32,
}

/// Why a graph refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a vector has {0} components, but the graph's have {1}")]
    Dimension(usize, u32),
    #[error("a graph's dimension or number of links is out of range")]
    Shape,
    #[error("the graph is full")]
    Full,
    #[error("not a graph, or damaged: {0}")]
    Damaged(&'static str),
}
