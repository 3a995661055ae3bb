// SPDX-License-Identifier: BSD-3-Clause
//! RESP replies as tests see them: exactly as the server sent them.

pub use braid_client::reply::{Arrival, ParseError, Reply as Value};
