// SPDX-License-Identifier: BSD-3-Clause
//! Runs queries: a plan over the whole index, cursors over one part at a time, scores, and the best
//! results.

mod bits;
mod cursor;
mod error;
mod expand;
mod explain;
mod explanation;
mod fusion;
mod plan;
mod profile;
mod score;
mod search;
mod top;
mod vectors;

pub use bits::DocSet;
pub use error::SearchError;
pub use expand::{Matched, distance_within, expand};
pub use explain::explain;
pub use explanation::Explanation;
pub use fusion::{Fused, Fusion, fuse};
pub use plan::{Plan, PlanOptions};
pub use profile::{Children, Clock, Report, Reported};
pub use score::Scorer;
pub use search::{Search, SearchOptions, Status};
pub use top::{Hit, Order};
pub use vectors::{NoVectors, Vectors};
