// SPDX-License-Identifier: BSD-3-Clause
//! Recorded servers for tests: two samples, taken two seconds apart, under a load of SET, GET and
//! HSET on 14 connections.

use braid_client::Info;

use crate::sample::{Sample, clients};

macro_rules! recordings {
    ($($name:literal),*) => {
        /// (name, first INFO, second INFO, CLIENT LIST)
        const ALL: &[(&str, &str, &str, &str)] = &[$((
            $name,
            include_str!(concat!("recorded/", $name, "-1.txt")),
            include_str!(concat!("recorded/", $name, "-2.txt")),
            include_str!(concat!("recorded/", $name, "-clients.txt")),
        )),*];
    };
}

recordings!("braid", "redis-7.0", "redis-8.0", "valkey-9.1");

/// Two samples of a recorded server.
pub fn pair(name: &str) -> (Sample, Sample) {
    let (_, first, second, list) = ALL.iter().find(|(own, ..)| *own == name).expect("a recorded server");
    let sample = |text: &str| {
        let info = Info::parse(text);
        let at = info.number("server_time_usec").expect("its time") / 1e6;
        Sample { at, info, clients: clients(list), ..Sample::default() }
    };
    (sample(first), sample(second))
}

/// The second INFO of a recorded server.
pub fn text(name: &str) -> &'static str {
    ALL.iter().find(|(own, ..)| *own == name).expect("a recorded server").2
}
