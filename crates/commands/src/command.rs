//! Being written.
use braid_engine::Spec;
pub const COMMANDS: &[Spec] = &[];
