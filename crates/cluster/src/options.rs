// SPDX-License-Identifier: BSD-3-Clause
//! The command line of braid-cluster.

use std::time::Duration;

use braid_client::options::Argument;
use braid_client::{Arguments, TargetOptions};

use crate::change::NodeAddress;
use crate::moving::{By, MoveRequest};
use crate::slots;

const HELP: &str = "\
Usage: braid-cluster status [HOST:PORT] [OPTIONS]
       braid-cluster failover [HOST:PORT] [NODE] [OPTIONS]
       braid-cluster promote HOST:PORT --force [OPTIONS]
       braid-cluster create HOST:PORT... [--replicas N] [OPTIONS]
       braid-cluster add HOST:PORT [--replica-of NODE] [OPTIONS]
       braid-cluster remove NODE [OPTIONS]
       braid-cluster drain NODE [OPTIONS]
       braid-cluster rebalance [--by slots|keys|bytes|load] [OPTIONS]
       braid-cluster move SLOTS --to NODE [OPTIONS]
       braid-cluster import-cluster HOST:PORT [OPTIONS]

Groups and clusters:
status    for a group: its members, their roles, the in-sync set, and the lag of replicas; for a
          cluster: its shards with a picture of their slots, and all nodes
failover  makes the primary hand over to a replica, and waits until it has: to NODE, or to the first
          replica that has caught up. In a cluster, NODE is the replica or its primary
promote   makes the server at HOST:PORT the primary with the data it has, in sync or not. For a
          group whose in-sync members are lost permanently: acknowledged writes that it lacks are
          lost

Clusters:
create    creates a cluster of empty servers, with N replicas for each primary (0)
add       adds a node: a primary without slots, or a replica of NODE's shard
remove    removes a node without slots; an unreachable node is forgotten
drain     moves all slots of the primary NODE to the other primaries, balancing them; it and its
          replicas become replicas there, unless cluster-allow-replica-migration is off
rebalance moves slots until all primaries have about equally many slots, keys, bytes of memory, or
          as much processor time (if the servers measure it for each slot)
move      moves SLOTS, such as 0-99,200, to NODE's shard
import-cluster
          replicates all primaries of the cluster at HOST:PORT, stock or Braid, then cuts over: its
          writes wait until all data is here. -h and -p name this cluster

NODE is HOST:PORT, a name shown by status, or an id or at least its first six letters. Slots move
while they are in use (CLUSTER MIGRATESLOTS). To continue an interrupted command, repeat it.

HOST:PORT of status and failover, and -h and -p (127.0.0.1:6379), may name any member; an address
as NODE can replace them. Servers outside a group are shown as well.

Connection and login (the same for all members):
";

const HELP_OWN: &str = "
Options:
      --dry-run           print the changes without making them
      --json              print JSON
      --timeout S         failover: seconds for replicas to catch up (10);
                          promote: seconds to wait for the outcome (30);
                          import-cluster: seconds that writes may wait at the cut-over (10)
      --force             promote: accept that writes may be lost
      --cut-over WHEN     import-cluster: at-once (default), as soon as all data is here; on-enter,
                          at a line on standard input; or never: replicate until Ctrl-C
      --from-user NAME, --from-pass PASSWORD
                          import-cluster: login at the other cluster
      --replace           import-cluster: overwrite existing keys
      --help, --version   print this text, or the version

Exit status: 0 for success; 1 if a server cannot be reached or the change failed; 2 for a wrong
command line; 3 from status if there is a fault: no primary, slots without an owner, or a member
that is unreachable, not in sync or not connected.
";

/// The help text.
pub fn help() -> String {
    format!("{HELP}{}{HELP_OWN}", TargetOptions::HELP)
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: TargetOptions,
    pub action: Action,
    pub dry_run: bool,
    pub json: bool,
}

/// When an import cuts over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CutOver {
    #[default]
    AtOnce,
    OnEnter,
    Never,
}

/// A request to import a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    pub from: NodeAddress,
    pub user: Option<String>,
    pub password: Option<String>,
    pub cut_over: CutOver,
    pub replace: bool,
    pub timeout: Duration,
}

/// The action to perform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Status,
    Failover { to: Option<String>, timeout: Duration },
    Promote { timeout: Duration },
    Create { places: Vec<NodeAddress>, replicas: usize },
    Add { place: NodeAddress, replica_of: Option<String> },
    Remove { node: String },
    Move(MoveRequest),
    Import(Import),
}

