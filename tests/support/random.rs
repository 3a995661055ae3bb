// SPDX-License-Identifier: BSD-3-Clause
//! Reproducible randomness: every random test draws from a generator whose seed it prints.

/// A generator seeded from `BRAID_SEED`, or with a new seed if that is not set. The seed is
/// printed, and cargo shows the output of a failing test, so every failure can be reproduced.
pub fn source(test: &str) -> fastrand::Rng {
    let seed = seed();
    println!("{test}: BRAID_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The seed in `BRAID_SEED`, or a new one.
pub fn seed() -> u64 {
    match std::env::var("BRAID_SEED") {
        Ok(text) => text.trim().parse().expect("BRAID_SEED must be a whole number"),
        Err(_) => fastrand::u64(..),
    }
}

/// A whole number from the environment, or `default`.
pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{variable} must be a whole number")),
        Err(_) => default,
    }
}
