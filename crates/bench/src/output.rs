// SPDX-License-Identifier: BSD-3-Clause
//! Result output: readable text, redis-benchmark's lines for scripts, CSV, JSON.

use std::fmt::Write;

use braid_client::figures::grouped;
use serde_json::{Value as Json, json};

use crate::options::Output;
use crate::plan::{Measurement, Method, Outcome, QUANTILES};
use crate::statistics::Estimate;
use crate::tally::Tally;

/// Processor share above which the generator's threads limit the result.
const SATURATED: f64 = 0.95;
/// Limit in ms of the sender's p99 lag in an open loop.
const LAG_MAX_MS: f64 = 0.5;

/// A result as text.
pub fn text(outcome: &Outcome, method: &Method, output: &Output) -> String {
    let total = outcome.total();
    let mut out = String::new();
    let threads = plural(method.threads, "thread");
    let open = method.rate.map_or(String::new(), |rate| {
        format!(
            ", {}{} requests/s due",
            if rate.poisson { "at random " } else { "" },
            grouped(rate.per_second)
        )
    });
    let _ = writeln!(
        out,
        "{}, {} on {threads}{open}: {} requests in {:.2} s",
        outcome.case.label(),
        plural(method.connections, "connection"),
        grouped(total.replies() as f64),
        outcome.runs.iter().map(|run| run.tally.elapsed().as_secs_f64()).sum::<f64>(),
    );
    let throughput = outcome.throughput();
    let _ = writeln!(
        out,
        "  throughput  {} requests/s{}",
        grouped(throughput.mean),
        interval(throughput, outcome)
    );
    let precision = output.precision;
    let latency = total.latency();
    let ms = |nanos: f64| format!("{:.precision$}", nanos / 1e6);
    let mut line = format!("mean {}", ms(latency.mean()));
    for (name, quantile) in QUANTILES {
        let _ = write!(line, "  {name} {:.precision$}", outcome.latency_ms(quantile).mean);
    }
    let _ = writeln!(out, "  latency ms  {line}  max {}", ms(latency.max() as f64));
    if total.kinds.len() > 1 {
        for (kind, tally) in outcome.case.load.kinds.iter().zip(&total.kinds) {
            let at = |quantile| ms(tally.latency.value_at_quantile(quantile) as f64);
            let _ = writeln!(
                out,
                "    {:<10}{} requests, p50 {}  p99 {}  p99.9 {}",
                kind.name,
                grouped(tally.replies as f64),
                at(0.5),
                at(0.99),
                at(0.999)
            );
        }
    }
    let _ = writeln!(out, "  processor   {}", processor(outcome, method));
    let seconds = outcome.runs.iter().map(|run| run.tally.elapsed().as_secs_f64()).sum::<f64>().max(1e-9);
    let _ = writeln!(
        out,
        "  network     {:.1} MB/s sent, {:.1} MB/s received",
        total.sent_bytes as f64 / seconds / 1e6,
        total.received_bytes as f64 / seconds / 1e6
    );
    let misses: u64 = total.kinds.iter().map(|kind| kind.misses).sum();
    if misses > 0 {
        let share = misses as f64 * 100.0 / total.replies() as f64;
        let _ = writeln!(out, "  misses      {} ({share:.1} %)", grouped(misses as f64));
    }
    if total.pushes > 0 {
        let _ = writeln!(out, "  pushes      {}", grouped(total.pushes as f64));
    }
    for warning in warnings(outcome, method, &total) {
        let _ = writeln!(out, "  {warning}");
    }
    out
}

fn interval(estimate: Estimate, outcome: &Outcome) -> String {
    match estimate.interval {
        None => String::new(),
        Some((low, high)) => format!(
            " (mean of {} iterations; 95 % confidence {} .. {})",
            outcome.runs.len(),
            grouped(low),
            grouped(high)
        ),
    }
}

