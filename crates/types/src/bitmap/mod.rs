// SPDX-License-Identifier: BSD-3-Clause
//! Bitmaps: commands on strings (`string`) as arrays of bits.

pub mod commands;
