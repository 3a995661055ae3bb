// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: strings (`string`) in a special format.

pub mod commands;
