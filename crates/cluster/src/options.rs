// SPDX-License-Identifier: BSD-3-Clause
//! Command line of braid-cluster.

use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

const HELP: &str = "\
Usage: braid-cluster status [HOST:PORT] [OPTIONS]
       braid-cluster failover [HOST:PORT] [NODE] [OPTIONS]
       braid-cluster promote HOST:PORT --force [OPTIONS]

status    prints the members of a group: roles, epoch, in-sync set, how far replicas are behind
failover  has the primary hand over to a replica, and waits until that is done: to NODE (a name of
          status, or HOST:PORT), or else to the first that has everything
promote   makes the server at HOST:PORT the primary with what it has, in sync or not. For a group
          whose members in sync are lost for good: acknowledged writes that it lacks are lost

Any member will do for HOST:PORT (127.0.0.1:6379). Servers without a group are shown too: a primary
and its replicas.

Where, and how to log in (the same at all members):
";

const HELP_OWN: &str = "
How:
      --timeout S         failover: seconds that replicas have to catch up (10);
                          promote: seconds to wait for the outcome (30)
      --force             promote: yes, I accept that writes may be lost
      --help, --version   this text; the version

Exit status: 0; 1 if a server cannot be asked or the change failed; 2 for a wrong command line;
3 from status if there is no primary, or a member is not reached or not in sync.
";

/// What help prints.
pub fn help() -> String {
    format!("{HELP}{}{HELP_OWN}", TargetOptions::HELP)
}

/// A command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: TargetOptions,
    pub action: Action,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Status,
    Failover { to: Option<String>, timeout: Duration },
    Promote { timeout: Duration },
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Reads a command line. Errors are for the user.
pub fn parse(arguments: &mut Arguments) -> Result<Request, String> {
    let mut target = TargetOptions::default();
    let mut words = Vec::new();
    let (mut timeout, mut force, mut has_address) = (None, false, false);
    while let Some(argument) = arguments.take()? {
        let name = match argument {
            Argument::Option(name) => name,
            Argument::Word(word) => {
                words.push(word);
                continue;
            }
        };
        match name.as_str() {
            "--help" => return Ok(Request::Help),
            "-v" | "--version" => return Ok(Request::Version),
            "--force" => force = true,
            "--timeout" => {
                let seconds: f64 = arguments.value(&name)?;
                let valid = Duration::try_from_secs_f64(seconds).ok();
                let in_range = |timeout: &Duration| (0.001..=86_400.0).contains(&timeout.as_secs_f64());
                timeout =
                    Some(valid.filter(in_range).ok_or("--timeout must be between 0.001 and 86400 seconds")?);
            }
            _ if target.accept(&name, arguments)? => {}
            _ => return Err(format!("unknown option {name} (--help lists them)")),
        }
    }
    let mut words = words.into_iter();
    let action = words.next().ok_or("a command is missing: status, failover or promote (--help)")?;
    let mut next = words.next();
    if let Some((host, port)) = next.as_deref().and_then(address) {
        (target.host, target.port) = (Some(host), Some(port));
        has_address = true;
        next = words.next();
    }
    let action = match action.as_str() {
        "status" if timeout.is_some() => return Err("--timeout goes with failover and promote".into()),
        "status" | "failover" if force => return Err("--force goes with promote".into()),
        "promote"
            if !has_address && target.host.is_none() && target.port.is_none() && target.socket.is_none() =>
        {
            return Err("promote needs the server's HOST:PORT".into());
        }
        "promote" if !force => {
            return Err("promote may lose acknowledged writes: --force says that you accept that".into());
        }
        "promote" => Action::Promote { timeout: timeout.unwrap_or(Duration::from_secs(30)) },
        "status" => Action::Status,
        "failover" => {
            Action::Failover { to: next.take(), timeout: timeout.unwrap_or(Duration::from_secs(10)) }
        }
        other => return Err(format!("'{other}' is no command: status, failover or promote (--help)")),
    };
    match next.or_else(|| words.next()) {
        Some(word) => Err(format!("'{word}' is one word too many (--help)")),
        None => Ok(Request::Run(Box::new(Options { target, action }))),
    }
}

/// Reads `host:port`; an IPv6 address stands in brackets. None if it is something else.
pub fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || bare.is_none() && host.contains(':') {
        return None;
    }
    Some((bare.unwrap_or(host).to_owned(), port.parse().ok().filter(|port| *port != 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        match parse(&mut Arguments::from_words(line.split_whitespace()))? {
            Request::Run(options) => Ok(*options),
            Request::Help | Request::Version => Err("help".into()),
        }
    }

    #[test]
    fn command_lines_are_read() {
        let options = parsed("status [::1]:7001 -a secret").unwrap();
        assert_eq!(options.action, Action::Status);
        assert_eq!((options.target.host.as_deref(), options.target.port), (Some("::1"), Some(7001)));
        let default = Duration::from_secs(10);
        let failover = |line: &str| parsed(line).unwrap().action;
        assert_eq!(failover("failover"), Action::Failover { to: None, timeout: default });
        let to_node = Action::Failover { to: Some("b".into()), timeout: Duration::from_millis(500) };
        assert_eq!(failover("failover db1:7001 b --timeout 0.5"), to_node);
        let to_address = Action::Failover { to: Some("db2:7002".into()), timeout: default };
        assert_eq!(failover("failover db1:7001 db2:7002"), to_address);
        assert_eq!(failover("promote a:1 --force"), Action::Promote { timeout: Duration::from_secs(30) });
        assert_eq!(
            failover("failover -p 7000 b"),
            Action::Failover { to: Some("b".into()), timeout: default }
        );
    }

    #[test]
    fn wrong_command_lines_are_told() {
        for (line, part) in [
            ("", "a command is missing"),
            ("state", "'state' is no command"),
            ("status a:1 b", "'b' is one word too many"),
            ("status nowhere", "'nowhere' is one word too many"),
            ("failover a:1 b c", "'c' is one word too many"),
            ("status --timeout 3", "goes with failover"),
            ("failover --force", "goes with promote"),
            ("promote --force", "needs the server's HOST:PORT"),
            ("promote a:1", "may lose acknowledged writes"),
            ("failover --timeout 0", "between"),
            ("status --nothing", "unknown option"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(address("db:1"), Some(("db".into(), 1)));
        for wrong in ["db", "db:", ":1", "db:x", "db:0", "db:70000", "::1", "::1:80"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
