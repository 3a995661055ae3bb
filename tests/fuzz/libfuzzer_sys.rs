// SPDX-License-Identifier: BSD-3-Clause
//! The part of libFuzzer's interface that the fuzz targets use, without the fuzzer: a target
//! becomes a function. Only the tests beside this file use it; fuzz/ uses the real crate.

/// Makes the closure a function of the target's module.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:expr) => {
        pub fn fuzz($input: &[u8]) {
            $body
        }
    };
}
