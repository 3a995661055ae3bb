// SPDX-License-Identifier: BSD-3-Clause
//! Reads the configuration at start: file, then standard input, then command line.
//!
//! Lines are applied one by one to a `Config` that is not shared yet. Lines of other layers
//! (users, renamed commands) are collected with their location, so that those layers can report
//! errors in the same form.

use crate::arguments::Arguments;
use crate::config::{Config, REDACTED, is_secret};
use crate::error::{ConfigError, Source, SourceLine};
use crate::keydb;
use crate::rows::{index, table};
use crate::text::{NOT_UTF8, split_arguments};
use crate::value::{Value, default_value, format_value, lacks_effect};
use braid_base::glob::matches;
use braid_base::system_text::reason;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum depth of nested includes; deeper nesting counts as a cycle.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Obsolete names that are accepted with one argument and ignored.
const ACCEPTED_AND_IGNORED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

/// The parts of a configuration other than the values of directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The main file, which CONFIG REWRITE writes.
    pub file: Option<PathBuf>,
    /// `rename-command` lines in order.
    pub renamed: Vec<Renamed>,
    /// `user` lines in order.
    pub users: Vec<UserLine>,
    /// `role` lines in order.
    pub roles: Vec<UserLine>,
    /// Names of directives that the configuration sets but that have no effect.
    pub without_effect: Vec<String>,
    /// Warnings for the log, once it is open.
    pub warnings: Vec<String>,
}

/// A `rename-command` line. The commands layer checks that the command exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Current name.
    pub command: String,
    /// New name; empty removes the command.
    pub new_name: String,
    /// For error messages.
    pub place: SourceLine,
}

/// A `user` or `role` line. The commands layer parses the rules.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    /// Name of the user or role, and the rules.
    pub words: Vec<String>,
    /// For error messages; without the rules, which may contain passwords.
    pub place: SourceLine,
}

impl std::fmt::Debug for UserLine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "user {:?} {REDACTED}", self.words.first())
    }
}

impl Config {
    /// Reads all sources that the command line names. `stdin` is read only if requested.
    ///
    /// # Errors
    /// If a source cannot be read, or has a line that is not a directive or not valid for it, or
    /// settings that contradict each other. The log's directives have their configured values then,
    /// as far as readable, so that the error can be logged; the others are undefined.
    pub fn load(&self, arguments: &Arguments, stdin: &mut dyn Read) -> Result<Loaded, ConfigError> {
        let mut texts = Vec::new();
        let read = read_arguments(arguments, stdin, &mut texts);
        let mut loaded = read.and_then(|()| self.load_texts(&texts)).inspect_err(|_| {
            let mut nothing = Loaded::default();
            let mut reader = Reader {
                config: self,
                loaded: &mut nothing,
                more_masters: Vec::new(),
                save_seen: false,
                only: LOG_DIRECTIVES,
            };
            for (source, text) in &texts {
                // Faults are ignored here.
                let _ = reader.read_text(source, text, 0);
            }
        })?;
        loaded.file.clone_from(&arguments.file);
        Ok(loaded)
    }

    /// Reads a text as a configuration file. For tests and tools.
    ///
    /// # Errors
    /// If a line is not a directive or not valid for it, or the settings contradict each other.
    pub fn load_text(&self, text: &str) -> Result<Loaded, ConfigError> {
        self.load_texts(&[(Source::Text, text.as_bytes().to_vec())])
    }

    fn load_texts(&self, texts: &[(Source, Vec<u8>)]) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded::default();
        let mut reader = Reader {
            config: self,
            loaded: &mut loaded,
            more_masters: Vec::new(),
            save_seen: false,
            only: &[],
        };
        for (source, text) in texts {
            reader.read_text(source, text, 0)?;
        }
        reader.check_setting_combinations()?;
        reader.warn_of_ineffective_directives();
        reader.warn_of_missing_prerequisites();
        self.bump_version();
        Ok(loaded)
    }
}

/// Directives that determine where and how a failed start is logged.
const LOG_DIRECTIVES: &[&str] = &[
    "dir",
    "logfile",
    "loglevel",
    "log-format",
    "log-timestamp-format",
    "syslog-enabled",
    "syslog-ident",
    "syslog-facility",
];

