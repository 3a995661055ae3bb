// SPDX-License-Identifier: BSD-3-Clause
//! Bitmaps: commands that see a string (`string`) as a row of bits.

pub mod commands;
