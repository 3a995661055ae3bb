// SPDX-License-Identifier: BSD-3-Clause
//! A watch: the gateway's answer is a stream of lines that does not end.

use std::io::{BufRead, BufReader};

use serde_json::Value;
use ureq::{Body, BodyReader};

use crate::{Error, json};

/// Most bytes of a line.
const LINE_MAX: usize = 4 << 20;

/// Follows the changes of some keys.
pub struct Watch {
    lines: BufReader<BodyReader<'static>>,
}

impl Watch {
    pub(crate) fn new(body: Body) -> Watch {
        Watch { lines: BufReader::new(body.into_with_config().limit(u64::MAX).reader()) }
    }

    /// Waits for news: etcd's revision, and whether keys have changed. An error ends the watch: the
    /// connection is lost, nothing was heard for too long, or the changes since the revision asked
    /// for are no longer kept.
    pub fn wait(&mut self) -> Result<(u64, bool), Error> {
        let mut line = Vec::new();
        loop {
            let part = self.lines.fill_buf().map_err(|error| Error::Unknown(error.to_string()))?;
            if part.is_empty() {
                return Err(Error::Unknown("the watch has ended".into()));
            }
            let end = part.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..used]);
            self.lines.consume(used);
            if line.len() > LINE_MAX {
                return Err(Error::Invalid("a line that does not end".into()));
            }
            if end.is_some() {
                break;
            }
        }
        read(&line)
    }
}

fn read(line: &[u8]) -> Result<(u64, bool), Error> {
    let news: Value = serde_json::from_slice(line).map_err(|error| Error::Invalid(error.to_string()))?;
    let result = &news["result"];
    let revision = json::revision(result)?;
    if result["canceled"].as_bool() == Some(true) {
        let why = result["cancel_reason"].as_str().unwrap_or("the changes asked for are no longer kept");
        return Err(Error::Refused(why.to_owned()));
    }
    Ok((revision, result["events"].as_array().is_some_and(|events| !events.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_whether_keys_have_changed() {
        let begin = br#"{"result":{"header":{"revision":"5"},"created":true}}"#;
        assert_eq!(read(begin), Ok((5, false)));
        let change = br#"{"result":{"header":{"revision":"6"},"events":[{"kv":{"key":"YQ=="}}]}}"#;
        assert_eq!(read(change), Ok((6, true)));
        let compacted = br#"{"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"8"}}"#;
        assert!(matches!(read(compacted), Err(Error::Refused(_))));
        for wrong in [&b"{}"[..], b"", b"[", b"{\"result\":{}}", b"\xff"] {
            assert!(matches!(read(wrong), Err(Error::Invalid(_))));
        }
    }
}
