// SPDX-License-Identifier: BSD-3-Clause
//! Suggestions as requests: FT.SUGADD.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::value::Suggestions;

pub(super) fn rewrite(suggestions: &Suggestions, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    if suggestions.is_empty() {
        // A score of 0 makes the key and adds nothing.
        request::push(out.buffer(), &[b"FT.SUGADD", name, b"-", b"0"]);
        return out.complete();
    }
    for entry in suggestions.iter() {
        let score = f64::from(entry.score).to_string();
        let text = entry.text.as_bytes();
        match &entry.payload {
            None => request::push(out.buffer(), &[b"FT.SUGADD", name, text, score.as_bytes()]),
            Some(payload) => {
                let request = [b"FT.SUGADD", name, text, score.as_bytes(), b"PAYLOAD", payload];
                request::push(out.buffer(), &request);
            }
        }
        out.complete()?;
    }
    Ok(())
}
