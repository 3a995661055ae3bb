// SPDX-License-Identifier: BSD-3-Clause
//! The command line of `braid-bench active`.

use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

/// Help of the subcommand.
pub const HELP: &str = "
active: writes to all of several servers that replicate each other, cuts and restores the links
between them with its own proxies, and compares the data of all servers at the end. A server is
HOST:PORT, a redis:// address, or a command line, started as in compare; it must have active-replica
yes. Braid servers are linked by active-peers, others by REPLICAOF. All keys have the run's prefix.
      --seconds S         seconds of writing (10)
      --cuts N            how often links are cut during that time (3)
      --rate N            writes per second in total (1000; 0: unlimited)
      --clients N         writing connections per server (2)
      --keys N            keys of each kind (8)
      --patience S        seconds to wait for the servers to agree at the end (30)
      --proxy-host HOST   the proxies' host, as the servers reach it (127.0.0.1)
      --seed N            seed of the random numbers
      --json, --markdown  print the result as JSON; the table in Markdown
";

/// A server as named on the command line.
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

/// Maximum number of servers: each link needs a pair of threads.
const SERVERS_MAX: usize = 8;

/// Parses the words after `active`.
///
/// # Errors
/// If an option is unknown, or a value is missing, out of range or contradicts another. The text is
/// for the user.
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
                return Err(format!("{name}: a server is HOST:PORT, a redis:// address or a command line"));
            }
            _ if options.target.accept(&name, arguments)? => {}
            _ => return Err(format!("unknown option {name} (--help lists them)")),
        }
    }
    match options.servers.len() {
        0 | 1 => return Err("active needs at least two servers: braid-bench active A:6379 B:6379".into()),
        2..=SERVERS_MAX => {}
        count => return Err(format!("too many servers: {count}, at most {SERVERS_MAX}")),
    }
    if options.clients == 0 || options.keys == 0 {
        return Err("--clients and --keys must be at least 1".into());
    }
    if !(options.rate >= 0.0 && options.rate.is_finite()) {
        return Err("--rate must not be below 0".into());
    }
    if options.cuts > 0 && options.time.as_secs_f64() / (options.cuts as f64) < 0.1 {
        return Err(format!("{} cuts need more time: raise --seconds", options.cuts));
    }
    Ok(Request::Run(Box::new(options)))
}

/// Distinguishes addresses from command lines: a command line contains blanks or lacks a port.
pub fn named(word: String) -> Named {
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
    fn nonsensical_active_bench_options_are_reported() {
        for (words, said) in [
            (&["a:1"][..], "at least two servers"),
            (&["a:1", "b:2", "-p", "3"], "a server is HOST:PORT"),
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
