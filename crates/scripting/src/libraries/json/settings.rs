// SPDX-License-Identifier: BSD-3-Clause
//! Options of `cjson`; a script sets them for its own run.

/// Settings of `cjson`; every run starts with the defaults.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(super) sparse_convert: bool,
    pub(super) sparse_ratio: i32,
    pub(super) sparse_safe: i32,
    pub(super) encode_depth_max: i32,
    pub(super) decode_depth_max: i32,
    pub(super) precision: i32,
    pub(super) keep_buffer: bool,
    pub(super) encode_invalid: Invalid,
    pub(super) decode_invalid: bool,
}

/// Treatment of numbers that JSON cannot represent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Invalid {
    Refuse,
    Write,
    Null,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refuse,
            decode_invalid: true,
        }
    }
}