/// The request on the command line.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

const COMMANDS: &str =
    "status, failover, promote, create, add, remove, drain, rebalance, move or import-cluster";

/// The raw options.
#[derive(Default)]
struct Raw {
    target: TargetOptions,
    words: Vec<String>,
    /// Names of the given options that are valid only with certain commands.
    given: Vec<&'static str>,
    timeout: Option<Duration>,
    force: bool,
    dry_run: bool,
    json: bool,
    replicas: usize,
    replica_of: Option<String>,
    by: Option<By>,
    to: Option<String>,
    cut_over: CutOver,
    from_user: Option<String>,
    from_password: Option<String>,
    replace: bool,
}

/// Options that are valid only with certain commands.
const FITTING: [(&str, &[&str]); 12] = [
    ("--timeout", &["failover", "promote", "import-cluster"]),
    ("--force", &["promote"]),
    ("--dry-run", &["failover", "create", "add", "remove", "drain", "rebalance", "move"]),
    ("--json", &["status", "failover", "create", "add", "remove", "drain", "rebalance", "move"]),
    ("--replicas", &["create"]),
    ("--replica-of", &["add"]),
    ("--by", &["rebalance"]),
    ("--to", &["move"]),
    ("--cut-over", &["import-cluster"]),
    ("--from-user", &["import-cluster"]),
    ("--from-pass", &["import-cluster"]),
    ("--replace", &["import-cluster"]),
];

/// Parses a command line.
///
/// # Errors
/// If a word or an option is unknown, incomplete or contradicts another. The text is for the user.
pub fn parse(arguments: &mut Arguments) -> Result<Request, String> {
    let mut raw = Raw::default();
    while let Some(argument) = arguments.take()? {
        match argument {
            Argument::Word(word) => raw.words.push(word),
            Argument::Option(name) => match name.as_str() {
                "--help" => return Ok(Request::Help),
                "-v" | "--version" => return Ok(Request::Version),
                name if raw.take(name, arguments)? || raw.target.accept(name, arguments)? => {}
                _ => return Err(format!("unknown option {name} (--help lists them)")),
            },
        }
    }
    Ok(Request::Run(Box::new(raw.finish()?)))
}

