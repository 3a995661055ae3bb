// SPDX-License-Identifier: BSD-3-Clause
//! Commands that read documents.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_keyspace::reader::CowValue;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::json::doc::Doc;
use braid_values::json::packed::{self, Slot, Value};
use braid_values::json::path::{Path, eval};
use braid_values::json::print::{self, Format};
use braid_values::json::value::Json;

use super::find;
use super::reply::{expand, resp as reply_resp, type_name};
use super::shared::{
    LONG, NO_KEY, NOT_AN_INTEGER, WRONG_TYPE, no_match, no_match_raw, parse_only_value, parse_path, path_arg,
    read, text,
};

/// The longest text that is replied, as for any bulk string.
const REPLY_BYTES_MAX: usize = 512 << 20;
const TOO_LONG: &str = "ERR the reply would exceed 512 MB";

/// How JSON.GET shows values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    /// Numbers, booleans and null in the protocol's types, other values as text.
    ExpandScalars,
    Expand,
}

struct GetOptions<'a> {
    format: Format<'a>,
    shape: Shape,
    /// Not parsed yet: Redis Stack looks for the key first.
    paths: Vec<&'a [u8]>,
}

impl<'a> GetOptions<'a> {
    /// The paths, parsed. As in Redis Stack, one that cannot be parsed is an error only if it is
    /// alone and text is wanted; else it is left out of the text, or matches nothing.
    fn parse_paths(&self) -> Result<Vec<Path<'a>>, CommandError> {
        match self.paths.as_slice() {
            [path] if self.shape == Shape::Text => Ok(vec![parse_path(path)?]),
            paths if self.shape == Shape::Text => {
                Ok(paths.iter().filter_map(|&path| Path::parse(path).ok()).collect())
            }
            paths => {
                let parsed = |&path| Path::parse(path).unwrap_or_else(|_| Path::to_nothing(path));
                Ok(paths.iter().map(parsed).collect())
            }
        }
    }

    /// Whether all paths are of the older syntax.
    fn is_legacy(&self) -> bool {
        self.paths.iter().all(|path| Path::unparsed(path).is_legacy)
    }
}

/// JSON.GET's options; its arguments begin with the command's name.
fn get_options<'a>(args: &[&'a [u8]], protocol: Protocol) -> Result<GetOptions<'a>, CommandError> {
    let mut options = GetOptions { format: Format::default(), shape: Shape::Text, paths: Vec::new() };
    let mut at = 2;
    while at < args.len() {
        let is = |word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
        let (is_indent, is_newline, is_space) = (is("indent"), is("newline"), is("space"));
        if is("noescape") {
            at += 1;
            continue;
        }
        if is("format") {
            if protocol == Protocol::Resp2 && options.paths.is_empty() {
                return Err(text("ERR FORMAT argument is not supported on RESP2"));
            }
            let shape = args.get(at + 1).ok_or_else(|| CommandError::WrongArity("json.get".into()))?;
            options.shape = shape_arg(shape)?;
            at += 2;
            continue;
        }
        if !(is_indent || is_newline || is_space) {
            options.paths.push(args[at]);
            at += 1;
            continue;
        }
        let value: &'a [u8] =
            args.get(at + 1).copied().ok_or_else(|| CommandError::WrongArity("json.get".into()))?;
        if is_indent {
            options.format.indent = value;
        } else if is_newline {
            options.format.newline = value;
        } else {
            options.format.space = value;
        }
        at += 2;
    }
    if protocol == Protocol::Resp2 {
        options.shape = Shape::Text;
    }
    if options.paths.is_empty() {
        options.paths.push(b".");
    }
    Ok(options)
}

/// The names are compared with their case, as in Redis Stack.
fn shape_arg(word: &[u8]) -> Result<Shape, CommandError> {
    match word {
        b"STRING" => Ok(Shape::Text),
        b"EXPAND1" => Ok(Shape::ExpandScalars),
        b"EXPAND" => Ok(Shape::Expand),
        _ => Err(text("ERR wrong reply format")),
    }
}

