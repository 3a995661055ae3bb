// SPDX-License-Identifier: BSD-3-Clause
//! `braid-bench active`: writes to several servers of one active-active group while the links
//! between them are cut and healed, and compares each server's final contents with the expected
//! ones.
//!
//! Flow: `region` starts or finds the servers, `proxy` builds the network between them, and each
//! server is pointed at its peers. The clients of `workload` write to all servers and record
//! acknowledged writes, `lag` follows markers, and this module cuts and heals links. At the end
//! `contents` reads all servers until they agree or time runs out, `ledger` judges the contents,
//! and `report` prints.
//!
//! It must never report a write as lost that no server acknowledged, or that a client removed after
//! having seen it; and it must never leave servers pointed at proxies that are gone.

mod contents;
mod kinds;
mod lag;
mod ledger;
pub mod options;
mod proxy;
mod region;
mod report;
mod workload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use braid_client::Connection;
use fastrand::Rng;

use contents::Contents;
use lag::{Lags, Weather};
use options::Options;
use proxy::{Cut, Link, Network};
use region::Region;
use report::{Outcome, Part};
use workload::{Client, Done, Shared};

/// Timeout for markers to pass between all servers before the run begins.
const LINK_PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two reads of all keys at the end.
const LOOK: Duration = Duration::from_millis(100);
/// Polling interval of the run's end.
const NAP: Duration = Duration::from_millis(5);
/// Servers that differ and whose keys have not changed for this long will not converge.
const STILL: Duration = Duration::from_secs(5);

/// An executed cut: its start and end in microseconds, and its kind.
type Made = (u64, u64, Cut);

/// The results of the write phase.
struct Written {
    /// The results of each server's clients, by server.
    done: Vec<Vec<Done>>,
    cuts: Vec<Made>,
    lags: Lags,
}

/// Runs the test and prints the result. True if the servers agree and hold every acknowledged
/// write.
///
/// # Errors
/// If a server cannot be started or reached or does not support active-active replication, the
/// servers do not link, or a writer's connection fails.
pub fn run(options: &Options, stop: &Arc<AtomicBool>) -> Result<bool, String> {
    let mut regions = options
        .servers
        .iter()
        .map(|named| Region::open(named, options))
        .collect::<Result<Vec<Region>, String>>()?;
    let addresses: Vec<String> = regions.iter().map(Region::address).collect();
    let network = Network::new(&options.proxy_host, &addresses)?;
    for (number, region) in regions.iter_mut().enumerate() {
        region.link(&network.peers(number))?;
    }
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let prefix = format!("braid-bench:{}:{millis}:", options.seed);
    wait_until_linked(&regions, &prefix, stop)?;
    let before = regions.iter().map(Region::figures).collect::<Result<Vec<_>, _>>()?;
    let shared = Shared::new(prefix, options.keys);
    let Written { done, cuts, lags } = write(options, &regions, &network, &shared, stop)?;
    let seconds = shared.start.elapsed().as_secs_f64();
    let (contents, agreed_after) = agree(options, &regions, &shared.prefix)?;
    let judged: Vec<_> = cuts.iter().map(|(begin, end, cut)| (*begin, *end, cut.sides.clone())).collect();
    let notes: Vec<_> =
        done.iter().flat_map(|done| done.iter().flat_map(|done| &done.notes)).copied().collect();
    let verdicts = ledger::judge(&notes, &contents, &judged);
    let mut parts = Vec::new();
    for ((region, before), done) in regions.iter().zip(before).zip(done) {
        let mut part = Part {
            address: region.address(),
            version: region.version.clone(),
            sent: done.iter().map(|done| done.sent).sum(),
            errors: Default::default(),
            figures: Default::default(),
        };
        for (code, (count, text)) in done.into_iter().flat_map(|done| done.errors) {
            part.errors.entry(code).or_insert((0, text)).0 += count;
        }
        for (name, after) in region.figures()? {
            let before = before.get(&name).copied().unwrap_or(0.0);
            part.figures.insert(name, (before, after));
        }
        parts.push(part);
    }
    regions.iter_mut().for_each(Region::unlink);
    let to_seconds = |micros: u64| micros as f64 / 1e6;
    let outcome = Outcome {
        parts,
        verdicts,
        cuts: cuts
            .into_iter()
            .map(|(begin, end, cut)| {
                (to_seconds(begin), to_seconds(end), cut.sides, cut.link == Link::Silent)
            })
            .collect(),
        seconds,
        lags,
        agreed_after,
        is_interrupted: stop.load(Relaxed),
        prefix: shared.prefix,
    };
    use std::io::Write;
    let _ = std::io::stdout().write_all(outcome.shown(options).as_bytes());
    Ok(outcome.is_good())
}

/// All ordered pairs of different servers.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |from| (0..count).filter(move |to| *to != from).map(move |to| (from, to)))
}

