//! Reading a configuration at start: file, then standard input, then command line, as one text.
//!
//! Lines go one by one into a `Config` that nobody shares yet. What belongs to other layers (users, renamed
//! commands) is collected with its place, so that those layers can complain about the line in the same words.

use crate::arguments::Arguments;
use crate::change::NOT_UTF8;
use crate::config::{Config, REDACTED, is_secret};
use crate::error::{ConfigError, Place};
use crate::rows::{index, table};
use crate::text::split_arguments;
use crate::value::Value;
use braid_base::glob::matches;
use braid_base::system_text::reason;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How deep files may include files; deeper is taken for a circle.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Names of old versions that are accepted with one argument and mean nothing any more.
const ACCEPTED_AND_IGNORED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// What a configuration says beyond the directives' values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The main file, which CONFIG REWRITE writes.
    pub file: Option<PathBuf>,
    /// `rename-command` lines in order.
    pub renamed: Vec<Renamed>,
    /// `user` lines in order.
    pub users: Vec<UserLine>,
    /// Remarks for the log, once there is one.
    pub warnings: Vec<String>,
}

/// A `rename-command` line. The commands layer checks that the command exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Present name.
    pub command: String,
    /// New name; empty removes the command.
    pub new_name: String,
    /// For complaints.
    pub place: Place,
}

/// A `user` line. The commands layer parses the rules.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    /// Name of the user and the rules.
    pub words: Vec<String>,
    /// For complaints; the rules are left out because they may hold passwords.
    pub place: Place,
}

impl std::fmt::Debug for UserLine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "user {:?} {REDACTED}", self.words.first())
    }
}

impl Config {
    /// Reads everything the command line names. `stdin` is read only if it asks for that.
    pub fn load(&self, arguments: &Arguments, stdin: &mut dyn Read) -> Result<Loaded, ConfigError> {
        let mut text = Vec::new();
        if let Some(file) = &arguments.file {
            text.extend(read_matching(&file.to_string_lossy(), file)?);
        }
        if arguments.from_stdin {
            stdin.read_to_end(&mut text).map_err(|error| ConfigError::CannotOpen {
                path: PathBuf::from("standard input"),
                reason: reason(&error),
            })?;
        }
        if !arguments.options.is_empty() {
            text.push(b'\n');
            text.extend_from_slice(&arguments.options);
        }
        let mut loaded = self.load_bytes(&text)?;
        loaded.file.clone_from(&arguments.file);
        Ok(loaded)
    }

    /// Reads a text as a configuration file. For tests and tools.
    pub fn load_text(&self, text: &str) -> Result<Loaded, ConfigError> {
        self.load_bytes(text.as_bytes())
    }

    fn load_bytes(&self, text: &[u8]) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded::default();
        let mut reader = Reader { config: self, loaded: &mut loaded, save_seen: false };
        reader.read_text(text, 0)?;
        reader.check_whole()?;
        self.bump_version();
        Ok(loaded)
    }
}

struct Reader<'a> {
    config: &'a Config,
    loaded: &'a mut Loaded,
    /// The first `save` line replaces the default; later ones add to it.
    save_seen: bool,
}

