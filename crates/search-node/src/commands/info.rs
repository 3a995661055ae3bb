// SPDX-License-Identifier: BSD-3-Clause
//! FT.INFO: the names and forms of RediSearch, with this server's figures.

use std::sync::atomic::Ordering::Relaxed;

use braid_executor::Call;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_search::aggregate::Value;
use braid_search::schema::{Field, Kind};
use braid_spec::CommandResult;
use braid_vectors::Metric;

use crate::cursors::CURSORS_MAX;
use crate::definition::{Algorithm, Definition, FieldExtra, VectorField};
use crate::index::{Failures, SearchIndex};
use crate::lookup::{check_rights, find, service, wrong_arity};

const MIB: f64 = 1024.0 * 1024.0;

pub fn info(call: &mut Call) -> CommandResult {
    let &[_, _] = call.args else { return Err(wrong_arity(call)) };
    let index = find(call, 1, "Unknown index name")?;
    check_rights(call, &index)?;
    index.uses.fetch_add(1, Relaxed);
    let (open, all) = {
        let cursors = service(call)?.cursors.lock();
        (cursors.count(&index), cursors.all())
    };
    let definition = index.definition();
    let reply = &mut *call.reply;
    let begun = reply.begin_map();
    let mut count = 0;
    let mut key = |reply: &mut ReplyBuffer, name: &str| {
        reply.simple(name);
        count += 1;
    };
    key(reply, "index_name");
    reply.simple(&String::from_utf8_lossy(&definition.name));
    key(reply, "index_options");
    reply_options(&definition, reply);
    key(reply, "index_definition");
    reply_definition(&definition, reply);
    key(reply, "attributes");
    reply.array(definition.extras.len());
    for (field, extra) in definition.schema.fields().iter().zip(&definition.extras) {
        reply_attribute(field, extra, reply);
    }
    for (name, value) in figures(&index) {
        key(reply, name);
        value.reply(reply);
    }
    key(reply, "gc_stats");
    reply_gc(reply);
    key(reply, "cursor_stats");
    reply.map(4);
    for (name, value) in
        [("global_idle", all), ("global_total", all), ("index_capacity", CURSORS_MAX), ("index_total", open)]
    {
        reply.simple(name);
        reply.integer(value as i64);
    }
    if let Some(words) = &definition.stop_words {
        key(reply, "stopwords_list");
        reply.array(words.len());
        words.iter().for_each(|word| reply.bulk(word));
    }
    key(reply, "dialect_stats");
    reply.map(index.dialects.len());
    for (number, used) in (1..).zip(&index.dialects) {
        reply.simple(&format!("dialect_{number}"));
        reply.integer(used.load(Relaxed) as i64);
    }
    key(reply, "Index Errors");
    reply_failures(&index.failures.lock(), reply);
    key(reply, "field statistics");
    reply_fields(&index, &definition, reply);
    reply.end_map(begun, count);
    Ok(())
}

fn reply_options(definition: &Definition, reply: &mut ReplyBuffer) {
    let all = [
        (definition.has_offsets, "NOOFFSETS"),
        (definition.has_highlights, "NOHL"),
        (definition.has_fields, "NOFIELDS"),
        (definition.has_frequencies, "NOFREQS"),
    ];
    let given: Vec<&str> = all.into_iter().filter(|(has, _)| !has).map(|(_, name)| name).collect();
    reply.array(given.len());
    given.into_iter().for_each(|name| reply.simple(name));
}

fn reply_definition(definition: &Definition, reply: &mut ReplyBuffer) {
    let begun = reply.begin_map();
    let mut count = 3;
    reply.simple("key_type");
    reply.simple(if definition.is_json { "JSON" } else { "HASH" });
    reply.simple("prefixes");
    reply.array(definition.prefixes.len());
    definition.prefixes.iter().for_each(|prefix| reply.simple(&String::from_utf8_lossy(prefix)));
    if let Some(filter) = &definition.filter {
        reply.simple("filter");
        reply.simple(&filter.text);
        count += 1;
    }
    for (name, field) in
        [("language_field", &definition.language_field), ("score_field", &definition.score_field)]
    {
        if let Some(field) = field {
            reply.simple(name);
            reply.simple(&String::from_utf8_lossy(field));
            count += 1;
        }
    }
    reply.simple("default_score");
    Figure::Float(f64::from(definition.score)).reply(reply);
    reply.end_map(begun, count);
}

