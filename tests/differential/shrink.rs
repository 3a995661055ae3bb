// SPDX-License-Identifier: BSD-3-Clause
//! Minimizes a sequence that shows a mismatch, by removing parts and trying again.

use std::time::{Duration, Instant};

use crate::pair::{Item, Manner, Mismatch, Pair};

/// Time limit for shrinking one mismatch.
const EFFORT: Duration = Duration::from_secs(20);

/// A mismatch, and the smallest sequence found that reproduces it.
pub struct Shrunk {
    pub items: Vec<Item>,
    pub manner: Manner,
    pub mismatch: Mismatch,
}

/// Shrinks a sequence whose run ended in `mismatch`.
pub fn shrink(pair: &mut Pair, items: &[Item], manner: Manner, mismatch: Mismatch) -> Shrunk {
    let mut best = Shrunk { items: items[..mismatch.needed].to_vec(), manner, mismatch };
    let end = Instant::now() + EFFORT;
    let simple = Manner { protocol: 2, pipeline: 1, ..manner };
    for manner in [simple, Manner { pipeline: 1, ..manner }, Manner { protocol: 2, ..manner }] {
        let items = best.items.clone();
        if attempt(pair, &mut best, items, manner) {
            break;
        }
    }
    loop {
        let before = size(&best.items);
        drop_commands(pair, &mut best, end);
        simplify_commands(pair, &mut best, end);
        if size(&best.items) == before || Instant::now() > end {
            return best;
        }
    }
}

fn size(items: &[Item]) -> usize {
    items
        .iter()
        .map(|item| 1 + item.connection + item.command.iter().map(|word| 1 + word.len()).sum::<usize>())
        .sum()
}

/// Tries a candidate, which becomes the best one if it shows the same mismatch.
fn attempt(pair: &mut Pair, best: &mut Shrunk, items: Vec<Item>, manner: Manner) -> bool {
    match pair.run(&items, manner) {
        Err(mismatch) if mismatch.signature == best.mismatch.signature => {
            let needed = mismatch.needed;
            *best = Shrunk { items: items[..needed].to_vec(), manner, mismatch };
            true
        }
        _ => false,
    }
}

/// Removes runs of commands: halves first, single ones last.
fn drop_commands(pair: &mut Pair, best: &mut Shrunk, end: Instant) {
    let mut chunk = best.items.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < best.items.len() && Instant::now() < end {
            let mut items = best.items.clone();
            items.drain(at..(at + chunk).min(items.len()));
            let manner = best.manner;
            if items.is_empty() || !attempt(pair, best, items, manner) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
}

/// Simplifies single commands: fewer arguments, shorter arguments, the first connection.
fn simplify_commands(pair: &mut Pair, best: &mut Shrunk, end: Instant) {
    let manner = best.manner;
    let mut at = 0;
    while at < best.items.len() {
        for connection in 0..best.items[at].connection {
            let mut items = best.items.clone();
            items[at].connection = connection;
            if attempt(pair, best, items, manner) {
                break;
            }
        }
        let mut word = 1;
        while at < best.items.len() && word < best.items[at].command.len() && Instant::now() < end {
            let mut without = best.items.clone();
            without[at].command.remove(word);
            if attempt(pair, best, without, manner) {
                continue;
            }
            for shorter in [
                &b"1"[..],
                b"a",
                &best.items[at].command[word].clone()[..best.items[at].command[word].len() / 2],
            ] {
                if shorter.len() < best.items[at].command[word].len() {
                    let mut items = best.items.clone();
                    items[at].command[word] = shorter.to_vec();
                    if attempt(pair, best, items, manner) {
                        break;
                    }
                }
            }
            word += 1;
        }
        at += 1;
    }
}
