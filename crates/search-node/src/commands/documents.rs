// SPDX-License-Identifier: BSD-3-Clause
//! FT.GET, FT.MGET and FT.DEL: single documents, for clients from before indexes followed hashes.
//! The replies are those of Redis Stack 7.4: a document in an index of JSON is missing.

use std::sync::Arc;

use braid_base::clock::unix_ms;
use braid_executor::Call;
use braid_keyspace::documents::INDEXED_DB;
use braid_spec::CommandResult;

use crate::index::SearchIndex;
use crate::lookup::{find, wrong_arity};
use crate::values::Source;

const UNKNOWN: &str = "Unknown Index name";

/// FT.GET index key
pub fn get(call: &mut Call) -> CommandResult {
    if call.args.len() != 3 {
        return Err(wrong_arity(call));
    }
    let index = index(call)?;
    reply_document(call, &index, call.args[2]);
    Ok(())
}

/// FT.MGET index key ...
pub fn get_several(call: &mut Call) -> CommandResult {
    if call.args.len() < 3 {
        return Err(wrong_arity(call));
    }
    let index = index(call)?;
    let keys = &call.args[2..];
    call.reply.array(keys.len());
    keys.iter().for_each(|key| reply_document(call, &index, key));
    Ok(())
}

fn index(call: &mut Call) -> Result<Arc<SearchIndex>, braid_spec::CommandError> {
    call.keyspace.index_now();
    find(call, 1, UNKNOWN)
}

fn reply_document(call: &mut Call, index: &SearchIndex, key: &[u8]) {
    let definition = index.definition();
    let is_one = call.keyspace.db() == INDEXED_DB && !definition.is_json && index.has(key);
    let entry = if is_one { call.keyspace.read(key) } else { None };
    let fields = match entry.and_then(|entry| Source::of(entry, false)) {
        Some(Source::Hash(hash)) => {
            let fields = hash.iter(unix_ms()).map(|(name, value)| (name.to_vec(), value.to_vec()));
            fields.collect::<Vec<_>>()
        }
        _ => return call.reply.null(),
    };
    call.reply.array(2 * fields.len());
    for (name, value) in fields {
        call.reply.bulk(&name);
        call.reply.bulk(&value);
    }
}

/// FT.DEL index key [DD]: deletes the key, whatever it is.
pub fn delete(call: &mut Call) -> CommandResult {
    if !(3..=4).contains(&call.args.len()) {
        return Err(wrong_arity(call));
    }
    find(call, 1, UNKNOWN)?;
    let key = call.args[2];
    let is_deleted = call.keyspace.delete(key);
    if is_deleted {
        call.keyspace.journal_as(&[b"DEL", key]);
    }
    call.reply.integer(i64::from(is_deleted));
    Ok(())
}
