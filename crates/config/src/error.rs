//! Errors of the configuration: what stops the start, and how operating system errors read.

use std::fmt;
use std::path::PathBuf;

/// The start is impossible. `Display` is the whole message for standard error, without a final line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A file named on the command line or by `include` cannot be read.
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// A line is wrong.
    Line {
        /// Where it is.
        place: Place,
        /// Why it is wrong.
        reason: String,
    },
    /// The lines are right one by one, but not together.
    Whole {
        /// Why not.
        reason: String,
    },
}

/// A line of the configuration, kept so that later stages (users, renamed commands) can complain about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counted from 1 in the text that file, standard input and command line make together.
    pub line: usize,
    /// The line without surrounding blanks; secrets are replaced.
    pub text: String,
}

impl Place {
    /// The error that this line is wrong.
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::Line { place: self.clone(), reason: reason.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BANNER: &str =
            concat!("\n*** FATAL CONFIG FILE ERROR (Braid ", env!("CARGO_PKG_VERSION"), ") ***\n");
        match self {
            ConfigError::CannotOpen { path, reason } => {
                write!(formatter, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
            ConfigError::Line { place, reason } => write!(
                formatter,
                "{BANNER}Reading the configuration file, at line {}\n>>> '{}'\n{reason}",
                place.line, place.text
            ),
            ConfigError::Whole { reason } => write!(formatter, "{BANNER}{reason}"),
        }
    }
}

impl std::error::Error for ConfigError {}
