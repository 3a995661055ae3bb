// SPDX-License-Identifier: BSD-3-Clause
//! Replies as tests see them: exactly as the server sent them.

pub use braid_client::reply::{ParseError, Reply as Value};
