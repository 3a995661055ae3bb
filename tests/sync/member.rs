// SPDX-License-Identifier: BSD-3-Clause
//! A replica simulated by a connection: it reads the stream, and acknowledges on request.

use braid_tests::{RawClient, request};

use crate::Group;

pub struct Member {
    link: RawClient,
    offset: i64,
}

impl Member {
    /// A member with this name (node/run) that follows the primary at an epoch.
    pub fn attach(group: &Group, name: &str, epoch: u64) -> Member {
        let (node, run) = name.split_once('/').expect("node/run");
        Member::attach_by(group, &format!("REPLCONF capa psync2 group-member {node} {run} {epoch}"))
    }

    /// A replica that introduces itself with these words.
    pub fn attach_by(group: &Group, words: &str) -> Member {
        let mut link = group.server.connect();
        link.ok(words);
        link.send(&request("PSYNC ? -1"));
        let head = line(&mut link);
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(words[0], "+FULLRESYNC", "{head}");
        let offset = words[2].parse().expect("an offset");
        let head = line(&mut link);
        let len = head.strip_prefix('$').and_then(|len| len.parse().ok()).expect("a length");
        link.read_bytes(len);
        Member { link, offset }
    }

    /// Reads the stream up to its current end.
    pub fn catch_up(&mut self, admin: &mut RawClient) {
        let end = admin.info_field("replication", "master_repl_offset");
        let end: i64 = end.and_then(|end| end.parse().ok()).expect("an offset");
        let behind = usize::try_from(end - self.offset).unwrap_or(0);
        assert_eq!(self.link.read_bytes(behind).len(), behind);
        self.offset += i64::try_from(behind).expect("a length");
    }

    pub fn acknowledge(&mut self) {
        self.acknowledge_at(self.offset);
    }

    pub fn acknowledge_at(&mut self, offset: i64) {
        self.link.send(&request(&format!("REPLCONF ACK {offset}")));
    }

    /// Acknowledges the whole stream, and another offset as on disk.
    pub fn acknowledge_on_disk(&mut self, on_disk: i64) {
        self.link.send(&request(&format!("REPLCONF ACK {} FACK {on_disk}", self.offset)));
    }

    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Reads the stream until it ends with this text, however it is fragmented.
    pub fn read_until(&mut self, text: &str) {
        let mut stream = Vec::new();
        while !stream.ends_with(text.as_bytes()) {
            let byte = self.link.read_bytes(1);
            assert!(!byte.is_empty(), "closed after {}", stream.escape_ascii());
            stream.extend(byte);
            self.offset += 1;
        }
    }
}

/// A line that is not RESP, skipping the empty keep-alive lines.
fn line(link: &mut RawClient) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let byte = link.read_bytes(1);
        assert!(!byte.is_empty(), "closed after {line:?}");
        if byte != b"\n" || !line.is_empty() {
            line.extend(byte);
        }
    }
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}