pub(super) fn get(call: &mut Call) -> CommandResult {
    let options = get_options(call.args, call.reply.protocol)?;
    let Some(document) = read(call.keyspace, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let paths = options.parse_paths()?;
    if takes_long(document.doc(), &paths) && call.may_precompute() {
        let args: Vec<Box<[u8]>> = call.args.iter().map(|&arg| arg.into()).collect();
        return call.answer_from_shared(&call.args[1..2], move |shared, _, reply| {
            let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
            let options = get_options(&args, reply.protocol)?;
            match shared.first().and_then(CowValue::object) {
                None => reply.null(),
                Some(object) => {
                    let document = object.get::<Json>().ok_or_else(|| text(WRONG_TYPE))?;
                    reply_get(reply, document.doc(), &options, &options.parse_paths()?)?;
                }
            }
            Ok(())
        });
    }
    reply_get(call.reply, document.doc(), &options, &paths)
}

/// Whether the values at some paths are so large that they are printed in the background, or may
/// be: only a way to one value says what is there at once.
fn takes_long(doc: Doc<'_>, paths: &[Path<'_>]) -> bool {
    doc.len() >= LONG
        && paths.iter().any(|path| {
            let found = if path.is_static() { find::first(doc, path) } else { return true };
            found.is_ok_and(|slot| slot.is_some_and(|slot| packed::size(doc, slot) >= LONG))
        })
}

