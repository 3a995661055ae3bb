// SPDX-License-Identifier: BSD-3-Clause
//! Functions held by a VM: compiled code, and functions that a library has registered.

use std::ffi::c_int;

use crate::flags::ScriptFlags;

/// Compiled code: a function kept in the VM that compiled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(pub(crate) c_int);

/// A function that a library has registered.
#[derive(Clone, Debug)]
pub struct Registered {
    pub name: Vec<u8>,
    pub description: Option<Vec<u8>>,
    pub flags: ScriptFlags,
    pub function: Function,
}
