// SPDX-License-Identifier: BSD-3-Clause
//! The handshake: a replica introduces itself and requests the stream from an offset.
//!
//! Source: Redis documentation, "Redis replication"; `replication.c` of Redis 7.2 and Valkey for
//! the order of requests and for the replies that end an attempt.

use std::io::{Read, Write};

use braid_resp::request;

use super::peer::{Peer, Watch};
use super::{LinkError, Primary};
use crate::blocks;
use crate::history::ID_LEN;
use crate::replicas::options::{KEEPALIVE, SIBLING, SIBLING_SYNC};

const AUTH: &str = "AUTH";
const RDB_CHANNEL: &str = "rdb-channel";
const MEMBER: &str = "group-member";
const DURING: &str = "connecting to the MASTER";
/// The Valkey version whose full syncs this server reads. Without it Valkey 9 writes them as for
/// Redis 7.2, and fails on a hash with expiring fields.
const READS_VALKEY: &[u8] = b"9.0.0";

/// What a replica tells its primary about itself.
#[derive(Default)]
pub struct Introduction {
    /// `masteruser` and `masterauth`.
    pub user: String,
    pub password: String,
    /// The port at which others reach this server.
    pub port: u16,
    /// The address at which others reach this server; empty for that of the connection.
    pub ip: String,
    /// Node, run ID and epoch, for a member of a group.
    pub member: Option<(String, String, u64)>,
    /// Requests compression ([`crate::blocks`]).
    pub compressed: bool,
    /// Serves full syncs to other replicas, and accepts one from them now ([`SIBLING`]).
    pub sibling: bool,
    pub takes_sibling: bool,
    /// Wants a full sync and no changes.
    pub rdb_only: bool,
    /// Accepts a full sync on a second connection.
    pub dual_channel: bool,
    /// This is the second connection.
    pub rdb_channel: bool,
}

/// The primary's reply to PSYNC.
#[derive(Debug, PartialEq, Eq)]
pub enum SyncReply {
    /// A full sync follows, then the stream from this offset.
    Full { id: String, offset: u64 },
    /// A full sync follows; the primary does not report its offset (SYNC).
    FullWithoutOffset,
    /// The stream continues at the requested offset, under this ID if there is one.
    Continue { id: Option<String> },
    /// The primary redirects us to this replica for a full sync.
    Sibling(Primary),
    /// The full sync comes on a second connection ([`request_full_sync_on_second_connection`]).
    Beside,
}

/// Introduces this server.
///
/// # Errors
/// If the connection fails or times out, is called off, or the primary refuses the login or does
/// not reply to PING.
pub fn introduce<S: Read + Write>(
    peer: &mut Peer<S>,
    watch: &impl Watch,
    introduction: &Introduction,
) -> Result<(), LinkError> {
    let reply = peer.ask(&[b"PING"], watch, DURING)?;
    let is_alive = reply.starts_with('+')
        || ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"]
            .iter()
            .any(|start| reply.starts_with(start));
    if !is_alive {
        return Err(LinkError::Refused(format!("Error reply to PING from master: '{reply}'")));
    }
    log::info!("Master replied to PING, replication can continue...");
    let port = introduction.port.to_string();
    let mut requests: Vec<(&str, Vec<&[u8]>)> = Vec::new();
    requests.extend(request::auth(&introduction.user, &introduction.password).map(|words| (AUTH, words)));
    requests.push(("listening-port", vec![b"REPLCONF", b"listening-port", port.as_bytes()]));
    if !introduction.ip.is_empty() {
        requests.push(("ip-address", vec![b"REPLCONF", b"ip-address", introduction.ip.as_bytes()]));
    }
    let mut capabilities: Vec<&[u8]> = vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"];
    // Servers ignore capabilities that they do not know.
    capabilities.extend([&b"capa"[..], KEEPALIVE.as_bytes()]);
    if introduction.compressed {
        capabilities.extend([&b"capa"[..], blocks::WORD.as_bytes()]);
    }
    if introduction.sibling {
        capabilities.extend([&b"capa"[..], SIBLING.as_bytes()]);
        if introduction.takes_sibling {
            capabilities.extend([&b"capa"[..], SIBLING_SYNC.as_bytes()]);
        }
    }
    if introduction.dual_channel {
        capabilities.extend([&b"capa"[..], b"dual-channel"]);
    }
    requests.push(("capa", capabilities));
    let epoch = introduction.member.as_ref().map_or_else(String::new, |(_, _, epoch)| epoch.to_string());
    if let Some((node, run, _)) = &introduction.member {
        let words = ["REPLCONF", MEMBER, node, run, &epoch];
        requests.push((MEMBER, words.map(str::as_bytes).to_vec()));
    }
    if introduction.rdb_channel {
        let words = [&b"REPLCONF"[..], b"rdb-only", b"1", b"rdb-channel", b"1"];
        requests.push((RDB_CHANNEL, words.to_vec()));
    }
    if introduction.rdb_only {
        requests.push(("rdb-only", vec![b"REPLCONF", b"rdb-only", b"1"]));
    }
    requests.push(("version", vec![b"REPLCONF", b"version", READS_VALKEY]));
    // All in one write: one round trip.
    let mut bytes = Vec::new();
    requests.iter().for_each(|(_, request)| request::push(&mut bytes, request));
    peer.send_bytes(&bytes)?;
    for (name, _) in requests {
        let reply = peer.line(watch, DURING)?;
        if name == AUTH && reply.starts_with('-') {
            return Err(LinkError::Refused(format!("Unable to AUTH to MASTER: {reply}")));
        }
        if name == MEMBER && reply.starts_with('-') {
            return Err(LinkError::Refused(format!("The primary refuses this member of the group: {reply}")));
        }
        if name == RDB_CHANNEL && reply.starts_with('-') {
            return Err(LinkError::Refused(format!(
                "Master sends no full sync on a second connection: {reply}"
            )));
        }
        if reply.starts_with('-') {
            log::info!("(Non critical) Master does not understand REPLCONF {name}: {reply}");
        }
    }
    Ok(())
}

