// SPDX-License-Identifier: BSD-3-Clause
//! The command line of braid-top.

use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

const HELP: &str = "\
Usage: braid-top [OPTIONS]

Shows the activity of a Redis-compatible server: threads, commands, clients, memory, slow log.

Connection:
";

const HELP_OWN: &str = "
Options:
      --interval S        seconds between updates (1)
      --once              print one view and exit: as text, or as JSON with --json
      --clients           with --once: include the clients
      --help, --version   print this text, or the version

Keys: 1-9 or Tab choose a panel, Up and Down a thread, Enter shows its clients, Esc goes back, Left
and Right choose the sort column, r reverses the order, Space pauses, + and - change the interval,
? shows help, q quits.

Exit status of --once: 0; 1 if the server cannot be reached; 2 for a wrong command line.
";

/// The help text.
pub fn help() -> String {
    format!("{HELP}{}{HELP_OWN}", TargetOptions::HELP)
}

/// A command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: TargetOptions,
    pub interval: Duration,
    pub once: bool,
    pub json: bool,
    pub clients: bool,
}

/// The action requested by a command line.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// The shortest interval: more frequent samples would put load on the server.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
pub const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Parses a command line.
///
/// # Errors
/// If a word or an option is unknown, or a value is missing or out of range. The text is for the
/// user.
pub fn parse(arguments: &mut Arguments) -> Result<Request, String> {
    let mut options = Options {
        target: TargetOptions::default(),
        interval: Duration::from_secs(1),
        once: false,
        json: false,
        clients: false,
    };
    while let Some(argument) = arguments.take()? {
        let name = match argument {
            Argument::Option(name) => name,
            Argument::Word(word) => {
                return Err(format!("unexpected argument '{word}' (--help lists the options)"));
            }
        };
        match name.as_str() {
            "--help" => return Ok(Request::Help),
            "-v" | "--version" => return Ok(Request::Version),
            "--interval" | "-i" => {
                let seconds: f64 = arguments.value(&name)?;
                options.interval = Duration::try_from_secs_f64(seconds)
                    .ok()
                    .filter(|interval| (INTERVAL_MIN..=INTERVAL_MAX).contains(interval))
                    .ok_or("--interval must be between 0.1 and 60 seconds")?;
            }
            "--once" => options.once = true,
            "--json" => options.json = true,
            "--clients" => options.clients = true,
            _ if options.target.accept(&name, arguments)? => {}
            _ => return Err(format!("unknown option {name} (--help lists them)")),
        }
    }
    if options.json && !options.once {
        return Err("--json needs --once".into());
    }
    Ok(Request::Run(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_read() {
        let parsed = |line: &str| parse(&mut Arguments::from_words(line.split_whitespace()));
        let Ok(Request::Run(options)) = parsed("-p 7000 --once --json --interval 0.5") else {
            panic!("the options are valid")
        };
        assert_eq!(
            (options.target.port, options.once, options.interval),
            (Some(7000), true, Duration::from_millis(500))
        );
        for wrong in ["--json", "--interval 0", "--interval x", "word", "--nothing", "-p"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(parsed("--help"), Ok(Request::Help)));
    }
}
