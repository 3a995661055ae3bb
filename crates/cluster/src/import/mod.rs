// SPDX-License-Identifier: BSD-3-Clause
//! Imports the keys of another cluster, or of a single server, while it is in use: follows each of
//! its primaries by replication and applies everything here. At the cut-over, writes pause there
//! until the last change is here.
//!
//! One thread per primary: [`link`] receives its snapshot and stream, [`apply`] turns them into
//! requests, [`target`] sends those. The other cluster is not changed, apart from the pause of
//! writes. Incoming data is written by ordinary commands, so this side needs no special
//! permissions.

mod apply;
mod link;
mod target;

use std::io::BufRead;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use braid_client::figures::{bytes, grouped};
use braid_client::{Connection, Target, TargetOptions};

use crate::change::{address, plural};
use crate::cluster::Cluster;
use crate::gather;
use crate::nodes::Nodes;
use crate::options::{CutOver, Import};
use crate::progress::Progress;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval of progress messages.
const TOLD: Duration = Duration::from_secs(1);
/// Writes are not paused before the total lag is below this many bytes of the streams.
const CLOSE: u64 = 1 << 20;
/// How long writes stay paused at the other cluster after the cut-over: time for the operator to
/// shut it down.
const AFTERWARDS: Duration = Duration::from_secs(24 * 3_600);

/// A followed primary.
pub(crate) struct Source {
    pub(crate) target: Target,
    pub(crate) label: String,
    /// Its slots, in ascending order.
    pub(crate) slots: Vec<u16>,
    pub(crate) state: State,
}

/// The progress of a primary's import.
#[derive(Default)]
pub(crate) struct State {
    /// Keys of the snapshot imported so far.
    pub(crate) keys: AtomicU64,
    /// Changes imported so far.
    pub(crate) changes: AtomicU64,
    /// The imported offset of the stream.
    pub(crate) offset: AtomicU64,
    /// The snapshot has been imported.
    pub(crate) follows: AtomicBool,
    /// Writes are paused, waiting for the rest. A stock primary whose writers are paused holds back
    /// the end of its stream until it gets another acknowledgement.
    pub(crate) is_last: AtomicBool,
    /// The error that ended it.
    pub(crate) failure: Mutex<Option<String>>,
}

/// Runs the whole import. Returns the text to print.
///
/// # Errors
/// If the target cannot be reached or is not ready for an import, a source's settings are invalid,
/// signals cannot be watched, or the import fails or does not end as requested.
pub fn run(options: &TargetOptions, import: &Import) -> Result<String, String> {
    // The data types of values in snapshots.
    braid_values::register();
    let mut cluster = Cluster::open(options)?;
    check_target(&mut cluster, import)?;
    let sources = sources(options, import)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let watched = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        watched.map_err(|error| format!("cannot watch signals: {error}"))?;
    }
    let ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        for source in &sources {
            let ended = &ended;
            scope.spawn(move || {
                if let Err(error) = follow(options, source, ended) {
                    let failure = format!("{}: {error}", source.label);
                    *source.state.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                        Some(failure);
                }
            });
        }
        let outcome = watch(&sources, import, &stop);
        ended.store(true, SeqCst);
        outcome
    })?;
    Ok(outcome)
}

/// Checks that all slots have an owner here, and that no existing keys would be overwritten
/// unasked.
fn check_target(cluster: &mut Cluster, import: &Import) -> Result<(), String> {
    let nodes = cluster.nodes()?;
    if !nodes.uncovered().is_empty() {
        return Err("this cluster has slots without an owner: see braid-cluster status".into());
    }
    for node in nodes.primaries() {
        let keys = cluster.ask(node, &["DBSIZE"])?.integer().unwrap_or(0);
        if keys > 0 && !import.replace {
            return Err(format!(
                "{} already has {}: use --replace to overwrite them",
                node.address(),
                plural(keys as usize, "key")
            ));
        }
    }
    Ok(())
}