/// Requests the stream after `offset` of a history, or a full sync if `position` is `None`.
/// `takes_over`: the peer is a replica of this server and is asked to become the primary.
///
/// # Errors
/// If the connection fails or times out, is called off, or the primary refuses or its reply is
/// malformed.
pub fn ask_for_stream<S: Read + Write>(
    peer: &mut Peer<S>,
    watch: &impl Watch,
    position: Option<(&str, u64)>,
    takes_over: bool,
) -> Result<SyncReply, LinkError> {
    let reply = match position {
        Some((id, offset)) if takes_over => {
            let next = (offset + 1).to_string();
            log::info!("Failover: asking the replica to take over (request {id}:{next}).");
            peer.ask(&[b"PSYNC", id.as_bytes(), next.as_bytes(), b"FAILOVER"], watch, DURING)?
        }
        Some((id, offset)) => {
            let next = (offset + 1).to_string();
            log::info!("Trying a partial resynchronization (request {id}:{next}).");
            peer.ask(&[b"PSYNC", id.as_bytes(), next.as_bytes()], watch, DURING)?
        }
        None => {
            log::info!("Partial resynchronization not possible (no cached master)");
            peer.ask(&[b"PSYNC", b"?", b"-1"], watch, DURING)?
        }
    };
    let (reply, is_compressed) = match reply.strip_suffix(blocks::WORD) {
        Some(rest) if rest.ends_with(' ') => (rest.trim_ascii_end().to_owned(), true),
        _ => (reply, false),
    };
    if is_compressed && (reply.starts_with("+FULLRESYNC") || reply.starts_with("+CONTINUE")) {
        log::info!("The primary compresses full sync and stream");
        peer.begin_compression()?;
    }
    if let Some(rest) = reply.strip_prefix("+FULLRESYNC") {
        return full_resync(rest).ok_or_else(|| {
            LinkError::Refused(format!("Master replied with wrong +FULLRESYNC syntax: '{reply}'"))
        });
    }
    if let Some(rest) = reply.strip_prefix("+CONTINUE") {
        let id = rest.split_ascii_whitespace().next().map(str::to_owned);
        if position.is_none() || id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(LinkError::Refused(format!("Unexpected reply to PSYNC from master: {reply}")));
        }
        return Ok(SyncReply::Continue { id });
    }
    if reply == "+DUALCHANNELSYNC" {
        return Ok(SyncReply::Beside);
    }
    if let Some(rest) = reply.strip_prefix("+SIBLING ") {
        let address = rest.split_once(' ').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = address
            .ok_or_else(|| LinkError::Refused(format!("Unexpected reply to PSYNC from master: {reply}")))?;
        return Ok(SyncReply::Sibling(Primary { host: host.to_owned(), port }));
    }
    if reply.starts_with("-NOMASTERLINK") || reply.starts_with("-LOADING") {
        return Err(LinkError::Refused(format!(
            "Master is currently unable to PSYNC but should be in the future: {reply}"
        )));
    }
    if reply.starts_with("-NOPERM") || reply.starts_with("-NOAUTH") {
        return Err(LinkError::Refused(format!("Master does not allow PSYNC: {reply}")));
    }
    if !reply.starts_with("-ERR") {
        return Err(LinkError::Refused(format!("Unexpected reply to PSYNC from master: {reply}")));
    }
    log::info!("Master does not support PSYNC or is in error state (reply: {reply})");
    log::info!("Retrying with SYNC...");
    peer.send(&[b"SYNC"])?;
    Ok(SyncReply::FullWithoutOffset)
}

