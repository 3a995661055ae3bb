// SPDX-License-Identifier: BSD-3-Clause
//! Configuration errors that prevent the start, and the text of operating system errors.

use std::fmt;
use std::path::PathBuf;

/// The server cannot start. `Display` is the complete message for standard error, without a final
/// line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A file named on the command line or by `include` cannot be read.
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// A line is invalid.
    Line {
        /// Its location.
        place: SourceLine,
        /// Why it is invalid.
        reason: String,
    },
    /// The lines are valid individually, but not together.
    Whole {
        /// Why they contradict each other.
        reason: String,
    },
}

/// Source of a line of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A text without a name.
    #[default]
    Text,
    /// A file: the main one, or an included one.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// Options of the command line.
    Options,
}

/// A line of the configuration, kept so that later layers (users, renamed commands) can report
/// errors in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// File, standard input or command line.
    pub source: Source,
    /// Counted from 1; meaningless for options.
    pub line: usize,
    /// The line without surrounding blanks; secrets are replaced.
    pub text: String,
}

impl SourceLine {
    /// An error in this line.
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::Line { place: self.clone(), reason: reason.into() }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Text => write!(formatter, "Reading the configuration, at line {}", self.line)?,
            Source::File(path) => {
                write!(
                    formatter,
                    "Reading the configuration file {}, at line {}",
                    path.display(),
                    self.line
                )?;
            }
            Source::Stdin => {
                write!(formatter, "Reading the configuration from standard input, at line {}", self.line)?;
            }
            Source::Options => {
                // If the line does not begin with hyphens, the option was given without them.
                let name = self.text.split([' ', '\t']).next().unwrap_or("").trim_matches('"');
                let hyphens = if name.starts_with('-') { "" } else { "--" };
                write!(formatter, "Reading the command line, at option {hyphens}{name}")?;
            }
        }
        write!(formatter, "\n>>> '{}'", self.text)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let banner =
            |what: &str| format!("\n*** FATAL {what} ERROR (Braid {}) ***\n", env!("CARGO_PKG_VERSION"));
        match self {
            ConfigError::CannotOpen { path, reason } => {
                write!(formatter, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
            ConfigError::Line { place, reason } => {
                let what = if place.source == Source::Options { "COMMAND LINE" } else { "CONFIG FILE" };
                write!(formatter, "{}{place}\n{reason}", banner(what))
            }
            ConfigError::Whole { reason } => write!(formatter, "{}{reason}", banner("CONFIGURATION")),
        }
    }
}

impl std::error::Error for ConfigError {}