/// The primaries of the other cluster; a server without a cluster is its own primary.
fn sources(options: &TargetOptions, import: &Import) -> Result<Vec<Source>, String> {
    let there = |host: &str, port: u16| -> Result<Target, String> {
        let login = TargetOptions {
            user: import.user.clone(),
            password: import.password.clone(),
            db: None,
            ..options.clone()
        };
        let mut target = gather::place(&login, host, port)?;
        // This side's login from the environment does not apply to the other side.
        (target.user, target.password) = (import.user.clone(), import.password.clone());
        Ok(target)
    };
    let (host, port) = &import.from;
    let target = there(host, *port)?;
    let mut server = gather::connect(&target)?;
    let asked = server.command(&["CLUSTER", "NODES"]).map_err(|error| error.to_string())?;
    if matches!(&asked, braid_client::Value::Error(error) if error.contains("cluster support disabled")) {
        let slots = (0..crate::slots::SLOTS as u16).collect();
        return Ok(vec![Source { target, label: address(&import.from), slots, state: State::default() }]);
    }
    if let braid_client::Value::Error(error) = asked {
        return Err(format!("{}: {error}", address(&import.from)));
    }
    let nodes = Nodes::parse(&asked.text(), host)?;
    let lost = nodes.uncovered();
    if !lost.is_empty() {
        return Err(format!(
            "slots of the other cluster have no owner: {}",
            crate::slots::short_text(&lost, 60)
        ));
    }
    let mut sources = Vec::new();
    for node in nodes.primaries().into_iter().filter(|node| !node.slots.is_empty()) {
        if node.has_open_slots {
            return Err(format!(
                "slots of {} are being moved: wait until the moves are over",
                node.address()
            ));
        }
        sources.push(Source {
            target: there(&node.host, node.port)?,
            label: node.address(),
            slots: node.slots.clone(),
            state: State::default(),
        });
    }
    Ok(sources)
}

/// Follows one primary until the import ends.
fn follow(options: &TargetOptions, source: &Source, ended: &AtomicBool) -> Result<(), String> {
    let target = target::Router::open(options)?;
    let mut applier = apply::Applier::new(target, source)?;
    let link = link::Link::open(&source.target)?;
    let mut link = link.snapshot(|record| {
        if ended.load(SeqCst) {
            return Err("it was cancelled".into());
        }
        applier.load(record)
    })?;
    applier.flush()?;
    source.state.offset.store(link.offset(), SeqCst);
    source.state.follows.store(true, SeqCst);
    while !ended.load(SeqCst) {
        let wants_answer = link.receive(|words| applier.apply(words))?;
        if applier.is_pending() || wants_answer {
            applier.flush()?;
        }
        source.state.offset.store(link.offset(), SeqCst);
        link.acknowledge(wants_answer || source.state.is_last.load(Relaxed))?;
    }
    Ok(())
}

/// Reports progress, and cuts over.
fn watch(sources: &[Source], import: &Import, stop: &AtomicBool) -> Result<String, String> {
    let progress = Progress::new("primaries", sources.len() as u64);
    let begin = Instant::now();
    let mut controls = Vec::new();
    for source in sources {
        controls.push(gather::connect(&source.target)?);
    }
    let entered = (import.cut_over == CutOver::OnEnter).then(line_of_input);
    let mut told = Instant::now();
    loop {
        check(sources)?;
        if stop.load(SeqCst) {
            return Err("stopped before the cut-over; nothing has changed at the other cluster".into());
        }
        let follow = sources.iter().all(|source| source.state.follows.load(SeqCst));
        let behind = if follow { Some(behind(sources, &mut controls)?) } else { None };
        let has_word = entered.as_ref().is_none_or(|entered| entered.try_recv().is_ok());
        let is_time = match import.cut_over {
            CutOver::AtOnce => true,
            CutOver::OnEnter => has_word,
            CutOver::Never => false,
        };
        if is_time && behind.is_some_and(|behind| behind < CLOSE) {
            break;
        }
        if entered.is_some() && has_word {
            progress.say("not yet: the other cluster is too far ahead");
        }
        if told.elapsed() > TOLD {
            told = Instant::now();
            progress.say(&state(sources, behind));
        }
        std::thread::sleep(INTERVAL);
    }
    let paused = Instant::now();
    let cut = cut_over(sources, &mut controls, import.timeout);
    let waited = paused.elapsed();
    let held = match &cut {
        Ok(()) => AFTERWARDS,
        Err(_) => Duration::ZERO,
    };
    for (source, control) in sources.iter().zip(&mut controls) {
        let words = match held.is_zero() {
            true => vec!["CLIENT".to_owned(), "UNPAUSE".into()],
            false => pause(held),
        };
        let done = control.expect(&words);
        if cut.is_ok() {
            done.map_err(|error| {
                format!("all data is here, but {} may accept writes again: {error}", source.label)
            })?;
        }
    }
    cut?;
    let sum = |count: fn(&State) -> &AtomicU64| {
        grouped(sources.iter().map(|source| count(&source.state).load(Relaxed)).sum::<u64>() as f64)
    };
    Ok(format!(
        "all data is here: {} keys and {} changes of {} in {:.1} s; writes waited for {:.0} ms\nthe other \
         cluster holds writes back for a day, or until CLIENT UNPAUSE: switch the clients over, then stop \
         it\n",
        sum(|state| &state.keys),
        sum(|state| &state.changes),
        if sources.len() == 1 { "1 primary".to_owned() } else { format!("{} primaries", sources.len()) },
        begin.elapsed().as_secs_f64(),
        waited.as_secs_f64() * 1e3
    ))
}

