// SPDX-License-Identifier: BSD-3-Clause
//! Commands on words beside the index: tags, synonyms, dictionaries, spelling; and FT.CONFIG.

use std::sync::Arc;

use braid_config::Config;
use braid_executor::Call;
use braid_resp::reply::Protocol;
use braid_search::index::Space;
use braid_search::schema::Kind;
use braid_search::words::{SpellOptions, check};
use braid_spec::CommandResult;

use crate::arguments::{Arguments, error, lossy};
use crate::lookup::{check_rights, find, service, wrong_arity};
use crate::request::Common;
use crate::search::shown_score;

/// FT.TAGVALS
pub fn tag_values(call: &mut Call) -> CommandResult {
    let &[_, _, name] = call.args else { return Err(wrong_arity(call)) };
    let index = find(call, 1, "Unknown Index name")?;
    check_rights(call, &index)?;
    call.keyspace.index_now();
    let definition = index.definition();
    let id = definition.schema.find(&lossy(name)).ok_or_else(|| error("No such field"))?;
    if !matches!(definition.schema.field(id).kind, Kind::Tag { .. }) {
        return Err(error("Not a tag field"));
    }
    let dictionary = index.index.dictionary();
    let begun = call.reply.begin_set();
    let mut count = 0;
    for (term, text) in dictionary.terms_from(Space::tags(id), "") {
        if dictionary.docs(term) > 0 {
            call.reply.bulk(text.as_bytes());
            count += 1;
        }
    }
    call.reply.end_set(begun, count);
    Ok(())
}

