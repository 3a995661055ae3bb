// SPDX-License-Identifier: BSD-3-Clause
//! SORT and SORT_RO.
//!
//! Flow: the elements of a list, set or sorted set are copied, given their sort keys (themselves,
//! or the values of keys formed from a pattern), sorted, cut, and returned or stored as a list. A
//! large collection without patterns is sorted by a background thread, from a shared copy
//! (`braid_executor::background`). Patterns reach keys that are unknown until the elements are
//! read: with one, all keys are locked for reading, and if the result is stored, the world is
//! stopped. Without any (or only `#`, the element itself) the locks of the named keys suffice.

mod options;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use braid_base::number::{parse_f64, parse_f64_bound};
use braid_executor::{Call, Row, limits};
use braid_keyspace::object::ObjectRef;
use braid_keyspace::reader::CowValue;
use braid_keyspace::{Entry, Event, Expiry, Txn, ValueRef};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{
    Begin, Category, CommandError, CommandResult, Find, Flags, Group, KeyFlags, KeySpec, Scope,
};
use braid_values::hash::Hash;
use braid_values::list::{End, List, ListLimits};
use braid_values::set::Set;
use braid_values::sorted_set::SortedSet;
use options::{Options, Pattern};

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const SOURCE: KeySpec = KeySpec::at(1, READ);
const PATTERNS: KeySpec = unknown(
    READ,
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content \
     of the key we sort",
);
const DESTINATION: KeySpec = unknown(
    KeyFlags::OW.and(KeyFlags::UPDATE),
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the \
     argument array",
);
const COST: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the \
                    number of returned elements. When the elements are not sorted, complexity is O(N).";

const CATEGORIES: Category =
    Category::SET.and(Category::SORTEDSET).and(Category::LIST).and(Category::DANGEROUS);

/// Rows of SORT and SORT_RO.
pub const COMMANDS: &[Row] = &[
    Row::new("sort", Group::Generic, sort)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS))
        .categories(CATEGORIES)
        .ungrouped()
        .keys(&[SOURCE, PATTERNS, DESTINATION])
        .find_keys(find_keys)
        .scope(Scope::World)
        .find_scope(find_scope)
        .docs("1.0.0", "Sorts a list, a set or a sorted set, and optionally stores the result.", COST)
        .syntax(
            "key:key#0 [BY by-pattern:pattern#1/pattern] [LIMIT limit:{offset:integer count:integer}] \
             [GET get-pattern:pattern#1/pattern...TOKEN] [order:(ASC|DESC)] [sorting=ALPHA] \
             [STORE destination:key#2]",
        ),
    Row::new("sort_ro", Group::Generic, sort_ro)
        .at_least(2)
        .flags(Flags::READONLY.and(Flags::MOVABLE_KEYS))
        .categories(CATEGORIES)
        .ungrouped()
        .keys(&[SOURCE, PATTERNS])
        .find_keys(find_source)
        .scope(Scope::AllKeys)
        .find_scope(find_scope)
        .docs("7.0.0", "Returns the sorted elements of a list, a set or a sorted set.", COST)
        .syntax(
            "key:key#0 [BY by-pattern:pattern#1/pattern] [LIMIT limit:{offset:integer count:integer}] \
             [GET get-pattern:pattern#1/pattern...TOKEN] [order:(ASC|DESC)] [sorting=ALPHA]",
        ),
];

const fn unknown(flags: KeyFlags, notes: &'static str) -> KeySpec {
    KeySpec { flags, begin: Begin::Unknown, find: Find::Unknown, notes }
}

/// Finds the source key.
fn find_source(_args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    Some(vec![(1, READ)])
}

/// The keys that the options refer to.
#[derive(Default)]
struct KeysMeant {
    /// Index of STORE's key.
    store: Option<usize>,
    /// True if a pattern refers to keys.
    looks_up: bool,
}

impl KeysMeant {
    fn of(args: &[&[u8]]) -> KeysMeant {
        let mut meant = KeysMeant::default();
        let mut index = 2;
        while index < args.len() {
            let is = |word: &str| args[index].eq_ignore_ascii_case(word.as_bytes());
            if is("store") && index + 1 < args.len() {
                meant.store = Some(index + 1);
                index += 1;
            } else if is("limit") {
                index += 2;
            } else if is("by") || is("get") {
                index += 1;
                let pattern = args.get(index).map(|text| Pattern::parse(text));
                meant.looks_up |= matches!(pattern, Some(Pattern::Key { .. }));
            }
            index += 1;
        }
        meant
    }
}

