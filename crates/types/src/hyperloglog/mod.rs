// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: strings (`string`) of a certain form.

mod commands;

pub use commands::COMMANDS;
