// SPDX-License-Identifier: BSD-3-Clause
//! Users as text: `user` lines of the configuration file, and the users file (`aclfile`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use braid_clients::identity::DEFAULT_USER;
use braid_config::Config;

use crate::acl::{Acl, Server};
use crate::rules::{LineFault, RuleError, has_spaces, merge_selectors};
use crate::user::User;

impl Acl {
    /// Defines users from a configuration's `user` lines.
    ///
    /// # Errors
    /// At the first line that names a user twice, has a name with spaces, or has an invalid rule:
    /// the line's index and the fault. The users of the lines before it are defined.
    pub fn define_users(&self, server: Server<'_>, lines: &[&[String]]) -> Result<(), (usize, String)> {
        let _changing = self.changing.lock();
        for (number, line) in lines.iter().enumerate() {
            let fault = |text: String| (number, text);
            let Some((name, rules)) = line.split_first() else { continue };
            if lines[..number].iter().any(|other| other.first() == Some(name)) {
                return Err(fault(format!("Error in user declaration '{name}': {}", RuleError::Duplicate)));
            }
            if has_spaces(name.as_bytes()) {
                return Err(fault("Spaces not allowed in ACL usernames".into()));
            }
            let user = self.define_user(server, name.as_bytes(), rules).map_err(|(rule, error)| {
                // A rule may contain a password.
                let shown = match rule.first() {
                    Some(b'>' | b'<') => "(redacted)".into(),
                    _ => String::from_utf8_lossy(&rule).into_owned(),
                };
                fault(format!("Error in user declaration '{shown}': {error}"))
            })?;
            if !user.enabled {
                log::info!(
                    "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
                     configuration error."
                );
            }
            self.put_user(server, user);
        }
        Ok(())
    }

    /// Creates a user from rules.
    fn define_user(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
    ) -> Result<User, LineFault> {
        let terms = server.terms();
        let identity = if name == DEFAULT_USER {
            Arc::clone(&self.default_user().identity)
        } else {
            self.identity(name)
        };
        let mut user = User::new(identity, terms);
        for rule in merge_selectors(rules).map_err(|open| (open, RuleError::Syntax))? {
            user.apply(&rule, terms).map_err(|error| (rule.clone(), error))?;
        }
        user.update_derived();
        Ok(user)
    }

    /// Replaces all users by those of the file; after any fault, changes nothing.
    ///
    /// # Errors
    /// If the file cannot be read or one of its lines is invalid or names a user twice. The error
    /// is Redis's text, without an error code.
    pub fn load_file(&self, server: Server<'_>, asking: u64) -> Result<(), String> {
        let name = server.config.aclfile();
        let path = file_of(server.config).unwrap_or_default();
        let text = std::fs::read(path).map_err(|error| {
            format!("Error loading ACLs, opening file '{name}': {}", braid_base::system_text::reason(&error))
        })?;
        let _changing = self.changing.lock();
        let mut faults = String::new();
        let mut users: BTreeMap<Box<[u8]>, Arc<User>> = BTreeMap::new();
        for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
            match self.read_line(server, line) {
                Ok(None) => {}
                Ok(Some(user)) if users.contains_key(user.name()) => {
                    let user = String::from_utf8_lossy(user.name()).into_owned();
                    faults.push_str(&format!(
                        "WARNING: Duplicate user '{user}' found on line {}. ",
                        number + 1
                    ));
                }
                Ok(Some(user)) => {
                    users.insert(user.name().into(), Arc::new(user));
                }
                Err(fault) => faults.push_str(&format!("{name}:{}{fault} ", number + 1)),
            }
        }
        if !faults.is_empty() {
            return Err(faults
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        self.replace_users(server, users, asking);
        Ok(())
    }

    /// Parses a line of the file; `None` if it is empty.
    fn read_line(&self, server: Server<'_>, line: &[u8]) -> Result<Option<User>, String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            return Err(" should start with user keyword followed by the username.".into());
        };
        if has_spaces(name) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(": username '{name}' contains invalid characters."));
        }
        let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.trim_ascii()).collect();
        let user = self.define_user(server, name, &rules).map_err(|(rule, error)| match error {
            // The name of an unknown command is not secret.
            RuleError::Unknown => {
                format!(": Error in applying operation '{}': {error}.", String::from_utf8_lossy(&rule))
            }
            _ if merge_selectors(&rules).is_err() => ": Unmatched parenthesis in selector definition.".into(),
            _ => format!(": {error}."),
        })?;
        Ok(Some(user))
    }

    /// Writes all users to the file.
    ///
    /// # Errors
    /// If the file cannot be written, with the operating system's reason. The old file remains
    /// then.
    pub fn save_file(&self, config: &Config) -> Result<(), String> {
        let mut text = Vec::new();
        for user in self.users() {
            text.extend_from_slice(&user.describe());
            text.push(b'\n');
        }
        let path = file_of(config).unwrap_or_default();
        braid_config::replace_file(&path, &text).map_err(|error| braid_base::system_text::reason(&error))
    }

    /// The `user` lines for CONFIG REWRITE; none if there is a users file.
    pub fn config_lines(&self, config: &Config) -> Vec<String> {
        if file_of(config).is_some() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for user in self.users() {
            match String::from_utf8(user.describe()) {
                Ok(line) => lines.push(quote_words(&line)),
                Err(_) => log::warn!(
                    "CONFIG REWRITE: user {:?} is omitted: configuration files must be UTF-8",
                    String::from_utf8_lossy(user.name())
                ),
            }
        }
        lines
    }
}

/// Path of the users file; `None` without `aclfile`.
pub fn file_of(config: &Config) -> Option<PathBuf> {
    let name = config.aclfile();
    (!name.is_empty()).then(|| config.dir().join(&*name))
}

/// Quotes words that the reader would parse differently.
fn quote_words(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(braid_config::quote_if_needed).collect();
    words.join(" ")
}
