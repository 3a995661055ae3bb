// SPDX-License-Identifier: BSD-3-Clause
//! ACTIVE's subcommands, for peers and operators.
//!
//! A peer is an ordinary client. HELLO introduces it; PULL requests the units it lacks and waits
//! for them like a command that waits for keys; COPY takes a full copy in pieces.

use std::sync::atomic::Ordering::Relaxed;

use braid_active::Region;
use braid_active::logs::Cursor;
use braid_base::clock::unix_ms;
use braid_executor::background::Answer;
use braid_executor::engine::call::Call;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use super::codec::{is_identity, members_text, parse_table, parse_vector};
use super::copies::CopyRequest;
use super::disk_backlog;
use super::outbox::{Answers, Ripe, Share};
use super::pull_request::PullRequest;
use super::refusals::{REASON_MAX, Refused};
use super::state::{Active, Order, PROTOCOL};
use crate::state;

/// Longest wait of a PULL, in ms.
const WAIT_MAX_MS: i64 = 10_000;
/// Maximum bytes of units in a reply to PULL, unless a single unit is longer.
const BYTES_MAX: i64 = 8 << 20;

fn refused(why: impl Into<String>) -> CommandError {
    CommandError::text(format!("ERR {}", why.into()))
}

fn text<'a>(call: &Call<'a, '_>, index: usize) -> Result<&'a str, CommandError> {
    std::str::from_utf8(call.args[index]).map_err(|_| CommandError::Syntax)
}

/// The shared state, once the files have been read.
fn active_of<'a>(call: &Call<'a, '_>) -> Result<&'a Active, CommandError> {
    let active = state::of(call.engine).filter(|active| active.is_ready.load(Relaxed));
    active.ok_or_else(|| CommandError::text("LOADING active-active replication has not started yet"))
}

/// ACTIVE HELLO version identity region settled: a peer introduces itself. The reply has this
/// server's version, identity, region, whether that is settled, and the region numbers in use.
///
/// # Errors
/// LOADING until active-active replication has started; if an argument is malformed, the version is
/// another one, or the peer is this server itself or has another region's number.
pub fn hello(call: &mut Call) -> CommandResult {
    let active = active_of(call)?;
    let (version, region) = (call.integer_arg(2)?, call.integer_arg(4)?);
    let (identity, is_final) = (text(call, 3)?, call.integer_arg(5)? != 0);
    let who = call.session.record.address.to_string();
    if version != PROTOCOL {
        log::warn!("Active-active: {who} speaks version {version}, this server speaks {PROTOCOL}: refused");
        return Err(refused(format!("this server speaks version {PROTOCOL} of ACTIVE, not {version}")));
    }
    let region = u8::try_from(region).ok().and_then(Region::new).map(Region::number);
    let Some(region) = region.filter(|_| is_identity(identity)) else {
        log::warn!("Active-active: {who} sends no valid identity: refused");
        return Err(refused("invalid identity or region"));
    };
    let me = {
        let mut me = active.me.lock();
        if identity == me.identity {
            return Err(refused("this is the same server"));
        }
        if me.fits(region, identity) {
            if is_final {
                me.members.insert(region, identity.to_owned());
            }
            me.clone()
        } else if region == me.region && !me.is_final && (is_final || me.identity.as_str() > identity) {
            // No other server knows this one yet: it takes another number.
            let taken = me.taken();
            drop(me);
            let _ = active.orders.send(Order::ChangeRegion { taken });
            return Err(CommandError::text(
                "TRYAGAIN both servers have the same region, this one takes another",
            ));
        } else if is_final || region != me.region {
            log::warn!("Active-active: {who} is refused: {}", me.misfit(region));
            return Err(refused(me.misfit(region)));
        } else {
            // The peer changes its number after this reply.
            me.clone()
        }
    };
    let reply = &mut *call.reply;
    reply.array(5);
    reply.integer(PROTOCOL);
    reply.bulk(me.identity.as_bytes());
    reply.integer(i64::from(me.region));
    reply.integer(i64::from(me.is_final));
    reply.bulk(me.taken().to_string().as_bytes());
    Ok(())
}

