// SPDX-License-Identifier: BSD-3-Clause
//! The command line of braid-bench: redis-benchmark's option names, with memtier_benchmark's as
//! aliases.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

use crate::distributions::{Pattern, Sizes};
use crate::plan::{Case, Method, mixture};
use crate::presets;
use crate::request::{Keys, Load, RequestKind, Template};
use crate::worker::Rate;

pub const HELP: &str = "\
Usage: braid-bench [OPTIONS] [COMMAND ARGUMENT...]
       braid-bench compare [OPTIONS] [NAME=]'SERVER COMMAND LINE'...
       braid-bench active [OPTIONS] SERVER SERVER...
       braid-bench floor PORT [BYTES]

Loads a server that speaks the Redis protocol. Measures throughput, latency, and the server's
processor time per request.

Connection:
";

const HELP_LOAD: &str = "
Requests (default: the tests of redis-benchmark, one after the other):
  -t TESTS                tests by name, comma-separated: set,get,ping,incr,lpush,..,mset,xadd
      --ratio SETS:GETS   a mixture of SET and GET, such as 1:10 (several: 1:10,1:1)
      COMMAND ARGUMENT... this command
      --command LINE      this command; repeat it for a mixture, each followed by its weight,
                          --command-ratio N, and its keys, --command-key-pattern P
                          placeholders: __key__, __data__, __rand_int__, __rand_1st__..9th__
  -r N                    use keys 0..N-1 (--key-maximum; default: one key in tests and
                          commands, 1000000 in mixtures); --key-minimum N
      --key-pattern P     uniform, sequential, zipf[:EXPONENT], gaussian[:MEAN:DEVIATION],
                          or R, S, Z, G; P:P for SET and GET
      --key-prefix TEXT   prefix of __key__ (key:)
  -d SIZE                 value size in bytes (3): N, LOW-HIGH, or SIZE:WEIGHT,SIZE:WEIGHT
                          (--data-size, --data-size-range, --data-size-list); several: 32,512
      --random-data       values of random bytes
  -P N                    requests in a pipeline (1; --pipeline); several: 1,16,64

Load:
  -c N                    connections in total (50); or --clients-per-thread N
      --threads N         threads (1)
  -n N                    requests in total (100000; --requests)
      --duration S        run for S seconds instead (--test-time)
      --rate N            requests per second in total, each sent when due; latency counts from
                          the due time (open loop; --rps; per connection: --rate-limiting N)
      --arrival A         arrivals in an open loop: even, or poisson
      --warm-up S         unmeasured seconds before each iteration (--warmup)
      --iterations N      print the mean of N iterations and its 95 % confidence interval
                          (--run-count)
      --flush             FLUSHDB before each iteration: deletes the database's data!
      --fill              write every key once before measuring
      --cluster           the server is a node of a cluster: spread the load over its primaries
                          by slot; -c is the total number of connections
  -k 0                    reconnect for each batch
  -I                      only open the connections, and wait
  -l                      repeat until interrupted
      --seed N            seed of the random numbers
      --cpus LIST         the generator's processors, such as 0-3,8

Output:
  -q                      one line for each result
      --csv, --json       comma-separated values, JSON; --json-file FILE in addition to the text
      --report FILE.html  a page with plots
      --precision N       decimals of latencies (3)
      --progress, --no-progress
                          show a progress line (default: on a terminal)
      --help, --version   print this text, or the version

";

const HELP_COMPARE: &str = "\
compare: starts each server in turn on a free port, round after round, under the same load. {port},
{dir} and {threads} in a command line are replaced; without {port}, --port, --bind, --dir and
--save '' are appended. redis://HOST:PORT names a running server. cluster:N:COMMAND LINE starts N
processes as a cluster, and spreads the load over them.
      --rounds N          rounds (5); ratios compare runs of the same round
      --server-threads L  run each server with each number of threads: appends --io-threads N,
                          or replaces {threads}
      --models L          run each server with each model: appends --threading-model M
      --server-cpus LIST  the servers' processors
      --markdown          print the table in Markdown
