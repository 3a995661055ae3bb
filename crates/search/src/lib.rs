// SPDX-License-Identifier: BSD-3-Clause
//! Full-text search.

pub mod aggregate;
pub mod execute;
pub mod index;
pub mod query;
pub mod schema;
pub mod text;
pub mod words;
