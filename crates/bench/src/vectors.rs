// SPDX-License-Identifier: BSD-3-Clause
//! `braid-bench vectors`: recall against rate of vector sets, for any server with VADD and VSIM.
//!
//! Flow: [`data`] makes the vectors and finds the true nearest ones; for each server, connections
//! on threads of their own add the vectors, and then send all queries for each EF in turn.
//!
//! It must never count a search that failed, nor touch a key that was there before.

pub mod data;
pub mod options;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use braid_client::connection::encode;
use braid_client::{Connection, Info, Value, cannot_connect};
use serde_json::json;

use crate::active::options::{Form, Named};
use crate::server::Server;
use crate::table::Table;
use data::{Picked, Truth, Vectors};
use options::Options;

/// Recall at which servers are compared.
const LEVELS: [f64; 4] = [0.90, 0.95, 0.99, 0.999];

/// Filters, and the elements that match.
const FILTERS: [(&str, &str, Picked); 5] = [
    ("50 %", ".half == 1", Picked { every: 2, rest: 1 }),
    ("10 %", ".tenth == 3", Picked { every: 10, rest: 3 }),
    ("3 %", ".few == 5", Picked { every: 33, rest: 5 }),
    ("1 %", ".hundredth == 42", Picked { every: 100, rest: 42 }),
    (".1 %", ".rare == 7", Picked { every: 1000, rest: 7 }),
];

/// The attribute of an element.
fn attribute(index: usize) -> String {
    let (half, tenth, few) = (index % 2, index % 10, index % 33);
    let (hundredth, rare) = (index % 100, index % 1000);
    format!(
        "{{\"half\":{half},\"tenth\":{tenth},\"few\":{few},\"hundredth\":{hundredth},\
         \"rare\":{rare},\"name\":\"element {index}\"}}"
    )
}

/// What requests of one kind took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    per_second: f64,
    /// Processor time of the server for each, in microseconds; `None` if it does not say.
    processor_us: Option<f64>,
}

/// All queries with one EF.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// `None` if it is left to the server.
    ef: Option<u32>,
    mean: f64,
    least: f64,
    cost: Cost,
}

/// One server's figures.
struct Figures {
    name: String,
    /// `None` if the set was there.
    add: Option<Cost>,
    memory: Option<f64>,
    points: Vec<Point>,
    /// Searches with filters, by name.
    filtered: Vec<(String, Point)>,
}

/// Measures all servers and prints the result.
///
/// # Errors
/// If data cannot be read, a server cannot be started or reached, has no vector sets, or has the
/// key already.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), String> {
    let (base, queries) = data::make(options)?;
    let truth = |picked| Truth::new(&base, &queries, options.nearest, picked);
    let filters = if options.filters { &FILTERS[..] } else { &[] };
    let (all_nearest, matching) = (truth(Picked::ALL), filters.iter().map(|one| truth(one.2)).collect());
    let truths = (all_nearest, matching);
    let mut all = Vec::new();
    for (name, named) in &options.servers {
        let mut one = Measured { options, base: &base, queries: &queries, truths: &truths, stop };
        all.push(one.server(name, named).map_err(|reason| format!("{name}: {reason}"))?);
    }
    use std::io::Write;
    let _ = std::io::stdout().write_all(shown(options, &base, &all).as_bytes());
    Ok(())
}

struct Measured<'r> {
    options: &'r Options,
    base: &'r Vectors,
    queries: &'r Vectors,
    /// Without a filter, and with each.
    truths: &'r (Truth, Vec<Truth>),
    stop: &'r AtomicBool,
}

/// Processor time of the server so far, in seconds.
fn processor(connection: &mut Connection) -> Option<f64> {
    let info = Info::parse(&connection.expect(&["INFO", "cpu"]).ok()?.text());
    Some(info.number("used_cpu_user")? + info.number("used_cpu_sys")?)
}

fn is_one(reply: &Value) -> Result<f64, String> {
    match reply {
        Value::Integer(1) => Ok(1.0),
        other => Err(format!("unexpected reply: {other:?}")),
    }
}

fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

