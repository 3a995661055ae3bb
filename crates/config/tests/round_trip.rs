// SPDX-License-Identifier: BSD-3-Clause
//! Any value that can be set can be read, written to a file and read back; a refused value
//! changes nothing.

use braid_config::{
    Config, Directive, DirectiveKind, ExtraLines, Mutability, SECTIONS, Special, Unit, quote,
};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::Path;

fn all() -> impl Iterator<Item = &'static Directive> {
    SECTIONS.iter().flat_map(|section| section.directives)
}

/// A stream of random numbers from the test's seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// Arguments that the directive accepts.
fn valid(directive: &Directive, dice: &mut Dice, folder: &Path) -> Vec<String> {
    let single = |text: String| vec![text];
    match directive.name {
        "active-replica" | "cluster-enabled" => return single("no".into()),
        "redis-version" => return single(format!("{}.{}.0", dice.below(256), dice.below(10))),
        "shards" => return single((1u64 << dice.below(17)).to_string()),
        "logfile" => return single(["", "some log.txt"][dice.below(2) as usize].into()),
        "cluster-announce-client-ipv4" => return single(["", "10.0.0.1"][dice.below(2) as usize].into()),
        "cluster-announce-client-ipv6" => return single(["", "fe80::1"][dice.below(2) as usize].into()),
        "priority-subnets" => {
            return single(["", "10.0.0.0/8 fe80::/10", "10.1.2.3"][dice.below(3) as usize].into());
        }
        "ts-chunk-size-bytes" => return single((48 + 8 * dice.below(1000)).to_string()),
        "bf-error-rate" => return single(format!("0.{}", 1 + dice.below(999))),
        "ts-ignore-max-val-diff" => return single(format!("{}.5", dice.below(1000))),
        "proc-title-template" => {
            return single(["{port} x", "a{{b", "{title}\"'"][dice.below(3) as usize].into());
        }
        _ => {}
    }
    match directive.kind {
        DirectiveKind::Bool { .. } => single(["yes", "no", "YES", "No"][dice.below(4) as usize].into()),
        DirectiveKind::Integer { min, max, unit, .. } => {
            let span = max - min;
            let number = match dice.below(4) {
                0 => min,
                1 => max,
                2 => min + i128::from(dice.below(1000)).min(span),
                _ => min + i128::from(dice.roll()) % (span + 1),
            };
            single(match unit {
                Unit::Octal => format!("{number:o}"),
                Unit::BytesOrPercent if number < 0 => format!("{}%", -number),
                Unit::Bytes if number <= (1 << 30) && number * 1024 <= max && dice.below(2) == 0 => {
                    format!("{number}Kb")
                }
                _ => number.to_string(),
            })
        }
        DirectiveKind::Text { check: Some(_), .. } => single(format!("name-{}.x", dice.below(1000))),
        DirectiveKind::Text { .. } => {
            let letters =
                ['a', 'B', ' ', '"', '\'', '\\', '\n', '\t', '\0', '#', '-', '\u{e9}', '\u{1f600}', '%'];
            single((0..dice.below(12)).map(|_| *dice.pick(&letters)).collect())
        }
        DirectiveKind::Enum { words, .. } => single(dice.pick(words).0.to_uppercase()),
        DirectiveKind::Flags { words, .. } => {
            let without_save: Vec<_> = words.iter().filter(|word| word.0 != "save").collect();
            (0..=dice.below(3)).map(|_| dice.pick(&without_save).0.to_owned()).collect()
        }
        DirectiveKind::Special(special) => valid_special(special, dice, folder),
    }
}

fn valid_special(special: Special, dice: &mut Dice, folder: &Path) -> Vec<String> {
    let none = || vec![String::new()];
    match special {
        Special::Directory => {
            let name = *dice.pick(&["one", "two words", "quote\"s'"]);
            vec![folder.join(name).to_str().unwrap().to_owned()]
        }
        Special::Save if dice.below(4) == 0 => none(),
        Special::Save => (0..=dice.below(3))
            .flat_map(|_| [(dice.below(1 << 40) + 1).to_string(), dice.below(1 << 31).to_string()])
            .collect(),
        Special::ClientOutputBufferLimit => {
            let class = *dice.pick(&["normal", "slave", "Replica", "pubsub"]);
            let size = |dice: &mut Dice| match dice.below(3) {
                0 => "64mb".to_owned(),
                1 => "0".to_owned(),
                _ => dice.roll().to_string(),
            };
            vec![class.to_owned(), size(dice), size(dice), dice.below(1 << 31).to_string()]
        }
        Special::OomScoreAdjValues => (0..3).map(|_| (dice.below(4001) as i64 - 2000).to_string()).collect(),
        Special::NotifyKeyspaceEvents => {
            let letters: Vec<char> = "Ag$lshzxeKEtmdn".chars().collect();
            vec![(0..dice.below(6)).map(|_| *dice.pick(&letters)).collect()]
        }
        Special::Bind if dice.below(5) == 0 => none(),
        Special::Bind => (0..=dice.below(4))
            .map(|_| (*dice.pick(&["127.0.0.1", "-::1", "*", "a\"b", "h'", "\\x"])).to_owned())
            .collect(),
        Special::ChangeFeed if dice.below(4) == 0 => none(),
        Special::ChangeFeed => (0..=dice.below(2))
            .flat_map(|_| {
                let pattern = *dice.pick(&["*", "order:*", "a b", "q\"['x']"]);
                [format!("feed{}", dice.roll()), pattern.to_owned(), "values".to_owned()]
            })
            .collect(),
        // Any other value is refused.
        Special::ReplicaOf => vec!["no".into(), "ONE".into()],
        Special::LatencyPercentiles if dice.below(5) == 0 => none(),
        Special::LatencyPercentiles => {
            (0..=dice.below(4)).map(|_| format!("{}.{}", dice.below(100), dice.below(1_000_000))).collect()
        }
    }
}