fn reply_get(
    reply: &mut ReplyBuffer,
    bytes: Doc<'_>,
    options: &GetOptions<'_>,
    paths: &[Path<'_>],
) -> CommandResult {
    if options.shape != Shape::Text {
        return get_expanded(reply, bytes, options, paths);
    }
    let mut out = Vec::new();
    if let ([path], [_]) = (paths, options.paths.as_slice()) {
        if path.is_legacy {
            let slot = find::first(bytes, path)?.ok_or_else(|| no_match(path, ""))?;
            print_value(bytes, slot, options.format, 0, &mut out);
        } else {
            print_matches(bytes, path, options.format, 0, &mut out)?;
        }
    } else {
        print_paths(bytes, paths, options, &mut out)?;
    }
    reply.bulk(&out);
    Ok(())
}

fn get_expanded(
    reply: &mut ReplyBuffer,
    bytes: Doc<'_>,
    options: &GetOptions<'_>,
    paths: &[Path<'_>],
) -> CommandResult {
    reply.array(paths.len());
    for path in paths {
        let slots = find::all(bytes, path)?;
        reply.array(slots.len());
        for slot in slots {
            let is_text = !matches!(packed::value(bytes, slot), Value::Null | Value::Bool(_) | Value::Num(_));
            if is_text && options.shape == Shape::ExpandScalars {
                let mut out = Vec::new();
                print_value(bytes, slot, options.format, 0, &mut out);
                reply.bulk(&out);
            } else {
                expand(reply, bytes, slot);
            }
        }
    }
    Ok(())
}

fn print_value(bytes: Doc<'_>, slot: Slot, format: Format<'_>, depth: usize, out: &mut Vec<u8>) {
    if format.is_compact() {
        print::compact(bytes, slot, out);
    } else {
        print::formatted(bytes, slot, format, depth, out);
    }
}

fn print_matches(
    bytes: Doc<'_>,
    path: &Path<'_>,
    format: Format<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> CommandResult {
    if format.is_compact() {
        out.push(b'[');
        let mut is_first = true;
        find::visit(bytes, path, &mut |slot| {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            print::compact(bytes, slot, out);
            out.len() <= REPLY_BYTES_MAX
        })?;
        out.push(b']');
    } else {
        let slots = find::all(bytes, path)?;
        print::list(slots.into_iter(), format, depth, out, |slot, out| {
            // Values inside each other can be printed many times.
            if out.len() <= REPLY_BYTES_MAX {
                print_value(bytes, slot, format, depth + 1, out);
            }
        });
    }
    if out.len() > REPLY_BYTES_MAX { Err(text(TOO_LONG)) } else { Ok(()) }
}

/// The values at several paths, as an object with the paths as names.
fn print_paths(
    bytes: Doc<'_>,
    paths: &[Path<'_>],
    options: &GetOptions<'_>,
    out: &mut Vec<u8>,
) -> CommandResult {
    let (format, is_legacy) = (options.format, options.is_legacy());
    out.push(b'{');
    let mut count = 0;
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].iter().any(|other| other.text == path.text) {
            continue;
        }
        print::break_line(count > 0, format, 1, out);
        print::string(String::from_utf8_lossy(path.text).as_bytes(), out);
        out.push(b':');
        out.extend_from_slice(format.space);
        if is_legacy {
            let slot = find::first(bytes, path)?.ok_or_else(|| no_match_raw(path, ""))?;
            print_value(bytes, slot, format, 1, out);
        } else {
            print_matches(bytes, path, format, 1, out)?;
        }
        count += 1;
    }
    print::end(b'}', count > 0, format, 0, out);
    Ok(())
}

pub(super) fn mget(call: &mut Call) -> CommandResult {
    let (last, keys) = call.args[1..].split_last().expect("arity");
    // A path that cannot be parsed finds nothing.
    let path = Path::parse(last).ok();
    let mut found: Vec<Option<Vec<u8>>> = Vec::with_capacity(keys.len());
    for key in keys {
        let document = call.keyspace.read_as::<Json>(key).ok().flatten();
        found.push(match (document, &path) {
            (Some(document), Some(path)) => text_at(document.doc(), path)?,
            _ => None,
        });
    }
    call.reply.array(found.len());
    found.iter().for_each(|text| match text {
        Some(text) => call.reply.bulk(text),
        None => call.reply.null(),
    });
    Ok(())
}

/// The text of all matches, or of the first one in the older syntax.
fn text_at(bytes: Doc<'_>, path: &Path<'_>) -> Result<Option<Vec<u8>>, CommandError> {
    let mut out = Vec::new();
    if !path.is_legacy {
        print_matches(bytes, path, Format::default(), 0, &mut out)?;
        return Ok(Some(out));
    }
    let slot = find::first(bytes, path)?;
    Ok(slot.map(|slot| {
        print::compact(bytes, slot, &mut out);
        out
    }))
}

/// Replies with a property of the values at the path of an argument: an array in JSONPath (nil for
/// values of another type), the first match's in the older syntax. The key is looked for before the
/// path is parsed, as in Redis Stack.
fn property<T>(
    call: &mut Call,
    on_no_key: impl FnOnce(&mut Call, &Path<'_>) -> CommandResult,
    of: impl Fn(Doc<'_>, Slot) -> Option<T>,
    missing: impl FnOnce(&mut Call, &Path<'_>, Option<&'static str>) -> CommandResult,
    one: impl Fn(&mut ReplyBuffer, T),
) -> CommandResult {
    let path = call.args.get(2).copied().unwrap_or(b".");
    let Some(bytes) = read(call.keyspace, call.args[1])?.map(Json::doc) else {
        return on_no_key(call, &Path::unparsed(path));
    };
    let path = &parse_path(path)?;
    if !path.is_legacy {
        let values: Vec<Option<T>> =
            find::all(bytes, path)?.into_iter().map(|slot| of(bytes, slot)).collect();
        call.reply.array(values.len());
        for value in values {
            match value {
                Some(value) => one(call.reply, value),
                None => call.reply.null(),
            }
        }
        return Ok(());
    }
    let first = find::first(bytes, path)?;
    match first.map(|slot| (of(bytes, slot), type_name(bytes, slot))) {
        Some((Some(value), _)) => one(call.reply, value),
        Some((None, name)) => return missing(call, path, Some(name)),
        None => return missing(call, path, None),
    }
    Ok(())
}

fn null_unless_json_path(call: &mut Call, path: &Path<'_>) -> CommandResult {
    if !path.is_legacy {
        return Err(text(NO_KEY));
    }
    call.reply.null();
    Ok(())
}

fn wrong_type(wanted: &str, found: &str) -> CommandError {
    text(format!("WRONGTYPE wrong type of path value - expected {wanted} but found {found}"))
}

fn reply_len(reply: &mut ReplyBuffer, len: usize) {
    reply.integer(len as i64);
}

pub(super) fn strlen(call: &mut Call) -> CommandResult {
    let of = |bytes: Doc<'_>, slot| match packed::value(bytes, slot) {
        Value::Str(text) => Some(text.len()),
        _ => None,
    };
    let missing = |_: &mut Call, path: &Path<'_>, found: Option<&str>| {
        Err(found.map_or_else(|| no_match(path, ""), |found| wrong_type("string", found)))
    };
    property(call, null_unless_json_path, of, missing, reply_len)
}

pub(super) fn arrlen(call: &mut Call) -> CommandResult {
    let missing = |_: &mut Call, path: &Path<'_>, found: Option<&str>| {
        Err(no_match_raw(path, if found.is_some() { " or not an array" } else { "" }))
    };
    property(call, null_unless_json_path, packed::array_len, missing, reply_len)
}

pub(super) fn objlen(call: &mut Call) -> CommandResult {
    if is_unparsable_legacy(call)? {
        call.reply.null();
        return Ok(());
    }
    let of = |bytes: Doc<'_>, slot| match packed::value(bytes, slot) {
        Value::Object(object) => Some(object.count),
        _ => None,
    };
    let missing = |call: &mut Call, _: &Path<'_>, found: Option<&'static str>| match found {
        Some(found) => Err(wrong_type("object", found)),
        None => {
            call.reply.null();
            Ok(())
        }
    };
    let on_no_key = |call: &mut Call, path: &Path<'_>| {
        if !path.is_legacy {
            return Err(no_match(path, " or not an object"));
        }
        call.reply.null();
        Ok(())
    };
    property(call, on_no_key, of, missing, reply_len)
}

