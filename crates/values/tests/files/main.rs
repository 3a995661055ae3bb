// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the crate `persistence` with values of all types.

mod rewrite;
mod save_and_load;
mod snapshot;
