// SPDX-License-Identifier: BSD-3-Clause
//! The primary's side: a [`replica::Replica`] for each attached replica, with the options it sent
//! ([`options`]). A replica gets a full sync ([`full_sync`]), then the stream ([`stream_output`])
//! from a position ([`stream_position`]). [`lag`] computes the age of the oldest change that it
//! lacks.

pub mod full_sync;
pub mod lag;
pub mod options;
pub mod replica;
pub mod stream_output;
pub mod stream_position;
