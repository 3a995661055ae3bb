// SPDX-License-Identifier: BSD-3-Clause
//! The HTML report: one self-contained file with the table and its plots. No scripts and no
//! external resources; readable in light and dark themes.

use std::fmt::Write;

use braid_base::clock::unix_ms;
use braid_base::date::Date;
use braid_client::figures::grouped;

use crate::distributions::Sizes;
use crate::output;
use crate::plan::{Measurement, Method, Outcome, QUANTILES};
use crate::plot::{self, Series};
use crate::statistics::Estimate;
use crate::table::{Table, escaped};

/// A server with its results.
pub struct Subject {
    pub name: String,
    /// Its version and command line.
    pub about: String,
    /// Its number of threads, if varied.
    pub threads: Option<usize>,
    pub outcomes: Vec<Outcome>,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1f24;--soft:#5b6470;--paper:#fff;--grid:#d9dee5;--head:#f1f4f8}
:root{--c0:#0062b3;--c1:#c75000;--c2:#00795c;--c3:#a8347f;--c4:#8a6d00;--c5:#4a4fc4;--c6:#a32020;--c7:#4d5a66}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#a3acb8;--paper:#14171c;--grid:#333a44;--head:#1e232b}
:root{--c0:#5ab0ff;--c1:#ff9d52;--c2:#3fd0a6;--c3:#ee8fce;--c4:#e3c64c;--c5:#a3a7ff;--c6:#ff8a80;--c7:#b4c0cc}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:1180px;padding:24px 16px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:19px;margin:32px 0 8px}h3{font-size:15px;margin:16px 0 4px}
p{margin:4px 0 12px}.soft,.tick{color:var(--soft)}code{font-size:13px;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}th{background:var(--head);text-align:left}
th,td{padding:4px 10px;border-bottom:1px solid var(--grid);white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
.plots{display:flex;flex-wrap:wrap;gap:16px}.legend span{margin-right:14px;white-space:nowrap}svg{max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg .title{font-weight:600;font-size:13px;fill:var(--ink)}
svg .within{fill:var(--paper)}.grid{stroke:var(--grid)}polyline{fill:none;stroke-width:2}.whisker{stroke-width:1.5}
.ink{stroke:var(--ink)}.part{stroke:var(--paper);stroke-width:1}.warning{color:var(--c6)}
";

/// The page. `table` is included as it is.
pub fn page(subjects: &[Subject], table: Option<&Table>, method: &Method) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out +=
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>braid-bench</title>\n";
    let _ = write!(out, "<style>\n{STYLE}");
    for colour in 0..plot::COLOURS {
        let _ = writeln!(out, ".f{colour}{{fill:var(--c{colour})}}.s{colour}{{stroke:var(--c{colour})}}");
    }
    out += "</style></head><body>\n<h1>braid-bench</h1>\n";
    out += &introduction(subjects, method);
    out += &warnings(subjects, method);
    let places = Results::of(subjects);
    let names = places.names.clone();
    for axis in [Axis::Threads, Axis::Pipeline, Axis::Size] {
        out += &by_axis(&places, axis, &names);
    }
    out += &at_a_glance(subjects);
    out += &table.map_or_else(|| summary(subjects).html(), Table::html);
    out += &latencies(subjects);
    out += &by_thread(subjects);
    out += &over_time(subjects);
    out + "</body></html>\n"
}

fn introduction(subjects: &[Subject], method: &Method) -> String {
    let mut out = format!("<p class=\"soft\">{}, {}</p>\n", date(), escaped(&machine()));
    let runs = subjects.iter().flat_map(|subject| &subject.outcomes).map(|outcome| outcome.runs.len()).max();
    let length = match (method.requests, method.duration) {
        (Some(requests), _) => format!("{} requests", grouped(requests as f64)),
        (None, duration) => format!("{} s", duration.unwrap_or_default().as_secs_f64()),
    };
    let loop_kind = match method.rate {
        None => "closed loop: a connection sends its next batch once the last one is answered".to_owned(),
        Some(rate) => format!("open loop: {} requests/s due at fixed times", grouped(rate.per_second)),
    };
    let _ = writeln!(
        out,
        "<p>{} iterations of {length} on {} connections, {} threads of the generator; {loop_kind}. Lines through points \
         and bars are 95 % confidence intervals of the mean.</p>",
        runs.unwrap_or(0),
        method.connections,
        method.threads,
    );
    for subject in subjects.iter().filter(|subject| !subject.about.is_empty()) {
        let _ = writeln!(out, "<p>{} <code>{}</code></p>", escaped(&label(subject)), escaped(&subject.about));
    }
    out
}

/// Today's date, in UTC.
fn date() -> String {
    let Date { year, month, day, .. } = Date::from_unix(unix_ms() / 1000);
    format!("{year}-{month:02}-{day:02}")
}

/// The processor model and the number of processors.
fn machine() -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    format!("{count} processors{}", model.map_or(String::new(), |(_, model)| format!(" ({model})")))
}

fn label(subject: &Subject) -> String {
    match subject.threads {
        None => subject.name.clone(),
        Some(threads) => format!("{}, {}", subject.name, output::plural(threads, "thread")),
    }
}

fn warnings(subjects: &[Subject], method: &Method) -> String {
    let mut out = String::new();
    for subject in subjects {
        for outcome in &subject.outcomes {
            for warning in output::warnings(outcome, method, &outcome.total()) {
                let place = format!("{}, {}: {warning}", label(subject), outcome.case.label());
                let _ = writeln!(out, "<p class=\"warning\">{}</p>", escaped(&place));
            }
        }
    }
    out
}

/// The table of a plain run.
fn summary(subjects: &[Subject]) -> Table {
    let header =
        ["load", "requests/s", "95 %", "p50 ms", "p99 ms", "p99.9 ms", "server us/request", "memory MB"];
    let mut rows = Vec::new();
    for outcome in subjects.iter().flat_map(|subject| &subject.outcomes) {
        let throughput = outcome.throughput();
        let range = throughput.interval.map(|(low, high)| format!("{} .. {}", grouped(low), grouped(high)));
        let server = outcome.estimate(Measurement::server_micros).mean;
        rows.push(vec![
            outcome.case.label(),
            grouped(throughput.mean),
            range.unwrap_or_else(|| "-".into()),
            format!("{:.3}", outcome.latency_ms(0.5).mean),
            format!("{:.3}", outcome.latency_ms(0.99).mean),
            format!("{:.3}", outcome.latency_ms(0.999).mean),
            if server.is_nan() { "-".into() } else { format!("{server:.3}") },
            match outcome.estimate(Measurement::memory_mb).mean {
                memory if memory.is_nan() => "-".into(),
                memory => format!("{memory:.0}"),
            },
        ]);
    }
    Table { left: 1, header: header.map(str::to_owned).into(), rows }
}

/// A quantity varied along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Threads,
    Pipeline,
    Size,
}

/// A result's position on all axes.
#[derive(Clone, PartialEq)]
struct ResultKey {
    name: usize,
    load: String,
    threads: Option<usize>,
    pipeline: usize,
    size: Sizes,
}

struct Results<'a> {
    names: Vec<String>,
    results: Vec<(ResultKey, &'a Outcome)>,
}

impl<'a> Results<'a> {
    fn of(subjects: &'a [Subject]) -> Results<'a> {
        let mut names: Vec<String> = Vec::new();
        let mut results = Vec::new();
        for subject in subjects {
            let name = names.iter().position(|name| *name == subject.name).unwrap_or_else(|| {
                names.push(subject.name.clone());
                names.len() - 1
            });
            for outcome in &subject.outcomes {
                let place = ResultKey {
                    name,
                    load: outcome.case.title.clone(),
                    threads: subject.threads,
                    pipeline: outcome.case.pipeline,
                    size: outcome.case.load.sizes.clone(),
                };
                results.push((place, outcome));
            }
        }
        Results { names, results }
    }
}

impl ResultKey {
    fn on(&self, axis: Axis) -> String {
        match axis {
            Axis::Threads => self.threads.map_or("-".into(), |threads| threads.to_string()),
            Axis::Pipeline => self.pipeline.to_string(),
            Axis::Size => self.size.to_string(),
        }
    }

    /// A label of the key without the server and without the axis's quantity: results with equal
    /// labels share a plot.
    fn beside(&self, axis: Axis) -> String {
        let mut parts = vec![self.load.clone()];
        if axis != Axis::Pipeline {
            parts.push(format!("pipeline {}", self.pipeline));
        }
        if axis != Axis::Size {
            parts.push(format!("{} bytes", self.size));
        }
        if let Some(threads) = self.threads.filter(|_| axis != Axis::Threads) {
            parts.push(format!("{threads} threads"));
        }
        parts.join(", ")
    }
}

/// The distinct values of a list, in order.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// Throughput and p99 along an axis, if its quantity is varied.
fn by_axis(places: &Results<'_>, axis: Axis, names: &[String]) -> String {
    let ticks = distinct(places.results.iter().map(|(place, _)| place.on(axis)));
    if ticks.len() < 2 {
        return String::new();
    }
    let (title, axis_name) = match axis {
        Axis::Threads => ("By server threads", "server threads"),
        Axis::Pipeline => ("By pipeline depth", "pipeline depth"),
        Axis::Size => ("By value size", "bytes of a value"),
    };
    let mut out = format!("<h2>{title}</h2>\n{}", plot::legend(names));
    for beside in distinct(places.results.iter().map(|(place, _)| place.beside(axis))) {
        let _ = writeln!(out, "<h3>{}</h3><div class=\"plots\">", escaped(&beside));
        let drawing = |title: &str, value: &dyn Fn(&Outcome) -> Estimate| {
            let series: Vec<Series> = names
                .iter()
                .enumerate()
                .map(|(name, text)| Series {
                    name: text.clone(),
                    values: ticks
                        .iter()
                        .map(|tick| {
                            let found = places.results.iter().find(|(place, _)| {
                                place.name == name && place.on(axis) == *tick && place.beside(axis) == beside
                            });
                            found.map(|(_, outcome)| value(outcome))
                        })
                        .collect(),
                })
                .collect();
            plot::lines(title, axis_name, &ticks, &series)
        };
        out += &drawing("requests per second", &Outcome::throughput);
        out += &drawing("p99 latency, ms", &|outcome| outcome.latency_ms(0.99));
        out += "</div>\n";
    }
    out
}

/// Bars of every case's throughput and processor time.
fn at_a_glance(subjects: &[Subject]) -> String {
    let mut out = String::from("<h2>Case by case</h2>\n");
    for case in
        distinct(subjects.iter().flat_map(|subject| &subject.outcomes).map(|outcome| outcome.case.label()))
    {
        let rows = |value: &dyn Fn(&Outcome) -> Estimate| -> Vec<(String, Estimate, usize)> {
            let mut rows = Vec::new();
            for (number, subject) in subjects.iter().enumerate() {
                let found = subject.outcomes.iter().find(|outcome| outcome.case.label() == case);
                rows.extend(found.map(|outcome| (label(subject), value(outcome), number)));
            }
            rows
        };
        let _ = writeln!(out, "<h3>{}</h3>", escaped(&case));
        out += &plot::bars("requests per second", "requests/s", &rows(&Outcome::throughput));
        let processor = rows(&|outcome| outcome.estimate(Measurement::server_micros));
        if processor.iter().any(|(_, value, _)| value.mean.is_finite()) {
            out += &plot::bars("server's processor time per request, us", "us", &processor);
        }
        let memory = rows(&|outcome| outcome.estimate(Measurement::memory_mb));
        if memory.iter().any(|(_, value, _)| value.mean.is_finite()) {
            out += &plot::bars("server's memory at the end, MB", "MB", &memory);
        }
    }
    out
}

fn latencies(subjects: &[Subject]) -> String {
    let mut out = String::from("<h2>Latency</h2>\n");
    out += &plot::legend(&subjects.iter().map(label).collect::<Vec<_>>());
    out += "<div class=\"plots\">\n";
    for case in
        distinct(subjects.iter().flat_map(|subject| &subject.outcomes).map(|outcome| outcome.case.label()))
    {
        let curves: Vec<(String, Vec<(f64, f64)>)> = subjects
            .iter()
            .map(|subject| {
                let found = subject.outcomes.iter().find(|outcome| outcome.case.label() == case);
                let points = found.map(|outcome| {
                    QUANTILES
                        .iter()
                        .map(|(_, quantile)| (*quantile, outcome.latency_ms(*quantile).mean))
                        .collect()
                });
                (label(subject), points.unwrap_or_default())
            })
            .collect();
        out += &plot::percentiles(&format!("{case}, ms"), &curves);
    }
    out + "</div>\n"
}

/// Share of a core used by each thread of a server, as the mean of the iterations.
fn by_thread(subjects: &[Subject]) -> String {
    let mut out = String::new();
    for case in
        distinct(subjects.iter().flat_map(|subject| &subject.outcomes).map(|outcome| outcome.case.label()))
    {
        let mut rows = Vec::new();
        for subject in subjects {
            let Some(outcome) = subject.outcomes.iter().find(|outcome| outcome.case.label() == case) else {
                continue;
            };
            let parts = thread_shares(outcome);
            if !parts.is_empty() {
                rows.push((label(subject), parts));
            }
        }
        if !rows.is_empty() {
            out += &plot::stacked(&case, "cores", &rows);
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("<h2>Processor time by thread, in cores</h2>\n{out}")
}

fn thread_shares(outcome: &Outcome) -> Vec<(String, f64)> {
    let elapsed: f64 = outcome.runs.iter().map(|run| run.tally.elapsed().as_secs_f64()).sum();
    // Threads with the same name are distinguished by their rank in each run.
    let mut shares: Vec<(String, usize, f64)> = Vec::new();
    for run in &outcome.runs {
        for (place, (name, time)) in run.server_threads.iter().enumerate() {
            let rank = run.server_threads[..place].iter().filter(|(other, _)| other == name).count();
            let share = time.as_secs_f64() / elapsed.max(1e-9);
            match shares.iter_mut().find(|(own, own_rank, _)| own == name && *own_rank == rank) {
                Some((.., sum)) => *sum += share,
                None => shares.push((name.clone(), rank, share)),
            }
        }
    }
    shares.sort_by(|a, b| b.2.total_cmp(&a.2));
    shares.into_iter().filter(|(.., share)| *share >= 0.005).map(|(name, _, share)| (name, share)).collect()
}

/// Throughput during a plain run, if it was long enough.
fn over_time(subjects: &[Subject]) -> String {
    let [subject] = subjects else { return String::new() };
    let mut out = String::new();
    for outcome in &subject.outcomes {
        let runs: Vec<(String, Vec<(f64, f64)>)> = outcome
            .runs
            .iter()
            .enumerate()
            .map(|(number, run)| (number.to_string(), run.series.clone()))
            .collect();
        if runs.iter().any(|(_, points)| points.len() > 3) {
            out += &plot::over_time(&outcome.case.label(), &runs);
        }
    }
    if out.is_empty() {
        out
    } else {
        format!("<h2>Requests per second over time</h2>\n<div class=\"plots\">{out}</div>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::plan::{Case, ServerTime};
    use crate::request::{Keys, Load};
    use crate::tally::{KindTally, Tally};
    use braid_base::clock::Ticks;

    fn outcome(pipeline: usize, size: usize, replies: u64) -> Outcome {
        let keys = Keys { prefix: "key:".into(), first: 0, count: Some(10) };
        let load = Load { kinds: Vec::new(), keys, sizes: Sizes::Fixed(size), random_data: false };
        let mut kind = KindTally { replies, ..KindTally::default() };
        kind.latency.record_n(150_000, replies).unwrap();
        let begun = Ticks::now();
        std::thread::sleep(Duration::from_millis(2));
        let tally = Tally { kinds: vec![kind], begun, ended: Ticks::now(), ..Tally::empty() };
        let millis = Duration::from_millis;
        let run = Measurement {
            tally,
            server: Some(ServerTime { user: millis(1), system: millis(1) }),
            server_threads: vec![("io <1>".into(), millis(1)), ("io <1>".into(), millis(1))],
            series: Vec::new(),
            memory: Some(12_000_000),
        };
        let case = Case { title: "GET".into(), load: Arc::new(load), pipeline };
        Outcome { case, runs: vec![run.clone(), run], interrupted: false }
    }

    #[test]
    fn report_page_is_complete_and_self_contained() {
        let subject = |name: &str, threads| Subject {
            name: name.into(),
            about: "redis 7: redis-server <x>".into(),
            threads: Some(threads),
            outcomes: vec![outcome(1, 32, 10), outcome(16, 32, 20), outcome(1, 512, 5)],
        };
        let subjects = [subject("a&b", 1), subject("a&b", 2), subject("c", 1), subject("c", 2)];
        let method = Method {
            threads: 1,
            connections: 50,
            requests: None,
            duration: Some(Duration::from_secs(1)),
            rate: None,
            reconnect: false,
            seed: 0,
            warm_up: Duration::ZERO,
            iterations: 1,
            flush: false,
            fill: false,
            processors: Vec::new(),
            cluster: false,
        };
        let page = page(&subjects, None, &method);
        for part in
            ["By server threads", "By pipeline depth", "By value size", "Latency", "by thread", "a&amp;b"]
        {
            assert!(page.contains(part), "{part}");
        }
        for banned in ["http://", "https://", "<script", "<link", "url(", "NaN", "inf", "<x>", "<1>"] {
            assert!(!page.contains(banned), "{banned}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(page.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn todays_date_is_plausible() {
        let date = date();
        assert!(date.len() == 10 && date.as_str() > "2026-01-01" && date.as_str() < "2126-01-01", "{date}");
    }
}