/// Collects the texts named by the command line. After an error `texts` has those read before it.
fn read_arguments(
    arguments: &Arguments,
    stdin: &mut dyn Read,
    texts: &mut Vec<(Source, Vec<u8>)>,
) -> Result<(), ConfigError> {
    if !arguments.options.is_empty() {
        texts.push((Source::Options, arguments.options.clone()));
    }
    let mut at = 0;
    if let Some(file) = &arguments.file {
        for (path, text) in read_matching(&file.to_string_lossy(), file)? {
            texts.insert(at, (Source::File(path), text));
            at += 1;
        }
    }
    if arguments.from_stdin {
        let mut text = Vec::new();
        stdin.read_to_end(&mut text).map_err(|error| ConfigError::CannotOpen {
            path: PathBuf::from("standard input"),
            reason: reason(&error),
        })?;
        texts.insert(at, (Source::Stdin, text));
    }
    Ok(())
}

struct Reader<'a> {
    config: &'a Config,
    loaded: &'a mut Loaded,
    /// Peers of further `replicaof` lines, as host:port.
    more_masters: Vec<String>,
    save_seen: bool,
    /// Only these directives are read, and faults are ignored; empty: all.
    only: &'static [&'static str],
}

impl Reader<'_> {
    fn read_text(&mut self, source: &Source, text: &[u8], depth: usize) -> Result<(), ConfigError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let place = SourceLine { source: source.clone(), line: index + 1, text: shown_line(line) };
            let read = self.read_words(line, place, depth);
            if self.only.is_empty() {
                read?;
            }
        }
        Ok(())
    }

    fn read_words(&mut self, line: &[u8], place: SourceLine, depth: usize) -> Result<(), ConfigError> {
        let words =
            split_arguments(line).ok_or_else(|| place.error("Unbalanced quotes in configuration line"))?;
        let words: Result<Vec<String>, _> = words.into_iter().map(String::from_utf8).collect();
        let words = words.map_err(|_| place.error(NOT_UTF8))?;
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        if self.only.is_empty() || name == "include" || self.only.contains(&&*name) {
            self.read_line(&name, values, place, depth)?;
        }
        Ok(())
    }

    fn read_line(
        &mut self,
        name: &str,
        values: &[String],
        place: SourceLine,
        depth: usize,
    ) -> Result<(), ConfigError> {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if let Some(index) = table().find(name) {
            return self.read_directive(index, &values).map_err(|reason| place.error(reason));
        }
        match keydb::answer(name).filter(|_| !values.is_empty()) {
            Some(keydb::Answer::WithoutEffect) => {
                self.without_effect(name);
                return Ok(());
            }
            Some(keydb::Answer::Refused(why)) => {
                return Err(place.error(format!("{name} is a directive of KeyDB. {why}")));
            }
            None => {}
        }
        match (name, values.as_slice()) {
            ("include", [file]) => self.include(file, &place, depth),
            ("rename-command", [command, new_name]) => {
                let renamed = Renamed { command: (*command).into(), new_name: (*new_name).into(), place };
                self.loaded.renamed.push(renamed);
                Ok(())
            }
            ("user" | "role", [_, ..]) => {
                let words = values.iter().map(|word| (*word).to_owned()).collect();
                let lines = if name == "user" { &mut self.loaded.users } else { &mut self.loaded.roles };
                lines.push(UserLine { words, place });
                Ok(())
            }
            ("loadmodule", [_, ..]) => {
                Err(place.error("Modules are not supported by this server: remove the directive"))
            }
            ("sentinel", _) => Err(place.error("sentinel directive while not in sentinel mode")),
            (name, []) if name.contains('.') => Err(place.error("Module config specified without value")),
            (name, _) if name.contains('.') => {
                Err(place.error("Modules are not supported by this server: remove their settings"))
            }
            (name, [_]) if ACCEPTED_AND_IGNORED.contains(&name) => {
                self.without_effect(name);
                Ok(())
            }
            ("include" | "rename-command" | "user" | "role" | "loadmodule", _) => {
                Err(place.error(BAD_DIRECTIVE))
            }
            (name, _) if ACCEPTED_AND_IGNORED.contains(&name) => Err(place.error(BAD_DIRECTIVE)),
            (name, _) if name.starts_with('-') => {
                Err(place.error(format!("{BAD_DIRECTIVE}: options begin with two hyphens, such as --port")))
            }
            (name, _) => Err(place.error(format!("{BAD_DIRECTIVE}: unknown directive '{name}'"))),
        }
    }

    fn read_directive(&mut self, index: usize, values: &[&str]) -> Result<(), String> {
        let directive = table().directives[index];
        let value = match values {
            // A single argument of a list is split again, so that `--save "900 1"` means two
            // arguments.
            [single] if directive.takes_several() && !single.is_empty() => {
                let words =
                    split_arguments(single.as_bytes()).ok_or("Unbalanced quotes in configuration line")?;
                let words: Vec<String> =
                    words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.config.parse_words(index, &words)?
            }
            _ => self.config.parse_words(index, values)?,
        };
        if lacks_effect(directive, &value) {
            self.without_effect(directive.name);
        }
        if index == index::REPLICAOF
            && let Some(before) = self.config.replicaof()
        {
            self.more_masters.push(format!("{}:{}", before.host, before.port));
        }
        let value = match index {
            index::SAVE => self.add_save_points(value, values == [""]),
            index::CHANGE_FEED => self.add_change_feeds(value),
            _ => value,
        };
        self.config.store(index, value);
        Ok(())
    }

    fn without_effect(&mut self, name: &str) {
        if !self.loaded.without_effect.iter().any(|other| other == name) {
            self.loaded.without_effect.push(name.to_owned());
        }
    }

    /// Warns about directives that are set but have no effect, all in one line.
    fn warn_of_ineffective_directives(&mut self) {
        let names = &self.loaded.without_effect;
        if !names.is_empty() {
            self.loaded.warnings.push(format!(
                "WARNING: Directives that are set but have no effect in this version: {}",
                names.join(", ")
            ));
        }
    }

    /// Warns about directives that are set but have no effect because another one is unset: one
    /// line per such other directive.
    fn warn_of_missing_prerequisites(&mut self) {
        let is_set = |index: usize| {
            let (value, directive) = (self.config.value(index), table().directives[index]);
            value != default_value(directive)
        };
        let mut lacking: Vec<(&[&str], Vec<&str>)> = Vec::new();
        for (index, directive) in table().directives.iter().enumerate() {
            let needed = directive.only_with;
            let has_other = || needed.iter().filter_map(|name| table().find(name)).any(is_set);
            if needed.is_empty() || !is_set(index) || has_other() {
                continue;
            }
            match lacking.iter_mut().find(|(others, _)| *others == needed) {
                Some((_, names)) => names.push(directive.name),
                None => lacking.push((needed, vec![directive.name])),
            }
        }
        for (needed, names) in lacking {
            self.loaded.warnings.push(format!(
                "WARNING: Directives that are set but have no effect without {}: {}",
                needed.join(" or "),
                names.join(", ")
            ));
        }
    }

    /// `save` lines accumulate, but an empty one starts over.
    fn add_save_points(&mut self, value: Value, from_nothing: bool) -> Value {
        let first = !std::mem::replace(&mut self.save_seen, true);
        match value {
            Value::Save(added) if !first && !from_nothing => {
                Value::Save(self.config.save_points().iter().chain(added.iter()).copied().collect())
            }
            other => other,
        }
    }

    /// Feeds add up over the lines; an empty word drops those before it.
    fn add_change_feeds(&self, value: Value) -> Value {
        match value {
            Value::Words(added) if !added.is_empty() => {
                Value::Words(self.config.change_feeds().iter().chain(added.iter()).cloned().collect())
            }
            other => other,
        }
    }

    fn include(&mut self, name: &str, place: &SourceLine, depth: usize) -> Result<(), ConfigError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(place.error("Includes are nested too deeply"));
        }
        for (path, text) in read_matching(name, &self.config.dir().join(name))? {
            self.read_text(&Source::File(path), &text, depth + 1)?;
        }
        Ok(())
    }

    /// Makes checks that concern several lines together.
    fn check_setting_combinations(&mut self) -> Result<(), ConfigError> {
        let config = self.config;
        let logfile = config.logfile();
        if !logfile.is_empty() {
            let path = config.dir().join(&*logfile);
            std::fs::OpenOptions::new().append(true).create(true).open(&path).map_err(|error| {
                ConfigError::Whole {
                    reason: format!("Can't open the log file '{}': {}", path.display(), reason(&error)),
                }
            })?;
        }
        if config.active_replica() {
            self.check_active()?;
        }
        if config.cluster_enabled() { self.check_cluster() } else { Ok(()) }
    }

    /// Refuses settings that active-active replication excludes, and joins peers from several
    /// lines.
    fn check_active(&mut self) -> Result<(), ConfigError> {
        let config = self.config;
        let refused = |reason: &str| Err(ConfigError::Whole { reason: reason.to_owned() });
        if config.cluster_enabled() {
            return refused("active-replica cannot be used in cluster mode");
        }
        if !config.group_name().is_empty() || !config.etcd_endpoints().is_empty() {
            return refused("active-replica cannot be used in a group: a group has one writable server");
        }
        if config.import_mode() {
            return refused("active-replica cannot be used with import-mode");
        }
        if config.multi_master() && !self.more_masters.is_empty() {
            let present = config.active_peers();
            let known = (!present.is_empty()).then(|| present.to_string());
            let peers: Vec<String> = known.into_iter().chain(self.more_masters.drain(..)).collect();
            config
                .assign("active-peers", &[&peers.join(",")])
                .map_err(|reason| ConfigError::Whole { reason })?;
        }
        Ok(())
    }

    /// Refuses settings that cluster mode excludes, and warns about those it replaces.
    fn check_cluster(&mut self) -> Result<(), ConfigError> {
        let config = self.config;
        let refused = |reason: &str| Err(ConfigError::Whole { reason: reason.to_owned() });
        if config.replicaof().is_some() {
            return refused("replicaof directive not allowed in cluster mode");
        }
        if !config.group_name().is_empty() {
            return refused(
                "group-name is only for servers outside a cluster: use cluster-name in cluster mode",
            );
        }
        let mut instead = |name: &str, used: String| {
            let directive = table().directives[table().find(name).expect("a directive")];
            if config.get_one(name) != Some(format_value(directive, &default_value(directive))) {
                self.loaded.warnings.push(format!(
                    "WARNING: Directive '{name}' has no effect in cluster mode, which uses {used}"
                ));
            }
        };
        instead("databases", format!("{} (cluster-databases)", config.cluster_databases()));
        instead("shards", "16384, one for each slot".to_owned());
        Ok(())
    }
}

