// SPDX-License-Identifier: BSD-3-Clause
//! The command line: `braid-server [file] [-] [--name value ...]`.
//!
//! Options are converted to the syntax of a configuration file and read after the file and standard
//! input, so they win. The rules are those of stock servers 7.2, including their lenient cases.

use crate::text::{quote, split_arguments};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Action requested by the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Print the version and exit.
    Version,
    /// Print the usage and exit.
    Help,
    /// Start the server.
    Start(Arguments),
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The configuration file, as an absolute path.
    pub file: Option<PathBuf>,
    /// Whether standard input is read after the file.
    pub from_stdin: bool,
    /// The options as lines of a configuration file.
    pub options: Vec<u8>,
}

impl Request {
    /// Parses the arguments after the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Request {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        match arguments.first().map(|first| first.as_bytes()) {
            Some(b"-v" | b"--version") => Request::Version,
            Some(b"-h" | b"--help") => Request::Help,
            _ => Request::Start(Arguments::parse(&arguments)),
        }
    }
}

impl Arguments {
    fn parse(arguments: &[OsString]) -> Arguments {
        let mut parsed = Arguments::default();
        let mut first_option = 0;
        if let Some(file) = arguments.first().filter(|first| !first.as_bytes().starts_with(b"-")) {
            parsed.file = Some(absolute(file));
            first_option = 1;
        }
        // Whether the last option got at least one value; until then, even "--x" is a value.
        let mut has_value = true;
        for (position, argument) in arguments.iter().enumerate().skip(first_option) {
            let bytes = argument.as_bytes();
            let at_an_end = position == 0 || position + 1 == arguments.len();
            if bytes == b"-" && at_an_end {
                parsed.from_stdin = true;
            } else if has_value && bytes.starts_with(b"--") {
                let next = arguments.get(position + 1).map(|next| next.as_bytes());
                has_value = parsed.add_option(bytes, next);
            } else {
                parsed.options.extend_from_slice(quote(bytes).as_bytes());
                parsed.options.push(b' ');
                has_value = true;
            }
        }
        parsed
    }

    /// Adds an option, possibly with values in the same argument. True if the option is complete.
    fn add_option(&mut self, option: &[u8], next: Option<&[u8]>) -> bool {
        if !self.options.is_empty() {
            self.options.push(b'\n');
        }
        self.options.extend_from_slice(&option[2..]);
        self.options.push(b' ');
        if split_arguments(option).is_none_or(|words| words.len() != 1) {
            return true;
        }
        // "--save" without a value means "save nothing"; scripts that build command lines rely on
        // this.
        let is_save = option.eq_ignore_ascii_case(b"--save");
        match next {
            Some(next) if is_save && next.starts_with(b"--") => {
                self.options.extend_from_slice(b"\"\"");
                true
            }
            None if is_save => {
                self.options.extend_from_slice(b"\"\"");
                false
            }
            _ => false,
        }
    }
}

/// Makes the path absolute, because the server may change its working directory before it
/// rewrites the file.
fn absolute(file: &OsStr) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| PathBuf::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(arguments: &[&str]) -> Arguments {
        match Request::parse(arguments.iter().map(OsString::from)) {
            Request::Start(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    fn options(arguments: &[&str]) -> String {
        String::from_utf8(start(arguments).options).unwrap()
    }

    #[test]
    fn special_first_arguments() {
        assert_eq!(Request::parse(["-v".into()]), Request::Version);
        assert_eq!(Request::parse(["--version".into()]), Request::Version);
        assert_eq!(Request::parse(["-h".into()]), Request::Help);
        assert_eq!(Request::parse(["--help".into()]), Request::Help);
        assert_eq!(start(&[]), Arguments::default());
    }

    #[test]
    fn file_and_standard_input() {
        assert_eq!(start(&["/a/b.conf"]).file, Some("/a/b.conf".into()));
        assert!(start(&["b.conf"]).file.unwrap().is_absolute());
        assert!(start(&["-"]).from_stdin);
        assert!(start(&["/a", "--port", "1", "-"]).from_stdin);
        let middle = start(&["/a", "--logfile", "-", "--port", "1"]);
        assert!(!middle.from_stdin);
        assert_eq!(String::from_utf8(middle.options).unwrap(), "logfile \"-\" \nport \"1\" ");
    }

    #[test]
    fn command_line_options_become_config_lines() {
        assert_eq!(
            options(&["--port", "6380", "--loglevel", "verbose"]),
            "port \"6380\" \nloglevel \"verbose\" "
        );
        assert_eq!(options(&["--port 6380", "--x"]), "port 6380 \nx ");
        assert_eq!(
            options(&["--port", "--bla", "--loglevel", "verbose"]),
            "port \"--bla\" \nloglevel \"verbose\" "
        );
        assert_eq!(options(&["--save", "--loglevel", "verbose"]), "save \"\"\nloglevel \"verbose\" ");
        assert_eq!(options(&["--loglevel", "verbose", "--save"]), "loglevel \"verbose\" \nsave \"\"");
        assert_eq!(options(&["--save", "", "--x", "1"]), "save \"\" \nx \"1\" ");
        assert_eq!(options(&["--bind", "a", "b"]), "bind \"a\" \"b\" ");
    }
}
