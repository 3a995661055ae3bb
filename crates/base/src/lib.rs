// SPDX-License-Identifier: BSD-3-Clause
//! Foundation: clock, locks, hashing, numbers and bytes. Knows no more of Redis than its text
//! formats.

#[cfg(not(target_os = "linux"))]
compile_error!("Braid runs on Linux only: it uses epoll, eventfd, /proc and other interfaces of that kernel");
#[cfg(not(target_pointer_width = "64"))]
compile_error!("Braid runs on 64-bit processors only");

pub mod alloc;
pub mod blob;
pub mod budget;
pub mod build;
pub mod clock;
pub mod gate;
pub mod hash;
pub mod lock;
pub mod prefetch;
pub mod process_title;
pub mod relocation;
pub mod sharing;
pub mod slots;
pub mod sync;
pub mod system_text;

// Text and numbers.
pub mod crc;
pub mod date;
pub mod digest;
pub mod glob;
pub mod long_double;
pub mod number;
pub mod plural;

pub use crossbeam_utils::CachePadded as Padded;

/// The value at a key has a different type than requested.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongType;