impl Reader<'_> {
    fn read_text(&mut self, text: &[u8], depth: usize) -> Result<(), ConfigError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let place = Place { line: index + 1, text: shown_line(line) };
            let words = split_arguments(line)
                .ok_or_else(|| place.error("Unbalanced quotes in configuration line"))?;
            let words: Result<Vec<String>, _> = words.into_iter().map(String::from_utf8).collect();
            let words = words.map_err(|_| place.error(NOT_UTF8))?;
            if let Some((name, values)) = words.split_first() {
                self.read_line(&name.to_ascii_lowercase(), values, place, depth)?;
            }
        }
        Ok(())
    }

    fn read_line(
        &mut self,
        name: &str,
        values: &[String],
        place: Place,
        depth: usize,
    ) -> Result<(), ConfigError> {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if let Some(index) = table().find(name) {
            return self.read_directive(index, &values).map_err(|reason| place.error(reason));
        }
        match (name, values.as_slice()) {
            ("include", [file]) => self.include(file, &place, depth),
            ("rename-command", [command, new_name]) => {
                let renamed = Renamed { command: (*command).into(), new_name: (*new_name).into(), place };
                self.loaded.renamed.push(renamed);
                Ok(())
            }
            ("user", [_, ..]) => {
                let words = values.iter().map(|word| (*word).to_owned()).collect();
                self.loaded.users.push(UserLine { words, place });
                Ok(())
            }
            ("loadmodule", [_, ..]) => {
                Err(place.error("Modules are not supported by this server: remove the line"))
            }
            ("sentinel", _) => Err(place.error("sentinel directive while not in sentinel mode")),
            (name, []) if name.contains('.') => Err(place.error("Module config specified without value")),
            (name, _) if name.contains('.') => {
                Err(place.error("Modules are not supported by this server: remove their settings"))
            }
            (name, [_]) if ACCEPTED_AND_IGNORED.contains(&name) => Ok(()),
            _ => Err(place.error("Bad directive or wrong number of arguments")),
        }
    }

    fn read_directive(&mut self, index: usize, values: &[&str]) -> Result<(), String> {
        let directive = table().directives[index];
        let value = match values {
            // A single argument of a list is cut once more, so that `--save "900 1"` means two arguments.
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
        let value = if index == index::SAVE { self.add_save_points(value, values == [""]) } else { value };
        self.config.store(index, value);
        Ok(())
    }

    /// `save` lines add up, except that an empty one starts again from nothing.
    fn add_save_points(&mut self, value: Value, from_nothing: bool) -> Value {
        let first = !std::mem::replace(&mut self.save_seen, true);
        match value {
            Value::Save(added) if !first && !from_nothing => {
                Value::Save(self.config.save_points().iter().chain(added.iter()).copied().collect())
            }
            other => other,
        }
    }

    fn include(&mut self, name: &str, place: &Place, depth: usize) -> Result<(), ConfigError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(place.error("Files include each other too deeply"));
        }
        let text = read_matching(name, &self.config.dir().join(name))?;
        self.read_text(&text, depth + 1)
    }

    /// What can only be said about all lines together.
    fn check_whole(&mut self) -> Result<(), ConfigError> {
        let config = self.config;
        let logfile = config.logfile();
        if !logfile.is_empty() {
            let path = config.dir().join(&*logfile);
            std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
                ConfigError::Whole { reason: format!("Can't open the log file: {}", reason(&error)) }
            })?;
        }
        if config.cluster_enabled() && config.replicaof().is_some() {
            return Err(ConfigError::Whole {
                reason: "replicaof directive not allowed in cluster mode".to_owned(),
            });
        }
        if config.cluster_enabled() && config.databases() > 1 {
            self.loaded.warnings.push(format!(
                "WARNING: Changing databases number from {} to 1 since we are in cluster mode",
                config.databases()
            ));
            config.assign("databases", &["1"]).map_err(|reason| ConfigError::Whole { reason })?;
        }
        Ok(())
    }
}

/// A line as an error shows it: what follows a secret directive, or `user`, is left out, even if it cannot be
/// split.
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

/// The text of a file, or of all files that match, one after the other, if the name has wildcards. No match
/// is no error then, so that an empty folder of extra files can be included; an unreadable file always is
/// one.
fn read_matching(name: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| ConfigError::CannotOpen { path: path.to_owned(), reason: reason(&error) })
    };
    if !name.contains(['*', '?', '[']) {
        return read(path);
    }
    let mut text = Vec::new();
    for file in expand(path) {
        text.extend(read(&file)?);
        // A file without a final line end must not glue its last line to the next file.
        text.push(b'\n');
    }
    Ok(text)
}

/// Files that match a path with wildcards, sorted; hidden names match only patterns that begin with a dot.
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
