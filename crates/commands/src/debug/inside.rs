// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG commands that inspect collections: their layout, and the size from which a list element
//! gets its own node.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use braid_config::parse_memory;
use braid_containers::listpack::{Element, Listpack};
use braid_executor::Call;
use braid_keyspace::ValueRef;
use braid_keyspace::object::ObjectRef;
use braid_spec::{CommandError, CommandResult};
use braid_values::list::{List, SavedNode};

use super::{find, leading_integer};

/// The collection at a key, even if the key has expired.
fn collection<'t>(call: &'t Call<'_, '_>) -> Result<Option<ObjectRef<'t>>, CommandError> {
    let entry = find(call, call.args[2]).ok_or(CommandError::NoSuchKey)?;
    Ok(if let ValueRef::Object(object) = entry.value() { Some(object) } else { None })
}

/// Members by segment, in the format of other servers' hash table chains.
pub(super) fn table(call: &mut Call) -> CommandResult {
    let full = call.args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"full"));
    let counts = collection(call)?.and_then(|object| object.collection().table_segments());
    let counts = counts.ok_or(CommandError::text(
        "ERR The value stored at the specified key is not represented using an hash table",
    ))?;
    let members: usize = counts.iter().sum();
    let mut text = format!(
        "Hash table 0 stats (main hash table):\n table size: {}\n number of elements: {members}\n",
        counts.len()
    );
    if full {
        let used = counts.iter().filter(|count| **count > 0).count();
        let longest = counts.iter().copied().max().unwrap_or(0);
        let average = members as f64 / used.max(1) as f64;
        let _ = write!(
            text,
            " different slots: {used}\n max chain length: {longest}\n avg chain length (counted): {average:.2}\n \
             avg chain length (computed): {average:.2}\n Chain length distribution:\n"
        );
        for length in 0..=longest {
            let these = counts.iter().filter(|count| **count == length).count();
            if these > 0 {
                let share = these as f64 * 100.0 / counts.len() as f64;
                let _ = writeln!(text, "   {length}: {these} ({share:.2}%)");
            }
        }
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn describe(list: &Listpack, text: &mut String) {
    let _ = writeln!(text, "{{total bytes {}}} {{num entries {}}}", list.byte_len(), list.len());
    for (index, element) in list.iter().enumerate() {
        let _ = match element {
            Element::Int(number) => writeln!(text, "  {index}: integer {number}"),
            Element::Bytes(bytes) => {
                writeln!(text, "  {index}: {} bytes {}", bytes.len(), bytes.escape_ascii())
            }
        };
    }
}

pub(super) fn listpack(call: &mut Call) -> CommandResult {
    let list = collection(call)?.and_then(|object| object.collection().as_packed_list());
    let list = list.ok_or(CommandError::text("ERR Not a listpack encoded object."))?;
    let mut text = String::new();
    describe(list, &mut text);
    log::warn!("DEBUG LISTPACK\n{text}");
    call.reply.simple("Listpack structure printed to the log");
    Ok(())
}

pub(super) fn quicklist(call: &mut Call) -> CommandResult {
    let full = call.args.get(3).is_some_and(|text| leading_integer(text) != 0);
    let is_long = |list: &&List| list.as_listpack().is_none();
    let list = collection(call)?.and_then(|object| object.get::<List>()).filter(is_long);
    let list = list.ok_or(CommandError::text("ERR Not a quicklist encoded object."))?;
    let mut text = format!("{{count {}}} {{nodes {}}}\n", list.len(), list.node_count());
    for (index, node) in list.nodes().enumerate() {
        match node {
            SavedNode::Packed(block) => {
                let _ = write!(text, "node {index}: ");
                if full {
                    describe(&block, &mut text);
                } else {
                    let _ = writeln!(text, "{} elements, {} bytes", block.len(), block.byte_len());
                }
            }
            SavedNode::Plain(element) => {
                let _ = writeln!(text, "node {index}: one element of {} bytes", element.len());
            }
        }
    }
    log::warn!("DEBUG QUICKLIST\n{text}");
    call.reply.simple("Quicklist structure printed to the log");
    Ok(())
}

/// Largest threshold: 4 GiB.
const THRESHOLD_MAX: u64 = 1 << 32;

pub(super) fn packed_threshold(call: &mut Call) -> CommandResult {
    let bytes =
        std::str::from_utf8(call.args[2]).ok().and_then(parse_memory).filter(|&bytes| bytes <= THRESHOLD_MAX);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(CommandError::text(
        "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
    ))?;
    call.engine.debug.list_packed_threshold.store(bytes, Relaxed);
    call.reply.ok();
    Ok(())
}
