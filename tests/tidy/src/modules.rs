// SPDX-License-Identifier: BSD-3-Clause
//! The modules of a crate, and which file imports from which.
//!
//! A path is followed through re-exports to the file that declares the name, so `crate::Engine`
//! leads to `engine.rs` and not to `lib.rs`. Imports in test code do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan::{Facts, PathUse};

/// A library, a program or a build script: a root file and the modules that it declares, directly
/// or not.
pub struct Crate {
    /// Path of the root file, for example `crates/base/src/lib.rs`.
    pub root: String,
    /// Modules by module path. A file's inline modules map to that file.
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    file: String,
    test: bool,
    bindings: Vec<Binding>,
    /// The path of the file's own module: a prefix of this module's path if this one is inline.
    file_module: Vec<String>,
}

struct Binding {
    name: String,
    path: Vec<String>,
}

/// Imports: (importing file, declaring file) -> one of the imported names.
pub type Edges = BTreeMap<(String, String), String>;

const MOST_REEXPORTS: usize = 8;

impl Crate {
    /// All crates of a tree: every `lib.rs` or `main.rs` in a `src` folder, and every root that a
    /// manifest names by `path = "src/.."`.
    pub fn find(files: &BTreeMap<String, String>, facts: &BTreeMap<String, Facts>) -> Vec<Crate> {
        let mut roots: BTreeSet<String> = facts
            .keys()
            .filter(|path| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"))
            .cloned()
            .collect();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
            let folder = path.trim_end_matches("Cargo.toml");
            for line in text.lines() {
                let target = line.strip_prefix("path = \"").and_then(|rest| rest.strip_suffix('"'));
                let root = target.map(|target| format!("{folder}{target}"));
                roots.extend(root.filter(|root| facts.contains_key(root)));
            }
        }
        roots.into_iter().map(|root| Crate::load(root, facts)).collect()
    }

    fn load(root: String, facts: &BTreeMap<String, Facts>) -> Crate {
        let mut all = Crate { root: root.clone(), modules: BTreeMap::new() };
        let mut todo = vec![(Vec::new(), root, false)];
        while let Some((module, file, test)) = todo.pop() {
            let Some(found) = facts.get(&file) else { continue };
            let test = test || found.is_test;
            let bindings = |inside: &[String]| {
                let here = found.paths.iter().filter(|path| path.inside == inside);
                here.filter_map(|path| {
                    Some(Binding { name: path.binds.clone()?, path: path.segments.clone() })
                })
                .collect()
            };
            let entry = |inside: &[String]| Module {
                file: file.clone(),
                test,
                bindings: bindings(inside),
                file_module: module.clone(),
            };
            all.modules.insert(module.clone(), entry(&[]));
            for inline in &found.inline {
                all.modules.insert([module.as_slice(), inline].concat(), entry(inline));
            }
            for child in &found.declarations {
                let path = [module.as_slice(), &child.inside, std::slice::from_ref(&child.name)].concat();
                let is_root = file == all.root;
                let candidates = candidates(&file, is_root, child);
                if let Some(file) = candidates.into_iter().find(|file| facts.contains_key(file)) {
                    todo.push((path, file, test || child.test));
                }
            }
        }
        all
    }

    /// True if the file is reached only through `#[cfg(test)]`; false for files of other crates.
    pub fn is_test(&self, file: &str) -> bool {
        self.modules.values().any(|module| module.file == file && module.test)
    }

    /// The crate's files that are compiled outside of tests.
    pub fn files(&self) -> BTreeSet<&str> {
        self.modules.values().filter(|module| !module.test).map(|module| module.file.as_str()).collect()
    }

    /// Which file imports from which. A module and its children count as one unit in several
    /// files: a child's imports from its parent do not count, nor do re-exports of a child's
    /// names by the parent. The parent's own uses of a child do count, because the child may
    /// depend on the parent through other files.
    pub fn edges(&self, facts: &BTreeMap<&str, &Facts>) -> Edges {
        let mut edges = Edges::new();
        for (module, found) in &self.modules {
            // Paths in an inline module are attributed to its file.
            if found.test || *module != found.file_module {
                continue;
            }
            let Some(facts) = facts.get(found.file.as_str()) else { continue };
            for path in facts.paths.iter().filter(|path| !path.test) {
                for (target, target_module) in self.declaring(module, path) {
                    let is_parent = is_child(module, &target_module);
                    let passes_on = path.is_reexport && is_child(&target_module, module);
                    if target != found.file && !is_parent && !passes_on {
                        let name = path.segments.last().cloned().unwrap_or_default();
                        edges.entry((found.file.clone(), target)).or_insert(name);
                    }
                }
            }
        }
        edges
    }

