//! Clock, locks, hashing, numbers and bytes: what every layer uses and none of it knows Redis.

pub mod alloc;
pub mod blob;
pub mod clock;
pub mod gate;
pub mod hash;
pub mod lock;
pub mod prefetch;
pub mod process_title;
pub mod slots;
pub mod sync;
pub mod system_text;

// Text and numbers.
pub mod crc;
pub mod digest;
pub mod glob;
pub mod long_double;
pub mod number;
pub mod plural;

pub use crossbeam_utils::CachePadded as Padded;