/// Finds the source key and STORE's key.
fn find_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    let store = KeysMeant::of(args).store.map(|index| (index, DESTINATION.flags));
    Some(std::iter::once((1, READ)).chain(store).collect())
}

fn find_scope(args: &[&[u8]]) -> Scope {
    match KeysMeant::of(args) {
        KeysMeant { looks_up: false, .. } => Scope::Keys,
        KeysMeant { store: None, .. } => Scope::AllKeys,
        KeysMeant { store: Some(_), .. } => Scope::World,
    }
}

fn sort(call: &mut Call) -> CommandResult {
    run(call, true)
}

fn sort_ro(call: &mut Call) -> CommandResult {
    run(call, false)
}

/// Copied elements, one after the other.
#[derive(Default)]
struct Elements {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Elements {
    fn push(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.ends.push(self.bytes.len());
    }

    fn items(&self) -> Vec<Item<'_>> {
        let mut start = 0;
        let item = |&end: &usize| Item {
            text: &self.bytes[std::mem::replace(&mut start, end)..end],
            score: 0.0,
            by: None,
        };
        self.ends.iter().map(item).collect()
    }
}

/// An element and its sort key.
struct Item<'e> {
    text: &'e [u8],
    score: f64,
    /// The value found by BY, when sorting by text.
    by: Option<Vec<u8>>,
}

/// Sorts the elements, unless BY prevents it, and applies LIMIT.
fn sort_and_cut<'e>(
    keyspace: Option<&Txn<'_>>,
    elements: &'e Elements,
    options: &Options<'_>,
) -> Result<Vec<Item<'e>>, CommandError> {
    let mut items = elements.items();
    if options.unsorted && options.descending && options.reverses {
        items.reverse();
    }
    let range = options.range(items.len());
    if !options.unsorted {
        prepare(keyspace, &mut items, options)?;
        // A stable sort, since several elements may have the same BY value.
        items.sort_by(|one, other| options.direct(compare(one, other, options)));
    }
    items.truncate(range.end);
    items.drain(..range.start.min(items.len()));
    Ok(items)
}

/// A collection with this many elements is sorted in the background.
const MANY_ELEMENTS: usize = 20_000;

