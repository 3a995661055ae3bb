// SPDX-License-Identifier: BSD-3-Clause
//! CLIENT TRACKING and its relatives: client-side caching. The mechanism is in
//! `braid_notify::tracking`.

use braid_base::number;
use braid_clients::client_flags;
use braid_executor::{Call, Row};
use braid_notify::Tracking;
use braid_spec::{CommandError, CommandResult};

use super::own;

pub(super) const CACHING: Row = own("caching", caching)
    .exactly(3)
    .flags(super::ANY_TIME.and(braid_spec::Flags::SENTINEL))
    .docs("6.0.0", "Sets whether the keys of the next command are tracked.", "O(1)")
    .syntax("mode:(YES|NO)");

pub(super) const GETREDIR: Row = own("getredir", get_redirect).exactly(2).docs(
    "6.0.0",
    "Returns the connection that invalidations are redirected to.",
    "O(1)",
);

pub(super) const TRACKING: Row = own("tracking", track)
    .at_least(3)
    .docs(
        "6.0.0",
        "Enables invalidations for keys that the connection has read.",
        "O(1). Some options may introduce additional complexity.",
    )
    .syntax(
        "status:(ON|OFF) [REDIRECT client-id:integer] [PREFIX prefix:string...TOKEN] [BCAST=BCAST] [OPTIN=OPTIN] [OPTOUT=OPTOUT] [NOLOOP=NOLOOP]",
    );

pub(super) const TRACKINGINFO: Row =
    own("trackinginfo", info).exactly(2).docs("6.2.0", "Tells how the connection tracks keys.", "O(1)");

fn track(call: &mut Call) -> CommandResult {
    let wanted = parse(call)?;
    if call.arg_is(2, "off") {
        call.session.stop_tracking(&call.engine.trackers, &call.engine.keyspace);
    } else if call.arg_is(2, "on") {
        check(call, &wanted)?;
        call.session.start_tracking(&call.engine.trackers, &call.engine.keyspace, wanted);
    } else {
        return Err(CommandError::Syntax);
    }
    call.reply.ok();
    Ok(())
}

fn parse(call: &Call) -> Result<Tracking, CommandError> {
    let mut wanted = Tracking::default();
    let mut rest = &call.args[3..];
    while let [option, after @ ..] = rest {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        rest = after;
        match after {
            [id, after @ ..] if is("redirect") => {
                if wanted.redirect != 0 {
                    return Err(CommandError::text(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                let id = number::parse_i64(id).ok_or(CommandError::NotAnInteger)?;
                let target =
                    u64::try_from(id).ok().filter(|&id| call.engine.clients.registry.get(id).is_some());
                wanted.redirect = target
                    .ok_or(CommandError::text("ERR The client ID you want redirect to does not exist"))?;
                rest = after;
            }
            [prefix, after @ ..] if is("prefix") => {
                wanted.prefixes.push((*prefix).into());
                rest = after;
            }
            _ if is("bcast") => wanted.bcast = true,
            _ if is("optin") => wanted.optin = true,
            _ if is("optout") => wanted.optout = true,
            _ if is("noloop") => wanted.noloop = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(wanted)
}

/// Checks that the options are compatible with each other and with the client's current tracking
/// mode.
fn check(call: &Call, wanted: &Tracking) -> CommandResult {
    let refuse = |text: &'static str| Err(CommandError::text(text));
    if !wanted.bcast && !wanted.prefixes.is_empty() {
        return refuse("ERR PREFIX option requires BCAST mode to be enabled");
    }
    let present = call.session.listener.tracking.as_deref();
    if present.is_some_and(|present| present.bcast != wanted.bcast) {
        return refuse(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        );
    }
    if wanted.bcast && (wanted.optin || wanted.optout) {
        return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if wanted.optin && wanted.optout {
        return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    let switches = |present: &Tracking| (wanted.optin && present.optout) || (wanted.optout && present.optin);
    if present.is_some_and(switches) {
        return refuse(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        );
    }
    for (at, prefix) in wanted.prefixes.iter().enumerate() {
        let known = present.map_or(&[][..], |present| &present.prefixes);
        if let Some(other) = known.iter().find(|other| overlap(prefix, other)) {
            return Err(overlapping(prefix, "an existing", other));
        }
        if let Some(other) = wanted.prefixes[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(overlapping(prefix, "another provided", other));
        }
    }
    Ok(())
}

/// True if a key could begin with both prefixes.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlapping(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    let middle = format!("' overlaps with {which} prefix '");
    let end = "'. Prefixes for a single client must not overlap.";
    let parts: [&[u8]; 5] = [b"ERR Prefix '", prefix, middle.as_bytes(), other, end.as_bytes()];
    CommandError::Bytes(parts.concat())
}

fn caching(call: &mut Call) -> CommandResult {
    let yes = call.arg_is(2, "yes");
    let Some(tracking) = &mut call.session.listener.tracking else {
        return Err(CommandError::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let refusal = match (yes, call.args[2].eq_ignore_ascii_case(b"no")) {
        (true, _) if tracking.optin => None,
        (true, _) => Some("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."),
        (_, true) if tracking.optout => None,
        (_, true) => Some("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."),
        _ => return Err(CommandError::Syntax),
    };
    if let Some(text) = refusal {
        return Err(CommandError::text(text));
    }
    tracking.caching = true;
    call.reply.ok();
    Ok(())
}

fn redirect_of(call: &Call) -> i64 {
    call.session.listener.tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64)
}

fn get_redirect(call: &mut Call) -> CommandResult {
    let redirect = redirect_of(call);
    call.reply.integer(redirect);
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let redirect = redirect_of(call);
    let mut flags = Vec::new();
    let mut prefixes: &[Box<[u8]>] = &[];
    match &call.session.listener.tracking {
        None => flags.push("off"),
        Some(tracking) => {
            let broken = call.session.record.has(client_flags::TRACKING_BROKEN);
            let all = [
                (true, "on"),
                (tracking.bcast, "bcast"),
                (tracking.optin, "optin"),
                (tracking.optin && tracking.caching, "caching-yes"),
                (tracking.optout, "optout"),
                (tracking.optout && tracking.caching, "caching-no"),
                (tracking.noloop, "noloop"),
                (broken, "broken_redirect"),
            ];
            flags.extend(all.iter().filter(|(set, _)| *set).map(|(_, name)| *name));
            prefixes = &tracking.prefixes;
        }
    }
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests;