    /// The files that declare the item a path names, with their modules. A glob may yield
    /// several.
    fn declaring(&self, module: &[String], path: &PathUse) -> Vec<(String, Vec<String>)> {
        let from = [module, &path.inside].concat();
        let mut found = Vec::new();
        // The first segment is followed only if it is a keyword, a child, or an imported name;
        // otherwise the path leads to another crate or to an item of this file.
        self.resolve(&from, &path.segments, 0, &mut found);
        found
    }

    /// Resolves `segments` as seen from module `from`.
    fn resolve(
        &self,
        from: &[String],
        segments: &[String],
        depth: usize,
        found: &mut Vec<(String, Vec<String>)>,
    ) {
        let Some(first) = segments.first() else { return };
        if depth > MOST_REEXPORTS {
            return;
        }
        let mut at = from.to_vec();
        let mut rest = segments;
        match first.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            name => {
                let child = [from, &[name.to_owned()]].concat();
                let imported = self.modules.get(from).is_some_and(|module| {
                    module.bindings.iter().any(|binding| binding.name == name && binding.path != segments)
                });
                if !self.modules.contains_key(&child) && !imported {
                    return;
                }
            }
        }
        self.descend(at, rest, depth, found);
    }

    /// Resolves `segments`, all of them below module `at`.
    fn descend(
        &self,
        mut at: Vec<String>,
        segments: &[String],
        depth: usize,
        found: &mut Vec<(String, Vec<String>)>,
    ) {
        for (index, segment) in segments.iter().enumerate() {
            let child = [at.as_slice(), std::slice::from_ref(segment)].concat();
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let Some(module) = self.modules.get(&at) else { return };
            let rest = &segments[index + 1..];
            let named = module.bindings.iter().filter(|binding| binding.name == *segment);
            let before = found.len();
            for binding in named {
                let path = [binding.path.as_slice(), rest].concat();
                self.resolve(&at, &path, depth + 1, found);
            }
            // An item of the module itself, or of another crate.
            if found.len() == before {
                break;
            }
            return;
        }
        if let Some(module) = self.modules.get(&at) {
            found.push((module.file.clone(), module.file_module.clone()));
        }
    }
}

/// True if module `of` declares `module`.
fn is_child(module: &[String], of: &[String]) -> bool {
    module.split_last().is_some_and(|(_, parent)| parent == of)
}

/// Possible paths of a declared module's file.
fn candidates(file: &str, is_root: bool, child: &crate::scan::Declaration) -> Vec<String> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    if let Some(path) = &child.path {
        return vec![normal(&format!("{folder}/{path}"))];
    }
    let own = if is_root || file.ends_with("/mod.rs") {
        folder.to_owned()
    } else {
        file.trim_end_matches(".rs").to_owned()
    };
    let base = [std::slice::from_ref(&own), &child.inside].concat().join("/");
    vec![format!("{base}/{}.rs", child.name), format!("{base}/{}/mod.rs", child.name)]
}

/// Removes `x/..` from a path.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if !parts.is_empty() => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Groups of two or more files that reach each other (strongly connected components), found by a
/// search from each file: crates are small.
pub fn circles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        next.entry(from).or_default().insert(to);
    }
    let reach = |start: &str| {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut todo = vec![start];
        while let Some(file) = todo.pop() {
            for to in next.get(file).into_iter().flatten() {
                if seen.insert((*to).to_owned()) {
                    todo.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = next.keys().map(|file| (*file, reach(file))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (file, forward) in &reached {
        if found.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        let circle: BTreeSet<String> = forward
            .iter()
            .filter(|other| reached.get(other.as_str()).is_some_and(|back| back.contains(*file)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}