/// Arguments as one line of a file.
fn line(name: &str, words: &[String]) -> String {
    match words {
        // A single argument of `bind` is split again, so it must be quoted twice to survive.
        [word] if name == "bind" && !word.is_empty() => {
            format!("{name} {}", quote(quote(word.as_bytes()).as_bytes()))
        }
        _ => words.iter().fold(name.to_owned(), |mut line, word| {
            let _ = write!(line, " {}", quote(word.as_bytes()));
            line
        }),
    }
}

fn folders() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two words", "quote\"s'"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder
}

fn everything(config: &Config) -> Vec<(String, String)> {
    let mut texts = config.get(&["*"]);
    texts.extend(
        all().filter(|directive| directive.hidden).flat_map(|directive| config.get(&[directive.name])),
    );
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// All directives at random values: file -> values -> rewritten file -> the same values.
    #[test]
    fn files_keep_values(seed in any::<u64>(), old_lines in any::<u64>(), force in any::<bool>()) {
        let folder = folders();
        let mut dice = Dice(seed);
        let mut other = Dice(old_lines);
        let (mut text, mut old) = (String::new(), String::from("# kept\n"));
        for directive in all() {
            let words = valid(directive, &mut dice, folder.path());
            let _ = writeln!(text, "{}", line(directive.name, &words));
            // The old file mentions some of them, under one of their names, with different
            // values.
            if other.below(3) == 0 {
                let name = directive.aliases.first().unwrap_or(&directive.name);
                let words = valid(directive, &mut other, folder.path());
                let _ = writeln!(old, "{}", line(name, &words));
            }
        }
        let config = Config::new();
        config.load_text(&text).unwrap_or_else(|error| panic!("{error}"));
        let file = folder.path().join("a.conf");
        std::fs::write(&file, &old).unwrap();
        config.rewrite_with(&file, &ExtraLines { users: None, everything: force }).unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        prop_assert!(written.is_ascii() && written.starts_with("# kept\n"));
        let again = Config::new();
        again.load_text(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        prop_assert_eq!(everything(&again), everything(&config));
        // A second rewrite changes nothing.
        again.rewrite_with(&file, &ExtraLines { users: None, everything: force }).unwrap();
        prop_assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    }

    /// The reply of CONFIG GET after a CONFIG SET can be set again, with the same meaning.
    #[test]
    fn set_then_get_then_set(seed in any::<u64>()) {
        let folder = folders();
        let mut dice = Dice(seed);
        let config = Config::new();
        config.load_text("enable-protected-configs yes").unwrap();
        for directive in all().filter(|directive| directive.mutability == Mutability::Live) {
            let words = valid(directive, &mut dice, folder.path());
            let text = words.join(" ");
            let changes = config.set(&[(directive.name, &text)]);
            let changes = changes.unwrap_or_else(|error| panic!("{text}: {error}"));
            let got = config.get_one(directive.name).unwrap();
            prop_assert!(changes.len() <= 1);
            if let [change] = changes.as_slice() {
                prop_assert_eq!(&change.new, &got);
            }
            let repeated = config.set(&[(directive.name, &got)]);
            prop_assert_eq!(repeated, Ok(Vec::new()), "{}", directive.name);
            prop_assert_eq!(config.get_one(directive.name).unwrap(), got);
        }
    }

    /// A refused value changes no directive, not even earlier ones in the same command, nor the
    /// version.
    #[test]
    fn refused_values_change_nothing(seed in any::<u64>(), garbage in "[a-z0-9%\" -]{0,10}|\\PC{0,6}") {
        let mut dice = Dice(seed);
        let config = Config::new();
        let before = everything(&config);
        for directive in all() {
            let (first, good) = *dice.pick(&[("maxmemory", "12mb"), ("appendfsync", "no"), ("save", "1 1")]);
            let version = config.version();
            let pairs = [(first, good), (directive.name, garbage.as_str())];
            if directive.name != first && config.set(&pairs).is_err() {
                prop_assert_eq!(config.version(), version);
                prop_assert_eq!(&everything(&config), &before, "{}", directive.name);
            } else {
                // It was valid after all: start over with the defaults.
                for (name, value) in &before {
                    let _ = config.set(&[(name, value)]);
                }
            }
        }
    }

    /// No text makes the reader panic.
    #[test]
    fn reading_never_panics(
        text in "(\\PC|[\\n\"' a-z]){0,80}",
        name in any::<prop::sample::Index>(),
        value in "\\PC{0,20}",
    ) {
        let names: Vec<&str> = all().map(|directive| directive.name).collect();
        // `logfile` would create a file.
        let names: Vec<&str> = names.into_iter().filter(|name| *name != "logfile").collect();
        let name = names[name.index(names.len())];
        let _ = Config::new().load_text(&text.replace("logfile", "").replace("include", ""));
        let _ = Config::new().load_text(&format!("{name} {value}"));
        let _ = Config::new().load_text(&format!("{name} {}", quote(value.as_bytes())));
    }
}