/// A field: in RESP2 its flags are among the rest, in RESP3 a list of their own.
fn reply_attribute(field: &Field, extra: &FieldExtra, reply: &mut ReplyBuffer) {
    let mut pairs: Vec<(&str, Figure<'_>)> =
        vec![("identifier", Figure::Text(&field.path)), ("attribute", Figure::Text(&field.name))];
    match &field.kind {
        Kind::Text { weight, .. } => {
            pairs.push(("type", Figure::Text("TEXT")));
            pairs.push(("WEIGHT", Figure::Float(*weight)));
        }
        Kind::Tag { separator: byte, .. } => {
            pairs.push(("type", Figure::Text("TAG")));
            pairs.push(("SEPARATOR", Figure::Byte(*byte)));
        }
        Kind::Numeric => pairs.push(("type", Figure::Text("NUMERIC"))),
        Kind::Geo => pairs.push(("type", Figure::Text("GEO"))),
        Kind::Vector => {
            pairs.push(("type", Figure::Text("VECTOR")));
            if let Some(vector) = &extra.vector {
                pairs.append(&mut vector_pairs(vector));
            }
        }
    }
    if let Some(phonetic) = &extra.phonetic {
        pairs.push(("PHONETIC", Figure::Text(phonetic)));
    }
    let is_case_sensitive = matches!(field.kind, Kind::Tag { case_sensitive: true, .. });
    let flags: Vec<&str> = [
        (is_case_sensitive, "CASESENSITIVE"),
        (field.sortable, "SORTABLE"),
        (field.sortable && extra.unf, "UNF"),
        (matches!(field.kind, Kind::Text { stem: false, .. }), "NOSTEM"),
        (field.no_index, "NOINDEX"),
        (extra.has_suffixes, "WITHSUFFIXTRIE"),
        (field.index_empty, "INDEXEMPTY"),
        (field.index_missing, "INDEXMISSING"),
    ]
    .into_iter()
    .filter(|(has, _)| *has)
    .map(|(_, name)| name)
    .collect();
    let is_map = reply.protocol == Protocol::Resp3;
    if is_map {
        reply.map(pairs.len() + 1)
    } else {
        reply.array(pairs.len() * 2 + flags.len())
    }
    for (name, value) in pairs {
        reply.simple(name);
        value.reply(reply);
    }
    if is_map {
        reply.simple("flags");
        reply.array(flags.len());
    }
    flags.into_iter().for_each(|flag| reply.simple(flag));
}

fn vector_pairs<'a>(vector: &VectorField) -> Vec<(&'a str, Figure<'a>)> {
    let mut pairs = vec![
        ("algorithm", Figure::Text(if vector.algorithm == Algorithm::Flat { "FLAT" } else { "HNSW" })),
        ("data_type", Figure::Text(vector.element.name())),
        ("dim", Figure::Number(u64::from(vector.dimensions))),
        (
            "distance_metric",
            Figure::Text(match vector.metric {
                Metric::L2 => "L2",
                Metric::InnerProduct => "IP",
                Metric::Cosine => "COSINE",
            }),
        ),
    ];
    if let Algorithm::Hnsw { links, ef_construction, .. } = vector.algorithm {
        pairs.push(("M", Figure::Number(u64::from(links))));
        pairs.push(("ef_construction", Figure::Number(ef_construction as u64)));
    }
    pairs
}

enum Figure<'a> {
    Text(&'a str),
    Byte(Option<u8>),
    Number(u64),
    /// A text in RESP2.
    Float(f64),
}

impl Figure<'_> {
    fn reply(&self, reply: &mut ReplyBuffer) {
        match *self {
            Figure::Text(text) => reply.simple(text),
            Figure::Byte(byte) => reply.simple(&byte.map(char::from).map(String::from).unwrap_or_default()),
            Figure::Number(number) => reply.integer(number as i64),
            Figure::Float(number) if reply.protocol == Protocol::Resp3 => reply.double(number),
            Figure::Float(number) => reply.bulk(Value::Number(number).shown().as_bytes()),
        }
    }
}