/// FT.SYNUPDATE
pub fn update_synonyms(call: &mut Call) -> CommandResult {
    if call.args.len() < 4 {
        return Err(wrong_arity(call));
    }
    let index = find(call, 1, "Unknown index name")?;
    let group = lossy(call.args[2]);
    let mut words = &call.args[3..];
    // Synonyms are looked up by queries, so there is nothing to look at again.
    if words[0].eq_ignore_ascii_case(b"SKIPINITIALSCAN") {
        words = &words[1..];
    }
    index.add_synonyms(&group, words);
    let mut request = vec![b"FT.SYNUPDATE".to_vec(), index.definition().name.to_vec(), group.into_bytes()];
    request.extend(words.iter().map(|word| word.to_vec()));
    index.requests.lock().push(request);
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// FT.SYNDUMP
pub fn dump_synonyms(call: &mut Call) -> CommandResult {
    let &[_, _] = call.args else { return Err(wrong_arity(call)) };
    let index = find(call, 1, "Unknown index name")?;
    check_rights(call, &index)?;
    let synonyms = Arc::clone(&index.synonyms.read());
    call.reply.map(synonyms.dump().count());
    for (word, groups) in synonyms.dump() {
        call.reply.bulk(word.as_bytes());
        let groups: Vec<&str> = groups.collect();
        call.reply.array(groups.len());
        groups.into_iter().for_each(|group| call.reply.bulk(group.as_bytes()));
    }
    Ok(())
}

/// FT.DICTADD
pub fn add_words(call: &mut Call) -> CommandResult {
    change_words(call, true)
}

/// FT.DICTDEL
pub fn delete_words(call: &mut Call) -> CommandResult {
    change_words(call, false)
}

fn change_words(call: &mut Call, adds: bool) -> CommandResult {
    let [_, name, words @ ..] = call.args else { return Err(wrong_arity(call)) };
    if words.is_empty() {
        return Err(wrong_arity(call));
    }
    let mut registry = service(call)?.registry.write();
    let name = lossy(name);
    let changed = if adds { registry.add_words(&name, words) } else { registry.remove_words(&name, words) };
    drop(registry);
    call.keyspace.count_changes(changed as u64);
    call.reply.integer(changed as i64);
    Ok(())
}

/// FT.DICTDUMP
pub fn dump_words(call: &mut Call) -> CommandResult {
    let &[_, name] = call.args else { return Err(wrong_arity(call)) };
    let registry = service(call)?.registry.read();
    let words: Vec<&str> =
        registry.dictionaries.get(&lossy(name)).into_iter().flatten().map(|word| &**word).collect();
    call.reply.set(words.len());
    words.into_iter().for_each(|word| call.reply.bulk(word.as_bytes()));
    Ok(())
}

/// FT.SPELLCHECK
pub fn spell_check(call: &mut Call) -> CommandResult {
    if call.args.len() < 3 {
        return Err(wrong_arity(call));
    }
    let index = find(call, 1, "Unknown Index name")?;
    check_rights(call, &index)?;
    call.keyspace.index_now();
    let definition = index.definition();
    let mut common = Common::new(&call.engine.config, false);
    let (mut distance, mut include, mut exclude) = (1, Vec::new(), Vec::new());
    let mut args = Arguments::new(&call.args[3..]);
    while !args.is_empty() {
        if args.take("DISTANCE") {
            let wrong = || error("bad distance given, distance must be a natural number between 1 to 4");
            distance = args.number("DISTANCE").map_err(|_| wrong())?;
        } else if args.take("TERMS") {
            let is_include = args.take("INCLUDE");
            if !is_include && !args.take("EXCLUDE") {
                return Err(error("bad format, exlude/include operation was not given"));
            }
            let wrong = || error("bad format, dictionary name was not given");
            let name = lossy(args.next().ok_or_else(wrong)?);
            if is_include { include.push(name) } else { exclude.push(name) }
        } else if !common.option(&mut args, &definition)? {
            args.skip(1);
        }
    }
    let query = common.parse(call.args[2], &definition, &call.engine.config)?;
    let registry = service(call)?.registry.read();
    let of = |names: &[String]| {
        let one = |name: &String| {
            registry.dictionaries.get(name).ok_or_else(|| error(format!("Dict does not exist: {name}")))
        };
        names.iter().map(one).collect::<Result<Vec<_>, _>>()
    };
    let options = SpellOptions { distance, include: of(&include)?, exclude: of(&exclude)? };
    let terms = check(&query, &index.index, &options).map_err(|wrong| error(wrong.to_string()))?;
    let reply = &mut *call.reply;
    if reply.protocol == Protocol::Resp3 {
        reply.map(1);
        reply.simple("results");
        reply.map(terms.len());
        for term in &terms {
            reply.bulk(term.word.as_bytes());
            reply.array(term.suggestions.len());
            for (score, word) in &term.suggestions {
                reply.map(1);
                reply.bulk(word.as_bytes());
                reply.double(*score);
            }
        }
        return Ok(());
    }
    reply.array(terms.len());
    for term in &terms {
        reply.array(3);
        reply.simple("TERM");
        reply.bulk(term.word.as_bytes());
        reply.array(term.suggestions.len());
        for (score, word) in &term.suggestions {
            reply.array(2);
            reply.bulk(shown_score(*score).as_bytes());
            reply.bulk(word.as_bytes());
        }
    }
    Ok(())
}

/// The options of FT.CONFIG that can be set, the directives that they are, and what they mean.
const SETTINGS: [(&str, &str, &str); 6] = [
    ("TIMEOUT", "search-timeout", "Query (search) timeout"),
    ("MINPREFIX", "search-min-prefix", "Set the minimum prefix for expansions (`*`)"),
    ("MAXEXPANSIONS", "search-max-prefix-expansions", "Maximum prefix expansions to be used in a query"),
    (
        "MAXPREFIXEXPANSIONS",
        "search-max-prefix-expansions",
        "Maximum prefix expansions to be used in a query",
    ),
    ("MAXSEARCHRESULTS", "search-max-search-results", "Maximum number of results from ft.search command"),
    (
        "MAXAGGREGATERESULTS",
        "search-max-aggregate-results",
        "Maximum number of results from ft.aggregate command",
    ),
];

/// The options that can only be set to what they are.
const FIXED: [(&str, &str, &str); 3] = [
    ("DEFAULT_DIALECT", "2", "Default RediSearch dialect"),
    ("ON_TIMEOUT", "return", "Action to perform when search timeout is exceeded"),
    ("MINSTEMLEN", "4", "Set the minimum word length to stem"),
];

fn options(config: &Config, pattern: &str) -> Vec<(&'static str, String, &'static str)> {
    let set =
        SETTINGS.map(|(name, directive, what)| (name, config.get_one(directive).unwrap_or_default(), what));
    let all = set.into_iter().chain(FIXED.map(|(name, value, what)| (name, value.to_owned(), what)));
    all.filter(|(name, ..)| pattern == "*" || name.eq_ignore_ascii_case(pattern)).collect()
}

/// FT.CONFIG
pub fn config(call: &mut Call) -> CommandResult {
    let [_, action, name, rest @ ..] = call.args else { return Err(wrong_arity(call)) };
    let config = &call.engine.config;
    let found = options(config, &lossy(name));
    let reply = &mut *call.reply;
    if action.eq_ignore_ascii_case(b"GET") {
        reply_pairs(reply, &found, |reply, (_, value, _)| reply.bulk(value.as_bytes()));
        return Ok(());
    }
    if action.eq_ignore_ascii_case(b"HELP") {
        reply.array(found.len());
        for (name, value, what) in found {
            reply.array(5);
            for word in [name, "Description", what, "Value"] {
                reply.simple(word);
            }
            reply.bulk(value.as_bytes());
        }
        return Ok(());
    }
    if !action.eq_ignore_ascii_case(b"SET") {
        return Err(wrong_arity(call));
    }
    let directive = SETTINGS.iter().find(|(one, ..)| one.eq_ignore_ascii_case(&lossy(name)));
    let Some((_, directive, _)) = directive else {
        let is_same = |(_, value, _): &Option3| rest.first().is_some_and(|new| *new == value.as_bytes());
        if found.first().is_some_and(is_same) {
            reply.ok();
            return Ok(());
        }
        return Err(error(if found.is_empty() { "Invalid option" } else { "Not modifiable at runtime" }));
    };
    let Some(value) = rest.first() else { return Err(error("Expected an argument, but none provided")) };
    if std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok()).is_none() {
        return Err(error("Could not convert argument to expected type"));
    }
    if config.set(&[(directive, value)]).is_err() {
        return Err(error("Value is outside acceptable bounds"));
    }
    if rest.len() > 1 {
        reply.simple("EXCESSARGS")
    } else {
        reply.ok()
    }
    Ok(())
}

type Option3 = (&'static str, String, &'static str);

fn reply_pairs(
    reply: &mut braid_resp::reply::ReplyBuffer,
    found: &[Option3],
    value: impl Fn(&mut braid_resp::reply::ReplyBuffer, &Option3),
) {
    if reply.protocol == Protocol::Resp3 {
        reply.map(found.len());
    } else {
        reply.array(found.len());
    }
    for option in found {
        if reply.protocol != Protocol::Resp3 {
            reply.array(2);
        }
        reply.simple(option.0);
        value(reply, option);
    }
}