fn state(sources: &[Source], behind: Option<u64>) -> String {
    let keys: u64 = sources.iter().map(|source| source.state.keys.load(Relaxed)).sum();
    let changes: u64 = sources.iter().map(|source| source.state.changes.load(Relaxed)).sum();
    let follow = sources.iter().filter(|source| source.state.follows.load(SeqCst)).count();
    let behind = behind.map_or_else(String::new, |behind| format!(", {} behind", bytes(behind as f64)));
    format!(
        "{} keys and {} changes are here; {follow} of {} primaries followed{behind}",
        grouped(keys as f64),
        grouped(changes as f64),
        sources.len()
    )
}

/// Returns an error if the import from any primary has failed.
fn check(sources: &[Source]) -> Result<(), String> {
    for source in sources {
        let failure = source.state.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(failure) = &*failure {
            return Err(format!(
                "{failure}. Nothing has changed at the other cluster; start again with --replace, or with \
                 an empty cluster"
            ));
        }
    }
    Ok(())
}

/// The current stream offsets of all primaries.
fn ends(sources: &[Source], controls: &mut [Connection]) -> Result<Vec<u64>, String> {
    let end = |(source, control): (&Source, &mut Connection)| {
        let info = control.expect(&["INFO", "replication"]);
        let info = info.map_err(|error| format!("{}: {error}", source.label))?;
        let info = braid_client::Info::parse(&info.text());
        if info.get("role") != Some("master") {
            return Err(format!("{} is no longer a primary", source.label));
        }
        info.get("master_repl_offset")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| format!("{} does not report its replication offset", source.label))
    };
    sources.iter().zip(controls).map(end).collect()
}

/// The total lag in bytes.
fn behind(sources: &[Source], controls: &mut [Connection]) -> Result<u64, String> {
    let ends = ends(sources, controls)?;
    let behind = |(source, end): (&Source, u64)| end.saturating_sub(source.state.offset.load(SeqCst));
    Ok(sources.iter().zip(ends).map(behind).sum())
}

fn pause(time: Duration) -> Vec<String> {
    vec!["CLIENT".into(), "PAUSE".into(), time.as_millis().to_string(), "WRITE".into()]
}

/// Pauses writes at the other cluster, and waits until everything is here.
fn cut_over(sources: &[Source], controls: &mut [Connection], timeout: Duration) -> Result<(), String> {
    // The pause outlasts our wait: no change may arrive after the last check.
    let held = timeout + Duration::from_secs(5);
    for (source, control) in sources.iter().zip(controls.iter_mut()) {
        control.expect(&pause(held)).map_err(|error| format!("{}: CLIENT PAUSE: {error}", source.label))?;
    }
    let begin = Instant::now();
    sources.iter().for_each(|source| source.state.is_last.store(true, Relaxed));
    let ends = ends(sources, controls)?;
    while begin.elapsed() < timeout {
        check(sources)?;
        if sources.iter().zip(&ends).all(|(source, end)| source.state.offset.load(SeqCst) >= *end) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(format!(
        "not all data was here after {:.0} s; the other cluster accepts writes again. Nothing has changed \
         there; start again with --replace and a longer --timeout",
        timeout.as_secs_f64()
    ))
}

/// Reports each line on standard input.
fn line_of_input() -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines();
        while lines.next().is_some_and(|line| line.is_ok()) {
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    receiver
}
