// SPDX-License-Identifier: BSD-3-Clause
//! Makes a group's primary hand over, and waits for the outcome.

use std::time::{Duration, Instant};

use braid_client::TargetOptions;

use crate::gather;
use crate::group::{Group, Member, Role};

/// Polling interval for the outcome.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time allowed for the handover itself, in addition to the time for replicas to catch up.
const GRACE: Duration = Duration::from_secs(10);

/// Makes the primary hand over to the member called `to`, or to any member. Returns the text to
/// print: who took over, and how long it took.
///
/// # Errors
/// If there is no primary or no such member, the primary refuses or gives up, or the outcome is
/// unknown after the timeout.
pub fn run(options: &TargetOptions, to: Option<&str>, timeout: Duration) -> Result<String, String> {
    let group = gather::group(options)?;
    let old = group.primary().ok_or("there is no primary to hand over: see braid-cluster status")?;
    let successor = to.map(|to| successor(&group, old, to)).transpose()?;
    let mut primary = gather::connect(&gather::at(options, old)?)?;
    let mut words = vec!["FAILOVER".to_owned()];
    if let Some(successor) = successor {
        words.extend(["TO".into(), successor.host.clone(), successor.port.to_string()]);
    }
    words.extend(["TIMEOUT".into(), timeout.as_millis().to_string()]);
    let begin = Instant::now();
    primary.expect(&words).map_err(|error| format!("{} refuses: {error}", old.name))?;
    let mut is_given_up = false;
    while begin.elapsed() < timeout + GRACE {
        std::thread::sleep(INTERVAL);
        let Ok(now) = gather::group(options) else { continue };
        let leads = |member: &&Member| member.role == Role::Primary && member.name != old.name;
        let taken = now.members.iter().filter(leads).max_by_key(|member| member.epoch);
        let is_down = now.members.iter().any(|one| one.name == old.name && one.role != Role::Primary);
        if let Some(new) = taken.filter(|_| is_down) {
            return Ok(format!(
                "{} has taken over from {} after {:.2} s\n",
                new.name,
                old.name,
                begin.elapsed().as_secs_f64()
            ));
        }
        // This state must be seen twice: the old primary also reports it briefly between the end of
        // the failover and its change of role.
        let is_over = gather::info(&mut primary).is_ok_and(|info| {
            info.get("master_failover_state") == Some("no-failover") && info.get("role") == Some("master")
        });
        if is_over && is_given_up {
            return Err(format!(
                "{} gave up after {:.1} s and remains the primary: no replica caught up in time",
                old.name,
                begin.elapsed().as_secs_f64()
            ));
        }
        is_given_up = is_over;
    }
    Err(format!(
        "the outcome is unknown after {:.0} s: see braid-cluster status",
        (timeout + GRACE).as_secs_f64()
    ))
}

/// The member that the operator named, if it may take over.
fn successor<'g>(group: &'g Group, primary: &Member, to: &str) -> Result<&'g Member, String> {
    let names = || group.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = group.members.iter().find(|member| member.is_called(to));
    let member = found.ok_or_else(|| format!("there is no member {to}, only {}", names()))?;
    if member.name == primary.name {
        return Err(format!("{to} is already the primary"));
    }
    match &member.role {
        Role::Unreached(why) => Err(format!("{to} cannot take over: {why}")),
        _ if !group.is_in_sync(member) => Err(format!("{to} cannot take over: it is not in sync")),
        _ => Ok(member),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::example;

    #[test]
    fn only_a_member_in_sync_takes_over() {
        let group = example();
        let primary = group.primary().unwrap();
        let why = |to| successor(&group, primary, to).map(|member| member.name.as_str());
        assert_eq!(why("a"), Ok("a"));
        assert_eq!(why("10.0.0.1:7001"), Ok("a"));
        assert_eq!(why("b"), Err("b is already the primary".into()));
        assert_eq!(why("c"), Err("c cannot take over: it is not in sync".into()));
        assert_eq!(why("d"), Err("there is no member d, only a, b, c".into()));
    }
}
