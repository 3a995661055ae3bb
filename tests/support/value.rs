// SPDX-License-Identifier: BSD-3-Clause
//! Replies as tests see them: every byte of what the server said.

pub use braid_client::reply::{ParseError, Reply as Value};
