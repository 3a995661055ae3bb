// SPDX-License-Identifier: BSD-3-Clause
//! The source's connection to the target of a move: how it is established, how long it waits, and
//! what the target's errors mean for the move.

use std::time::{Duration, Instant};

use braid_base::number::parse_u64;
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::Move;
use braid_net::target::{Broken, Connection};
use braid_process::connector::{ConnectError, Connector};

use crate::slot_moves::hold;

/// How long the target may take to accept a connection. The move is retried.
const CONNECT: Duration = Duration::from_secs(5);
/// How long to wait for an answer before checking whether the target still leads its shard: a
/// stalled machine does not answer, and may be replaced.
const LOOK: Duration = Duration::from_millis(250);
/// Silence of the target after which writes no longer wait for it: it may be dead.
const SILENCE: Duration = Duration::from_secs(5);
/// First words of a target's errors that pass once it has found its role, or another server has
/// taken the role.
const PASSING: [&str; 9] = [
    "TRYAGAIN",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "MOVED",
    "LOADING",
    "UNCERTAIN",
    "NOREPLICAS",
    "UNBLOCKED",
];

/// Why a move has ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the connection to the target was lost")]
    Broken,
    #[error("the target did not answer in time")]
    TimedOut,
    /// The target does not accept connections.
    #[error("{0}")]
    Unreachable(String),
    /// The move is begun again, here or by another primary.
    #[error("{0}")]
    Interrupted(String),
    /// A retry is pointless.
    #[error("{0}")]
    Rejected(String),
    #[error("cancelled")]
    Cancelled,
}

impl Failure {
    /// True if another attempt may succeed.
    pub(super) fn is_transient(&self) -> bool {
        !matches!(self, Failure::Rejected(_) | Failure::Cancelled)
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        if broken.timed_out { Failure::TimedOut } else { Failure::Broken }
    }
}

pub(super) fn rejected(why: impl Into<String>) -> Failure {
    Failure::Rejected(why.into())
}

pub(super) fn interrupted(why: impl Into<String>) -> Failure {
    Failure::Interrupted(why.into())
}

/// What an error of the target means.
fn of_target(error: &str) -> Failure {
    let word = error.split(' ').next().unwrap_or_default();
    let why = format!("the target says: {error}");
    if PASSING.contains(&word) { interrupted(why) } else { rejected(why) }
}

/// How long the target may keep this server waiting, unless clients wait as well.
pub(super) fn patience(engine: &Engine) -> Duration {
    Duration::from_secs(engine.config.repl_timeout_seconds().max(1).into())
}

/// Opens a connection to the target with the right to send it the slots.
pub(super) fn connect(engine: &Engine, job: &Move) -> Result<Connection, Failure> {
    let view = engine.cluster_view().ok_or_else(|| interrupted("this server is not in a cluster"))?;
    let node = view.map.node(&job.target).ok_or_else(|| rejected("the target has left the cluster"))?;
    let config = &engine.config;
    let is_tls = config.tls_cluster();
    let port = node.port_for(is_tls);
    let patience = patience(engine);
    let connector = Connector::new(config, is_tls, patience.min(CONNECT));
    let mut connection = connector.open(node.host(), port).map_err(|error| match error {
        ConnectError::Settings(why) => rejected(why),
        ConnectError::Socket(error) => {
            Failure::Unreachable(format!("cannot reach {}:{port}: {error}", node.host()))
        }
    })?;
    let (known, id) = (engine.weak(), std::sync::Arc::clone(&job.target));
    let name = job.name.clone();
    let leads = move |waited: Duration| {
        let engine = known.upgrade();
        engine.is_some_and(|engine| {
            note_silence(&engine, &name, waited);
            target_leads(&engine, &id)
        })
    };
    connection.set_steps(LOOK.min(patience), patience, leads)?;
    match connection.log_in(&config.masteruser(), &config.masterauth()) {
        Err(broken) if broken.timed_out && !broken.writing => {
            wait_for_answer(engine, job, &mut connection, patience)?;
        }
        told => told?.map_err(|error| of_target(&error))?,
    }
    Ok(connection)
}

/// True while the target is alive and its shard's primary, according to the records. Otherwise
/// nothing more is to be expected of it: the move is begun again, to its successor.
pub(super) fn target_leads(engine: &Engine, target: &str) -> bool {
    let view = engine.cluster_view().unwrap_or_default();
    view.map.node(target).is_some_and(|node| view.map.is_primary(node) && node.server.is_some())
}

/// Lets writes go that wait for a silent target.
fn note_silence(engine: &Engine, name: &str, waited: Duration) {
    if waited >= SILENCE {
        hold::let_writes_go(engine, name);
    }
}

/// Reads an answer, waiting up to `patience`, as long as the target leads its shard.
pub(super) fn wait_for_answer(
    engine: &Engine,
    job: &Move,
    connection: &mut Connection,
    patience: Duration,
) -> Result<(), Failure> {
    wait_for_line(engine, job, connection, patience).map(|_| ())
}

/// [`wait_for_answer`] for an answer that is a number.
pub(super) fn wait_for_number(
    engine: &Engine,
    job: &Move,
    connection: &mut Connection,
    patience: Duration,
) -> Result<u64, Failure> {
    let line = wait_for_line(engine, job, connection, patience)?;
    let number = line.strip_prefix(b":").and_then(parse_u64);
    number.ok_or_else(|| rejected("the target sent no number"))
}

fn wait_for_line(
    engine: &Engine,
    job: &Move,
    connection: &mut Connection,
    patience: Duration,
) -> Result<Vec<u8>, Failure> {
    let began = Instant::now();
    loop {
        match line(connection) {
            Err(Failure::TimedOut) if began.elapsed() < patience => {
                note_silence(engine, &job.name, began.elapsed());
                if !target_leads(engine, &job.target) {
                    return Err(interrupted("the target does not answer and no longer leads its shard"));
                }
            }
            result => return result,
        }
    }
}

/// Sends a request and waits for its answer.
pub(super) fn ask(connection: &mut Connection, request: &[&[u8]]) -> Result<(), Failure> {
    connection.request(request)?;
    connection.flush()?;
    answer(connection)
}

/// Reads an answer, which must not be an error.
pub(super) fn answer(connection: &mut Connection) -> Result<(), Failure> {
    line(connection).map(|_| ())
}

fn line(connection: &mut Connection) -> Result<Vec<u8>, Failure> {
    let line = connection.line()?;
    match line.strip_prefix(b"-") {
        Some(error) => Err(of_target(&String::from_utf8_lossy(error))),
        None => Ok(line),
    }
}
