// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: strings (`string`) in a certain format.

pub mod commands;