/// ACTIVE PULL identity region applied position on-disk wait bytes: the units the peer lacks.
///
/// # Errors
/// LOADING until active-active replication has started; if an argument is malformed, or the
/// region's number belongs to another server.
pub fn pull(call: &mut Call) -> CommandResult {
    let active = active_of(call)?;
    let (identity, region) = (text(call, 2)?, call.integer_arg(3)?);
    let region = u8::try_from(region).ok().and_then(Region::new);
    let region = region.filter(|_| is_identity(identity)).ok_or(CommandError::Syntax)?;
    let applied = parse_vector(text(call, 4)?).ok_or(CommandError::Syntax)?;
    let position = u64::try_from(call.integer_arg(5)?).map_err(|_| CommandError::Syntax)?;
    let (position, cursor) = match Cursor::of_word(position) {
        Some(cursor) => (0, Some(cursor)),
        None => (position, None),
    };
    let on_disk = parse_table(text(call, 6)?).ok_or(CommandError::Syntax)?;
    let wait_ms = call.integer_arg(7)?.clamp(0, WAIT_MAX_MS);
    let bytes_max = call.integer_arg(8)?.clamp(1, BYTES_MAX) as usize;
    let me = {
        let mut me = active.me.lock();
        if !me.fits(region.number(), identity) || region.number() == me.region {
            return Err(refused(me.misfit(region.number())));
        }
        if me.members.insert(region.number(), identity.to_owned()).is_none() || !me.is_final {
            // From now on others know this server by its number.
            me.is_final = true;
            let _ = active.orders.send(Order::NumberIsFinal);
        }
        Region::new(me.region)
    };
    let request = PullRequest { applied, position, cursor, bytes_max, region };
    active.refusals.lock().note_pull(request.region.number(), unix_ms());
    let may_leave = call.may_leave(false);
    let may_wait = wait_ms > 0 && may_leave;
    let mut outbox = active.outbox.lock();
    if outbox.note_on_disk(&on_disk, me) {
        let _ = active.orders.send(Order::OnDisk);
    }
    outbox.note_pull_request(&request, unix_ms());
    let share = match outbox.share(&request) {
        Some(Share::Disk(from)) if may_leave => {
            drop(outbox);
            return call.work_in_background(move |engine, answer| {
                if let Some(active) = state::of(engine) {
                    active.send_from_disk(from, &request, answer);
                }
            });
        }
        Some(Share::Disk(_)) => Some(Share::Copy),
        share => share,
    };
    if share.is_some() || !may_wait {
        active.note_sent(share.as_ref().map_or((0, 0), Share::sent));
        outbox.reply(share.as_ref(), position, call.reply);
        if let Some(Share::Copy) = share {
            outbox.note_copy(region, unix_ms());
        }
        outbox.note_answer(region, unix_ms());
        return Ok(());
    }
    if let Some(answer) = call.leave_to_background()? {
        outbox.wait(request, Box::new(answer), unix_ms() + wait_ms);
    }
    Ok(())
}

/// ACTIVE TELL identity region removed refused reason: what a peer's server knows of removed
/// regions (one bit each), and which region's effects it refuses, and why (-1 and an empty text:
/// none). The reply has the regions that are removed here.
///
/// # Errors
/// If active-active replication is off, or an argument is malformed.
pub fn tell(call: &mut Call) -> CommandResult {
    let active = active_of(call)?;
    let region = u8::try_from(call.integer_arg(3)?).ok().and_then(Region::new).map(Region::number);
    let identity = text(call, 2)?;
    let region = region.filter(|_| is_identity(identity)).ok_or(CommandError::Syntax)?;
    let gone: u64 = text(call, 4)?.parse().map_err(|_| CommandError::Syntax)?;
    let about = call.integer_arg(5)?;
    let about = u8::try_from(about).ok().and_then(Region::new).map(Region::number);
    let reason = text(call, 6)?;
    if reason.len() > REASON_MAX || reason.chars().any(char::is_control) {
        return Err(CommandError::Syntax);
    }
    let (is_member, mine) = {
        let me = active.me.lock();
        (me.fits(region, identity) && region != me.region, me.gone)
    };
    let removed = if is_member { active.take_removed(gone) } else { None };
    // A server that this one refuses may still tell why it refuses this one.
    let refused = about.map(|about| Refused { about: Some(about), reason: reason.to_owned() }).or(removed);
    if refused.is_some() || is_member {
        active.note_refusal(region, refused);
    }
    call.reply.array(1);
    call.reply.bulk(mine.to_string().as_bytes());
    Ok(())
}

impl Answers for Answer {
    fn is_wanted(&self) -> bool {
        Answer::is_wanted(self)
    }

    fn buffer(&self) -> ReplyBuffer {
        Answer::buffer(self)
    }

    fn give(self: Box<Self>, reply: ReplyBuffer) {
        Answer::give(*self, reply);
    }
}

impl Active {
    fn note_sent(&self, (units, bytes): (u64, u64)) {
        self.figures.sent.fetch_add(units, Relaxed);
        self.figures.sent_bytes.fetch_add(bytes, Relaxed);
    }