fn processor(outcome: &Outcome, method: &Method) -> String {
    let server = outcome.estimate(Measurement::server_micros);
    let own = outcome.estimate(|run| Some(run.generator_micros()));
    let of_server = if server.mean.is_nan() {
        "server time not reported".to_owned()
    } else {
        let part = |part: fn(&crate::plan::ServerTime) -> std::time::Duration| {
            outcome
                .estimate(|run| {
                    Some(part(run.server.as_ref()?).as_secs_f64() * 1e6 / run.tally.replies().max(1) as f64)
                })
                .mean
        };
        let range =
            server.interval.map_or(String::new(), |(low, high)| format!(", 95 % {low:.3} .. {high:.3}"));
        format!(
            "server {:.3} us/request (user {:.3}, system {:.3}{range})",
            server.mean,
            part(|time| time.user),
            part(|time| time.system)
        )
    };
    let load = outcome.generator_load(method.threads) * 100.0;
    format!("{of_server}; generator {:.3} us/request, {load:.0} % of its threads", own.mean)
}

/// Warnings that limit how far the figures can be trusted.
pub fn warnings(outcome: &Outcome, method: &Method, total: &Tally) -> Vec<String> {
    let mut warnings = Vec::new();
    if total.errors() > 0 {
        let mut line = format!("ERRORS      {}:", grouped(total.errors() as f64));
        for (code, (count, text)) in &total.error_codes {
            let _ = write!(line, " {code} {} (\"{text}\")", grouped(*count as f64));
        }
        warnings.push(line);
    }
    if total.redirected > 0 {
        warnings.push(format!(
            "REDIRECTED  {} requests were sent again because their slots had moved",
            grouped(total.redirected as f64)
        ));
    }
    if total.unsent > 0 {
        warnings.push(format!(
            "OVERLOADED  the server did not keep up: {} due requests could not be sent",
            grouped(total.unsent as f64)
        ));
    }
    if method.rate.is_some() && !total.lag.is_empty() {
        let lag = total.lag.value_at_quantile(0.99) as f64 / 1e6;
        if lag > LAG_MAX_MS {
            warnings.push(format!(
                "LATE        the generator sent late: 99 % within {lag:.3} ms; more --threads may help"
            ));
        }
    }
    if method.rate.is_none() && outcome.generator_load(method.threads) > SATURATED {
        warnings.push(
            "SATURATED   the generator's threads were never idle: they may limit the result; more \
             --threads may help"
                .to_owned(),
        );
    }
    if outcome.interrupted {
        warnings.push("INTERRUPTED the figures cover the time until the interruption".to_owned());
    }
    warnings
}

/// The line of `-q`.
pub fn quiet(outcome: &Outcome, output: &Output) -> String {
    let total = outcome.total();
    let mut line = format!(
        "{}: {:.2} requests per second, p50={:.*} msec",
        outcome.case.title,
        outcome.throughput().mean,
        output.precision,
        outcome.latency_ms(0.5).mean
    );
    if total.errors() > 0 {
        let _ = write!(line, ", {} errors", total.errors());
    }
    line + "\n"
}

/// The CSV header: redis-benchmark's columns, then ours.
pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\",\"p99_9_latency_ms\",\"pipeline\",\"data_size\",\
\"iterations\",\"rps_low\",\"rps_high\",\"server_us_per_request\",\"generator_us_per_request\",\"errors\",\"misses\"\n";

/// A line of CSV.
pub fn csv(outcome: &Outcome, output: &Output) -> String {
    let total = outcome.total();
    let latency = total.latency();
    let throughput = outcome.throughput();
    let precision = output.precision;
    let ms = |nanos: f64| format!("{:.precision$}", nanos / 1e6);
    let at = |quantile| format!("{:.precision$}", outcome.latency_ms(quantile).mean);
    let bound = |bound: Option<f64>| bound.map_or(String::new(), |bound| format!("{bound:.2}"));
    let server = outcome.estimate(Measurement::server_micros).mean;
    let misses: u64 = total.kinds.iter().map(|kind| kind.misses).sum();
    let columns = [
        outcome.case.title.replace('"', "\"\""),
        format!("{:.2}", throughput.mean),
        ms(latency.mean()),
        ms(latency.min() as f64),
        at(0.5),
        at(0.95),
        at(0.99),
        ms(latency.max() as f64),
        at(0.999),
        outcome.case.pipeline.to_string(),
        outcome.case.load.sizes.to_string(),
        outcome.runs.len().to_string(),
        bound(throughput.interval.map(|(low, _)| low)),
        bound(throughput.interval.map(|(_, high)| high)),
        if server.is_nan() { String::new() } else { format!("{server:.4}") },
        format!("{:.4}", outcome.estimate(|run| Some(run.generator_micros())).mean),
        total.errors().to_string(),
        misses.to_string(),
    ];
    format!("\"{}\"\n", columns.join("\",\""))
}

