// SPDX-License-Identifier: BSD-3-Clause
//! HyperLogLogs: strings (`string`) of a certain form.

pub mod commands;