/// Where a full sync on a second connection ends and the stream begins.
#[derive(Debug, PartialEq, Eq)]
pub struct EndOffset {
    pub offset: u64,
    pub id: String,
    /// The database selected at that point of the stream.
    pub db: u32,
    /// The primary's client ID of the second connection.
    client: u64,
}

impl EndOffset {
    fn parse(line: &str) -> Option<EndOffset> {
        let mut words = line.strip_prefix("$ENDOFF:")?.split_ascii_whitespace();
        let offset = words.next()?.parse().ok().filter(|offset| *offset <= i64::MAX as u64)?;
        let id = words.next().filter(|id| is_id(id))?.to_owned();
        // -1: none selected yet.
        let db = words.next()?.parse::<i64>().ok()?.try_into().unwrap_or(0);
        let client = words.next()?.parse().ok()?;
        words.next().is_none().then_some(EndOffset { offset, id, db, client })
    }
}

/// Requests a full sync on the second connection; it follows the line that is read here.
///
/// # Errors
/// If the connection fails or times out, is called off, or the reply is not an end offset.
pub fn request_full_sync_on_second_connection<S: Read + Write>(
    peer: &mut Peer<S>,
    watch: &impl Watch,
) -> Result<EndOffset, LinkError> {
    let line = peer.ask(&[b"SYNC"], watch, DURING)?;
    EndOffset::parse(&line)
        .ok_or_else(|| LinkError::Refused(format!("Received unexpected $ENDOFF response: {line}")))
}

/// Requests, on the first connection, the stream after a full sync on the second.
///
/// # Errors
/// If the connection fails or times out, is called off, or the primary does not know the second
/// connection or refuses.
pub fn request_stream_after_second_connection_sync<S: Read + Write>(
    peer: &mut Peer<S>,
    watch: &impl Watch,
    end: &EndOffset,
) -> Result<SyncReply, LinkError> {
    let client = end.client.to_string();
    let reply = peer.ask(&[b"REPLCONF", b"set-rdb-client-id", client.as_bytes()], watch, DURING)?;
    if reply.starts_with('-') {
        return Err(LinkError::Refused(format!("Master does not know the second connection: {reply}")));
    }
    ask_for_stream(peer, watch, Some((&end.id, end.offset)), false)
}