/// A line for an error message. The text after `user` or a secret directive is left out, even if
/// the line cannot be split.
fn shown_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let name = text.split([' ', '\t']).next().unwrap_or("").trim_matches(['"', '\'']);
    if name.eq_ignore_ascii_case("user") || is_secret(name) {
        return format!("{name} {REDACTED}");
    }
    text.into_owned()
}

fn trim(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The content of a file or, if the name has wildcards, of all matching files in order. No match
/// is then not an error, so that an empty folder of extra files can be included; an unreadable
/// file always is an error.
fn read_matching(name: &str, path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, ConfigError> {
    let paths = if name.contains(['*', '?', '[']) { expand(path) } else { vec![path.to_owned()] };
    let read = |path: PathBuf| match std::fs::read(&path) {
        Ok(text) => Ok((path, text)),
        Err(error) => Err(ConfigError::CannotOpen { path, reason: reason(&error) }),
    };
    paths.into_iter().map(read).collect()
}

/// Files that match a path with wildcards, sorted; hidden names match only patterns that begin
/// with a dot.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str();
        let text = part.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            found = found.iter().map(|base| base.join(part)).filter(|path| path.exists()).collect();
            continue;
        }
        let mut next = Vec::new();
        for base in &found {
            let folder = if base.as_os_str().is_empty() { Path::new(".") } else { base };
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
            let mut names: Vec<_> = names
                .filter(|name| {
                    let name = name.to_string_lossy();
                    (!name.starts_with('.') || text.starts_with('.'))
                        && matches(text.as_bytes(), name.as_bytes(), false)
                })
                .collect();
            names.sort();
            next.extend(names.into_iter().map(|name| base.join(name)));
        }
        found = next;
    }
    found
}
