// SPDX-License-Identifier: BSD-3-Clause
//! Command-line options for a server's address: the same in every tool, with the names that
//! redis-cli and redis-benchmark use.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser};

use crate::target::{Address, Target};
use crate::tls::{TlsOptions, server_name};

/// A command line, read option by option.
pub struct Arguments {
    parser: Parser,
}

/// The next item of a command line: an option with its dashes, or a plain word.
#[derive(Debug, PartialEq, Eq)]
pub enum Argument {
    Option(String),
    Word(String),
}

impl Arguments {
    /// The arguments of this process.
    pub fn of_process() -> Arguments {
        Arguments { parser: Parser::from_env() }
    }

    /// A command line made of these words, without a program name.
    pub fn from_words<T: Into<std::ffi::OsString>>(words: impl IntoIterator<Item = T>) -> Arguments {
        Arguments { parser: Parser::from_args(words) }
    }

    /// The next option or word; `None` at the end.
    ///
    /// # Errors
    /// If an argument is not UTF-8, or an option has a value that it does not take. The text is for
    /// the user.
    pub fn take(&mut self) -> Result<Option<Argument>, String> {
        Ok(match self.parser.next().map_err(|error| error.to_string())? {
            None => None,
            Some(Arg::Short(letter)) => Some(Argument::Option(format!("-{letter}"))),
            Some(Arg::Long(name)) => Some(Argument::Option(format!("--{name}"))),
            Some(Arg::Value(word)) => {
                Some(Argument::Word(word.into_string().map_err(|_| "arguments must be UTF-8")?))
            }
        })
    }

    /// The value of the option just taken.
    ///
    /// # Errors
    /// If there is no value, or it is not UTF-8. The text is for the user.
    pub fn text(&mut self) -> Result<String, String> {
        let value = self.parser.value().map_err(|error| error.to_string())?;
        value.into_string().map_err(|_| "arguments must be UTF-8".into())
    }

    /// The value of the option just taken, parsed as a number or another type.
    ///
    /// # Errors
    /// If there is no value, or it cannot be parsed. The text is for the user.
    pub fn value<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("'{text}' is not a valid value for {name}"))
    }

    /// The value of the option just taken as a duration in seconds: `2.5` or `2.5s`.
    ///
    /// # Errors
    /// If there is no value, or it is not a number of seconds. The text is for the user.
    pub fn seconds(&mut self, name: &str) -> Result<Duration, String> {
        let text = self.text()?;
        let number = text.strip_suffix('s').unwrap_or(&text).parse().ok();
        number
            .and_then(|number| Duration::try_from_secs_f64(number).ok())
            .ok_or_else(|| format!("'{text}' is not a number of seconds for {name}"))
    }

    /// The value of the option just taken, if the next word is not an option.
    pub fn optional_text(&mut self) -> Option<String> {
        self.parser.optional_value().and_then(|value| value.into_string().ok())
    }

    /// The rest of the command line, options or not, as words.
    ///
    /// # Errors
    /// If a word is not UTF-8. The text is for the user.
    pub fn rest(&mut self) -> Result<Vec<String>, String> {
        let words = self.parser.raw_args().map_err(|error| error.to_string())?;
        words.map(|word| word.into_string().map_err(|_| "arguments must be UTF-8".into())).collect()
    }
}

/// The given options for a server's address.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub db: Option<u32>,
    pub resp3: bool,
    pub tls: bool,
    pub sni: Option<String>,
    pub tls_options: TlsOptions,
}

impl TargetOptions {
    /// The help text for these options.
    pub const HELP: &'static str =
        "  -h, --host HOST         server's name or address (127.0.0.1); -h alone is --help
  -p, --port PORT         server's port (6379)
  -s, --socket PATH       server's unix socket, instead of host and port
  -a, --pass PASSWORD     password; default: the environment variable REDISCLI_AUTH
      --user NAME         user name for the password
  -u, --uri URI           redis[s]://[user:password@]host[:port][/db], or unix:///path
      --dbnum N           database (0)
  -3, --resp3             speak RESP3 (--protocol 2|3 as well)
      --tls               use TLS
      --sni NAME          name required in the server's certificate (default: the host)
      --cacert FILE       trusted certificates; or --cacertdir FOLDER; default: the system's
      --insecure          accept any certificate
      --cert FILE         client certificate; --key FILE for its key
      --tls-ciphersuites A:B:..
                          cipher suites to offer, by standard name
";

