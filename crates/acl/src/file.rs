// SPDX-License-Identifier: BSD-3-Clause
//! Users and roles as text: `user` and `role` lines of the configuration file, and the users file
//! (`aclfile`). Roles come first, wherever their lines stand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use braid_clients::identity::DEFAULT_USER;
use braid_config::Config;

use crate::acl::{Acl, Server};
use crate::role::{Role, Roles, check_name};
use crate::rules::{LineFault, RuleError, has_spaces, merge_selectors};
use crate::user::User;

impl Acl {
    /// Defines users from a configuration's `user` lines.
    ///
    /// # Errors
    /// At the first line that names a user twice, has a name with spaces, or has an invalid rule:
    /// the line's index and the fault. The users of the lines before it are defined.
    pub fn define_users(&self, server: Server<'_>, lines: &[Vec<String>]) -> Result<(), (usize, String)> {
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
            let user = self.define_user(server, name.as_bytes(), rules, &self.roles.read()).map_err(
                |(rule, error)| fault(format!("Error in user declaration '{}': {error}", shown(&rule))),
            )?;
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

    /// Defines roles from a configuration's `role` lines.
    ///
    /// # Errors
    /// At the first line that names a role twice, has an invalid name or an invalid rule: the
    /// line's index and the fault. The roles of the lines before it are defined.
    pub fn define_roles(&self, server: Server<'_>, lines: &[Vec<String>]) -> Result<(), (usize, String)> {
        let _changing = self.changing.lock();
        for (number, line) in lines.iter().enumerate() {
            let fault = |what: String| (number, format!("Error in role declaration '{what}"));
            let Some((name, rules)) = line.split_first() else { continue };
            if self.role(name.as_bytes()).is_some() {
                return Err(fault(format!("{name}': {}", RuleError::DuplicateRole)));
            }
            check_name(name.as_bytes()).map_err(|why| fault(format!("{name}': {why}")))?;
            let role = define_role(server, name.as_bytes(), rules)
                .map_err(|(rule, error)| fault(format!("{}': {error}", shown(&rule))))?;
            self.put_role(server, role);
        }
        Ok(())
    }

    /// Creates a user from rules.
    fn define_user(
        &self,
        server: Server<'_>,
        name: &[u8],
        rules: &[impl AsRef<[u8]>],
        roles: &Roles,
    ) -> Result<User, LineFault> {
        let terms = server.terms();
        let identity = if name == DEFAULT_USER {
            Arc::clone(&self.default_user().identity)
        } else {
            self.identity(name)
        };
        let mut user = User::new(identity, terms);
        for rule in merge_selectors(rules).map_err(|open| (open, RuleError::Syntax))? {
            user.apply(&rule, terms, roles).map_err(|error| (rule.clone(), error))?;
        }
        user.update_derived();
        Ok(user)
    }

    /// Replaces all users and roles by those of the file; after any fault, changes nothing.
    ///
    /// # Errors
    /// If the file cannot be read or one of its lines is invalid or names a user or role twice. The
    /// error is Redis's text, without an error code.
    pub fn load_file(&self, server: Server<'_>, asking: u64) -> Result<(), String> {
        let name = server.config.aclfile();
        let path = file_of(server.config).unwrap_or_default();
        let text = std::fs::read(path).map_err(|error| {
            format!("Error loading ACLs, opening file '{name}': {}", braid_base::system_text::reason(&error))
        })?;
        let _changing = self.changing.lock();
        let lines = || text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
        let mut faults: Vec<(usize, String)> = Vec::new();
        let mut roles = Roles::new();
        for (line, number) in lines().filter(|(line, _)| is_role(line)) {
            match read_role(server, line) {
                Ok(role) if roles.contains_key(role.name()) => {
                    faults.push((number, duplicate("role", role.name(), number)));
                }
                Ok(role) => drop(roles.insert(role.name().into(), Arc::new(role))),
                Err(fault) => faults.push((number, format!("{name}:{number}{fault} "))),
            }
        }
        let mut users: BTreeMap<Box<[u8]>, Arc<User>> = BTreeMap::new();
        for (line, number) in lines().filter(|(line, _)| !line.is_empty() && !is_role(line)) {
            match self.read_user(server, line, &roles) {
                Ok(user) if users.contains_key(user.name()) => {
                    faults.push((number, duplicate("user", user.name(), number)));
                }
                Ok(user) => drop(users.insert(user.name().into(), Arc::new(user))),
                Err(fault) => faults.push((number, format!("{name}:{number}{fault} "))),
            }
        }
        faults.sort_by_key(|(number, _)| *number);
        let faults: String = faults.into_iter().map(|(_, fault)| fault).collect();
        if !faults.is_empty() {
            return Err(faults
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        self.replace_users(server, users, roles, asking);
        Ok(())
    }

    /// Parses a line of the file.
    fn read_user(&self, server: Server<'_>, line: &[u8], roles: &Roles) -> Result<User, String> {
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            return Err(" should start with user keyword followed by the username.".into());
        };
        if has_spaces(name) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(": username '{name}' contains invalid characters."));
        }
        let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.trim_ascii()).collect();
        self.define_user(server, name, &rules, roles).map_err(|(rule, error)| match error {
            // The name of an unknown command is not secret.
            RuleError::Unknown => {
                format!(": Error in applying operation '{}': {error}.", String::from_utf8_lossy(&rule))
            }
            _ if merge_selectors(&rules).is_err() => UNMATCHED.into(),
            _ => format!(": {error}."),
        })
    }

    /// Writes all roles and users to the file.
    ///
    /// # Errors
    /// If the file cannot be written, with the operating system's reason. The old file remains
    /// then.
    pub fn save_file(&self, config: &Config) -> Result<(), String> {
        let mut text = Vec::new();
        for line in self.list() {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        let path = file_of(config).unwrap_or_default();
        braid_config::replace_file(&path, &text).map_err(|error| braid_base::system_text::reason(&error))
    }

    /// The lines of all roles and users, roles first.
    pub fn list(&self) -> Vec<Vec<u8>> {
        let roles = self.roles().into_iter().map(|role| role.describe());
        roles.chain(self.users().into_iter().map(|user| user.describe())).collect()
    }

    /// The `role` and `user` lines for CONFIG REWRITE; none if there is a users file.
    pub fn config_lines(&self, config: &Config) -> Vec<String> {
        if file_of(config).is_some() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for line in self.list() {
            match String::from_utf8(line) {
                Ok(line) => lines.push(quote_words(&line)),
                Err(error) => {
                    let line = String::from_utf8_lossy(error.as_bytes());
                    let name = line.split(' ').nth(1).unwrap_or_default();
                    log::warn!("CONFIG REWRITE: {name:?} is omitted: configuration files must be UTF-8");
                }
            }
        }
        lines
    }
}