impl Measured<'_> {
    fn server(&mut self, name: &str, named: &Named) -> Result<Figures, String> {
        let server = self.open(named)?;
        let connect = || {
            Connection::open(&server.target).map_err(|error| cannot_connect(&server.target.address, &error))
        };
        let mut control = connect()?;
        let key = self.options.key.as_str();
        let told = |result: std::io::Result<Value>| result.map_err(|error| error.to_string());
        let is_there = told(control.expect(&["EXISTS", key]))? != Value::Integer(0);
        if is_there && !self.options.keep {
            return Err(format!("the key {key} exists already: name another one by --key"));
        }
        if is_there && told(control.expect(&["VCARD", key]))? != Value::Integer(self.base.count() as i64) {
            return Err(format!("the key {key} does not have the {} elements", self.base.count()));
        }
        let workers: Vec<Connection> =
            (0..self.options.connections).map(|_| connect()).collect::<Result<_, _>>()?;
        let measured = self.measure(name, &mut control, workers, is_there);
        if !self.options.keep {
            // What was added goes, whatever happened.
            told(control.expect(&["DEL", key]))?;
        }
        measured
    }

    fn open(&self, named: &Named) -> Result<Server, String> {
        let mut target = self.options.target.clone();
        target.resp3 = false;
        match named {
            Named::Command(command) => Server::start(command, &target.target()?, &[]),
            Named::Running(address) => {
                let uri =
                    if address.contains("://") { address.clone() } else { format!("redis://{address}") };
                target.take_uri(&uri).ok_or_else(|| format!("'{address}' is not an address"))?;
                Ok(Server::running(target.target()?))
            }
        }
    }

    fn measure(
        &self,
        name: &str,
        control: &mut Connection,
        mut workers: Vec<Connection>,
        is_there: bool,
    ) -> Result<Figures, String> {
        let options = self.options;
        let add = if is_there { None } else { Some(self.add(control, &mut workers)?) };
        let memory = control.expect(&["MEMORY", "USAGE", &options.key]).ok();
        let memory = memory.and_then(|reply| reply.integer()).map(|bytes| bytes as f64);
        let (all, matching) = self.truths;
        let mut points = Vec::new();
        for &ef in &options.efs {
            points.push(self.search(control, &mut workers, all, (Some(ef), None))?);
        }
        let mut filtered = Vec::new();
        if options.filters {
            self.set_attributes(control, &mut workers)?;
            filtered.push(("all".into(), self.search(control, &mut workers, all, (None, None))?));
        }
        // A server may learn from the first searches with a filter.
        for again in ["", ", again"].into_iter().take(if options.filters { 2 } else { 0 }) {
            for ((share, filter, _), truth) in FILTERS.iter().zip(matching) {
                let point = self.search(control, &mut workers, truth, (None, Some(filter)))?;
                filtered.push((format!("{share}{again}"), point));
            }
        }
        Ok(Figures { name: name.to_owned(), add, memory, points, filtered })
    }

    fn add(&self, control: &mut Connection, workers: &mut [Connection]) -> Result<Cost, String> {
        let options = self.options;
        let ef = options.build_ef.map(|ef| ef.to_string());
        let links = options.links.map(|links| links.to_string());
        let add = |index: usize, out: &mut Vec<u8>| {
            let (vector, element) = (blob(self.base.get(index)), format!("e{index}"));
            let mut words: Vec<&[u8]> =
                vec![b"VADD", options.key.as_bytes(), b"FP32", &vector, element.as_bytes()];
            words.push(options.quantisation.as_bytes());
            for (word, value) in [("EF", &ef), ("M", &links)] {
                words.extend(value.iter().flat_map(|value| [word.as_bytes(), value.as_bytes()]));
            }
            encode(&words, out);
        };
        Ok(self.pass(control, workers, self.base.count(), &add, &|_, reply| is_one(&reply))?.0)
    }

    fn set_attributes(&self, control: &mut Connection, workers: &mut [Connection]) -> Result<(), String> {
        let set = |index: usize, out: &mut Vec<u8>| {
            let (element, attribute) = (format!("e{index}"), attribute(index));
            let words = [b"VSETATTR", self.options.key.as_bytes(), element.as_bytes(), attribute.as_bytes()];
            encode(&words, out);
        };
        self.pass(control, workers, self.base.count(), &set, &|_, reply| is_one(&reply)).map(drop)
    }

    /// All queries.
    fn search(
        &self,
        control: &mut Connection,
        workers: &mut [Connection],
        truth: &Truth,
        (ef, filter): (Option<u32>, Option<&str>),
    ) -> Result<Point, String> {
        let (options, word) = (self.options, ef.map(|ef| ef.to_string()));
        let (count, total) = (options.nearest.to_string(), self.queries.count() * options.passes);
        let search = |index: usize, out: &mut Vec<u8>| {
            let vector = blob(self.queries.get(index % self.queries.count()));
            let mut words: Vec<&[u8]> =
                vec![b"VSIM", options.key.as_bytes(), b"FP32", &vector, b"COUNT", count.as_bytes()];
            for (word, value) in [("EF", word.as_deref()), ("FILTER", filter)] {
                words.extend(value.iter().flat_map(|value| [word.as_bytes(), value.as_bytes()]));
            }
            encode(&words, out);
        };
        let recall = |index: usize, reply: Value| self.recall(truth, index % self.queries.count(), reply);
        let (cost, recalls) = self.pass(control, workers, total, &search, &recall)?;
        let mean = recalls.iter().sum::<f64>() / recalls.len() as f64;
        let least = recalls.iter().copied().fold(1.0, f64::min);
        Ok(Point { ef, mean, least, cost })
    }

    fn recall(&self, truth: &Truth, query: usize, reply: Value) -> Result<f64, String> {
        if let Value::Error(text) = reply {
            return Err(text);
        }
        let index = |element: Value| element.text().strip_prefix('e')?.parse::<usize>().ok();
        let found: Option<Vec<usize>> = reply.elements().into_iter().map(index).collect();
        let found = found.ok_or("VSIM replied with an element that was not added")?;
        let share = truth.recall(self.base, self.queries, query, &found);
        share.ok_or_else(|| "VSIM replied with an element that does not match the filter".into())
    }

    /// Sends `count` requests over all connections; what `judge` says of each reply, and the cost.
    fn pass(
        &self,
        control: &mut Connection,
        workers: &mut [Connection],
        count: usize,
        request: &(dyn Fn(usize, &mut Vec<u8>) + Sync),
        judge: &(dyn Fn(usize, Value) -> Result<f64, String> + Sync),
    ) -> Result<(Cost, Vec<f64>), String> {
        let (next, batch) = (AtomicUsize::new(0), self.options.pipeline);
        let (before, start) = (processor(control), Instant::now());
        let work = |connection: &mut Connection| -> Result<Vec<(usize, Value)>, String> {
            let mut replies = Vec::new();
            loop {
                let from = next.fetch_add(batch, Relaxed);
                if from >= count || self.stop.load(Relaxed) {
                    return Ok(replies);
                }
                let (mut bytes, to) = (Vec::new(), (from + batch).min(count));
                (from..to).for_each(|index| request(index, &mut bytes));
                connection.send(&bytes).map_err(|error| error.to_string())?;
                for index in from..to {
                    replies.push((index, connection.receive().map_err(|error| error.to_string())?));
                }
            }
        };
        let replies = std::thread::scope(|scope| {
            let work = &work;
            let handles: Vec<_> =
                workers.iter_mut().map(|connection| scope.spawn(move || work(connection))).collect();
            let mut all = Vec::with_capacity(count);
            for handle in handles {
                all.extend(handle.join().map_err(|_| "a thread panicked".to_owned())??);
            }
            Ok::<_, String>(all)
        })?;
        let (elapsed, after) = (start.elapsed().as_secs_f64(), processor(control));
        if replies.len() < count {
            return Err("interrupted".into());
        }
        let judged: Result<Vec<f64>, String> =
            replies.into_iter().map(|(index, reply)| judge(index, reply)).collect();
        let processor_us = before.zip(after).map(|(before, after)| (after - before) / count as f64 * 1e6);
        Ok((Cost { per_second: count as f64 / elapsed, processor_us }, judged?))
    }
}