fn figures(index: &SearchIndex) -> Vec<(&'static str, Figure<'static>)> {
    let docs = index.index.totals().docs;
    let (size, terms_size) = index.index.size();
    let terms = index.index.dictionary().len() as u64;
    let records: usize = (0..index.index.parts()).map(|part| index.index.part(part).records()).sum();
    let vectors = index.vectors.memory_bytes();
    let mib = |bytes: usize| Figure::Float(bytes as f64 / MIB);
    let per = |sum: f64, count: f64| Figure::Float(if count > 0.0 { sum / count } else { f64::NAN });
    let is_building = index.building.is_running.load(Relaxed);
    vec![
        ("num_docs", Figure::Number(docs)),
        ("max_doc_id", Figure::Number(docs)),
        ("num_terms", Figure::Number(terms)),
        ("num_records", Figure::Number(records as u64)),
        ("inverted_sz_mb", mib(size.postings + size.numbers)),
        ("vector_index_sz_mb", mib(vectors)),
        ("total_inverted_index_blocks", Figure::Number(0)),
        ("offset_vectors_sz_mb", mib(0)),
        ("doc_table_size_mb", mib(size.documents)),
        ("sortable_values_size_mb", mib(size.sortables)),
        ("key_table_size_mb", mib(0)),
        ("tag_overhead_sz_mb", mib(size.tags)),
        ("text_overhead_sz_mb", mib(terms_size)),
        ("total_index_memory_sz_mb", mib(size.total() + terms_size + vectors)),
        ("geoshapes_sz_mb", mib(0)),
        ("records_per_doc_avg", per(records as f64, docs as f64)),
        ("bytes_per_record_avg", per((size.postings + size.tags) as f64, records as f64)),
        ("offsets_per_term_avg", per(0.0, 0.0)),
        ("offset_bits_per_record_avg", per(0.0, 0.0)),
        ("hash_indexing_failures", Figure::Number(index.failures.lock().count)),
        ("total_indexing_time", Figure::Float(index.indexing_us.load(Relaxed) as f64 / 1000.0)),
        ("indexing", Figure::Number(u64::from(is_building))),
        ("percent_indexed", Figure::Float(index.building.progress())),
        ("number_of_uses", Figure::Number(index.uses.load(Relaxed))),
        ("cleaning", Figure::Number(0)),
    ]
}

/// Nothing is collected later: all are 0.
fn reply_gc(reply: &mut ReplyBuffer) {
    const NAMES: [&str; 7] = [
        "bytes_collected",
        "total_ms_run",
        "total_cycles",
        "average_cycle_time_ms",
        "last_run_time_ms",
        "gc_numeric_trees_missed",
        "gc_blocks_denied",
    ];
    reply.map(NAMES.len());
    for name in NAMES {
        reply.simple(name);
        Figure::Float(if name.starts_with("average") { f64::NAN } else { 0.0 }).reply(reply);
    }
}

fn reply_failures(failures: &Failures, reply: &mut ReplyBuffer) {
    let is_none = failures.count == 0;
    reply.map(3);
    reply.simple("indexing failures");
    reply.integer(failures.count as i64);
    reply.simple("last indexing error");
    reply.simple(if is_none { "N/A" } else { &failures.last });
    reply.simple("last indexing error key");
    reply.bulk(if is_none { b"N/A" } else { &failures.key });
}

fn reply_fields(index: &SearchIndex, definition: &Definition, reply: &mut ReplyBuffer) {
    let failures = index.field_failures.lock();
    reply.array(definition.extras.len());
    let none = Failures::default();
    for (at, field) in definition.schema.fields().iter().enumerate() {
        reply.map(3);
        reply.simple("identifier");
        reply.simple(&field.path);
        reply.simple("attribute");
        reply.simple(&field.name);
        reply.simple("Index Errors");
        reply_failures(failures.get(at).unwrap_or(&none), reply);
    }
}
