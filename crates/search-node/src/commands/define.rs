// SPDX-License-Identifier: BSD-3-Clause
//! Commands that make, change and drop indexes, and give them other names.

use std::sync::Arc;

use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};

use crate::arguments::error;
use crate::build;
use crate::definition;
use crate::index::SearchIndex;
use crate::lookup::{check_rights, find, service, wrong_arity};

const UNKNOWN: &str = "Unknown Index name";
const UNKNOWN_OR_ALIAS: &str = "Unknown index name (or name is an alias itself)";

fn owned(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// FT.CREATE
pub fn create(call: &mut Call) -> CommandResult {
    create_unless(call, false)
}

/// FT._CREATEIFNX
pub fn create_if_new(call: &mut Call) -> CommandResult {
    create_unless(call, true)
}

fn create_unless(call: &mut Call, quietly: bool) -> CommandResult {
    if call.args.len() < 5 {
        return Err(wrong_arity(call));
    }
    let service = service(call)?;
    if call.keyspace.db() != 0 {
        return Err(error("Cannot create index on db != 0"));
    }
    let name = call.args[1];
    if service.registry.read().indexes.contains_key(name) {
        if quietly {
            call.reply.ok();
            return Ok(());
        }
        return Err(error("Index already exists"));
    }
    let definition = definition::parse(name, &call.args[2..])?;
    let skips_scan = definition.skips_scan;
    let mut request = owned(call.args);
    request[0] = b"FT.CREATE".to_vec();
    let index = Arc::new(SearchIndex::new(definition, request));
    service.add(Arc::clone(&index));
    if !skips_scan {
        fill(call, &index);
    }
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// Looks at the keys that are there: now if they are few.
fn fill(call: &Call<'_, '_>, index: &Arc<SearchIndex>) {
    let (keyspace, now) = (&call.engine.keyspace, call.keyspace.now());
    if (call.replays() || !build::at_once(keyspace, index, now))
        && let Ok(service) = service(call)
    {
        service.build(vec![Arc::clone(index)]);
    }
}

/// FT.ALTER
pub fn alter(call: &mut Call) -> CommandResult {
    if call.args.len() < 5 {
        return Err(wrong_arity(call));
    }
    let index = find(call, 1, "Unknown index name")?;
    let mut at = 2;
    let skips_scan = call.arg_is(at, "SKIPINITIALSCAN");
    at += usize::from(skips_scan);
    if !call.arg_is(at, "SCHEMA") {
        return Err(error("ALTER must be followed by SCHEMA"));
    }
    if !call.args.get(at + 1).is_some_and(|word| word.eq_ignore_ascii_case(b"ADD")) {
        return Err(error("Unknown action passed to ALTER SCHEMA"));
    }
    if call.args.len() == at + 2 {
        return Err(error("No fields provided"));
    }
    let fields = &call.args[at + 2..];
    index.add_fields(fields)?;
    let mut request = vec![b"FT.ALTER".to_vec(), index.definition().name.to_vec()];
    request.extend([b"SCHEMA".to_vec(), b"ADD".to_vec()]);
    request.extend(owned(fields));
    index.requests.lock().push(request);
    if !skips_scan {
        fill(call, &index);
    }
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// FT.DROPINDEX
pub fn drop_index(call: &mut Call) -> CommandResult {
    if !(2..=3).contains(&call.args.len()) {
        return Err(wrong_arity(call));
    }
    let deletes = call.args.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"DD"));
    remove(call, deletes, UNKNOWN)
}

/// FT._DROPINDEXIFX
pub fn drop_index_if_there(call: &mut Call) -> CommandResult {
    if find(call, 1, UNKNOWN).is_err() {
        call.reply.ok();
        return Ok(());
    }
    drop_index(call)
}

/// FT.DROP, of old clients: the documents go as well unless KEEPDOCS.
pub fn drop_with_documents(call: &mut Call) -> CommandResult {
    if !(2..=3).contains(&call.args.len()) {
        return Err(wrong_arity(call));
    }
    let keeps = call.args.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"KEEPDOCS"));
    remove(call, !keeps, UNKNOWN)
}

fn remove(call: &mut Call, deletes: bool, missing: &str) -> CommandResult {
    let service = service(call)?;
    call.keyspace.index_now();
    if deletes && let Ok(index) = find(call, 1, missing) {
        check_rights(call, &index)?;
    }
    let index = service.drop_index(call.args[1]).ok_or_else(|| error(missing))?;
    if deletes {
        let db = call.keyspace.db();
        call.keyspace.set_db(0);
        let gone = call.keyspace.delete_all(&index.keys());
        for key in &gone {
            call.keyspace.journal_as(&[b"DEL", key]);
        }
        call.keyspace.journal_as(&[b"FT.DROPINDEX", &index.definition().name]);
        call.keyspace.set_db(db);
    }
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// FT._LIST
pub fn list(call: &mut Call) -> CommandResult {
    if call.args.len() != 1 {
        return Err(wrong_arity(call));
    }
    let registry = service(call)?.registry.read();
    call.reply.set(registry.indexes.len());
    for name in registry.indexes.keys() {
        call.reply.simple(&String::from_utf8_lossy(name));
    }
    Ok(())
}

/// FT.ALIASLIST
pub fn list_aliases(call: &mut Call) -> CommandResult {
    let &[_, name] = call.args else { return Err(wrong_arity(call)) };
    find(call, 1, "Unknown index name")?;
    let registry = service(call)?.registry.read();
    let real = registry.aliases.get(name).map_or(name, |real| real);
    let names = registry.aliases.iter().filter(|(_, of)| ***of == *name || ***of == *real);
    let names: Vec<&[u8]> = names.map(|(alias, _)| &**alias).collect();
    call.reply.set(names.len());
    for name in names {
        call.reply.bulk(name);
    }
    Ok(())
}

/// FT.ALIASADD
pub fn add_alias(call: &mut Call) -> CommandResult {
    set_alias(call, false)
}

/// FT.ALIASUPDATE
pub fn update_alias(call: &mut Call) -> CommandResult {
    set_alias(call, true)
}

fn set_alias(call: &mut Call, replaces: bool) -> CommandResult {
    let &[_, alias, name] = call.args else { return Err(wrong_arity(call)) };
    let mut registry = service(call)?.registry.write();
    if !registry.indexes.contains_key(name) {
        return Err(error(UNKNOWN_OR_ALIAS));
    }
    if !replaces && registry.aliases.contains_key(alias) {
        return Err(error("Alias already exists"));
    }
    registry.aliases.insert(alias.into(), name.into());
    drop(registry);
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// FT.ALIASDEL
pub fn delete_alias(call: &mut Call) -> CommandResult {
    let &[_, alias] = call.args else { return Err(wrong_arity(call)) };
    let known = service(call)?.registry.write().aliases.remove(alias);
    known.ok_or_else(|| error("Alias does not exist"))?;
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

/// FT._ALIASADDIFNX and FT._ALIASDELIFX never fail because of the alias.
pub fn add_alias_if_new(call: &mut Call) -> CommandResult {
    quietly(call, set_alias_new)
}

fn set_alias_new(call: &mut Call) -> CommandResult {
    set_alias(call, false)
}

pub fn delete_alias_if_there(call: &mut Call) -> CommandResult {
    quietly(call, delete_alias)
}

fn quietly(call: &mut Call, body: fn(&mut Call) -> CommandResult) -> CommandResult {
    match body(call) {
        Err(CommandError::Text(_)) => {
            call.reply.ok();
            Ok(())
        }
        other => other,
    }
}