pub(super) fn objkeys(call: &mut Call) -> CommandResult {
    if is_unparsable_legacy(call)? {
        call.reply.null();
        return Ok(());
    }
    let of = |bytes: Doc<'_>, slot| match packed::value(bytes, slot) {
        Value::Object(object) => {
            Some(packed::members(bytes, object).map(|(name, _)| name.into()).collect::<Vec<Box<[u8]>>>())
        }
        _ => None,
    };
    let missing = |call: &mut Call, path: &Path<'_>, found: Option<&'static str>| match found {
        Some(_) => Err(no_match(path, " or not an object")),
        None => {
            call.reply.null();
            Ok(())
        }
    };
    property(call, null_unless_json_path, of, missing, |reply, names| {
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name));
    })
}

/// True for a path of the older syntax that cannot be parsed: for some commands Redis Stack then
/// replies nil.
fn is_unparsable_legacy(call: &Call) -> Result<bool, CommandError> {
    let path = call.args.get(2).copied().unwrap_or(b".");
    let is_bad = Path::unparsed(path).is_legacy && Path::parse(path).is_err();
    Ok(is_bad && read(call.keyspace, call.args[1])?.is_some())
}

pub(super) fn type_of(call: &mut Call) -> CommandResult {
    let bytes = read(call.keyspace, call.args[1])?.map(Json::doc);
    if call.reply.protocol == Protocol::Resp3 {
        call.reply.array(1);
    }
    let Some(bytes) = bytes else {
        call.reply.null();
        return Ok(());
    };
    let path = match path_arg(call.args, 2) {
        Err(_) if Path::unparsed(call.args[2]).is_legacy => {
            call.reply.null();
            return Ok(());
        }
        path => path?,
    };
    if path.is_legacy {
        match find::first(bytes, &path)? {
            Some(slot) => call.reply.bulk(type_name(bytes, slot).as_bytes()),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let slots = find::all(bytes, &path)?;
    call.reply.array(slots.len());
    slots.into_iter().for_each(|slot| call.reply.bulk(type_name(bytes, slot).as_bytes()));
    Ok(())
}

fn integer_arg(call: &Call, index: usize, default: i64) -> Result<i64, CommandError> {
    match call.args.get(index) {
        Some(arg) => parse_i64(arg).ok_or_else(|| text(NOT_AN_INTEGER)),
        None => Ok(default),
    }
}

pub(super) fn arrindex(call: &mut Call) -> CommandResult {
    if call.args.len() > 6 {
        return Err(call.wrong_arity());
    }
    let (start, stop) = (integer_arg(call, 4, 0)?, integer_arg(call, 5, 0)?);
    let wanted = parse_only_value(call.args[3])?;
    let of = |bytes: Doc<'_>, slot| {
        packed::array_len(bytes, slot)
            .map(|len| index_of(bytes, slot, len, Doc::flat(&wanted), (start, stop)))
    };
    let missing = |_: &mut Call, path: &Path<'_>, found: Option<&str>| {
        Err(found.map_or_else(|| no_match(path, ""), |found| wrong_type("array", found)))
    };
    let on_no_key = |_: &mut Call, path: &Path<'_>| Err(no_match_raw(path, ""));
    property(call, on_no_key, of, missing, |reply, index| reply.integer(index))
}

