// SPDX-License-Identifier: BSD-3-Clause
//! Checks the documentation as far as that is cheap: links and anchors resolve; the programs,
//! options, directives, variables and INFO fields that it names exist; blocks marked `runnable`
//! run and print the output block after them.
//!
//!   cargo test -p braid-tests --test docs
//!
//! Only names are checked, and not paths, which `braid-tidy` checks. Whether a sentence is right
//! is for its author to verify.

mod names;
mod snippets;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace")
}

/// Folders that are not part of the source.
const SKIPPED: [&str; 6] = ["target", "node_modules", "venv", ".git", "corpus", "third_party"];

/// All files below a folder for which `wanted` holds, sorted.
fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let skipped = path.file_name().is_some_and(|name| SKIPPED.iter().any(|skipped| name == *skipped));
            if path.is_dir() && !path.is_symlink() && !skipped {
                folders.push(path);
            } else if path.is_file() && wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A documentation page.
struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    /// The path relative to the workspace's folder, for messages.
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }
}

/// Every page: `*.md` anywhere in the workspace.
fn pages() -> Vec<Page> {
    let paths = files(root(), &|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages: Vec<Page> = paths
        .into_iter()
        .map(|path| Page { text: fs::read_to_string(&path).expect("a page is UTF-8"), path })
        .collect();
    assert!(pages.len() > 15, "only {} pages found", pages.len());
    pages
}

/// Fails with one line per complaint.
#[track_caller]
fn no_complaints(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n  {}", complaints.len(), complaints.join("\n  "));
}

#[test]
fn links_and_anchors_resolve() {
    let mut complaints = Vec::new();
    let mut links = 0;
    for page in pages() {
        for link in text::links(&page.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            links += 1;
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let folder = page.path.parent().expect("a page has a parent folder");
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            if !target.exists() {
                complaints.push(format!("{}: {link}: no such file", page.name()));
            } else if let Some(anchor) = anchor {
                let there = fs::read_to_string(&target).unwrap_or_default();
                if !text::anchors(&there).iter().any(|one| one == anchor) {
                    complaints.push(format!("{}: {link}: no such heading", page.name()));
                }
            }
        }
    }
    assert!(links > 50, "only {links} links found");
    no_complaints(&complaints);
}

#[test]
fn chart_matches_the_table() {
    let Ok(output) =
        std::process::Command::new("python3").arg(root().join("bench/chart")).arg("--check").output()
    else {
        println!("skipped, the chart: no python3");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every Python program of `bench` compiles, prints its help, and leaves starting servers to
/// `servers.py`.
#[test]
fn bench_programs_start() {
    let programs = fs::read_dir(root().join("bench")).expect("the folder").flatten();
    let programs = programs.filter(|program| {
        let text = fs::read_to_string(program.path()).unwrap_or_default();
        text.starts_with("#!/usr/bin/env python3")
    });
    let mut count = 0;
    for program in programs {
        let text = fs::read_to_string(program.path()).expect("the program");
        for own in ["def free_port", "def encode", "\"--port\""] {
            let name = program.file_name();
            assert!(!text.contains(own), "{name:?} has {own:?}: bench/servers.py starts servers");
        }
        let run = std::process::Command::new("python3")
            .args(["-B".as_ref(), program.path().as_os_str(), "--help".as_ref()])
            .output();
        let Ok(output) = run else {
            println!("skipped, the programs of bench: no python3");
            return;
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        let help = format!("bench/{}", program.file_name().to_string_lossy());
        let is_help = output.status.success() && (printed.contains(&help) || printed.contains("usage"));
        assert!(is_help, "{help}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        count += 1;
    }
    assert!(count > 10, "only {count} programs found");
}