impl Raw {
    fn take(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, String> {
        let Some((name, _)) = FITTING.iter().find(|(known, _)| *known == name) else { return Ok(false) };
        self.given.push(name);
        match *name {
            "--timeout" => {
                let seconds: f64 = arguments.value(name)?;
                let valid = Duration::try_from_secs_f64(seconds).ok();
                let in_range = |timeout: &Duration| (0.001..=86_400.0).contains(&timeout.as_secs_f64());
                self.timeout =
                    Some(valid.filter(in_range).ok_or("--timeout must be between 0.001 and 86400 seconds")?);
            }
            "--force" => self.force = true,
            "--dry-run" => self.dry_run = true,
            "--json" => self.json = true,
            "--replicas" => self.replicas = arguments.value(name)?,
            "--replica-of" => self.replica_of = Some(arguments.text()?),
            "--by" => self.by = Some(By::parse(&arguments.text()?)?),
            "--to" => self.to = Some(arguments.text()?),
            "--cut-over" => {
                self.cut_over = match arguments.text()?.as_str() {
                    "at-once" => CutOver::AtOnce,
                    "on-enter" => CutOver::OnEnter,
                    "never" => CutOver::Never,
                    other => {
                        return Err(format!(
                            "'{other}' is not a cut-over time: use at-once, on-enter or never"
                        ));
                    }
                }
            }
            "--from-user" => self.from_user = Some(arguments.text()?),
            "--from-pass" => self.from_password = Some(arguments.text()?),
            _ => self.replace = true,
        }
        Ok(true)
    }

    fn finish(mut self) -> Result<Options, String> {
        let mut words = std::mem::take(&mut self.words).into_iter();
        let command = words.next().ok_or_else(|| format!("no command is given: {COMMANDS} (--help)"))?;
        if !COMMANDS.split([',', ' ']).any(|known| known == command && known != "or") {
            return Err(format!("unknown command '{command}': {COMMANDS} (--help)"));
        }
        for given in &self.given {
            let fitting = FITTING.iter().find(|(name, _)| name == given).map_or(&[][..], |(_, fits)| *fits);
            if !fitting.contains(&command.as_str()) {
                return Err(format!("{given} is only valid with {}", fitting.join(", ")));
            }
        }
        let mut rest: Vec<String> = words.collect();
        let action = match command.as_str() {
            "status" | "failover" | "promote" => self.group_action(&command, &mut rest)?,
            _ => self.cluster_action(&command, &mut rest)?,
        };
        match rest.first() {
            Some(word) => Err(format!("unexpected argument '{word}' (--help)")),
            None => Ok(Options { target: self.target, action, dry_run: self.dry_run, json: self.json }),
        }
    }

    fn has_target(&self) -> bool {
        self.target.host.is_some() || self.target.port.is_some() || self.target.socket.is_some()
    }

    /// If no server to query is named, queries the node at this address.
    fn ask_at(&mut self, node: &str) {
        if let Some((host, port)) = address(node).filter(|_| !self.has_target()) {
            (self.target.host, self.target.port) = (Some(host), Some(port));
        }
    }

    /// Group actions, which clusters also have. A leading address is the server to query.
    fn group_action(&mut self, command: &str, rest: &mut Vec<String>) -> Result<Action, String> {
        if let Some((host, port)) = rest.first().and_then(|word| address(word)) {
            (self.target.host, self.target.port) = (Some(host), Some(port));
            rest.remove(0);
        }
        match command {
            "promote" if !self.has_target() => Err("promote needs the server's HOST:PORT".into()),
            "promote" if !self.force => {
                Err("promote may lose acknowledged writes: add --force to accept that".into())
            }
            "promote" => Ok(Action::Promote { timeout: self.timeout.unwrap_or(Duration::from_secs(30)) }),
            "status" => Ok(Action::Status),
            _ => {
                let to = (!rest.is_empty()).then(|| rest.remove(0));
                Ok(Action::Failover { to, timeout: self.timeout.unwrap_or(Duration::from_secs(10)) })
            }
        }
    }

    fn cluster_action(&mut self, command: &str, rest: &mut Vec<String>) -> Result<Action, String> {
        let mut next = |what: &str| match rest.is_empty() {
            true => Err(format!("{command} needs {what} (--help)")),
            false => Ok(rest.remove(0)),
        };
        let place = |word: &str| address(word).ok_or_else(|| format!("'{word}' is not HOST:PORT"));
        match command {
            "create" => {
                let mut places = vec![place(&next("servers: HOST:PORT...")?)?];
                while let Some(word) = rest.first() {
                    places.push(place(word)?);
                    rest.remove(0);
                }
                Ok(Action::Create { places, replicas: self.replicas })
            }
            "add" => {
                let place = place(&next("the new server: HOST:PORT")?)?;
                let replica_of = self.replica_of.take();
                replica_of.iter().for_each(|of| self.ask_at(of));
                Ok(Action::Add { place, replica_of })
            }
            "remove" | "drain" => {
                let node = next("a NODE")?;
                self.ask_at(&node);
                Ok(if command == "remove" {
                    Action::Remove { node }
                } else {
                    Action::Move(MoveRequest::Drain(node))
                })
            }
            "move" => {
                let slots = slots::parse(&next("slots, such as 0-99,200")?)?;
                let to = self.to.take().ok_or("move needs --to NODE")?;
                self.ask_at(&to);
                Ok(Action::Move(MoveRequest::Move { slots, to }))
            }
            "rebalance" => Ok(Action::Move(MoveRequest::Rebalance(self.by.unwrap_or(By::Slots)))),
            _ => Ok(Action::Import(Import {
                from: place(&next("a node of the other cluster: HOST:PORT")?)?,
                user: self.from_user.take(),
                password: self.from_password.take(),
                cut_over: self.cut_over,
                replace: self.replace,
                timeout: self.timeout.unwrap_or(Duration::from_secs(10)),
            })),
        }
    }
}

/// Parses `host:port`, with IPv6 addresses in brackets. `None` for anything else.
pub fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || bare.is_none() && host.contains(':') {
        return None;
    }
    Some((bare.unwrap_or(host).to_owned(), port.parse().ok().filter(|port| *port != 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        match parse(&mut Arguments::from_words(line.split_whitespace()))? {
            Request::Run(options) => Ok(*options),
            Request::Help | Request::Version => Err("help".into()),
        }
    }

    #[test]
    fn command_lines_are_read() {
        let options = parsed("status [::1]:7001 -a secret").unwrap();
        assert_eq!(options.action, Action::Status);
        assert_eq!((options.target.host.as_deref(), options.target.port), (Some("::1"), Some(7001)));
        let default = Duration::from_secs(10);
        let failover = |line: &str| parsed(line).unwrap().action;
        assert_eq!(failover("failover"), Action::Failover { to: None, timeout: default });
        let to_node = Action::Failover { to: Some("b".into()), timeout: Duration::from_millis(500) };
        assert_eq!(failover("failover db1:7001 b --timeout 0.5"), to_node);
        let to_address = Action::Failover { to: Some("db2:7002".into()), timeout: default };
        assert_eq!(failover("failover db1:7001 db2:7002"), to_address);
        assert_eq!(failover("promote a:1 --force"), Action::Promote { timeout: Duration::from_secs(30) });
        assert_eq!(
            failover("failover -p 7000 b"),
            Action::Failover { to: Some("b".into()), timeout: default }
        );
    }

    #[test]
    fn command_lines_of_clusters_are_read() {
        let action = |line: &str| parsed(line).unwrap().action;
        let place = |port| ("a".to_owned(), port);
        assert_eq!(
            action("create a:1 a:2 a:3 a:4 --replicas 1"),
            Action::Create { places: (1..5).map(place).collect(), replicas: 1 }
        );
        assert_eq!(action("add a:1"), Action::Add { place: place(1), replica_of: None });
        assert_eq!(
            action("add a:1 --replica-of 0123ab"),
            Action::Add { place: place(1), replica_of: Some("0123ab".into()) }
        );
        assert_eq!(action("drain n1"), Action::Move(MoveRequest::Drain("n1".into())));
        assert_eq!(action("rebalance"), Action::Move(MoveRequest::Rebalance(By::Slots)));
        assert_eq!(action("rebalance --by load"), Action::Move(MoveRequest::Rebalance(By::Load)));
        let options = parsed("move 5,0-1 --to a:2 --dry-run --json").unwrap();
        assert_eq!(
            options.action,
            Action::Move(MoveRequest::Move { slots: vec![0, 1, 5], to: "a:2".into() })
        );
        assert!(options.dry_run && options.json);
        // The named node is queried unless another server is given.
        assert_eq!(options.target.port, Some(2));
        assert_eq!(parsed("-p 7 remove a:2").unwrap().target.port, Some(7));
        let Action::Import(import) = action("import-cluster a:1 --replace --cut-over never") else {
            panic!("an import")
        };
        assert_eq!((import.from, import.cut_over, import.replace), (place(1), CutOver::Never, true));
    }

    #[test]
    fn invalid_command_lines_are_reported() {
        for (line, part) in [
            ("", "no command is given"),
            ("state", "unknown command 'state'"),
            ("status a:1 b", "unexpected argument 'b'"),
            ("status nowhere", "unexpected argument 'nowhere'"),
            ("failover a:1 b c", "unexpected argument 'c'"),
            ("status --timeout 3", "only valid with failover"),
            ("status --dry-run", "only valid with failover"),
            ("create", "needs servers"),
            ("create a", "'a' is not HOST:PORT"),
            ("create a:1 --replicas x", "'x' is not a valid value"),
            ("create a:1 --by keys", "only valid with rebalance"),
            ("add", "needs the new server"),
            ("add a:1 b:2", "unexpected argument 'b:2'"),
            ("remove", "needs a NODE"),
            ("drain", "needs a NODE"),
            ("rebalance --by size", "cannot rebalance by 'size'"),
            ("rebalance a:1", "unexpected argument 'a:1'"),
            ("move", "needs slots"),
            ("move 5", "needs --to"),
            ("move 5-4 --to a:1", "ends before it begins"),
            ("move 16384 --to a:1", "not a slot"),
            ("import-cluster", "needs a node of the other cluster"),
            ("import-cluster a:1 --cut-over later", "not a cut-over time"),
            ("failover --force", "only valid with promote"),
            ("promote --force", "needs the server's HOST:PORT"),
            ("promote a:1", "may lose acknowledged writes"),
            ("failover --timeout 0", "between"),
            ("status --nothing", "unknown option"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(address("db:1"), Some(("db".into(), 1)));
        for wrong in ["db", "db:", ":1", "db:x", "db:0", "db:70000", "::1", "::1:80"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
