// SPDX-License-Identifier: BSD-3-Clause
//! The result of a run, as text, Markdown and JSON.

use std::collections::BTreeMap;

use braid_client::figures::grouped;
use serde_json::{Value as Json, json};

use super::kinds::KeyKind;
use super::lag::{Lags, percentile};
use super::ledger::Verdict;
use super::options::{Form, Options};
use crate::table::Table;

/// A server's part in the result.
pub struct Part {
    pub address: String,
    pub version: String,
    pub sent: u64,
    pub errors: BTreeMap<String, (u64, String)>,
    /// INFO fields before and after the run.
    pub figures: BTreeMap<String, (f64, f64)>,
}

/// The result of a run.
pub struct Outcome {
    pub parts: Vec<Part>,
    pub verdicts: BTreeMap<KeyKind, Verdict>,
    /// Per cut: begin and end in seconds, the servers' sides, and whether it was silent.
    pub cuts: Vec<(f64, f64, Vec<bool>, bool)>,
    pub seconds: f64,
    pub lags: Lags,
    /// Seconds from the last write until all servers agreed; `None`: they never did.
    pub agreed_after: Option<f64>,
    pub is_interrupted: bool,
    pub prefix: String,
}

/// INFO fields on conflicts and their metadata, shown if present.
const SHOWN: [&str; 4] = ["type_conflicts", "tombstone_keys", "full_copies_merged", "sent_as_values"];

impl Outcome {
    /// True if all servers agree and hold every acknowledged write.
    pub fn is_good(&self) -> bool {
        self.agreed_after.is_some() && self.verdicts.values().all(Verdict::is_good)
    }

    /// The result in the requested form.
    pub fn shown(&self, options: &Options) -> String {
        match options.form {
            Form::Json => format!("{:#}\n", self.json(options)),
            Form::Markdown => self.table().markdown(),
            Form::Text => self.text(options),
        }
    }

    fn table(&self) -> Table {
        let header = ["", "keys", "writes", "conflicts", "differ", "lost", "came back", "wrong"];
        let row = |title: &str, verdict: &Verdict| {
            let figures = [
                verdict.keys,
                verdict.writes,
                verdict.conflicts,
                verdict.differ,
                verdict.lost,
                verdict.came_back,
                verdict.wrong,
            ];
            let figures = figures.iter().map(|figure| grouped(*figure as f64));
            std::iter::once(title.to_owned()).chain(figures).collect::<Vec<_>>()
        };
        let mut all = Verdict::default();
        let mut rows = Vec::new();
        for (kind, verdict) in &self.verdicts {
            rows.push(row(kind.title(), verdict));
            all.keys += verdict.keys;
            all.writes += verdict.writes;
            all.conflicts += verdict.conflicts;
            all.differ += verdict.differ;
            all.lost += verdict.lost;
            all.came_back += verdict.came_back;
            all.wrong += verdict.wrong;
        }
        rows.push(row("all", &all));
        Table { left: 1, header: header.iter().map(|&cell| cell.to_owned()).collect(), rows }
    }

    fn text(&self, options: &Options) -> String {
        let mut out = String::new();
        for (number, part) in self.parts.iter().enumerate() {
            out += &format!("{}  {}  {}", letter(number), part.address, part.version);
            out += &format!("  {} commands", grouped(part.sent as f64));
            for (name, (before, after)) in &part.figures {
                if SHOWN.contains(&name.as_str()) {
                    // Tombstones are a gauge; the other fields are counters.
                    let figure = if name.starts_with("tombstone") { *after } else { after - before };
                    out += &format!("  {} {}", name.replace('_', " "), grouped(figure));
                }
            }
            out.push('\n');
            for (count, text) in part.errors.values() {
                out += &format!("   ERRORS {} ({text:?})\n", grouped(*count as f64));
            }
        }
        out += &format!("seed {}, {:.1} s, keys {}*\n", options.seed, self.seconds, self.prefix);
        for (begin, end, sides, is_silent) in &self.cuts {
            let how = if *is_silent { "silent" } else { "closed" };
            out += &format!("cut {begin:6.2} s to {end:6.2} s  {}  {how}\n", sides_text(sides));
        }
        out += &format!("lag ms         {}\n", times(&self.lags.open));
        out += &format!("after cuts ms  {}\n", times(&self.lags.after_cuts));
        out.push('\n');
        out += &self.table().text();
        let examples: Vec<&String> = self.verdicts.values().flat_map(|verdict| &verdict.examples).collect();
        for example in &examples {
            out += &format!("  {example}\n");
        }
        out += &match (self.agreed_after, self.is_good()) {
            (None, _) => "\nTHE SERVERS DIFFER\n".to_owned(),
            (Some(seconds), true) => {
                format!(
                    "\nthe servers agree, {seconds:.2} s after the last write, and hold all acknowledged \
                     writes\n"
                )
            }
            (Some(seconds), false) => {
                format!(
                    "\nthe servers agree, {seconds:.2} s after the last write, BUT NOT WITH THE \
                     ACKNOWLEDGED WRITES\n"
                )
            }
        };
        out
    }