const UNMATCHED: &str = ": Unmatched parenthesis in selector definition.";

fn duplicate(kind: &str, name: &[u8], line: usize) -> String {
    format!("WARNING: Duplicate {kind} '{}' found on line {line}. ", String::from_utf8_lossy(name))
}

/// A rule for an error message: it may contain a password.
fn shown(rule: &[u8]) -> String {
    match rule.first() {
        Some(b'>' | b'<') => "(redacted)".into(),
        _ => String::from_utf8_lossy(rule).into_owned(),
    }
}

/// True if the line defines a role.
fn is_role(line: &[u8]) -> bool {
    line == b"role" || line.starts_with(b"role ")
}

/// Parses a line of the file that defines a role.
fn read_role(server: Server<'_>, line: &[u8]) -> Result<Role, String> {
    let mut words = line.split(|&byte| byte == b' ').skip(1);
    let Some(name) = words.next() else { return Err(": role requires a role name.".into()) };
    check_name(name).map_err(|why| format!(": invalid role name: {why}."))?;
    let rules: Vec<&[u8]> = words.map(<[u8]>::trim_ascii).collect();
    define_role(server, name, &rules).map_err(|(rule, error)| match merge_selectors(&rules) {
        Err(_) => UNMATCHED.into(),
        Ok(_) => format!(": Error in applying operation '{}': {error}.", shown(&rule)),
    })
}

/// Creates a role from rules.
fn define_role(server: Server<'_>, name: &[u8], rules: &[impl AsRef<[u8]>]) -> Result<Role, LineFault> {
    let terms = server.terms();
    let mut role = Role::new(name, terms);
    for rule in merge_selectors(rules).map_err(|open| (open, RuleError::Syntax))? {
        role.apply(&rule, terms).map_err(|error| (rule.clone(), error))?;
    }
    Ok(role)
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
