// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG PROTOCOL: one sample of each reply type, for tests of client libraries.

use braid_executor::Call;
use braid_resp::reply::Protocol;
use braid_spec::{CommandError, CommandResult};

/// The sample that client tests expect, not the mathematical constant.
#[expect(clippy::approx_constant, reason = "the sample's digits are part of the protocol")]
const DOUBLE: f64 = 3.141;

/// Replies with a sample.
pub fn protocol(call: &mut Call) -> CommandResult {
    let kind = call.args[2].to_ascii_lowercase();
    let reply = &mut *call.reply;
    match kind.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(DOUBLE),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol == Protocol::Resp2 {
                return Err(CommandError::text("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(CommandError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