    fn json(&self, options: &Options) -> Json {
        let parts = self.parts.iter().map(|part| {
            let errors: BTreeMap<&String, Json> = part
                .errors
                .iter()
                .map(|(code, (count, text))| (code, json!({"count": count, "example": text})))
                .collect();
            let figures: BTreeMap<&String, Json> = part
                .figures
                .iter()
                .map(|(name, (before, after))| (name, json!({"before": before, "after": after})))
                .collect();
            json!({
                "address": part.address,
                "version": part.version,
                "commands": part.sent,
                "errors": errors,
                "active": figures,
            })
        });
        let verdicts: Vec<Json> = self
            .verdicts
            .iter()
            .map(|(kind, verdict)| {
                json!({
                    "kind": kind.tag(),
                    "keys": verdict.keys,
                    "writes": verdict.writes,
                    "conflicts": verdict.conflicts,
                    "differ": verdict.differ,
                    "lost": verdict.lost,
                    "came_back": verdict.came_back,
                    "wrong": verdict.wrong,
                    "examples": verdict.examples,
                })
            })
            .collect();
        let cuts = self.cuts.iter().map(|(begin, end, sides, is_silent)| {
            json!({"begin": begin, "end": end, "sides": sides_text(sides), "silent": is_silent})
        });
        json!({
            "program": concat!("braid-bench ", env!("CARGO_PKG_VERSION")),
            "seed": options.seed,
            "prefix": self.prefix,
            "seconds": self.seconds,
            "servers": parts.collect::<Vec<_>>(),
            "cuts": cuts.collect::<Vec<_>>(),
            "lag_ms": percentiles(&self.lags.open),
            "after_cuts_ms": percentiles(&self.lags.after_cuts),
            "agreed_after_seconds": self.agreed_after,
            "is_good": self.is_good(),
            "is_interrupted": self.is_interrupted,
            "kinds": verdicts,
        })
    }
}

/// A server's letter.
fn letter(number: usize) -> char {
    char::from(b'A' + number as u8)
}

/// `A C | B`.
fn sides_text(sides: &[bool]) -> String {
    let side = |wanted: bool| {
        let letters = sides.iter().enumerate().filter(|(_, side)| **side == wanted);
        letters.map(|(number, _)| letter(number).to_string()).collect::<Vec<_>>().join(" ")
    };
    format!("{} | {}", side(sides[0]), side(!sides[0]))
}

const SHARES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn sorted(times: &[f64]) -> Vec<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn times(times: &[f64]) -> String {
    if times.is_empty() {
        return "nothing was measured".into();
    }
    let sorted = sorted(times);
    let parts =
        SHARES.iter().filter_map(|(name, share)| Some(format!("{name} {:.2}", percentile(&sorted, *share)?)));
    format!("{}  ({} markers)", parts.collect::<Vec<_>>().join("  "), sorted.len())
}

fn percentiles(times: &[f64]) -> Json {
    let sorted = sorted(times);
    let mut found = serde_json::Map::new();
    found.insert("count".into(), json!(sorted.len()));
    for (name, share) in SHARES {
        found.insert(name.into(), json!(percentile(&sorted, share)));
    }
    Json::Object(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active::options;
    use braid_client::Arguments;

    fn outcome(verdict: Verdict, agreed_after: Option<f64>) -> Outcome {
        Outcome {
            parts: Vec::new(),
            verdicts: BTreeMap::from([(KeyKind::Set, verdict)]),
            cuts: vec![(1.0, 2.0, vec![true, false, true], true)],
            seconds: 3.0,
            lags: Lags { open: vec![2.0, 1.0], after_cuts: Vec::new() },
            agreed_after,
            is_interrupted: false,
            prefix: "p:".into(),
        }
    }

    #[test]
    fn every_report_format_shows_failures() {
        let options = |form: &str| match options::parse(&mut Arguments::from_words(["a:1", "b:2", form])) {
            Ok(options::Request::Run(options)) => *options,
            other => panic!("{other:?}"),
        };
        let bad =
            Verdict { keys: 1, writes: 12, lost: 3, examples: vec!["set:0: 7".into()], ..Verdict::default() };
        let bad = outcome(bad, Some(0.5));
        assert!(!bad.is_good());
        let text = bad.shown(&options("--seed=1"));
        for part in ["A C | B  silent", "p50 2.00", "BUT NOT WITH", "set:0: 7", "nothing was measured"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json: Json = serde_json::from_str(&bad.shown(&options("--json"))).expect("JSON");
        assert_eq!(json["kinds"][0]["lost"], 3);
        assert_eq!((&json["is_good"], &json["after_cuts_ms"]["p50"]), (&Json::Bool(false), &Json::Null));
        assert!(bad.shown(&options("--markdown")).contains("| set members | 1 | 12 | 0 | 0 | 3 | 0 | 0 |"));
        assert!(outcome(Verdict::default(), Some(1.0)).is_good());
        let apart = outcome(Verdict::default(), None);
        assert!(!apart.is_good() && apart.shown(&options("--seed=1")).contains("THE SERVERS DIFFER"));
    }
}