/// Waits until writes to each server arrive at all others.
fn wait_until_linked(regions: &[Region], prefix: &str, stop: &AtomicBool) -> Result<(), String> {
    let begin = Instant::now();
    for (from, to) in pairs(regions.len()) {
        let key = format!("{prefix}linked:{from}:{to}");
        let mut number = 0;
        let mut has_passed = false;
        // Retries with new writes: a new link may start with older data.
        while !has_passed {
            if stop.load(Relaxed) || begin.elapsed() > LINK_PATIENCE {
                return Err(format!(
                    "writes at {} do not arrive at {}",
                    regions[from].address(),
                    regions[to].address()
                ));
            }
            number += 1;
            let asked = Instant::now();
            let mut is_over = || asked.elapsed() > Duration::from_secs(1);
            let (mut one, mut other) = (regions[from].connect()?, regions[to].connect()?);
            has_passed = match lag::passes(&mut one, &mut other, &key, number, &mut is_over) {
                Err(text) if !lag::may_pass(&text) => return Err(text),
                passed => passed == Ok(true),
            };
        }
    }
    Ok(())
}

/// Runs the clients while links are cut and healed.
fn write(
    options: &Options,
    regions: &[Region],
    network: &Network,
    shared: &Shared,
    stop: &AtomicBool,
) -> Result<Written, String> {
    let mut random = Rng::with_seed(options.seed);
    let weather = Weather::default();
    let clients = regions.len() * options.clients;
    let each = match options.rate > 0.0 {
        true => Duration::from_secs_f64(clients as f64 / options.rate),
        false => Duration::ZERO,
    };
    let mut writers = Vec::new();
    for (server, region) in regions.iter().enumerate() {
        for _ in 0..options.clients {
            writers.push((server, Client::new(server, region.connect()?, shared, random.fork())));
        }
    }
    let mut markers = Vec::new();
    for (from, to) in pairs(regions.len()) {
        let key = format!("{}lag:{from}:{to}", shared.prefix);
        markers.push((regions[from].connect()?, regions[to].connect()?, key, random.fork()));
    }
    std::thread::scope(|scope| {
        let writers: Vec<_> = writers
            .into_iter()
            .map(|(server, client)| (server, scope.spawn(move || client.run(each))))
            .collect();
        let weather = &weather;
        let markers: Vec<_> = markers
            .into_iter()
            .map(|(mut from, mut to, key, mut random)| {
                scope.spawn(move || lag::measure(&mut from, &mut to, &key, weather, &mut random))
            })
            .collect();
        let is_over = || stop.load(Relaxed) || writers.iter().any(|(_, writer)| writer.is_finished());
        let cuts = make_cuts(options, regions.len(), network, shared, weather, &mut random, &is_over);
        shared.stop.store(true, Relaxed);
        weather.stop.store(true, Relaxed);
        let mut done: Vec<Vec<Done>> = regions.iter().map(|_| Vec::new()).collect();
        for (server, writer) in writers {
            let result = writer.join().unwrap_or_else(|_| Err("a client thread panicked".into()));
            done[server].push(result.map_err(|error| format!("{}: {error}", regions[server].address()))?);
        }
        let mut lags = Lags::default();
        for marker in markers {
            lags.add(marker.join().unwrap_or_else(|_| Err("a marker thread panicked".into()))?);
        }
        Ok(Written { done, cuts, lags })
    })
}

/// Cuts and heals links until the time is over. Divides the time into equal parts, each with one
/// cut that lasts a fifth to three fifths of it. All links are open at the end.
fn make_cuts(
    options: &Options,
    servers: usize,
    network: &Network,
    shared: &Shared,
    weather: &Weather,
    random: &mut Rng,
    is_over: &dyn Fn() -> bool,
) -> Vec<Made> {
    let sleep_until = |time: Duration| {
        while shared.start.elapsed() < time && !is_over() {
            std::thread::sleep(NAP.min(time.saturating_sub(shared.start.elapsed())));
        }
    };
    let mut made = Vec::new();
    for number in 0..options.cuts {
        if is_over() {
            break;
        }
        let part = options.time / options.cuts as u32;
        let begin = part * number as u32 + part.mul_f64(0.2 + 0.2 * random.f64());
        let end = begin + part.mul_f64(0.2 + 0.4 * random.f64());
        let cut = Cut::random(servers, random);
        sleep_until(begin);
        weather.changes.fetch_add(1, SeqCst);
        network.cut(&cut);
        let begun = shared.now();
        sleep_until(end);
        let ended = shared.now();
        network.heal();
        weather.changes.fetch_add(1, SeqCst);
        made.push((begun, ended, cut));
    }
    sleep_until(options.time);
    made
}

/// Reads all servers until they agree. Gives up when their keys have not changed for a while, or
/// when the patience runs out.
fn agree(
    options: &Options,
    regions: &[Region],
    prefix: &str,
) -> Result<(Vec<Contents>, Option<f64>), String> {
    let begin = Instant::now();
    let mut connections = regions.iter().map(Region::connect).collect::<Result<Vec<Connection>, _>>()?;
    let (mut last, mut since) = (Vec::new(), Instant::now());
    loop {
        let look = begin.elapsed();
        let read = |(connection, region): (&mut Connection, &Region)| {
            contents::read(connection, prefix).map_err(|error| format!("{}: {error}", region.address()))
        };
        let contents: Vec<Contents> =
            connections.iter_mut().zip(regions).map(read).collect::<Result<_, String>>()?;
        if contents.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok((contents, Some(look.as_secs_f64())));
        }
        if contents != last {
            (last, since) = (contents, Instant::now());
        }
        if since.elapsed() > STILL.min(options.patience) || begin.elapsed() > options.patience {
            return Ok((last, None));
        }
        std::thread::sleep(LOOK);
    }
}
