// SPDX-License-Identifier: BSD-3-Clause
//! The handshake: a replica introduces itself, and asks for the stream from an offset on.
//!
//! Source: Redis documentation, "Redis replication"; redis 7.2 and Valkey, `replication.c`, for the
//! order of requests and the replies that end an attempt.

use std::io::{Read, Write};

use braid_resp::request;

use super::LinkError;
use super::peer::{Peer, Watch};
use crate::history::ID_LEN;

const AUTH: &str = "AUTH";
const DURING: &str = "connecting to the MASTER";

/// What a replica says about itself.
#[derive(Default)]
pub struct Introduction {
    /// `masteruser` and `masterauth`.
    pub user: String,
    pub password: String,
    /// The port that others reach it by.
    pub port: u16,
    /// The address that others reach it by; empty: that of the connection.
    pub ip: String,
}

/// How the primary answers PSYNC.
#[derive(Debug, PartialEq, Eq)]
pub enum SyncReply {
    /// A full sync follows; the stream goes on behind it at this offset.
    Full { id: String, offset: u64 },
    /// A full sync follows, from an offset that the primary does not tell (SYNC).
    FullWithoutOffset,
    /// The stream goes on from where it was asked for, under this ID if there is one.
    Continue { id: Option<String> },
}

/// Introduces this server.
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
    let (user, password) = (introduction.user.as_bytes(), introduction.password.as_bytes());
    let port = introduction.port.to_string();
    let mut requests: Vec<(&str, Vec<&[u8]>)> = Vec::new();
    if !password.is_empty() {
        let credentials = [user, password].into_iter().filter(|word| !word.is_empty());
        requests.push((AUTH, std::iter::once(AUTH.as_bytes()).chain(credentials).collect()));
    }
    requests.push(("listening-port", vec![b"REPLCONF", b"listening-port", port.as_bytes()]));
    if !introduction.ip.is_empty() {
        requests.push(("ip-address", vec![b"REPLCONF", b"ip-address", introduction.ip.as_bytes()]));
    }
    requests.push(("capa", vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]));
    // All at once: one round trip.
    let mut bytes = Vec::new();
    requests.iter().for_each(|(_, request)| request::push(&mut bytes, request));
    peer.send_bytes(&bytes)?;
    for (name, _) in requests {
        let reply = peer.line(watch, DURING)?;
        if name == AUTH && reply.starts_with('-') {
            return Err(LinkError::Refused(format!("Unable to AUTH to MASTER: {reply}")));
        }
        if reply.starts_with('-') {
            log::info!("(Non critical) Master does not understand REPLCONF {name}: {reply}");
        }
    }
    Ok(())
}

/// Asks for the stream behind `offset` of a history, or for a full sync without one. `takes_over`:
/// the peer is a replica of this server, and is to become the primary.
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
    use std::time::Duration;

    use super::*;

    /// A primary that replies line by line, whatever it is asked.
    struct Script {
        replies: io::Cursor<Vec<u8>>,
        sent: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            // As it may come: byte by byte.
            let most = to.len().min(1);
            self.replies.read(&mut to[..most])
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.sent.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Patient;

    impl Watch for Patient {
        fn is_called_off(&self) -> bool {
            false
        }

        fn note_io(&self, _: usize) {}

        fn timeout(&self) -> Duration {
            Duration::from_secs(5)
        }
    }

    fn peer(replies: &str) -> Peer<Script> {
        let replies = io::Cursor::new(replies.as_bytes().to_vec());
        Peer::new(Script { replies, sent: Vec::new() })
    }

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn a_primary_may_refuse_what_it_does_not_know() {
        let introduction =
            Introduction { user: "u".into(), password: "p".into(), port: 7000, ip: "h".into() };
        let mut one = peer("\n-NOAUTH Authentication required.\r\n+OK\r\n-ERR a\r\n-ERR b\r\n-ERR c\r\n");
        introduce(&mut one, &Patient, &introduction).expect("introduced");
        let sent = String::from_utf8(std::mem::take(&mut one.stream().sent)).expect("text");
        let words: Vec<&str> = sent.split("\r\n").filter(|part| !part.starts_with(['*', '$'])).collect();
        assert_eq!(
            words.join(" "),
            "PING AUTH u p REPLCONF listening-port 7000 REPLCONF ip-address h REPLCONF capa eof capa psync2 "
        );
        let refused = |replies: &str| {
            introduce(&mut peer(replies), &Patient, &introduction).expect_err("refused").to_string()
        };
        assert_eq!(refused("-MISCONF x\r\n"), "Error reply to PING from master: '-MISCONF x'");
        assert_eq!(refused("+PONG\r\n-WRONGPASS x\r\n"), "Unable to AUTH to MASTER: -WRONGPASS x");
        assert_eq!(refused("+PONG\r\n"), "Connection with master lost.");
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
            "-LOADING x\r\n".to_owned(),
            "-NOMASTERLINK x\r\n".to_owned(),
            "hello\r\n".to_owned(),
        ] {
            assert!(matches!(ask(&bad, here), Err(LinkError::Refused(_))), "{bad}");
        }
        assert!(matches!(ask("+CONTINUE\r\n", None), Err(LinkError::Refused(_))), "nothing to continue");
    }
}
