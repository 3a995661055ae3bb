// SPDX-License-Identifier: BSD-3-Clause
//! A family of commands, as defined by the files in `families/`.

/// Commands on one type or topic.
pub struct Family {
    pub name: &'static str,
    /// Relative frequency.
    pub weight: u32,
    /// Keys are mostly this prefix and a digit; empty for keys of all types.
    pub key_prefix: &'static str,
    /// One template per line, in the language of `grammar.rs`.
    pub templates: &'static str,
    /// The stock server that knows these commands: a prefix of its `Peer::version`. Empty: any.
    pub peer: &'static str,
}