    /// Answers a peer with units read from disk.
    fn send_from_disk(&self, from: Cursor, request: &PullRequest, answer: Answer) {
        let folder = self.outbox.lock().disk.folder.clone();
        let read = disk_backlog::read(&folder, from, request);
        if let Err(error) = &read {
            log::warn!(
                "Active-active: the log cannot be read for the peer of region {}, which gets a full copy: \
                 {error}",
                request.region.number()
            );
        }
        let share = match &read {
            Ok((units, next)) if !units.is_empty() => {
                Share::Units(units.iter().map(Vec::as_slice).collect(), next.word().unwrap_or(0))
            }
            _ => Share::Copy,
        };
        let mut reply = Answers::buffer(&answer);
        let mut outbox = self.outbox.lock();
        outbox.reply(Some(&share), 0, &mut reply);
        if let Share::Copy = share {
            outbox.note_copy(request.region, unix_ms());
        }
        outbox.note_answer(request.region, unix_ms());
        drop(outbox);
        self.note_sent(share.sent());
        self.figures.sent_from_disk.fetch_add(share.sent().0, Relaxed);
        answer.give(reply);
    }

    /// Answers the waiting peers that have news or whose wait has ended.
    pub(super) fn serve_waiting(&self) {
        let me = self.region();
        let ripe = self.outbox.lock().ripe(unix_ms(), me);
        for Ripe { answer, reply, sent } in ripe {
            self.note_sent(sent);
            answer.give(reply);
        }
    }
}

/// Sends an order to the thread, which answers the client.
fn ask(call: &mut Call, order: impl FnOnce(Box<dyn Answers>) -> Order) -> CommandResult {
    let active = active_of(call)?;
    if !call.may_leave(false) {
        return Err(refused("not allowed in a transaction or script"));
    }
    if let Some(answer) = call.leave_to_background()? {
        let _ = active.orders.send(order(Box::new(answer)));
    }
    Ok(())
}

/// ACTIVE COPY \[MORE\]: begins a full copy, or continues the one in progress on this connection.
/// The reply has a status (1: more parts follow, 0: this is the last one, -1: the copy has
/// failed) and pieces.
///
/// # Errors
/// LOADING until active-active replication has started; if there is another argument than MORE.
pub fn copy(call: &mut Call) -> CommandResult {
    let goes_on = call.args.len() == 3 && call.arg_is(2, "MORE");
    if call.args.len() > 2 && !goes_on {
        return Err(CommandError::Syntax);
    }
    let client = call.session.record.id;
    let order = if goes_on { Order::MoreCopy } else { Order::MakeCopy };
    ask(call, move |answer| order(CopyRequest { client, answer }))
}

/// ACTIVE DIGEST: equal on servers with equal visible data.
///
/// # Errors
/// LOADING until active-active replication has started.
pub fn digest(call: &mut Call) -> CommandResult {
    ask(call, |answer| Order::Digest { answer })
}

/// ACTIVE FORGET region: removes a region permanently.
///
/// # Errors
/// LOADING until active-active replication has started; if the region is invalid, this server's
/// own, or that of a peer.
pub fn forget(call: &mut Call) -> CommandResult {
    let active = active_of(call)?;
    let number = u8::try_from(call.integer_arg(2)?).ok().and_then(Region::new);
    let region = number.ok_or_else(|| refused("a region's number must be between 0 and 63"))?;
    if Some(region) == active.region() {
        return Err(refused("this server cannot forget its own region"));
    }
    let is_linked = active
        .peers
        .lock()
        .iter()
        .any(|peer| peer.is_up.load(Relaxed) && peer.status.lock().region == Some(region.number()));
    if is_linked {
        return Err(refused("the region's server is a peer: remove it from active-peers first"));
    }
    ask(call, move |answer| Order::Forget { region, answer: Some(answer) })
}

/// ACTIVE PEERS: the links and the known data of the peers.
///
/// # Errors
/// LOADING until active-active replication has started.
pub fn peers(call: &mut Call) -> CommandResult {
    let active = active_of(call)?;
    let peers = active.peers.lock().clone();
    let reply = &mut *call.reply;
    reply.array(peers.len());
    for peer in peers {
        let status = peer.status.lock().clone();
        reply.map(7);
        reply.bulk(b"host");
        reply.bulk(peer.host.as_bytes());
        reply.bulk(b"port");
        reply.integer(i64::from(peer.port));
        reply.bulk(b"link");
        reply.bulk(if peer.is_up.load(Relaxed) { "up" } else { "down" }.as_bytes());
        reply.bulk(b"region");
        reply.integer(status.region.map_or(-1, i64::from));
        reply.bulk(b"identity");
        reply.bulk(status.identity.as_bytes());
        reply.bulk(b"lag-ms");
        reply.integer(peer.lag_ms.load(Relaxed) as i64);
        reply.bulk(b"error");
        reply.bulk(status.error.as_bytes());
    }
    Ok(())
}

/// ACTIVE MYSELF: this server's identity and region, and the known members.
///
/// # Errors
/// LOADING until active-active replication has started.
pub fn myself(call: &mut Call) -> CommandResult {
    let me = active_of(call)?.me.lock().clone();
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"identity");
    reply.bulk(me.identity.as_bytes());
    reply.bulk(b"region");
    reply.integer(i64::from(me.region));
    reply.bulk(b"members");
    reply.bulk(members_text(&me.members).as_bytes());
    Ok(())
}
