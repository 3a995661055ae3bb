// SPDX-License-Identifier: BSD-3-Clause
//! The program braid-check-rdb.
#![forbid(unsafe_code)]

use std::fs::File;
use std::process::ExitCode;

const USAGE: &str = "Usage: braid-check-rdb [--summary] <rdb-file-name>\n";

const HELP: &str = "
Checks a dump file (RDB) without a server: decodes all of it, as loading does, and prints what it
contains, or where it is damaged. Never changes the file.

  --summary               also print keys and bytes by type, and which keys are of module types
  -h, --help              print this text
  -v, --version           print the version

Exit status: 0 if the file can be loaded; 1 if it is damaged or cannot be read, if it has values of
modules, and for a wrong command line.

Example: braid-check-rdb /var/lib/braid/dump.rdb
";

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let summarizes = arguments.len() == 2 && arguments[0] == "--summary";
    if summarizes {
        arguments.remove(0);
    }
    let [path] = arguments.as_slice() else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match path.to_str() {
        Some("--help" | "-h") => {
            print!("{USAGE}{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("--version" | "-v") => {
            println!("braid-check-rdb {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some(word) if word.starts_with('-') => {
            eprint!("braid-check-rdb: unknown option '{word}'\n{USAGE}");
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    let name = path.to_string_lossy();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            eprintln!("Cannot open file {name}: {}", braid_base::system_text::reason(&error));
            return ExitCode::FAILURE;
        }
    };
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        eprintln!("Cannot read file {name}: it is a directory");
        return ExitCode::FAILURE;
    }
    let len = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
    let findings = braid_check::check_rdb(&name, file, len, braid_base::clock::unix_ms());
    print!("{}", findings.lines);
    if summarizes {
        print!("{}", findings.summary());
    }
    if findings.is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
