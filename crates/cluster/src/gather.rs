// SPDX-License-Identifier: BSD-3-Clause
//! Queries the servers of a group in parallel, so that a hung server does not delay the others.

use std::time::Duration;

use braid_client::{Address, Connection, Info, Target, TargetOptions, cannot_connect};

use crate::group::{Group, Member, Role};

/// Timeout of a server's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The group of the server named in the options.
///
/// # Errors
/// If the options are invalid or the server cannot be reached. Other members that cannot be reached
/// are part of the result.
pub fn group(options: &TargetOptions) -> Result<Group, String> {
    let target = options.target()?;
    let info = ask(&target)?;
    let (host, port) = match &target.address {
        Address::Tcp { host, port } => (host.clone(), *port),
        Address::Unix(_) => ("127.0.0.1".into(), info.number("tcp_port").map_or(0, |port| port as u16)),
    };
    let mut group = Group::of_info(&info, &host, port);
    extend(&mut group, options, info);
    Ok(group)
}

/// Queries all members. Replicas known only to their primary are members too.
fn extend(group: &mut Group, options: &TargetOptions, first: Info) {
    let mut infos = ask_all(options, &group.members);
    let primary = infos.iter().flatten().find(|info| info.get("role") == Some("master")).cloned();
    if let Some(primary) = primary.filter(|_| group.name.is_none() && first.get("role") != Some("master")) {
        let place = infos
            .iter()
            .position(|info| info.as_ref().is_ok_and(|info| info.get("run_id") == primary.get("run_id")));
        let Some(place) = place.map(|index| group.members[index].clone()) else { return };
        for member in Group::of_info(&primary, &place.host, place.port).members {
            if !group.members.iter().any(|known| known.port == member.port) {
                infos.extend(ask_all(options, std::slice::from_ref(&member)));
                group.members.push(member);
            }
        }
    }
    for (member, info) in group.members.iter_mut().zip(&infos) {
        match info {
            Ok(info) => member.describe(info),
            Err(error) => member.role = Role::Unreached(error.clone()),
        }
    }
    let name = group.primary().map(|member| member.name.clone());
    let index = group.members.iter().position(|member| Some(&member.name) == name.as_ref());
    // Without a primary, the view of the queried server is the best there is.
    group.describe(index.and_then(|index| infos[index].as_ref().ok()).unwrap_or(&first));
}

fn ask_all(options: &TargetOptions, members: &[Member]) -> Vec<Result<Info, String>> {
    std::thread::scope(|scope| {
        let asking: Vec<_> =
            members.iter().map(|member| scope.spawn(|| ask(&at(options, member)?))).collect();
        let answer = |thread: std::thread::ScopedJoinHandle<'_, Result<Info, String>>| {
            thread.join().unwrap_or_else(|_| Err("the query failed".into()))
        };
        asking.into_iter().map(answer).collect()
    })
}

/// A member as a connection target, with the login from the options.
///
/// # Errors
/// If the member has no address, or the options are invalid.
pub fn at(options: &TargetOptions, member: &Member) -> Result<Target, String> {
    if member.host.is_empty() {
        return Err("it has no address in etcd: it is down, or cannot reach etcd".into());
    }
    let port = if options.tls && member.tls_port != 0 { member.tls_port } else { member.port };
    place(options, &member.host, port)
}

/// A server address as a connection target, with the login from the options.
///
/// # Errors
/// If the options are invalid, for example because a certificate cannot be read.
pub fn place(options: &TargetOptions, host: &str, port: u16) -> Result<Target, String> {
    let there =
        TargetOptions { host: Some(host.to_owned()), port: Some(port), socket: None, ..options.clone() };
    there.target()
}

/// Connects to a server.
///
/// # Errors
/// If the server cannot be reached or refuses the login. The text names its address.
pub fn connect(target: &Target) -> Result<Connection, String> {
    Connection::open_within(target, PATIENCE).map_err(|error| cannot_connect(&target.address, &error))
}

/// INFO's sections on the server, replication and the group.
fn ask(target: &Target) -> Result<Info, String> {
    info(&mut connect(target)?).map_err(|error| format!("{}: {error}", target.address))
}

/// INFO's sections on the server, replication and the group.
///
/// # Errors
/// If the connection fails or the server refuses INFO.
pub fn info(connection: &mut Connection) -> std::io::Result<Info> {
    // One section per request: servers before Redis 7 accept only one, and ignore unknown sections.
    let mut text = String::new();
    for section in ["server", "replication", "group"] {
        text += &connection.expect(&["INFO", section])?.text();
        text += "\r\n";
    }
    Ok(Info::parse(&text))
}