/// A result as JSON.
pub fn json(outcome: &Outcome, method: &Method) -> Json {
    let total = outcome.total();
    let load = &outcome.case.load;
    let mut result = json!({
        "test": outcome.case.title.as_str(),
        "pipeline": outcome.case.pipeline,
        "data_size": load.sizes.to_string(),
        "keys": load.keys.count,
        "connections": method.connections,
        "threads": method.threads,
        "rate": method.rate.map(|rate| rate.per_second),
        "requests": total.replies(),
        "seconds": outcome.runs.iter().map(|run| run.tally.elapsed().as_secs_f64()).sum::<f64>(),
        "requests_per_second": estimate(outcome.throughput()),
        "latency_ms": latency_json(outcome),
        "server_us_per_request": estimate(outcome.estimate(Measurement::server_micros)),
        "generator_us_per_request": estimate(outcome.estimate(|run| Some(run.generator_micros()))),
        "generator_load": outcome.generator_load(method.threads),
        "sent_bytes": total.sent_bytes,
        "received_bytes": total.received_bytes,
        "errors": total.errors(),
        "unsent": total.unsent,
        "redirected": total.redirected,
        "memory_mb": estimate(outcome.estimate(Measurement::memory_mb)),
        "pushes": total.pushes,
        "interrupted": outcome.interrupted,
    });
    let codes = total.error_codes.iter().map(|(code, (count, _))| (code.clone(), Json::from(*count)));
    result["error_codes"] = Json::Object(codes.collect());
    let kinds = load.kinds.iter().zip(&total.kinds).map(|(kind, tally)| {
        let at = |quantile| Json::from(tally.latency.value_at_quantile(quantile) as f64 / 1e6);
        json!({
            "name": kind.name.as_str(),
            "requests": tally.replies,
            "misses": tally.misses,
            "errors": tally.errors,
            "p50_ms": at(0.5),
            "p99_ms": at(0.99),
            "p99.9_ms": at(0.999),
        })
    });
    result["kinds"] = kinds.collect();
    let iterations: Vec<Json> = outcome.runs.iter().map(run_json).collect();
    result["iterations"] = iterations.into();
    result
}

fn latency_json(outcome: &Outcome) -> Json {
    let latency = outcome.total().latency();
    let mut members = json!({
        "mean": latency.mean() / 1e6,
        "min": latency.min() as f64 / 1e6,
    });
    for (name, quantile) in QUANTILES {
        members[name] = json!(outcome.latency_ms(quantile).mean);
    }
    members["max"] = json!(latency.max() as f64 / 1e6);
    members
}

fn run_json(run: &Measurement) -> Json {
    let threads = run.server_threads.iter().map(|(name, time)| {
        json!({
            "name": name.as_str(),
            "seconds": time.as_secs_f64(),
        })
    });
    json!({
        "requests": run.tally.replies(),
        "seconds": run.tally.elapsed().as_secs_f64(),
        "requests_per_second": run.tally.throughput(),
        "p50_ms": run.latency_ms(0.5),
        "p99_ms": run.latency_ms(0.99),
        "p99.9_ms": run.latency_ms(0.999),
        "server_user_seconds": run.server.map(|time| time.user.as_secs_f64()),
        "server_system_seconds": run.server.map(|time| time.system.as_secs_f64()),
        "server_threads": threads.collect::<Vec<_>>(),
    })
}

/// A mean with its interval.
pub fn estimate(estimate: Estimate) -> Json {
    if estimate.mean.is_nan() {
        return Json::Null;
    }
    json!({
        "mean": estimate.mean,
        "low": estimate.interval.map(|(low, _)| low),
        "high": estimate.interval.map(|(_, high)| high),
    })
}

pub(crate) fn plural(count: usize, noun: &str) -> String {
    braid_base::plural::plural(count as u64, noun)
}