";

const HELP_STATUS: &str = "
Exit status: 0 for success; 1 if the benchmark failed; 2 for a wrong command line; 3 if there were
error replies; 4 if the servers of active differ or have lost writes; 130 after Ctrl-C (the results
so far are printed).
";

/// The help text.
pub fn help() -> String {
    format!(
        "{HELP}{}{HELP_LOAD}{HELP_COMPARE}{}{}{HELP_STATUS}",
        TargetOptions::HELP,
        crate::active::options::HELP,
        crate::vectors::options::HELP
    )
}

/// The form and destination of results.
#[derive(Clone, Debug)]
pub struct Output {
    pub form: Form,
    pub json_file: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub precision: usize,
    /// `None`: only on a terminal.
    pub progress: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Quiet,
    Csv,
    Json,
    Markdown,
}

/// A server in a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    pub name: String,
    pub command: String,
    /// Its number of threads, if that is varied.
    pub threads: Option<usize>,
    /// Number of processes if it is a cluster.
    pub processes: Option<usize>,
}

/// `compare`'s own options.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    pub contenders: Vec<Contender>,
    pub rounds: usize,
    pub processors: Vec<usize>,
}

/// A whole command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: TargetOptions,
    pub cases: Vec<Case>,
    pub method: Method,
    pub idle: bool,
    pub repeat: bool,
    pub output: Output,
    pub comparison: Option<Comparison>,
}

/// The action that a command line requests.
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Default number of keys of a mixture.
const MIXTURE_KEYS: u64 = 1_000_000;

/// The options as given; [`Raw::finish`] interprets them together.
#[derive(Default)]
struct Raw {
    target: TargetOptions,
    tests: Option<String>,
    ratios: Vec<(u32, u32)>,
    commands: Vec<(Vec<String>, u32, Option<Pattern>)>,
    words: Vec<String>,
    keys: Option<u64>,
    first_key: u64,
    patterns: Option<(Pattern, Pattern)>,
    zipf: Option<f64>,
    gaussian: (Option<f64>, Option<f64>),
    prefix: Option<String>,
    sizes: Vec<Sizes>,
    random_data: bool,
    pipelines: Vec<usize>,
    connections: Option<usize>,
    connections_per_thread: Option<usize>,
    threads: Option<usize>,
    requests: Option<u64>,
    duration: Option<Duration>,
    rate: Option<f64>,
    rate_each: Option<f64>,
    poisson: bool,
    warm_up: Duration,
    iterations: Option<usize>,
    flush: bool,
    fill: bool,
    cluster: bool,
    reconnect: bool,
    idle: bool,
    repeat: bool,
    seed: Option<u64>,
    processors: Vec<usize>,
    form: Option<Form>,
    json_file: Option<PathBuf>,
    report: Option<PathBuf>,
    precision: Option<usize>,
    progress: Option<bool>,
    rounds: Option<usize>,
    server_threads: Vec<usize>,
    models: Vec<String>,
    server_processors: Vec<usize>,
}

/// Parses a command line.
///
/// # Errors
/// If an option is unknown, a value is missing or out of range, or options contradict each other.
/// The text is for the user.
pub fn parse(arguments: &mut Arguments, is_compare: bool) -> Result<Request, String> {
    let mut raw = Raw::default();
    while let Some(argument) = arguments.take()? {
        let name = match argument {
            Argument::Option(name) => name,
            Argument::Word(word) if is_compare => {
                raw.words.push(word);
                continue;
            }
            Argument::Word(word) => {
                // A command: all words after it belong to it.
                raw.words.push(word);
                raw.words.extend(arguments.rest()?);
                break;
            }
        };
        match name.as_str() {
            "--help" => return Ok(Request::Help),
            "-v" | "--version" => return Ok(Request::Version),
            _ => raw.take(&name, arguments, is_compare)?,
        }
    }
    raw.finish(is_compare).map(|options| Request::Run(Box::new(options)))
}

