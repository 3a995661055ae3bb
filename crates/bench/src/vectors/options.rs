// SPDX-License-Identifier: BSD-3-Clause
//! The command line of `braid-bench vectors`.

use std::path::PathBuf;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

use crate::active::options::{Form, Named, named};

/// Help of the subcommand.
pub const HELP: &str = "
vectors: adds vectors to a vector set of each server, one after the other, and searches with
different EF. Recall is the share of the nearest vectors, by exact comparison of the original
vectors, that a search finds. A server is as in active, or NAME='COMMAND LINE'.
      --count N           vectors to add (20000)
      --dim N             their dimensions (128)
      --clusters N        vectors are in as many groups (100), of this
      --spread X          deviation in each dimension from the centre (0.5)
      --data FILE         vectors of an .fvecs file instead; the last ones are the queries
      --queries N         different queries (1000)
      --passes N          how often all queries are sent for each EF (1)
      -k N                nearest vectors that are looked for (10)
      --ef LIST           EF of searches (10,20,40,80,160,320)
      --build-ef N, -M N  EF and M of VADD (the server's)
      --quantisation Q    NOQUANT, Q8 or BIN (Q8)
      -c N, -P N          connections (1), requests sent together (16)
      --filters           gives all elements attributes in the end, and searches with filters
      --key KEY           key of the set (braid-bench:vectors), which must not exist
      --keep              leaves the set there; if it exists, it is that of an earlier run
      --seed N            seed of the random numbers (1)
      --json, --markdown  print the result as JSON; the tables in Markdown
";

/// A whole command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// With the names to be shown.
    pub servers: Vec<(String, Named)>,
    pub target: TargetOptions,
    pub count: usize,
    pub dim: usize,
    pub clusters: usize,
    pub spread: f32,
    pub data: Option<PathBuf>,
    pub queries: usize,
    pub passes: usize,
    pub nearest: usize,
    pub efs: Vec<u32>,
    pub build_ef: Option<u32>,
    pub links: Option<u32>,
    pub quantisation: String,
    pub connections: usize,
    pub pipeline: usize,
    pub filters: bool,
    pub key: String,
    pub keep: bool,
    pub seed: u64,
    pub form: Form,
}

/// The action that a command line requests.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
}

const CONNECTIONS_MAX: usize = 256;

/// Parses the words after `vectors`.
///
/// # Errors
/// If an option is unknown, or a value is missing or out of range. The text is for the user.
pub fn parse(arguments: &mut Arguments) -> Result<Request, String> {
    let mut options = Options {
        servers: Vec::new(),
        target: TargetOptions::default(),
        count: 20_000,
        dim: 128,
        clusters: 100,
        spread: 0.5,
        data: None,
        queries: 1000,
        passes: 1,
        nearest: 10,
        efs: vec![10, 20, 40, 80, 160, 320],
        build_ef: None,
        links: None,
        quantisation: "Q8".into(),
        connections: 1,
        pipeline: 16,
        filters: false,
        key: "braid-bench:vectors".into(),
        keep: false,
        seed: 1,
        form: Form::Text,
    };
    while let Some(argument) = arguments.take()? {
        let name = match argument {
            Argument::Word(word) => {
                options.servers.push(with_name(word));
                continue;
            }
            Argument::Option(name) => name,
        };
        match name.as_str() {
            "--help" => return Ok(Request::Help),
            "--count" => options.count = arguments.value(&name)?,
            "--dim" => options.dim = arguments.value(&name)?,
            "--clusters" => options.clusters = arguments.value(&name)?,
            "--spread" => options.spread = arguments.value(&name)?,
            "--data" => options.data = Some(arguments.text()?.into()),
            "--queries" => options.queries = arguments.value(&name)?,
            "--passes" => options.passes = arguments.value(&name)?,
            "-k" => options.nearest = arguments.value(&name)?,
            "--ef" => options.efs = list(&arguments.text()?)?,
            "--build-ef" => options.build_ef = Some(arguments.value(&name)?),
            "-M" => options.links = Some(arguments.value(&name)?),
            "--quantisation" | "--quantization" => {
                options.quantisation = arguments.text()?.to_ascii_uppercase();
            }
            "-c" => options.connections = arguments.value(&name)?,
            "-P" => options.pipeline = arguments.value(&name)?,
            "--filters" => options.filters = true,
            "--key" => options.key = arguments.text()?,
            "--keep" => options.keep = true,
            "--seed" => options.seed = arguments.value(&name)?,
            "--json" => options.form = Form::Json,
            "--markdown" => options.form = Form::Markdown,
            "-h" | "--host" | "-p" | "--port" | "-s" | "--socket" | "-u" | "--uri" => {
                return Err(format!("{name}: a server is HOST:PORT, a redis:// address or a command line"));
            }
            _ if options.target.accept(&name, arguments)? => {}
            _ => return Err(format!("unknown option {name} (--help lists them)")),
        }
    }
    check(&options)?;
    Ok(Request::Run(Box::new(options)))
}

