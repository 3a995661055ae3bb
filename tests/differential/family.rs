// SPDX-License-Identifier: BSD-3-Clause
//! A family of commands, as the files in `families/` describe them.

/// Commands on one type or around one topic.
pub struct Family {
    pub name: &'static str,
    /// How often it is drawn, against the others.
    pub weight: u32,
    /// Its keys are this and a digit, mostly; empty for keys of all types.
    pub key_prefix: &'static str,
    /// One template a line, in the language of `grammar.rs`.
    pub templates: &'static str,
    /// Which stock server knows these commands: the beginning of a version as `Peer::version` has
    /// it. Empty: any.
    pub peer: &'static str,
}
