// SPDX-License-Identifier: BSD-3-Clause
//! The search for mismatches: sends random commands to both servers, then shrinks and reports
//! their disagreements.

use braid_tests::random::{number, seed};
use braid_tests::words;

use crate::family::Family;
use crate::generator::Generator;
use crate::pair::{CONNECTIONS, Item, Manner, Pair};
use crate::shrink::{Shrunk, shrink};

/// Number of commands between two empty states.
const EPISODE: usize = 400;

/// Runs `commands` random commands; panics with all mismatches, shrunk.
pub fn compare(test: &str, pair: &mut Pair, families: &[&'static Family], manner: Manner, commands: u64) {
    let seed = seed();
    let names: Vec<&str> = families.iter().map(|family| family.name).collect();
    println!("{test}: BRAID_SEED={seed}, families {}", names.join(","));
    let found = search(pair, families, manner, commands, seed, number("BRAID_MISMATCHES", 5) as usize);
    println!("{test}: {}", pair.summary());
    if !found.is_empty() {
        let reports: Vec<String> = found.iter().map(report).collect();
        panic!("{test}: BRAID_SEED={seed}: {} mismatches\n\n{}", found.len(), reports.join("\n\n"));
    }
}

/// Runs `commands` random commands; returns the mismatches, shrunk.
pub fn search(
    pair: &mut Pair,
    families: &[&'static Family],
    manner: Manner,
    commands: u64,
    seed: u64,
    mismatches_max: usize,
) -> Vec<Shrunk> {
    let mut generator = Generator::new(seed, families);
    let mut found: Vec<Shrunk> = Vec::new();
    let mut sent = 0;
    while sent < commands && found.len() < mismatches_max {
        let items = episode(&mut generator, manner);
        sent += items.len() as u64;
        if let Err(mismatch) = pair.run(&items, manner) {
            println!("mismatch, now being shrunk: {}", mismatch.description);
            let shrunk = shrink(pair, &items, manner, mismatch);
            if !found.iter().any(|known| known.mismatch.description == shrunk.mismatch.description) {
                println!("{}\n", report(&shrunk));
                found.push(shrunk);
            }
        }
    }
    found
}

/// The commands of one episode, which starts with an empty state.
fn episode(generator: &mut Generator, manner: Manner) -> Vec<Item> {
    let mut items = Vec::with_capacity(EPISODE);
    while items.len() < EPISODE {
        let connection = generator.random().usize(0..CONNECTIONS);
        let len = 1 + generator.random().usize(0..manner.pipeline.max(6));
        for _ in 0..len {
            items.push(Item { connection, command: generator.command() });
        }
    }
    items
}

/// Describes a mismatch, with the commands that reproduce it.
pub fn report(shrunk: &Shrunk) -> String {
    let one_connection = shrunk.items.iter().all(|item| item.connection == shrunk.items[0].connection);
    let lines: Vec<String> = shrunk
        .items
        .iter()
        .map(|item| {
            let prefix =
                if one_connection { String::new() } else { format!("(connection {}) ", item.connection) };
            format!("    {prefix}{}", words::line(&item.command))
        })
        .collect();
    let Manner { protocol, pipeline, .. } = shrunk.manner;
    let how = format!("RESP{protocol}{}", if pipeline > 1 { ", pipelined" } else { "" });
    format!("smallest sequence found ({how}):\n{}\n  {}", lines.join("\n"), shrunk.mismatch.description)
}
