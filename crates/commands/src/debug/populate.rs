// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG POPULATE: creates many keys.

use std::fmt::Write;

use braid_executor::Call;
use braid_keyspace::{Expiry, Value};
use braid_spec::{CommandError, CommandResult};

/// Maximum size of a value.
const SIZE_MAX: i64 = 512 << 20;

fn positive(call: &Call, index: usize) -> Result<i64, CommandError> {
    let wrong = || CommandError::text("ERR value is out of range, must be positive");
    let value = braid_base::number::parse_i64(call.args[index]).ok_or_else(wrong)?;
    if value < 0 { Err(wrong()) } else { Ok(value) }
}

/// Creates keys `prefix:0`, `prefix:1`, ... with values `value:0`, ...; existing keys are kept.
/// With a size, values are cut or zero-padded to it.
pub fn populate(call: &mut Call) -> CommandResult {
    let count = positive(call, 2)?;
    let prefix = if call.args.len() >= 4 { call.args[3] } else { b"key" };
    let size = if call.args.len() == 5 { positive(call, 4)? } else { 0 };
    if size > SIZE_MAX {
        return Err(CommandError::StringTooLong);
    }
    let mut key = prefix.to_vec();
    key.push(b':');
    let prefix_len = key.len();
    let (mut digits, mut value) = (String::new(), Vec::new());
    for number in 0..count {
        digits.clear();
        let _ = write!(digits, "{number}");
        key.truncate(prefix_len);
        key.extend_from_slice(digits.as_bytes());
        if call.keyspace.peek(&key).is_some() {
            continue;
        }
        value.clear();
        value.extend_from_slice(b"value:");
        value.extend_from_slice(digits.as_bytes());
        if size > 0 {
            value.resize(size as usize, 0);
        }
        call.keyspace.set(&key, Value::plain(&value, false), Expiry::Clear);
    }
    call.reply.ok();
    Ok(())
}
