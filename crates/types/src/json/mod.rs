// SPDX-License-Identifier: BSD-3-Clause
//! Commands on JSON documents, with the replies and messages of Redis Stack 7.4.
//!
//! ```text
//! mod.rs      rows
//! shared.rs   what several commands share
//! read.rs     commands that change nothing
//! write.rs    JSON.SET, MSET, MERGE, DEL, CLEAR, and changes of numbers, strings and booleans
//! arrays.rs   changes of arrays
//! find.rs     the matches of a path
//! reply.rs    values as replies: FORMAT EXPAND, JSON.RESP
//! ```

mod arrays;
mod find;
mod read;
mod reply;
mod shared;
mod write;

use crate::family::Family;
use braid_executor::Row;
use braid_spec::{Category, Flags, Group, KeyFlags, KeySpec};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const READ_MANY: &[KeySpec] = &[KeySpec::range(1, -2, 1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const CHANGE_MANY: &[KeySpec] =
    &[KeySpec::range(1, -1, 3, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const READS: Flags = Flags::READONLY;
const WRITES: Flags = Flags::WRITE;
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);

const FAMILY: Family = Family::of_module(Category::JSON);

/// Rows of the JSON commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    FAMILY.row("json.arrappend", arrays::append, GROWS, CHANGE).at_least(4)
        .docs("8.0.0", "Appends values to the end of arrays.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string value:string..."),
    FAMILY.row("json.arrindex", read::arrindex, READS, READ_ONE).at_least(4)
        .docs("8.0.0", "Returns the index of the first occurrence of a scalar value in an array.", "O(N) when path is evaluated to a single value where N is the size of the array, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string value:string [range:{start:integer [stop:integer]}]"),
    FAMILY.row("json.arrinsert", arrays::insert, GROWS, CHANGE).at_least(5)
        .docs("8.0.0", "Inserts values into arrays before an index.", "O(N) when path is evaluated to a single value where N is the size of the array, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string index:integer value:string..."),
    FAMILY.row("json.arrlen", read::arrlen, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the length of arrays.", "O(1) where path is evaluated to a single value, O(N) where path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.arrpop", arrays::pop, WRITES, CHANGE).at_least(2)
        .docs("8.0.0", "Removes and returns the element at an index of arrays.", "O(N) when path is evaluated to a single value where N is the size of the array and the specified index is not the last element, O(1) when path is evaluated to a single value and the specified index is the last element, or O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:{path:string [index:integer]}]"),
    FAMILY.row("json.arrtrim", arrays::trim, WRITES, CHANGE).exactly(5)
        .docs("8.0.0", "Trims arrays to a range of elements.", "O(N) when path is evaluated to a single value where N is the size of the array, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string start:integer stop:integer"),
    FAMILY.row("json.clear", write::clear, WRITES, CHANGE).at_least(2)
        .docs("8.0.0", "Empties arrays and objects, and sets numbers to 0.", "O(N) when path is evaluated to a single value where N is the size of the values, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    Row::container("json.debug", Group::Module, DEBUG).categories(Category::JSON)
        .docs("8.0.0", "Groups the commands that examine documents.", "Depends on subcommand."),
    FAMILY.row("json.del", write::del, WRITES, CHANGE).at_least(2)
        .docs("8.0.0", "Deletes values.", "O(N) when path is evaluated to a single value where N is the size of the deleted value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.forget", write::del, WRITES, CHANGE).at_least(2)
        .docs("8.0.0", "Deletes values.", "O(N) when path is evaluated to a single value where N is the size of the deleted value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.get", read::get, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns values as JSON text.", "O(N) when path is evaluated to a single value where N is the size of the value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [INDENT indent:string] [NEWLINE newline:string] [SPACE space:string] [path:string...]"),
    FAMILY.row("json.merge", write::merge, GROWS, CHANGE).exactly(4)
        .docs("8.0.0", "Merges a value into values.", "O(M+N) when path is evaluated to a single value where M is the size of the original value (if it exists) and N is the size of the new value, O(M+N) when path is evaluated to multiple values where M is the size of the key and N is the size of the new value * the number of original values in the key")
        .syntax("key:key#0 path:string value:string"),
    FAMILY.row("json.mget", read::mget, READS, READ_MANY).at_least(3)
        .docs("8.0.0", "Returns the values at a path from several documents.", "O(M*N) when path is evaluated to a single value where M is the number of keys and N is the size of the value, O(N1+N2+...+Nm) when path is evaluated to multiple values where m is the number of keys and Ni is the size of the i-th key")
        .syntax("key:key#0... path:string"),
    FAMILY.row("json.mset", write::mset, GROWS, CHANGE_MANY).at_least(4)
        .docs("8.0.0", "Sets values in several documents.", "O(K*(M+N)) where k is the number of keys in the command, when path is evaluated to a single value where M is the size of the original value (if it exists) and N is the size of the new value, or O(K*(M+N)) when path is evaluated to multiple values where M is the size of the key and N is the size of the new value * the number of original values in the key")
        .syntax("triplet:{key:key#0 path:string value:string}..."),
    FAMILY.row("json.numincrby", write::numincrby, WRITES, CHANGE).at_least(4)
        .docs("8.0.0", "Increments numbers.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string value:double"),
    FAMILY.row("json.nummultby", write::nummultby, WRITES, CHANGE).at_least(4)
        .docs("8.0.0", "Multiplies numbers.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string value:double"),
    FAMILY.row("json.numpowby", write::numpowby, WRITES, CHANGE).at_least(4)
        .docs("8.0.0", "Raises numbers to a power.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string value:double"),
    FAMILY.row("json.objkeys", read::objkeys, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the names of the members of objects.", "O(N) when path is evaluated to a single value, where N is the number of keys in the object, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.objlen", read::objlen, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the number of members of objects.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.resp", read::resp, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns values in the protocol's own types.", "O(N) when path is evaluated to a single value, where N is the size of the value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.set", write::set, GROWS, CHANGE).at_least(4)
        .docs("8.0.0", "Sets or updates values.", "O(M+N) when path is evaluated to a single value where M is the size of the original value (if it exists) and N is the size of the new value, O(M+N) when path is evaluated to multiple values where M is the size of the key and N is the size of the new value * the number of original values in the key")
        .syntax("key:key#0 path:string value:string [condition:(NX|XX)] [FPHA fpha:(BF16|FP16|FP32|FP64)]"),
    FAMILY.row("json.strappend", write::strappend, GROWS, CHANGE).at_least(3)
        .docs("8.0.0", "Appends to strings.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string] value:string"),
    FAMILY.row("json.strlen", read::strlen, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the length of strings.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
    FAMILY.row("json.toggle", write::toggle, WRITES, CHANGE).at_least(3)
        .docs("8.0.0", "Toggles booleans.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 path:string"),
    FAMILY.row("json.type", read::type_of, READS, READ_ONE).at_least(2)
        .docs("8.0.0", "Returns the types of values.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
];

const DEBUG: &[Row] = &[
    Row::new("help", Group::Module, read::debug_help)
        .exactly(2)
        .flags(Flags::READONLY)
        .categories(Category::JSON)
        .docs("8.0.0", "Lists the subcommands.", "O(1)"),
    Row::new("memory", Group::Module, read::debug_memory)
        .at_least(3)
        .flags(Flags::READONLY)
        .categories(Category::JSON)
        .keys(&[KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .docs("8.0.0", "Returns the sizes of values in memory, in bytes.", "O(1) when path is evaluated to a single value, O(N) when path is evaluated to multiple values, where N is the size of the key")
        .syntax("key:key#0 [path:string]"),
];