/// What a query costs at a recall, in microseconds of the server's processor: between the measured
/// points, in a straight line. `None` if no EF reaches it, or the server does not tell.
fn cost_at(points: &[Point], recall: f64) -> Option<f64> {
    let mut sorted: Vec<(f64, f64)> =
        points.iter().map(|point| Some((point.mean, point.cost.processor_us?))).collect::<Option<_>>()?;
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let above = sorted.iter().position(|point| point.0 >= recall)?;
    // Among points with more recall one can cost less: EF was larger than needed for a while.
    let least = sorted[above..].iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let Some(&(low, low_us)) = above.checked_sub(1).and_then(|below| sorted.get(below)) else {
        return Some(least);
    };
    let (high, high_us) = sorted[above];
    let line = low_us + (high_us - low_us) * (recall - low) / (high - low).max(f64::EPSILON);
    Some(line.min(least))
}

fn processor_text(cost: Cost) -> String {
    cost.processor_us.map_or_else(|| "-".into(), |us| format!("{us:.1}"))
}

/// The tables: all points, and the servers at equal recall.
fn tables(all: &[Figures]) -> [Table; 2] {
    let owned = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<String>>();
    let mut rows = Vec::new();
    for one in all {
        let memory = one.memory.map_or_else(|| "-".into(), braid_client::figures::bytes);
        if let Some(cost) = one.add {
            let add = vec![one.name.clone(), format!("VADD, {memory}"), String::new(), String::new()];
            rows.push([add, vec![format!("{:.0}", cost.per_second), processor_text(cost)]].concat());
        }
        let searches = one
            .points
            .iter()
            .map(|point| (point.ef.map_or_else(|| "VSIM".to_owned(), |ef| format!("VSIM EF {ef}")), point));
        let filtered = one.filtered.iter().map(|(name, point)| (format!("VSIM, matching {name}"), point));
        rows.extend(searches.chain(filtered).map(|(what, point)| {
            let cost = point.cost;
            vec![
                one.name.clone(),
                what,
                format!("{:.4}", point.mean),
                format!("{:.2}", point.least),
                format!("{:.0}", cost.per_second),
                processor_text(cost),
            ]
        }));
    }
    let header = owned(&["server", "requests", "recall", "least", "per second", "processor us"]);
    let curve = Table { left: 2, header, rows };
    let mut header = owned(&["processor us at recall"]);
    header.extend(all.iter().map(|one| one.name.clone()));
    let at = |level: f64| {
        let costs = all.iter().map(|one| cost_at(&one.points, level));
        let cells = costs.map(|us| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}")));
        [format!("{level}")].into_iter().chain(cells).collect()
    };
    [curve, Table { left: 1, header, rows: LEVELS.into_iter().map(at).collect() }]
}

