// SPDX-License-Identifier: BSD-3-Clause
//! The primary's side: one [`replica::Replica`] for each that is attached, with what it has said
//! ([`options`]), and what it is sent: a full sync ([`full_sync`]), then the stream from a position
//! ([`stream_position`]). [`lag`] tells how old what it lacks is.

pub mod full_sync;
pub mod lag;
pub mod options;
pub mod replica;
pub mod stream_position;
