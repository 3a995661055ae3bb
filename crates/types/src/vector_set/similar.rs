// SPDX-License-Identifier: BSD-3-Clause
//! VSIM.

use braid_base::number::{parse_f64, parse_i64};
use braid_executor::Call;
use braid_keyspace::reader::CowValue;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::vector_set::VectorSet;
use braid_values::vector_set::filter::Filter;
use braid_vectors::{Hit, Query};

use super::arguments::{
    INVALID_VECTOR, SLICE_NANOS, nanos, score, vector, vector_nanos, wrong_arity, wrong_dimension,
    wrong_input,
};

const COUNT_DEFAULT: usize = 10;
/// Candidates of a search that does not say how many: this, or the number of wanted elements.
const EF_DEFAULT: usize = 100;
/// How many elements a filter is asked about for each wanted one, unless FILTER-EF says.
const EFFORT_DEFAULT: usize = 10_000;

struct Options {
    with_scores: bool,
    with_attributes: bool,
    count: usize,
    epsilon: f64,
    ef: usize,
    filter: Option<Filter>,
    effort: Option<usize>,
    is_exact: bool,
}

/// A positive number; a larger one than fits is as large as possible.
fn positive(arg: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let number = parse_i64(arg).filter(|&number| number > 0);
    number.and_then(|number| usize::try_from(number).ok()).ok_or(CommandError::text(error))
}

fn options(args: &[&[u8]], mut at: usize) -> Result<Options, CommandError> {
    let mut options = Options {
        with_scores: false,
        with_attributes: false,
        count: COUNT_DEFAULT,
        epsilon: f64::INFINITY,
        ef: EF_DEFAULT,
        filter: None,
        effort: None,
        is_exact: false,
    };
    while at < args.len() {
        let value = args.get(at + 1);
        let is = |word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
        if is("withscores") {
            options.with_scores = true;
        } else if is("withattribs") {
            options.with_attributes = true;
        } else if is("truth") {
            options.is_exact = true;
        } else if is("nothread") {
            // Only searches that take long leave the thread of their client.
        } else if let Some(value) = value {
            if is("count") {
                options.count = positive(value, "ERR invalid COUNT")?;
            } else if is("epsilon") {
                let epsilon = parse_f64(value).filter(|&epsilon| epsilon > 0.0);
                options.epsilon = epsilon.ok_or(CommandError::text("ERR invalid EPSILON"))?;
            } else if is("ef") {
                options.ef = positive(value, "ERR invalid EF")?;
            } else if is("filter") {
                let filter = Filter::compile(value);
                options.filter = Some(filter.map_err(|error| {
                    CommandError::quoting("ERR syntax error in FILTER expression near: ", &error.near, "")
                })?);
            } else if is("filter-ef") {
                options.effort = Some(positive(value, "ERR invalid FILTER-EF")?);
            } else {
                return Err(CommandError::text("ERR syntax error in VSIM command"));
            }
            at += 1;
        } else {
            return Err(CommandError::text("ERR syntax error in VSIM command"));
        }
        at += 1;
    }
    Ok(options)
}

/// The query, and the position of the options.
fn query(args: &[&[u8]], set: &VectorSet) -> Result<(Query, usize), CommandError> {
    if args[2].eq_ignore_ascii_case(b"ele") {
        let id = set.find(args[3]).ok_or(CommandError::text("ERR element not found in set"))?;
        // Its vector as VEMB replies it: of length 1, unlike the quantised one.
        let query = set.graph().query(&set.graph().vector(id));
        let query = query.map_err(|_| CommandError::text(INVALID_VECTOR))?;
        return Ok((query.starting_at(id), 4));
    }
    let (mut given, end) = vector(args, 2)?;
    let count = given.len();
    if let Some(projection) = set.projection()
        && count != set.graph().shape().dim as usize
    {
        given = projection.apply(&given).map_err(|_| wrong_input(count, projection))?;
    }
    let query = set.graph().query(&given).map_err(|_| wrong_dimension(count, set))?;
    Ok((query, end))
}

/// Searches, unless that takes much longer than `nanos`.
fn search(set: &VectorSet, query: &Query, options: &Options, limit: usize) -> Option<Vec<Hit>> {
    let count = options.count.min(set.len());
    let graph = set.graph();
    let ef = if options.is_exact { set.len() } else { options.ef.min(set.len()) };
    let mut hits = match &options.filter {
        Some(filter) => {
            let usual =
                if options.is_exact { usize::MAX } else { options.count.saturating_mul(EFFORT_DEFAULT) };
            let effort = options.effort.unwrap_or(usual);
            let budget = limit / vector_nanos(set);
            set.search_matching(query, count, ef, (effort, budget), filter)?
        }
        None if nanos(set, graph.search_effort(ef.max(count))) > limit => return None,
        None if options.is_exact => graph.scan(query, count),
        None => graph.search(query, count, ef),
    };
    hits.retain(|hit| score(set, hit.distance) >= 1.0 - options.epsilon);
    Some(hits)
}

/// Replies to a VSIM on a set. False if the search would take much longer than `nanos`.
fn answer(
    args: &[&[u8]],
    set: &VectorSet,
    out: &mut ReplyBuffer,
    nanos: usize,
) -> Result<bool, CommandError> {
    let (query, at) = query(args, set)?;
    let options = options(args, at)?;
    let Some(hits) = search(set, &query, &options, nanos) else { return Ok(false) };
    reply(out, set, &hits, &options);
    Ok(true)
}

pub(super) fn vsim(call: &mut Call) -> CommandResult {
    if call.args.len() < 4 {
        return Err(wrong_arity(call));
    }
    let key = call.args[1];
    let Some(set) = call.keyspace.read_as::<VectorSet>(key)? else {
        call.reply.array(0);
        return Ok(());
    };
    if answer(call.args, set, call.reply, SLICE_NANOS)? {
        return Ok(());
    }
    if !call.may_precompute() {
        return answer(call.args, set, call.reply, usize::MAX).map(|_| ());
    }
    let args: Vec<Box<[u8]>> = call.args.iter().map(|&arg| arg.into()).collect();
    call.answer_from_shared(&[key], move |shared, _, out| {
        let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
        match shared.first().and_then(CowValue::object) {
            None => out.array(0),
            Some(object) => {
                let set = object.get::<VectorSet>().ok_or(CommandError::WrongType)?;
                answer(&args, set, out, usize::MAX)?;
            }
        }
        Ok(())
    })
}

fn reply(reply: &mut ReplyBuffer, set: &VectorSet, hits: &[Hit], options: &Options) {
    let (scores, attributes) = (options.with_scores, options.with_attributes);
    let is_map = reply.protocol == Protocol::Resp3 && (scores || attributes);
    match is_map {
        true => reply.map(hits.len()),
        false => reply.array(hits.len() * (1 + usize::from(scores) + usize::from(attributes))),
    }
    for hit in hits {
        let (name, attribute) = set.name_and_attribute(hit.id);
        reply.bulk(name);
        if is_map && scores && attributes {
            reply.array(2);
        }
        if scores {
            reply.double(score(set, hit.distance));
        }
        if attributes {
            match attribute {
                Some(attribute) => reply.bulk(attribute),
                None => reply.null(),
            }
        }
    }
}