/// Approximate number of elements in a collection.
fn size_of(entry: Entry<'_>) -> usize {
    match entry.value() {
        ValueRef::Object(object) => {
            let (list, set) = (object.get::<List>().map(List::len), object.get::<Set>().map(Set::len));
            list.or(set).or(object.get::<SortedSet>().map(SortedSet::len)).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Sorts a large collection in the background.
fn sort_in_background(call: &mut Call, options: &Options<'_>) -> CommandResult {
    let mut options = options.to_owned_options();
    call.answer_from_shared(&call.args[1..2], move |shared, now, reply| {
        let elements = load_shared(&shared[0], now, &mut options)?;
        let items = sort_and_cut(None, &elements, &options)?;
        reply_with(None, reply, &items, &options);
        Ok(())
    })
}

fn reply_with(
    keyspace: Option<&Txn<'_>>,
    reply: &mut ReplyBuffer,
    items: &[Item<'_>],
    options: &Options<'_>,
) {
    reply.array(items.len() * options.get.len().max(1));
    for item in items {
        if reply.is_full() {
            break;
        }
        if options.get.is_empty() {
            reply.bulk(item.text);
        }
        for pattern in &options.get {
            if lookup(keyspace, pattern, item.text, |value| reply.bulk(value)).is_none() {
                reply.null();
            }
        }
    }
}

fn run(call: &mut Call, may_store: bool) -> CommandResult {
    let mut options = Options::parse(call, may_store)?;
    if let Some(destination) = options.store
        && let Some(sorted) = call.take_precomputed::<List>()
    {
        return store(call, destination, sorted?, &options);
    }
    let entry = call.keyspace.read(call.args[1]);
    let is_large = entry.is_some_and(|entry| size_of(entry) >= MANY_ELEMENTS);
    if is_large && !options.looks_up() && call.may_precompute() {
        return match options.store {
            None => sort_in_background(call, &options),
            Some(_) => sort_for_later(call, &options),
        };
    }
    let elements = load(entry, call.keyspace.now(), &mut options, call.session.execution.in_script)?;
    let items = sort_and_cut(Some(call.keyspace), &elements, &options)?;
    match options.store {
        None => reply_with(Some(call.keyspace), call.reply, &items, &options),
        Some(destination) => {
            let list = list_of(Some(call.keyspace), &items, &options, &limits::list_limits(call.engine));
            store(call, destination, list, &options)?;
        }
    }
    Ok(())
}

/// Sorts a large collection in the background, to store the result.
fn sort_for_later(call: &mut Call, options: &Options<'_>) -> CommandResult {
    let (mut options, limits) = (options.to_owned_options(), limits::list_limits(call.engine));
    call.precompute(&call.args[1..2], move |shared, now| {
        Some(load_shared(&shared[0], now, &mut options).and_then(|elements| {
            let items = sort_and_cut(None, &elements, &options)?;
            Ok(list_of(None, &items, &options, &limits))
        }))
    })
}

/// Builds the list to store.
fn list_of(
    keyspace: Option<&Txn<'_>>,
    items: &[Item<'_>],
    options: &Options<'_>,
    limits: &ListLimits,
) -> List {
    let mut list = List::new();
    for item in items {
        if options.get.is_empty() {
            list.push(End::Back, item.text, limits);
        }
        for pattern in &options.get {
            let push = |value: &[u8]| list.push(End::Back, value, limits);
            if lookup(keyspace, pattern, item.text, push).is_none() {
                list.push(End::Back, b"", limits);
            }
        }
    }
    list
}

fn store(call: &mut Call, destination: &[u8], list: List, options: &Options<'_>) -> CommandResult {
    let count = list.len();
    if count == 0 {
        call.keyspace.delete(destination);
    } else {
        let list = braid_keyspace::object::Object::new(list);
        call.keyspace.set_object(Event::list("sortstore"), destination, list, Expiry::Clear);
        call.keyspace.count_changes(count as u64 - 1);
    }
    if options.looks_up() || options.alphabetical || options.unsorted {
        journal_result(call, destination);
    }
    call.reply.integer(count as i64);
    Ok(())
}

/// Number of elements per journalled request.
const JOURNALLED_AT_ONCE: usize = 256;

/// Journals the stored list: patterns may refer to any keys, and a server with another locale
/// sorts text in another order. Elements sorted by their own numbers have the same order
/// everywhere: then the command itself is journalled.
fn journal_result(call: &mut Call, key: &[u8]) {
    if !call.keyspace.journals() {
        return;
    }
    let mut elements: Vec<Vec<u8>> = Vec::new();
    if let Ok(Some(list)) = call.keyspace.peek_as::<List>(key) {
        list.range(0, list.len(), |element| elements.push(element.to_vec()));
    }
    call.keyspace.journal_as(&[b"DEL", key]);
    for elements in elements.chunks(JOURNALLED_AT_ONCE) {
        let args = [b"RPUSH", key].into_iter().chain(elements.iter().map(|element| &element[..]));
        call.keyspace.journal_as(&args.collect::<Vec<_>>());
    }
    call.keyspace.journal_protection(key);
}

/// Loads a key's elements, if the key exists. Notes in the options whether DESC reverses unsorted
/// elements, as in a list or sorted set.
fn load(
    entry: Option<Entry<'_>>,
    now: i64,
    options: &mut Options<'_>,
    in_script: bool,
) -> Result<Elements, CommandError> {
    match entry.map(Entry::value) {
        None => Ok(Elements::default()),
        Some(ValueRef::Object(object)) => load_object(object, now, options, in_script),
        Some(_) => Err(CommandError::WrongType),
    }
}

fn load_shared(value: &CowValue, now: i64, options: &mut Options<'_>) -> Result<Elements, CommandError> {
    match value.object() {
        None => Ok(Elements::default()),
        Some(object) => load_object(object, now, options, false),
    }
}

fn load_object(
    object: ObjectRef<'_>,
    now: i64,
    options: &mut Options<'_>,
    in_script: bool,
) -> Result<Elements, CommandError> {
    let mut elements = Elements::default();
    options.reverses = true;
    let mut buffer = itoa::Buffer::new();
    if let Some(list) = object.get::<List>() {
        elements.ends.reserve(list.len());
        list.range(0, list.len(), |element| elements.push(element.text(&mut buffer)));
    } else if let Some(set) = object.get::<Set>() {
        elements.ends.reserve(set.len());
        set.iter(now).for_each(|member| elements.push(member.text(&mut buffer)));
        options.reverses = false;
        if options.unsorted && (options.store.is_some() || in_script) {
            // A set has no order that a replay would reproduce, so results that are stored or
            // returned to a script are sorted anyway.
            options.unsorted = false;
            options.alphabetical = true;
            options.by = None;
        }
    } else if let Some(set) = object.get::<SortedSet>() {
        let view = set.view(now);
        elements.ends.reserve(view.len());
        view.iter(0..view.len()).for_each(|(member, _)| elements.push(member.text(&mut buffer)));
    } else {
        return Err(CommandError::WrongType);
    }
    Ok(elements)
}

/// Computes each element's sort key.
fn prepare(keyspace: Option<&Txn<'_>>, items: &mut [Item<'_>], options: &Options<'_>) -> CommandResult {
    let mut numbers = true;
    for item in items {
        match (&options.by, options.alphabetical) {
            (Some(pattern), true) => {
                item.by = lookup(keyspace, pattern, item.text, <[u8]>::to_vec);
            }
            (Some(pattern), false) => {
                if let Some(score) = lookup(keyspace, pattern, item.text, score_of) {
                    numbers &= score.is_some();
                    item.score = score.unwrap_or_default();
                }
            }
            (None, true) => {}
            (None, false) => {
                let score = score_of(item.text);
                numbers &= score.is_some();
                item.score = score.unwrap_or_default();
            }
        }
    }
    if numbers {
        Ok(())
    } else {
        Err(CommandError::text("ERR One or more scores can't be converted into double"))
    }
}

/// Parses a number like C's `strtod`: accepts leading white space and the empty text, rejects
/// numbers out of range.
fn score_of(text: &[u8]) -> Option<f64> {
    let score = parse_f64_bound(text)?;
    let suspect = score.is_infinite() || score == 0.0;
    if suspect && !text.is_empty() && text[0] != 0 {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        return parse_f64(text.trim_ascii_start());
    }
    Some(score)
}

/// Compares in ascending order. Equal scores (which are never NaN) are ordered by element, so that
/// the result is deterministic.
fn compare(one: &Item<'_>, other: &Item<'_>, options: &Options<'_>) -> Ordering {
    if !options.alphabetical {
        let by_score = one.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
        return by_score.then_with(|| one.text.cmp(other.text));
    }
    match options.by {
        // A missing value sorts before any value.
        Some(_) => match (&one.by, &other.by) {
            (Some(one), Some(other)) => text_to_compare(one, options).cmp(text_to_compare(other, options)),
            (one, other) => one.is_some().cmp(&other.is_some()),
        },
        None => text_to_compare(one.text, options).cmp(text_to_compare(other.text, options)),
    }
}

/// The part of a text that is compared: stock servers compare whole texts if the result is stored,
/// otherwise C strings, which end at the first NUL.
fn text_to_compare<'a>(text: &'a [u8], options: &Options<'_>) -> &'a [u8] {
    match options.store {
        Some(_) => text,
        None => text.split(|&byte| byte == 0).next().unwrap_or_default(),
    }
}

/// Passes the value of a pattern for an element to `see`; `None` if there is no value. The
/// keyspace is needed only for patterns that refer to keys.
fn lookup<R>(
    keyspace: Option<&Txn<'_>>,
    pattern: &Pattern<'_>,
    element: &[u8],
    see: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    let (before, after, field) = match *pattern {
        Pattern::Element => return Some(see(element)),
        Pattern::Nothing => return None,
        Pattern::Key { before, after, field } => (before, after, field),
    };
    let (keyspace, key) = (keyspace?, [before, element, after].concat());
    match field {
        None => {
            let value = keyspace.string(&key).ok()??;
            Some(see(value.bytes(&mut [0; 20])))
        }
        Some(field) => {
            let hash = keyspace.read_as::<Hash>(&key).ok()??;
            let value = hash.get(field, keyspace.now())?;
            Some(see(value.text(&mut itoa::Buffer::new())))
        }
    }
}