fn shown(options: &Options, base: &Vectors, all: &[Figures]) -> String {
    let of_cost = |cost: Cost| json!({"per_second": cost.per_second, "processor_us": cost.processor_us});
    match options.form {
        Form::Text | Form::Markdown => {
            let what = format!(
                "{} vectors of {} dimensions, {}, k {}, {} queries, {} connections, {} requests together\n\n",
                base.count(),
                base.dim,
                options.quantisation,
                options.nearest,
                options.queries,
                options.connections,
                options.pipeline
            );
            let is_text = options.form == Form::Text;
            let texts = tables(all).map(|table| if is_text { table.text() } else { table.markdown() });
            what + &texts.join("\n")
        }
        Form::Json => {
            let servers = all.iter().map(|one| {
                let of_point = |point: &Point| {
                    json!({"ef": point.ef, "recall": point.mean, "least": point.least,
                           "cost": of_cost(point.cost)})
                };
                let filtered = one.filtered.iter().map(|(name, point)| (name.clone(), of_point(point)));
                json!({"server": one.name, "memory_bytes": one.memory, "vadd": one.add.map(of_cost),
                       "vsim": one.points.iter().map(of_point).collect::<Vec<_>>(),
                       "matching": filtered.collect::<serde_json::Map<_, _>>()})
            });
            let all = json!({"vectors": base.count(), "dimensions": base.dim, "nearest": options.nearest,
                             "quantisation": options.quantisation, "seed": options.seed,
                             "servers": servers.collect::<Vec<_>>()});
            format!("{all:#}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(mean: f64, us: f64) -> Point {
        Point { ef: Some(1), mean, least: 0.0, cost: Cost { per_second: 1.0, processor_us: Some(us) } }
    }

    #[test]
    fn equal_recall_is_between_points() {
        let points = [point(0.8, 100.0), point(0.9, 200.0), point(1.0, 400.0)];
        let near = |found: Option<f64>, expected: f64| (found.expect("reached") - expected).abs() < 1e-6;
        assert!(near(cost_at(&points, 0.85), 150.0) && near(cost_at(&points, 0.9), 200.0));
        assert!(near(cost_at(&points, 0.95), 300.0) && near(cost_at(&points, 0.5), 100.0));
        assert_eq!(cost_at(&points[..2], 0.95), None);
        // A wider search that costs less is what one would use.
        assert!(near(cost_at(&[point(0.8, 300.0), point(0.99, 120.0)], 0.7), 120.0));
        let silent = Cost { per_second: 1.0, processor_us: None };
        assert_eq!(cost_at(&[Point { cost: silent, ..points[0] }], 0.5), None);
    }

    #[test]
    fn tables_have_a_row_for_each_search() {
        let cost = Cost { per_second: 5000.0, processor_us: Some(12.34) };
        let one = Figures {
            name: "a".into(),
            add: Some(cost),
            memory: Some(2048.0),
            points: vec![point(0.95, 100.0), point(0.995, 200.0)],
            filtered: vec![("3 %".into(), Point { ef: None, ..point(0.9, 300.0) })],
        };
        let [curve, equal] = tables(&[one]);
        assert_eq!(curve.rows.len(), 4);
        assert_eq!(curve.rows[3][1], "VSIM, matching 3 %");
        assert_eq!(curve.rows[0][4..], ["5000", "12.3"]);
        assert_eq!(curve.rows[2][2..4], ["0.9950", "0.00"]);
        let column: Vec<&str> = equal.rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(column, ["100.0", "100.0", "188.9", "-"]);
    }
}
