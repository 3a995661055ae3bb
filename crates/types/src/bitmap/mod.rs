// SPDX-License-Identifier: BSD-3-Clause
//! Bitmaps: commands on a string (`string`) as an array of bits.

pub mod commands;
