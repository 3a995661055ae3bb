// SPDX-License-Identifier: BSD-3-Clause
//! Documents as requests: JSON.SET of the whole.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::value::Json;

pub(super) fn rewrite(json: &Json, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    request::push(out.buffer(), &[b"JSON.SET", name, b"$", &json.text()]);
    out.complete()
}
