// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster's main program.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use braid_client::Arguments;
use braid_cluster::options::{self, Action, Request};
use braid_cluster::{failover, gather, promote, status};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// The group works, but not as it should, or has no primary.
const NOT_WHOLE: u8 = 3;

fn main() -> ExitCode {
    // Alone it cannot mean a host.
    if std::env::args_os().skip(1).eq(["-h"]) {
        return print(&options::help(), 0);
    }
    let options = match options::parse(&mut Arguments::of_process()) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => return print(&options::help(), 0),
        Ok(Request::Version) => return print(concat!("braid-cluster ", env!("CARGO_PKG_VERSION"), "\n"), 0),
        Err(message) => return fail(USAGE, &message),
    };
    match &options.action {
        Action::Promote { timeout } => match promote::run(&options.target, *timeout) {
            Ok(text) => print(&text, 0),
            Err(message) => fail(FAILED, &message),
        },
        Action::Status => match gather::group(&options.target) {
            Ok(group) => print(&status::text(&group), if group.is_whole() { 0 } else { NOT_WHOLE }),
            Err(message) => fail(FAILED, &message),
        },
        Action::Failover { to, timeout } => match failover::run(&options.target, to.as_deref(), *timeout) {
            Ok(text) => print(&text, 0),
            Err(message) => fail(FAILED, &message),
        },
    }
}

/// Prints to standard output; that nobody reads it any more is no error worth a message.
fn print(text: &str, code: u8) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}

fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("braid-cluster: {message}");
    ExitCode::from(code)
}
