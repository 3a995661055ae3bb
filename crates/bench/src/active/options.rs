// SPDX-License-Identifier: BSD-3-Clause
//! Command line of `braid-bench active`.

use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

/// Help of the subcommand.
pub const HELP: &str = "
active: writes on all servers, which take from each other, cuts and heals the links between them
through proxies of its own, and tells what each holds in the end. A server is HOST:PORT or a
redis:// address, or a command line to be started as in compare; it must have active-replica yes.
Braid's servers are linked by active-peers, others by REPLICAOF. Keys have a prefix of the run.
      --seconds S         how long to write (10)
      --cuts N            how often links are cut meanwhile (3)
      --rate N            writes per second in all (1000; 0: as fast as they are answered)
      --clients N         connections that write, for each server (2)
      --keys N            keys of each kind (8)
      --patience S        how long to wait for agreement in the end (30)
      --proxy-host HOST   where servers reach the proxies (127.0.0.1)
      --seed N            of everything random
      --json, --markdown  the result as JSON; the table in Markdown
";

/// A server as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// HOST:PORT, or a URI.
    Running(String),
    /// A command line.
    Command(String),
}

/// The form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Markdown,
}

/// A whole command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub servers: Vec<Named>,
    /// Passwords, TLS and so on, the same for all.
    pub target: TargetOptions,
    pub time: Duration,
    pub cuts: usize,
    /// 0: no limit.
    pub rate: f64,
    pub clients: usize,
    pub keys: u32,
    pub patience: Duration,
    pub proxy_host: String,
    pub seed: u64,
    pub form: Form,
}

/// The action that a command line requests.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
}

/// Servers at most: there is a pair of threads for each link.
const SERVERS_MAX: usize = 8;

/// Parses what follows `active`. Errors are messages for the user.
pub fn parse(arguments: &mut Arguments) -> Result<Request, String> {
    let mut options = Options {
        servers: Vec::new(),
        target: TargetOptions::default(),
        time: Duration::from_secs(10),
        cuts: 3,
        rate: 1000.0,
        clients: 2,
        keys: 8,
        patience: Duration::from_secs(30),
        proxy_host: "127.0.0.1".into(),
        seed: fastrand::u64(..1 << 32),
        form: Form::Text,
    };
    while let Some(argument) = arguments.take()? {
        let name = match argument {
            Argument::Word(word) => {
                options.servers.push(named(word));
                continue;
            }
            Argument::Option(name) => name,
        };
        match name.as_str() {
            "--help" => return Ok(Request::Help),
            "--seconds" | "--duration" => options.time = arguments.seconds(&name)?,
            "--cuts" => options.cuts = arguments.value(&name)?,
            "--rate" => options.rate = arguments.value(&name)?,
            "--clients" => options.clients = arguments.value(&name)?,
            "--keys" => options.keys = arguments.value(&name)?,
            "--patience" => options.patience = arguments.seconds(&name)?,
            "--proxy-host" => options.proxy_host = arguments.text()?,
            "--seed" => options.seed = arguments.value(&name)?,
            "--json" => options.form = Form::Json,
            "--markdown" => options.form = Form::Markdown,
            // Each server has an address of its own.
            "-h" | "--host" | "-p" | "--port" | "-s" | "--socket" | "-u" | "--uri" => {
                return Err(format!("{name}: servers are named by words, HOST:PORT or redis://.."));
            }
            _ if options.target.accept(&name, arguments)? => {}
            _ => return Err(format!("unknown option {name} (--help lists them)")),
        }
    }
    match options.servers.len() {
        0 | 1 => return Err("active needs two servers at least: braid-bench active A:6379 B:6379".into()),
        2..=SERVERS_MAX => {}
        count => return Err(format!("{count} servers are too many: {SERVERS_MAX} at most")),
    }
    if options.clients == 0 || options.keys == 0 {
        return Err("--clients and --keys must be at least 1".into());
    }
    if !(options.rate >= 0.0 && options.rate.is_finite()) {
        return Err("--rate must not be below 0".into());
    }
    if options.cuts > 0 && options.time.as_secs_f64() / (options.cuts as f64) < 0.1 {
        return Err(format!("{} cuts need more time: --seconds", options.cuts));
    }
    Ok(Request::Run(Box::new(options)))
}

/// A command line has blanks, or no port.
fn named(word: String) -> Named {
    let has_port = word.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match !word.contains(' ') && (has_port || word.contains("://")) {
        true => Named::Running(word),
        false => Named::Command(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Options, String> {
        match parse(&mut Arguments::from_words(words))? {
            Request::Run(options) => Ok(*options),
            Request::Help => Err("help".into()),
        }
    }

    #[test]
    fn servers_are_addresses_or_command_lines() {
        let words = ["a:1", "redis://:p@b:2", "keydb-server --active-replica yes", "./braid-server"];
        let options = parsed(&words).expect("good");
        assert_eq!(
            options.servers,
            [
                Named::Running(words[0].into()),
                Named::Running(words[1].into()),
                Named::Command(words[2].into()),
                Named::Command(words[3].into()),
            ]
        );
        let options = parsed(&["a:1", "--seconds", "2.5s", "b:2", "--cuts", "4", "--json", "--seed", "7"]);
        let options = options.expect("good");
        assert_eq!((options.time, options.cuts), (Duration::from_millis(2500), 4));
        assert_eq!((options.form, options.seed), (Form::Json, 7));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (words, said) in [
            (&["a:1"][..], "two servers at least"),
            (&["a:1", "b:2", "-p", "3"], "named by words"),
            (&["a:1", "b:2", "--seconds", "1", "--cuts", "50"], "more time"),
            (&["a:1", "b:2", "--clients", "0"], "at least 1"),
            (&["a:1", "b:2", "--rate", "-1"], "below 0"),
            (&["a:1", "b:2", "--nonsense"], "unknown option"),
            (&["a:1"; 9], "too many"),
        ] {
            let error = parsed(words).expect_err("refused");
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