fn full_resync(rest: &str) -> Option<SyncReply> {
    let mut words = rest.split_ascii_whitespace();
    let id = words.next().filter(|id| is_id(id))?.to_owned();
    let offset = words.next()?.parse().ok().filter(|offset| *offset <= i64::MAX as u64)?;
    Some(SyncReply::Full { id, offset })
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::testing::{Patient, Script};
    use super::*;

    /// A primary whose replies arrive byte by byte, whatever the request.
    fn peer(replies: &str) -> Peer<Script> {
        Peer::new(Script::new(replies.as_bytes(), 1))
    }

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn primary_may_refuse_unknown_replconf_options() {
        let (user, password, ip) = ("u".into(), "p".into(), "h".into());
        let introduction =
            Introduction { user, password, port: 7000, ip, compressed: true, ..Introduction::default() };
        let mut one =
            peer("\n-NOAUTH Authentication required.\r\n+OK\r\n-ERR a\r\n-ERR b\r\n-ERR c\r\n-ERR d\r\n");
        introduce(&mut one, &Patient, &introduction).expect("introduced");
        let sent = String::from_utf8(std::mem::take(&mut one.stream().sent)).expect("text");
        let words: Vec<&str> = sent.split("\r\n").filter(|part| !part.starts_with(['*', '$'])).collect();
        assert_eq!(
            words.join(" "),
            "PING AUTH u p REPLCONF listening-port 7000 REPLCONF ip-address h REPLCONF capa eof capa psync2 \
             capa keepalive capa lz4 REPLCONF version 9.0.0 "
        );
        let refused = |replies: &str| {
            introduce(&mut peer(replies), &Patient, &introduction).expect_err("refused").to_string()
        };
        assert_eq!(refused("-MISCONF x\r\n"), "Error reply to PING from master: '-MISCONF x'");
        assert_eq!(refused("+PONG\r\n-WRONGPASS x\r\n"), "Unable to AUTH to MASTER: -WRONGPASS x");
        assert_eq!(refused("+PONG\r\n"), "Connection with master lost.");
    }

    #[test]
    fn dual_channel_end_offset_is_parsed_and_used() {
        let end = EndOffset::parse(&format!("$ENDOFF:17 {ID} -1 99")).expect("understood");
        assert_eq!(end, EndOffset { offset: 17, id: ID.into(), db: 0, client: 99 });
        for bad in ["$ENDOFF:17", "$ENDOFF:-1 {ID} 0 1", "$ENDOFF:1 x 0 1", "$EOF:x"] {
            assert_eq!(EndOffset::parse(&bad.replace("{ID}", ID)), None, "{bad}");
        }
        let mut one = peer("-ERR no\r\n");
        let refused = request_stream_after_second_connection_sync(&mut one, &Patient, &end)
            .expect_err("refused")
            .to_string();
        assert_eq!(refused, "Master does not know the second connection: -ERR no");
        let mut one = peer(&format!("+OK\r\n+CONTINUE {ID}\r\n"));
        request_stream_after_second_connection_sync(&mut one, &Patient, &end).expect("the stream");
        let sent = String::from_utf8(std::mem::take(&mut one.stream().sent)).expect("text");
        assert!(sent.contains("\r\n99\r\n") && sent.contains("\r\n18\r\n"), "{sent}");
    }

    #[test]
    fn replies_to_psync() {
        let ask = |reply: &str, position| ask_for_stream(&mut peer(reply), &Patient, position, false);
        let here = Some((ID, 99));
        assert_eq!(
            ask(&format!("\n\n+FULLRESYNC {ID} 17\r\n"), here).expect("a full sync"),
            SyncReply::Full { id: ID.into(), offset: 17 }
        );
        assert_eq!(ask("+CONTINUE\r\n", here).expect("resumed"), SyncReply::Continue { id: None });
        assert_eq!(
            ask(&format!("+CONTINUE {ID}\r\n"), here).expect("resumed"),
            SyncReply::Continue { id: Some(ID.into()) }
        );
        assert_eq!(ask("-ERR what?\r\n", here).expect("SYNC"), SyncReply::FullWithoutOffset);
        for bad in [
            "+FULLRESYNC\r\n".to_owned(),
            format!("+FULLRESYNC {ID} -5\r\n"),
            format!("+FULLRESYNC {ID}x 5\r\n"),
            "+CONTINUE short\r\n".to_owned(),
            "+SIBLING host\r\n".to_owned(),
            "-LOADING x\r\n".to_owned(),
            "-NOMASTERLINK x\r\n".to_owned(),
            "hello\r\n".to_owned(),
        ] {
            assert!(matches!(ask(&bad, here), Err(LinkError::Refused(_))), "{bad}");
        }
        assert_eq!(ask("+DUALCHANNELSYNC\r\n", here).expect("a second connection"), SyncReply::Beside);
        assert_eq!(
            ask("+SIBLING some.host 7001\r\n", here).expect("another replica"),
            SyncReply::Sibling(Primary { host: "some.host".into(), port: 7001 })
        );
        // The rest of the connection is compressed.
        let mut compressed = format!("+FULLRESYNC {ID} 17 lz4\r\n").into_bytes();
        blocks::push_block(&mut compressed, b"$0\r\n");
        let mut peer = peer(std::str::from_utf8(&[]).expect("text"));
        peer.stream().replies = io::Cursor::new(compressed);
        let reply = ask_for_stream(&mut peer, &Patient, here, false).expect("a full sync");
        assert_eq!(reply, SyncReply::Full { id: ID.into(), offset: 17 });
        assert_eq!(peer.line(&Patient, DURING).expect("a line"), "$0");
        assert!(matches!(ask("+CONTINUE\r\n", None), Err(LinkError::Refused(_))), "nothing to continue");
    }
}
