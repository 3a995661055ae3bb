// SPDX-License-Identifier: BSD-3-Clause
//! What FT.PROFILE says of a query: what was measured while it ran.
//!
//! All figures are measured: the time and the documents of each step of the plan, and of what was
//! done with the results. The time of a step has that of the steps below it.
//!
//! A server that reports a version of Redis 8 replies in its form: the names of the figures are
//! those of redis.io/commands/ft.profile, and what is measured stands beside the results, below
//! `Shards`.

use std::sync::OnceLock;

use braid_base::clock::Ticks;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_search::execute::{Children, Report, Reported};

/// Nanoseconds since the first call.
pub fn nanos() -> u64 {
    static START: OnceLock<Ticks> = OnceLock::new();
    let start = *START.get_or_init(Ticks::now);
    Ticks::now().nanos_since(start)
}

/// What FT.PROFILE adds to a query.
pub struct Profiling {
    /// Unions of many words are counted only.
    pub is_limited: bool,
    /// The reply has the form of Redis 8.
    pub is_redis_8: bool,
    pub began: u64,
    pub parse_nanos: u64,
    pub plan_nanos: u64,
}

impl Profiling {
    pub fn new(is_limited: bool, is_redis_8: bool) -> Profiling {
        Profiling { is_limited, is_redis_8, began: nanos(), parse_nanos: 0, plan_nanos: 0 }
    }
}

/// Something that was done with the results.
pub struct Processor {
    pub kind: String,
    pub nanos: u64,
    pub count: u64,
}

impl Processor {
    pub fn new(kind: &str, nanos: u64, count: usize) -> Processor {
        Processor { kind: kind.to_owned(), nanos, count: count as u64 }
    }
}

/// What follows the results.
pub struct Measured<'a> {
    pub profiling: &'a Profiling,
    pub report: Report,
    pub processors: Vec<Processor>,
    pub is_late: bool,
}

impl Measured<'_> {
    /// Begins the reply; the results follow.
    pub fn begin(&self, reply: &mut ReplyBuffer) {
        if reply.protocol != Protocol::Resp3 {
            reply.array(2);
        } else if self.profiling.is_redis_8 {
            reply.map(2);
            reply.simple("Results");
        }
    }

    /// True if what was measured is one of the results' fields.
    pub fn is_among_results(&self, protocol: Protocol) -> bool {
        protocol == Protocol::Resp3 && !self.profiling.is_redis_8
    }

    /// The list of results, or the results' `profile` in RESP3.
    pub fn reply(&self, reply: &mut ReplyBuffer) {
        let Profiling { began, parse_nanos, plan_nanos, is_redis_8, .. } = *self.profiling;
        if is_redis_8 {
            if reply.protocol == Protocol::Resp3 {
                reply.simple("Profile");
            }
            reply.map(2);
            reply.simple("Shards");
            reply.array(1);
        }
        // Names beside their values, rather than pairs.
        let is_map = reply.protocol == Protocol::Resp3 || is_redis_8;
        if is_map {
            reply.map(6)
        } else {
            reply.array(6)
        }
        let times = [
            ("Total profile time", nanos().saturating_sub(began)),
            ("Parsing time", parse_nanos),
            ("Pipeline creation time", plan_nanos),
        ];
        for (name, nanos) in times {
            if !is_map {
                reply.array(2);
            }
            reply.simple(name);
            reply_time(nanos, reply);
        }
        if !is_map {
            reply.array(1 + usize::from(self.is_late));
        }
        reply.simple("Warning");
        match self.is_late {
            true => reply.simple("Timeout limit was reached"),
            false if is_map => reply.simple("None"),
            false => {}
        }
        if !is_map {
            reply.array(2);
        }
        reply.simple("Iterators profile");
        if reply.protocol == Protocol::Resp3 {
            reply.array(1);
        }
        self.reply_step(&self.report.root, reply);
        if !is_map {
            reply.array(1 + self.processors.len());
        }
        reply.simple("Result processors profile");
        if is_map {
            reply.array(self.processors.len());
        }
        for Processor { kind, nanos, count } in &self.processors {
            reply.map(3);
            reply.simple("Type");
            reply.simple(kind);
            reply.simple("Time");
            reply_time(*nanos, reply);
            reply.simple(if is_redis_8 { "Results processed" } else { "Counter" });
            reply.integer(*count as i64);
        }
        if is_redis_8 {
            reply.simple("Coordinator");
            reply.map(0);
        }
    }

    fn reply_step(&self, step: &Reported, reply: &mut ReplyBuffer) {
        let is_map = reply.protocol == Protocol::Resp3;
        let counted = match &step.children {
            // What a client has joined is shown all the same.
            Children::Many(children)
                if self.profiling.is_limited
                    && step.query.as_deref().is_some_and(|query| query != "UNION") =>
            {
                Some(children.len())
            }
            _ => None,
        };
        let pairs = 3
            + usize::from(step.query.is_some())
            + usize::from(step.term.is_some())
            + usize::from(step.size.is_some());
        let has_children = !matches!(step.children, Children::None);
        if is_map {
            reply.map(pairs + usize::from(has_children));
        } else {
            let children = match &step.children {
                Children::None => 0,
                Children::Many(children) if counted.is_none() => 1 + children.len(),
                _ => 2,
            };
            reply.array(2 * pairs + children);
        }
        reply.simple("Type");
        reply.simple(step.kind);
        for (name, text) in [("Query type", &step.query), ("Term", &step.term)] {
            if let Some(text) = text {
                reply.simple(name);
                reply.simple(text);
            }
        }
        reply.simple("Time");
        reply_time(step.nanos, reply);
        let is_redis_8 = self.profiling.is_redis_8;
        reply.simple(if is_redis_8 { "Number of reading operations" } else { "Counter" });
        reply.integer(step.count as i64);
        if let Some(size) = step.size {
            reply.simple(if is_redis_8 { "Estimated number of matches" } else { "Size" });
            reply.integer(size as i64);
        }
        match &step.children {
            Children::None => {}
            Children::One(child) => {
                reply.simple("Child iterator");
                self.reply_step(child, reply);
            }
            Children::Many(children) => {
                reply.simple("Child iterators");
                if let Some(count) = counted {
                    reply.simple(&format!("The number of iterators in the union is {count}"));
                    return;
                }
                if is_map {
                    reply.array(children.len());
                }
                children.iter().for_each(|child| self.reply_step(child, reply));
            }
        }
    }
}

/// In milliseconds.
fn reply_time(nanos: u64, reply: &mut ReplyBuffer) {
    let milliseconds = nanos as f64 / 1e6;
    if reply.protocol == Protocol::Resp3 {
        reply.double(milliseconds);
    } else {
        reply.bulk(milliseconds.to_string().as_bytes());
    }
}