impl Raw {
    fn take(&mut self, name: &str, arguments: &mut Arguments, is_compare: bool) -> Result<(), String> {
        if self.take_load(name, arguments)?
            || self.take_method(name, arguments)?
            || self.take_output(name, arguments)?
            || (is_compare && self.take_comparison(name, arguments)?)
            || self.target.accept(name, arguments)?
        {
            return Ok(());
        }
        Err(format!("unknown option {name} (--help lists them)"))
    }

    fn take_load(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        match name {
            "-t" | "--tests" => self.tests = Some(arguments.text()?),
            "--ratio" => {
                let text = arguments.text()?;
                let ratio = |text: &str| {
                    let (sets, gets) = text.split_once(':')?;
                    let ratio: (u32, u32) = (sets.parse().ok()?, gets.parse().ok()?);
                    (ratio != (0, 0)).then_some(ratio)
                };
                let ratios: Option<Vec<(u32, u32)>> = text.split(',').map(ratio).collect();
                self.ratios = ratios.ok_or_else(|| format!("'{text}' is not a ratio: SETS:GETS"))?;
            }
            "--command" => self.commands.push((words(&arguments.text()?)?, 1, None)),
            "--command-ratio" => {
                let weight = arguments.value(name)?;
                self.commands.last_mut().ok_or("--command-ratio must follow its --command")?.1 = weight;
            }
            "--command-key-pattern" => {
                let pattern = arguments.text()?.parse()?;
                self.commands.last_mut().ok_or("--command-key-pattern must follow its --command")?.2 =
                    Some(pattern);
            }
            "-r" | "--keyspace" | "--key-maximum" => self.keys = Some(arguments.value(name)?),
            "--key-minimum" => self.first_key = arguments.value(name)?,
            "--key-prefix" => self.prefix = Some(arguments.text()?),
            "--key-pattern" => self.patterns = Some(patterns(&arguments.text()?)?),
            "--key-zipf-exp" => self.zipf = Some(arguments.value(name)?),
            "--key-median" => self.gaussian.0 = Some(arguments.value(name)?),
            "--key-stddev" => self.gaussian.1 = Some(arguments.value(name)?),
            "-d" | "--data-size" | "--data-size-range" | "--data-size-list" => {
                let text = arguments.text()?;
                let several =
                    if text.contains(':') { vec![text.as_str()] } else { text.split(',').collect() };
                self.sizes = several.into_iter().map(str::parse).collect::<Result<_, _>>()?;
            }
            "--random-data" | "-R" => self.random_data = true,
            "-P" | "--pipeline" | "--pipelines" => self.pipelines = numbers(&arguments.text()?, name)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_method(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        match name {
            "-c" | "--connections" => self.connections = Some(positive(arguments, name)?),
            "--clients-per-thread" | "--clients" => {
                self.connections_per_thread = Some(positive(arguments, name)?)
            }
            "--threads" => self.threads = Some(positive(arguments, name)?),
            "-n" | "--requests" => self.requests = Some(arguments.value(name)?),
            "--duration" | "--test-time" => self.duration = Some(arguments.seconds(name)?),
            "--rate" | "--rps" => self.rate = Some(rate(arguments, name)?),
            "--rate-limiting" => self.rate_each = Some(rate(arguments, name)?),
            "--arrival" => match arguments.text()?.as_str() {
                "even" => self.poisson = false,
                "poisson" => self.poisson = true,
                other => return Err(format!("'{other}' is not an arrival process: even or poisson")),
            },
            "--warm-up" | "--warmup" => self.warm_up = arguments.seconds(name)?,
            "--iterations" | "--run-count" => self.iterations = Some(positive(arguments, name)?),
            "--flush" | "--flushdb" => self.flush = true,
            "--fill" => self.fill = true,
            "--cluster" | "--cluster-mode" => self.cluster = true,
            "-k" => self.reconnect = arguments.value::<u8>(name)? == 0,
            "-I" => self.idle = true,
            "-l" => self.repeat = true,
            "--seed" => self.seed = Some(arguments.value(name)?),
            "--cpus" => self.processors = processors(arguments, name)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_output(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        match name {
            "-q" | "--quiet" => self.form = Some(Form::Quiet),
            "--csv" => self.form = Some(Form::Csv),
            "--json" => self.form = Some(Form::Json),
            "--markdown" => self.form = Some(Form::Markdown),
            "--json-file" | "--json-out-file" => self.json_file = Some(arguments.text()?.into()),
            "--report" => self.report = Some(arguments.text()?.into()),
            "--precision" => self.precision = Some(arguments.value::<usize>(name)?.min(9)),
            "--progress" => self.progress = Some(true),
            "--no-progress" | "--hide-progress" => self.progress = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_comparison(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        match name {
            "--rounds" => self.rounds = Some(positive(arguments, name)?),
            "--server-threads" => self.server_threads = numbers(&arguments.text()?, name)?,
            "--models" => self.models = arguments.text()?.split(',').map(str::to_owned).collect(),
            "--server-cpus" => self.server_processors = processors(arguments, name)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(mut self, is_compare: bool) -> Result<Options, String> {
        let comparison = is_compare.then(|| self.comparison()).transpose()?;
        if is_compare {
            self.words.clear();
        }
        let threads = self.threads.unwrap_or(1);
        let connections = match (self.connections, self.connections_per_thread) {
            (Some(_), Some(_)) => return Err("give -c or --clients-per-thread, not both".into()),
            (Some(connections), None) => connections,
            (None, Some(each)) => each.checked_mul(threads).ok_or("too many connections")?,
            (None, None) => 50,
        };
        if threads > connections {
            return Err(format!("{threads} threads need at least as many connections (-c)"));
        }
        let per_second = match (self.rate, self.rate_each) {
            (Some(_), Some(_)) => return Err("give --rate or --rate-limiting, not both".into()),
            (Some(rate), None) => Some(rate),
            (None, each) => each.map(|each| each * connections as f64),
        };
        if per_second.is_some() && self.reconnect {
            return Err("--rate cannot be combined with -k 0".into());
        }
        // With a fixed number of requests, fast servers would be measured for less time.
        if is_compare && self.requests.is_none() && self.duration.is_none() {
            self.duration = Some(Duration::from_secs(1));
        }
        let requests = match (self.requests, self.duration) {
            (None, None) => Some(100_000),
            (Some(0), _) => return Err("-n 0 measures nothing".into()),
            (requests, _) => requests,
        };
        let method = Method {
            threads,
            connections,
            requests,
            duration: self.duration,
            rate: per_second.map(|per_second| Rate { per_second, poisson: self.poisson }),
            reconnect: self.reconnect,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            warm_up: self.warm_up,
            iterations: self.iterations.unwrap_or(1),
            flush: self.flush,
            fill: self.fill,
            processors: self.processors.clone(),
            cluster: self.cluster,
        };
        if method.cluster && self.idle {
            return Err("-I opens connections to one server: omit --cluster".into());
        }
        let output = Output {
            form: self.form.unwrap_or(Form::Text),
            json_file: self.json_file.take(),
            report: self.report.take(),
            precision: self.precision.unwrap_or(3),
            progress: self.progress,
        };
        let cases = self.cases()?;
        if method.fill && cases.iter().any(|case| case.load.keys.count.is_none()) {
            return Err("--fill needs the number of keys: -r".into());
        }
        Ok(Options {
            cases,
            target: self.target,
            method,
            idle: self.idle,
            repeat: self.repeat,
            output,
            comparison,
        })
    }

    /// Every combination of load, value size and pipeline depth.
    fn cases(&self) -> Result<Vec<Case>, String> {
        let chosen = [
            self.tests.is_some(),
            !self.ratios.is_empty(),
            !self.commands.is_empty(),
            !self.words.is_empty(),
        ];
        if chosen.iter().filter(|chosen| **chosen).count() > 1 {
            return Err("give only one of: tests (-t), --ratio, --command, a command".into());
        }
        let is_mixture = !self.ratios.is_empty();
        let keys = Keys {
            prefix: self.prefix.clone().unwrap_or_else(|| "key:".into()),
            first: self.first_key,
            count: self.keys.or(is_mixture.then_some(MIXTURE_KEYS)),
        };
        let count = match keys.count {
            Some(count) => match count.checked_sub(keys.first) {
                // memtier's --key-maximum ends the range; redis-benchmark's -r is a count.
                Some(count) if count > 0 => Some(count),
                _ => return Err("the key range is empty".into()),
            },
            None => None,
        };
        let keys = Keys { count, ..keys };
        let patterns = self.patterns();
        let mut loads: Vec<(String, Vec<RequestKind>)> = Vec::new();
        let command = |words: &[String], weight, pattern| {
            let name = words.first().map(String::as_str).unwrap_or_default().to_uppercase();
            RequestKind { name, template: Template::new(words, &keys), weight, pattern }
        };
        if is_mixture {
            for &(sets, gets) in &self.ratios {
                loads.push((format!("SET:GET {sets}:{gets}"), mixture(sets, gets, patterns, &keys)));
            }
        } else if !self.commands.is_empty() {
            let kinds: Vec<RequestKind> = self
                .commands
                .iter()
                .filter(|(_, weight, _)| *weight > 0)
                .map(|(words, weight, pattern)| command(words, *weight, pattern.unwrap_or(patterns.1)))
                .collect();
            if kinds.is_empty() || kinds.len() > usize::from(u8::MAX) {
                return Err("a mixture needs 1 to 255 commands".into());
            }
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
            loads.push((names.join(" + "), kinds.clone()));
        } else if !self.words.is_empty() {
            loads.push((self.words.join(" "), vec![command(&self.words, 1, patterns.1)]));
        } else {
            for test in presets::select(self.tests.as_deref())? {
                let pattern = if test.name == "get" { patterns.1 } else { patterns.0 };
                loads.push((test.title.to_owned(), vec![test.kind(&keys, pattern)]));
            }
        }
        let sizes = if self.sizes.is_empty() { vec![Sizes::Fixed(3)] } else { self.sizes.clone() };
        let pipelines = if self.pipelines.is_empty() { vec![1] } else { self.pipelines.clone() };
        let mut cases = Vec::new();
        for (title, kinds) in &loads {
            for size in &sizes {
                let load = Arc::new(Load {
                    kinds: kinds.clone(),
                    keys: keys.clone(),
                    sizes: size.clone(),
                    random_data: self.random_data,
                });
                for &pipeline in &pipelines {
                    cases.push(Case { title: title.clone(), load: load.clone(), pipeline });
                }
            }
        }
        Ok(cases)
    }

    fn patterns(&self) -> (Pattern, Pattern) {
        let (first, second) = self.patterns.unwrap_or((Pattern::Uniform, Pattern::Uniform));
        let refine = |pattern| match pattern {
            Pattern::Zipf { exponent } => Pattern::Zipf { exponent: self.zipf.unwrap_or(exponent) },
            Pattern::Gaussian { mean, deviation } => {
                Pattern::Gaussian { mean: self.gaussian.0.or(mean), deviation: self.gaussian.1.or(deviation) }
            }
            other => other,
        };
        (refine(first), refine(second))
    }

    fn comparison(&self) -> Result<Comparison, String> {
        let servers: Vec<Contender> =
            self.words.iter().map(|word| contender(word)).collect::<Result<_, _>>()?;
        let mut contenders = Vec::new();
        for server in &servers {
            let models: Vec<Option<&String>> =
                if self.models.is_empty() { vec![None] } else { self.models.iter().map(Some).collect() };
            for model in models {
                let mut variant = server.clone();
                if let Some(model) = model {
                    variant.command += &format!(" --threading-model {model}");
                    variant.name =
                        if servers.len() == 1 { model.clone() } else { format!("{} {model}", server.name) };
                }
                if self.server_threads.is_empty() {
                    contenders.push(variant);
                    continue;
                }
                for &threads in &self.server_threads {
                    let mut variant = variant.clone();
                    if variant.command.contains("{threads}") {
                        variant.command = variant.command.replace("{threads}", &threads.to_string());
                    } else {
                        variant.command += &format!(" --io-threads {threads}");
                    }
                    variant.threads = Some(threads);
                    contenders.push(variant);
                }
            }
        }
        if contenders.is_empty() {
            return Err(
                "compare needs servers: braid-bench compare [OPTIONS] 'redis-server' 'braid-server'".into()
            );
        }
        Ok(Comparison {
            contenders,
            rounds: self.rounds.unwrap_or(5),
            processors: self.server_processors.clone(),
        })
    }
}

/// `NAME=command line`, or a command line whose program is the name.
fn contender(word: &str) -> Result<Contender, String> {
    let named =
        word.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains([' ', '/', ':', '?']));
    let (name, command) = match named {
        Some((name, command)) => (name.to_owned(), command),
        None => {
            let bare = word.strip_prefix("cluster:").and_then(|rest| Some(rest.split_once(':')?.1));
            let program = bare.unwrap_or(word).split_whitespace().next().unwrap_or(word);
            let name =
                if program.contains("://") { program } else { program.rsplit('/').next().unwrap_or(program) };
            (name.to_owned(), word)
        }
    };
    let Some(cluster) = command.strip_prefix("cluster:") else {
        return Ok(Contender { name, command: command.to_owned(), threads: None, processes: None });
    };
    let parts = cluster.split_once(':').and_then(|(count, command)| Some((count.parse().ok()?, command)));
    match parts {
        Some((count @ 1..=1_000, command)) if !command.contains("://") => {
            Ok(Contender { name, command: command.to_owned(), threads: None, processes: Some(count) })
        }
        _ => Err(format!("'{command}' is not a cluster: cluster:PROCESSES:COMMAND LINE")),
    }
}

fn positive(arguments: &mut Arguments, name: &str) -> Result<usize, String> {
    let number = arguments.value(name)?;
    if number == 0 { Err(format!("{name} must be at least 1")) } else { Ok(number) }
}

fn rate(arguments: &mut Arguments, name: &str) -> Result<f64, String> {
    let rate: f64 = arguments.value(name)?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(format!("{name} must be above 0")) }
}

fn processors(arguments: &mut Arguments, name: &str) -> Result<Vec<usize>, String> {
    let text = arguments.text()?;
    braid_net::affinity::parse_list(&text)
        .ok_or_else(|| format!("'{text}' is not a list of processors for {name}"))
}

fn numbers(text: &str, name: &str) -> Result<Vec<usize>, String> {
    let numbers: Option<Vec<usize>> =
        text.split(',').map(|number| number.parse().ok().filter(|number| *number > 0)).collect();
    numbers.ok_or_else(|| format!("'{text}' is not a list of numbers for {name}"))
}

/// Parses one pattern for all requests, or `P:P` for SET and GET. `zipf:0.8` and `gaussian:5:2` are
/// single patterns.
fn patterns(text: &str) -> Result<(Pattern, Pattern), String> {
    if let Ok(pattern) = text.parse() {
        return Ok((pattern, pattern));
    }
    let pair =
        text.split_once(':').and_then(|(first, second)| Some((first.parse().ok()?, second.parse().ok()?)));
    pair.ok_or_else(|| text.parse::<Pattern>().err().unwrap_or_default())
}

/// Splits a line at blanks; quotes keep blanks together, a backslash escapes the next character.
///
/// # Errors
/// If a quote is not closed, or there is no word.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(format!("unbalanced quotes: {line}"));
    }
    words.extend(word);
    if words.is_empty() { Err("an empty command".into()) } else { Ok(words) }
}

#[cfg(test)]
mod tests;
