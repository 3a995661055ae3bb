// SPDX-License-Identifier: BSD-3-Clause
//! Positions on Earth: sorted sets (`sorted_set`) whose scores are geohashes.

pub mod commands;