fn check(options: &Options) -> Result<(), String> {
    if options.servers.is_empty() {
        return Err("vectors needs a server: braid-bench vectors 127.0.0.1:6379".into());
    }
    let at_least_one = [
        ("--count", options.count),
        ("--dim", options.dim),
        ("--clusters", options.clusters),
        ("--queries", options.queries),
        ("--passes", options.passes),
        ("-k", options.nearest),
        ("-c", options.connections),
        ("-P", options.pipeline),
    ];
    if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
        return Err(format!("{name} must be at least 1"));
    }
    if !(options.spread >= 0.0 && options.spread.is_finite()) {
        return Err("--spread must not be below 0".into());
    }
    if !["NOQUANT", "Q8", "BIN"].contains(&options.quantisation.as_str()) {
        return Err("--quantisation is NOQUANT, Q8 or BIN".into());
    }
    if options.connections > CONNECTIONS_MAX {
        return Err(format!("-c must be at most {CONNECTIONS_MAX}"));
    }
    Ok(())
}

fn list(text: &str) -> Result<Vec<u32>, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let numbers = numbers.map_err(|_| format!("--ef: '{text}' is no list of numbers"))?;
    if numbers.contains(&0) { Err("--ef: EF is at least 1".into()) } else { Ok(numbers) }
}

/// Splits `NAME=SERVER`; without a name the server's own text is the name.
fn with_name(word: String) -> (String, Named) {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match word.split_once('=') {
        Some((name, server)) if is_name(name) => (name.to_owned(), named(server.to_owned())),
        _ => (word.clone(), named(word)),
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
    fn servers_may_have_names() {
        let options =
            parsed(&["a=redis-server --x=1", "b:1", "redis-server --y=2", "--ef", "1,30", "-c", "2"]);
        let options = options.expect("good");
        let names: Vec<&str> = options.servers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b:1", "redis-server --y=2"]);
        assert_eq!(options.servers[0].1, Named::Command("redis-server --x=1".into()));
        assert_eq!(options.servers[1].1, Named::Running("b:1".into()));
        assert_eq!((options.efs, options.connections), (vec![1, 30], 2));
    }

    #[test]
    fn nonsensical_vector_bench_options_are_reported() {
        for (words, said) in [
            (&[][..], "needs a server"),
            (&["a:1", "--count", "0"], "--count must be at least 1"),
            (&["a:1", "--ef", "10,x"], "no list of numbers"),
            (&["a:1", "--ef", "0"], "at least 1"),
            (&["a:1", "--quantisation", "q4"], "NOQUANT, Q8 or BIN"),
            (&["a:1", "--spread", "-1"], "below 0"),
            (&["a:1", "-c", "1000"], "at most"),
            (&["a:1", "-p", "3"], "a server is HOST:PORT"),
            (&["a:1", "--nonsense"], "unknown option"),
        ] {
            let error = parsed(words).expect_err("refused");
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