/// The index of a value in an array, between `start` and `stop`; -1 if it is not there. A start
/// behind the end means the last element, a stop of 0 the end.
fn index_of(bytes: Doc<'_>, slot: Slot, len: usize, wanted: Doc<'_>, (start, stop): (i64, i64)) -> i64 {
    let from = eval::from_end(start, len).min(len.saturating_sub(1));
    let to = if stop == 0 { len } else { eval::from_end(stop, len).min(len) };
    let found = packed::items_from(bytes, slot, from)
        .zip(from..to)
        .map(|(item, index)| (index, item))
        .find(|(_, item)| packed::equal(bytes, *item, wanted, Slot::whole(0)));
    found.map_or(-1, |(index, _)| index as i64)
}

pub(super) fn resp(call: &mut Call) -> CommandResult {
    // The reply is written while the document is read, so the reply's buffer is borrowed alone.
    let Some(document) = read(call.keyspace, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let path = path_arg(call.args, 2)?;
    let bytes = document.doc();
    if path.is_legacy {
        let slot = find::first(bytes, &path)?.ok_or_else(|| no_match(&path, ""))?;
        reply_resp(call.reply, bytes, slot);
        return Ok(());
    }
    let slots = find::all(bytes, &path)?;
    call.reply.array(slots.len());
    slots.into_iter().for_each(|slot| reply_resp(call.reply, bytes, slot));
    Ok(())
}

pub(super) fn debug_help(call: &mut Call) -> CommandResult {
    let lines = ["MEMORY <key> [path] - reports memory usage", "HELP                - this message"];
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.bulk(line.as_bytes()));
    Ok(())
}

/// Bytes of a value: the allocation of a whole document, the packed bytes of a part.
fn memory_of(document: &Json, slot: Slot) -> usize {
    match slot.at() {
        0 if !slot.is_element() => document.memory_bytes(),
        _ => packed::size(document.doc(), slot),
    }
}

pub(super) fn debug_memory(call: &mut Call) -> CommandResult {
    let document = read(call.keyspace, call.args[2])?;
    let path = match path_arg(call.args, 3) {
        Err(_) if document.is_none() => Path::unparsed(call.args[3]),
        path => path?,
    };
    let sizes: Option<Vec<usize>> = match document {
        Some(document) => {
            let slots = find::all(document.doc(), &path)?;
            Some(slots.into_iter().map(|slot| memory_of(document, slot)).collect())
        }
        None => None,
    };
    if path.is_legacy {
        let size = match sizes {
            Some(sizes) => *sizes.first().ok_or_else(|| no_match(&path, ""))?,
            None => 0,
        };
        call.reply.integer(size as i64);
        return Ok(());
    }
    let sizes = sizes.unwrap_or_default();
    call.reply.array(sizes.len());
    sizes.into_iter().for_each(|size| call.reply.integer(size as i64));
    Ok(())
}
