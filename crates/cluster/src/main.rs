// SPDX-License-Identifier: BSD-3-Clause
//! The braid-cluster program.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use braid_client::{Arguments, Connection, Info, TargetOptions};
use braid_cluster::change::{self, NodeAddress};
use braid_cluster::cluster::Cluster;
use braid_cluster::moving::{MoveRequest, Plan};
use braid_cluster::nodes::Node;
use braid_cluster::options::{self, Action, Options, Request};
use braid_cluster::overview::Overview;
use braid_cluster::{failover, gather, import, plan, promote, status};
use serde_json::json;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// The group or cluster is degraded, or has no primary.
const NOT_WHOLE: u8 = 3;

fn main() -> ExitCode {
    // Without an argument, -h cannot name a host.
    if std::env::args_os().skip(1).eq(["-h"]) {
        return print(&options::help(), 0);
    }
    let options = match options::parse(&mut Arguments::of_process()) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => return print(&options::help(), 0),
        Ok(Request::Version) => return print(concat!("braid-cluster ", env!("CARGO_PKG_VERSION"), "\n"), 0),
        Err(message) => return fail(USAGE, &message),
    };
    match run(&options) {
        Ok((text, code)) => print(&text, code),
        Err(message) => fail(FAILED, &message),
    }
}

/// Runs the requested action. Returns the text to print and the exit status.
fn run(options: &Options) -> Result<(String, u8), String> {
    let target = &options.target;
    let done = |text: String| Ok((text, 0));
    match &options.action {
        Action::Promote { timeout } => done(promote::run(target, *timeout)?),
        Action::Status => show(options),
        Action::Failover { to, timeout } => done(hand_over(options, to.as_deref(), *timeout)?),
        Action::Create { places, replicas } => done(create(options, places, *replicas)?),
        Action::Add { place, replica_of } => {
            let mut cluster = Cluster::open(target)?;
            let primary = change::check_add(&mut cluster, target, place, replica_of.as_deref())?;
            let what = match &primary {
                Some(primary) => format!("replica of {}", primary.address()),
                None => "primary without slots".into(),
            };
            done(carry_out(options, "add", &format!("{}: a {what}\n", change::address(place)), || {
                change::add(&mut cluster, target, place, primary.as_ref())
            })?)
        }
        Action::Remove { node } => {
            let mut cluster = Cluster::open(target)?;
            let node = change::check_remove(&mut cluster, node)?;
            done(carry_out(options, "remove", &format!("{} leaves\n", node.address()), || {
                change::remove(&mut cluster, &node)
            })?)
        }
        Action::Move(request) => done(move_slots(options, request)?),
        Action::Import(request) => done(import::run(target, request)?),
    }
}

/// True if a server is in cluster mode.
fn is_in_cluster(target: &TargetOptions) -> Result<bool, String> {
    let mut server: Connection = gather::connect(&target.target()?)?;
    let info = server.expect(&["INFO", "cluster"]).map_err(|error| error.to_string())?;
    Ok(Info::parse(&info.text()).get("cluster_enabled") == Some("1"))
}

fn show(options: &Options) -> Result<(String, u8), String> {
    let code = |is_whole: bool| if is_whole { 0 } else { NOT_WHOLE };
    if is_in_cluster(&options.target)? {
        let overview = Overview::of(&mut Cluster::open(&options.target)?)?;
        let text = if options.json { format!("{:#}\n", overview.json()) } else { overview.text() };
        return Ok((text, code(overview.is_whole())));
    }
    let group = gather::group(&options.target)?;
    let text = if options.json { format!("{:#}\n", status::json(&group)) } else { status::text(&group) };
    Ok((text, code(group.is_whole())))
}

fn hand_over(options: &Options, to: Option<&str>, timeout: Duration) -> Result<String, String> {
    if !is_in_cluster(&options.target)? {
        if options.dry_run || options.json {
            return Err("--dry-run and --json of failover need a cluster".into());
        }
        return failover::run(&options.target, to, timeout);
    }
    let mut cluster = Cluster::open(&options.target)?;
    let asked = options.target.target()?.address.to_string();
    let (primary, successor) = change::check_failover(&mut cluster, to.unwrap_or(&asked))?;
    let plan = format!("{} takes over from {}\n", successor.address(), primary.address());
    carry_out(options, "failover", &plan, || change::fail_over(&mut cluster, &primary, &successor, timeout))
}

fn create(options: &Options, places: &[NodeAddress], replicas: usize) -> Result<String, String> {
    let layout = change::layout(&options.target, places, replicas)?;
    carry_out(options, "create", &layout.text(places), || change::create(&options.target, places, &layout))
}

/// Returns the plan for a dry run, or else carries it out and returns the outcome.
fn carry_out(
    options: &Options,
    action: &str,
    plan: &str,
    work: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    let begin = Instant::now();
    let outcome = if options.dry_run { None } else { Some(work()?) };
    if !options.json {
        return Ok(outcome.unwrap_or_else(|| plan.to_owned()));
    }
    let json = json!({
        "action": action,
        "dry_run": options.dry_run,
        "plan": plan.lines().collect::<Vec<_>>(),
        "outcome": outcome.as_deref().map(str::trim_end),
        "seconds": begin.elapsed().as_secs_f64(),
    });
    Ok(format!("{json:#}\n"))
}

fn move_slots(options: &Options, request: &MoveRequest) -> Result<String, String> {
    let action = match request {
        MoveRequest::Drain(_) => "drain",
        MoveRequest::Rebalance(_) => "rebalance",
        MoveRequest::Move { .. } => "move",
    };
    let mut cluster = Cluster::open(&options.target)?;
    let moves = Plan::of(&mut cluster, request)?;
    let count = plan::size(&moves.moves);
    let begin = Instant::now();
    let mut joined = None;
    if !options.dry_run {
        moves.carry_out(&mut cluster)?;
        joined = moves.await_joining(&mut cluster);
    }
    let seconds = begin.elapsed().as_secs_f64();
    if options.json {
        let json = json!({
            "action": action,
            "dry_run": options.dry_run,
            "slots": count,
            "moves": moves.json(),
            "joined": joined.map(|(_, primary)| json!({ "id": primary.id, "address": primary.address() })),
            "seconds": seconds,
        });
        return Ok(format!("{json:#}\n"));
    }
    let mut text = moves.text();
    if !options.dry_run && count > 0 {
        text += &format!("{} moved in {seconds:.1} s\n", change::plural(count, "slot"));
    }
    if let Some((nodes, primary)) = joined {
        let nodes: Vec<String> = nodes.iter().map(Node::address).collect();
        text += &format!("{}: now of the shard of {}\n", nodes.join(", "), primary.address());
    }
    Ok(text)
}

/// Prints to standard output; ignores a closed pipe.
fn print(text: &str, code: u8) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}

fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("braid-cluster: {message}");
    ExitCode::from(code)
}