    /// Accepts an option if it is one of these. Returns whether it is.
    ///
    /// # Errors
    /// If the option's value is missing or invalid. The text is for the user.
    pub fn accept(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        match name {
            "-h" | "--host" | "--server" => self.host = Some(arguments.text()?),
            "-p" | "--port" => self.port = Some(arguments.value(name)?),
            "-s" | "--socket" | "--unix-socket" => self.socket = Some(arguments.text()?.into()),
            "-a" | "--pass" => self.password = Some(arguments.text()?),
            "--user" => self.user = Some(arguments.text()?),
            "--authenticate" => {
                let text = arguments.text()?;
                match text.split_once(':') {
                    Some((user, password)) => {
                        self.user = Some(user.into());
                        self.password = Some(password.into());
                    }
                    None => self.password = Some(text),
                }
            }
            "-u" | "--uri" => {
                let uri = arguments.text()?;
                self.take_uri(&uri).ok_or_else(|| format!("'{uri}' is not an address"))?;
            }
            "--dbnum" | "--select-db" => self.db = Some(arguments.value(name)?),
            "-3" | "--resp3" => self.resp3 = true,
            "--protocol" => match arguments.text()?.as_str() {
                "2" | "resp2" | "redis" => self.resp3 = false,
                "3" | "resp3" => self.resp3 = true,
                other => return Err(format!("'{other}' is not a protocol: use 2 or 3")),
            },
            "--tls" => self.tls = true,
            "--sni" => self.sni = Some(arguments.text()?),
            "--cacert" => self.tls_options.ca_file = Some(arguments.text()?.into()),
            "--cacertdir" => self.tls_options.ca_directory = Some(arguments.text()?.into()),
            "--insecure" | "--tls-skip-verify" => self.tls_options.insecure = true,
            "--cert" => self.tls_options.certificate = Some(arguments.text()?.into()),
            "--key" => self.tls_options.key = Some(arguments.text()?.into()),
            "--tls-ciphersuites" => self.tls_options.cipher_suites = Some(arguments.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies the settings of a URI. `None` if it is not a valid address.
    pub fn take_uri(&mut self, uri: &str) -> Option<()> {
        let (scheme, rest) = uri.split_once("://")?;
        match scheme {
            "unix" => {
                self.socket = Some(rest.into());
                return Some(());
            }
            "redis" | "valkey" => {}
            "rediss" | "valkeys" => self.tls = true,
            _ => return None,
        }
        let (place, db) = rest.split_once('/').unwrap_or((rest, ""));
        if !db.is_empty() {
            self.db = Some(db.parse().ok()?);
        }
        let (login, place) =
            place.rsplit_once('@').map_or((None, place), |(login, place)| (Some(login), place));
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            self.user = (!user.is_empty()).then(|| percent_decoded(user));
            self.password = Some(percent_decoded(password));
        }
        // An IPv6 address is in brackets.
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if !host.is_empty() {
            self.host = Some(host.into());
        }
        if let Some(port) = port {
            self.port = Some(port.parse().ok()?);
        }
        Some(())
    }

    /// The server named by the options. Reads certificates if TLS is requested.
    ///
    /// # Errors
    /// If a certificate cannot be read, the TLS options contradict each other, the host is not a
    /// valid name for TLS, or a user has no password. The text is for the user.
    pub fn target(&self) -> Result<Target, String> {
        let host = self.host.clone().unwrap_or_else(|| "127.0.0.1".into());
        let tls = if self.tls {
            let name = server_name(self.sni.as_deref().unwrap_or(&host))?;
            Some((self.tls_options.client_config()?, name))
        } else {
            None
        };
        let address = match &self.socket {
            Some(path) => Address::Unix(path.clone()),
            None => Address::Tcp { host, port: self.port.unwrap_or(6379) },
        };
        let password = self.password.clone().or_else(|| std::env::var("REDISCLI_AUTH").ok());
        if self.user.is_some() && password.is_none() {
            return Err("--user needs a password: -a".into());
        }
        Ok(Target {
            address,
            user: self.user.clone(),
            password,
            db: self.db.unwrap_or(0),
            resp3: self.resp3,
            tls,
        })
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<TargetOptions, String> {
        let mut arguments = Arguments::from_words(line.split_whitespace());
        let mut options = TargetOptions::default();
        while let Some(argument) = arguments.take()? {
            let Argument::Option(name) = argument else { return Err("a word".into()) };
            if !options.accept(&name, &mut arguments)? {
                return Err(format!("{name} is unknown"));
            }
        }
        Ok(options)
    }

    #[test]
    fn options_name_a_server() {
        let target =
            options("-h example.org -p 7000 -a secret --user me --dbnum 4 -3").unwrap().target().unwrap();
        assert_eq!(target.address, Address::Tcp { host: "example.org".into(), port: 7000 });
        assert_eq!((target.user.as_deref(), target.password.as_deref()), (Some("me"), Some("secret")));
        assert_eq!((target.db, target.resp3, target.tls.is_some()), (4, true, false));
        let target = options("-s /tmp/sock").unwrap().target().unwrap();
        assert_eq!(target.address, Address::Unix("/tmp/sock".into()));
        assert!(options("-p x").unwrap_err().contains("'x' is not a valid value for -p"));
        assert!(options("--nothing").is_err());
    }

    #[test]
    fn the_help_is_aligned() {
        for line in TargetOptions::HELP.lines() {
            let text = line.trim_start();
            let indent = line.len() - text.len();
            let wanted = match text {
                _ if text.starts_with("--") => 6,
                _ if text.starts_with('-') => 2,
                _ => 26,
            };
            assert_eq!(indent, wanted, "{line}");
        }
    }

    #[test]
    fn addresses_may_be_uris() {
        let some = options("-u redis://me:p%40ss@example.org:7000/2").unwrap();
        assert_eq!((some.host.as_deref(), some.port, some.db), (Some("example.org"), Some(7000), Some(2)));
        assert_eq!((some.user.as_deref(), some.password.as_deref()), (Some("me"), Some("p@ss")));
        let some = options("-u rediss://[::1]:7000").unwrap();
        assert_eq!((some.host.as_deref(), some.port, some.tls), (Some("::1"), Some(7000), true));
        assert_eq!(options("-u unix:///tmp/x").unwrap().socket, Some("/tmp/x".into()));
        assert!(options("-u http://x").is_err());
        assert!(options("-u redis://x:port").is_err());
    }
}
