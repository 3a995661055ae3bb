//! The program braid-check-rdb.

use std::fs::File;
use std::process::ExitCode;

const USAGE: &str = "Usage: braid-check-rdb <rdb-file-name>\n";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = arguments.as_slice() else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match path.to_str() {
        Some("--help" | "-h") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some("--version" | "-v") => {
            println!("braid-check-rdb {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let name = path.to_string_lossy();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            eprintln!("Cannot open file {name}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let len = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
    let findings = braid_check::check_rdb(&name, file, len, braid_base::clock::unix_ms());
    print!("{}", findings.lines);
    if findings.is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
