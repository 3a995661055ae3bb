// SPDX-License-Identifier: BSD-3-Clause
//! The program braid-check-aof.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (mut out, mut answers) = (std::io::stdout().lock(), std::io::stdin().lock());
    let code = braid_check::aof::main(&arguments, &mut out, &mut answers, braid_base::clock::unix_ms());
    let _ = out.flush();
    ExitCode::from(code)
}
