// SPDX-License-Identifier: BSD-3-Clause
//! VADD.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_executor::dispatch::Request;
use braid_keyspace::object::Object;
use braid_keyspace::txn::KeyRef;
use braid_keyspace::{Event, Expiry};
use braid_spec::{CommandError, CommandResult};
use braid_values::vector_set::VectorSet;
use braid_vectors::{Found, Metric, Projection, Quantisation, Shape};

use super::arguments::{INVALID_VECTOR, SLICE_NANOS, nanos, vector, wrong_dimension, wrong_input};
use crate::family::reply_bool;

/// Stock servers report no events of vector sets but those of keys.
pub(super) const SILENT: Event = Event { class: 0, name: "vadd" };

const LINKS_DEFAULT: u32 = 16;
const LINKS_MIN: i64 = 4;
const LINKS_MAX: i64 = 4096;
const EF_DEFAULT: usize = 200;
const EF_MAX: i64 = 1_000_000;
/// Shorter searches are not worth to be made before the key is locked.
const LITTLE_NANOS: usize = 10_000;

/// A request's arguments; an element and an attribute are the positions of theirs.
struct Addition {
    reduce: Option<u32>,
    vector: Vec<f32>,
    element: usize,
    quantisation: Quantisation,
    links: Option<u32>,
    ef: usize,
    attribute: Option<usize>,
}

/// What [`look_ahead`] leaves for [`vadd`].
struct Ahead {
    addition: Addition,
    /// The vector as the set takes it.
    vector: Vec<f32>,
    found: Found,
}

fn parse(args: &[&[u8]]) -> Result<Addition, CommandError> {
    let wrong_arity = || CommandError::WrongArity("VADD".into());
    if args.len() < 5 {
        return Err(wrong_arity());
    }
    let arg_is = |at: usize, word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
    let (mut at, mut reduce) = (2, None);
    if arg_is(2, "reduce") {
        let given = parse_i64(args[3]).and_then(|given| u32::try_from(given).ok()).filter(|&given| given > 0);
        reduce = Some(given.ok_or(CommandError::text(INVALID_VECTOR))?);
        at = 4;
    }
    let (vector, element) = vector(args, at)?;
    if element >= args.len() {
        return Err(wrong_arity());
    }
    let mut addition = Addition {
        reduce,
        vector,
        element,
        quantisation: Quantisation::I8,
        links: None,
        ef: EF_DEFAULT,
        attribute: None,
    };
    let mut at = element + 1;
    while at < args.len() {
        let value = args.get(at + 1);
        if arg_is(at, "cas") {
            // Candidates are always found as the graph is now.
        } else if arg_is(at, "noquant") {
            addition.quantisation = Quantisation::F32;
        } else if arg_is(at, "q8") {
            addition.quantisation = Quantisation::I8;
        } else if arg_is(at, "bin") {
            addition.quantisation = Quantisation::Bin;
        } else if let Some(value) = value {
            let number = parse_i64(value);
            if arg_is(at, "m") {
                let links = number.filter(|number| (LINKS_MIN..=LINKS_MAX).contains(number));
                addition.links = Some(links.ok_or(CommandError::text("ERR invalid M"))? as u32);
            } else if arg_is(at, "ef") {
                let ef = number.filter(|number| (1..=EF_MAX).contains(number));
                addition.ef = ef.ok_or(CommandError::text("ERR invalid EF"))? as usize;
            } else if arg_is(at, "setattr") {
                addition.attribute = Some(at + 1);
            } else {
                return Err(CommandError::text("ERR invalid option after element"));
            }
            at += 1;
        } else {
            return Err(CommandError::text("ERR invalid option after element"));
        }
        at += 1;
    }
    Ok(addition)
}

impl Addition {
    /// The vector as an existing set takes it.
    fn for_set(&self, set: &VectorSet) -> Result<Vec<f32>, CommandError> {
        let (shape, given) = (set.graph().shape(), self.vector.len());
        if shape.quantisation != self.quantisation {
            return Err(CommandError::text("ERR asked quantization mismatch with existing vector set"));
        }
        if self.links.is_some_and(|links| links != shape.links) {
            return Err(CommandError::text("ERR asked M value mismatch with existing vector set"));
        }
        match (set.projection(), self.reduce) {
            (Some(projection), Some(reduce)) if reduce == shape.dim => {
                projection.apply(&self.vector).map_err(|_| wrong_input(given, projection))
            }
            (None, None) if given == shape.dim as usize => Ok(self.vector.clone()),
            (None, Some(_)) if given == shape.dim as usize => {
                Err(CommandError::text("ERR cannot add projection to existing set without projection"))
            }
            _ => Err(wrong_dimension(given, set)),
        }
    }

    /// An empty set for this vector, and the vector as that takes it.
    fn for_new(&mut self) -> Result<(VectorSet, Vec<f32>), CommandError> {
        let invalid = |_| CommandError::text(INVALID_VECTOR);
        let given = self.vector.len() as u32;
        let projection = self.reduce.map(|reduce| Projection::walsh(given, reduce)).transpose();
        let projection = projection.map_err(invalid)?;
        let vector = match &projection {
            Some(projection) => projection.apply(&self.vector).map_err(invalid)?,
            None => std::mem::take(&mut self.vector),
        };
        let shape = Shape {
            metric: Metric::Cosine,
            quantisation: self.quantisation,
            dim: vector.len() as u32,
            links: self.links.unwrap_or(LINKS_DEFAULT),
        };
        Ok((VectorSet::new(shape, projection).map_err(invalid)?, vector))
    }

    /// Roughly how long finding the element's place takes.
    fn search_nanos(&self, set: &VectorSet) -> usize {
        nanos(set, set.graph().search_effort(self.ef))
    }

    fn put(
        &self,
        args: &[&[u8]],
        set: &mut VectorSet,
        vector: &[f32],
        found: Option<Found>,
    ) -> Result<bool, CommandError> {
        let (element, attribute) = (args[self.element], self.attribute.map(|at| args[at]));
        let put = set.put_near(element, vector, self.ef, attribute, found);
        put.map_err(|error| CommandError::text(format!("ERR {error}")))
    }
}

/// Finds the place of an element before its key is locked, beside all others that use the set.
/// Errors, and what takes little time or very much, are left to [`vadd`].
pub(super) fn look_ahead(request: &mut Request<'_>, key: &KeyRef<'_>) -> bool {
    if request.session.attention == 0
        && let Ok(addition) = parse(request.args)
        && let Some((vector, visit)) = request.look_at(key, |set: &VectorSet| {
            let vector = addition.for_set(set).ok()?;
            let is_worth_it = (LITTLE_NANOS..=SLICE_NANOS).contains(&addition.search_nanos(set));
            is_worth_it.then(|| set.visit()).flatten().map(|visit| (vector, visit))
        })
        && let Ok(found) = visit.look_around(&vector, addition.ef)
    {
        request.leave_findings(Box::new(Ahead { addition, vector, found }));
    }
    false
}

pub(super) fn vadd(call: &mut Call) -> CommandResult {
    let (key, args) = (call.args[1], call.args);
    let (mut addition, mut ahead) = match call.take_findings::<Ahead>().map(|ahead| *ahead) {
        Some(Ahead { addition, vector, found }) => (addition, Some((vector, found))),
        None => (parse(args)?, None),
    };
    if addition.reduce.is_some() && call.engine.active.is_some() {
        // Peers are sent the vectors that the set returns, which have been reduced.
        return Err(CommandError::text("ERR REDUCE is unavailable with active-replica"));
    }
    let is_new = match call.keyspace.peek_as::<VectorSet>(key)? {
        Some(set) => {
            let (vector, found) = match ahead.take() {
                Some((vector, found)) if found.is_of(set.uid()) => (vector, Some(found)),
                _ => (addition.for_set(set)?, None),
            };
            if found.is_none() && addition.search_nanos(set) > SLICE_NANOS && call.may_precompute() {
                let visit = set.visit();
                return match visit {
                    Some(visit) => call.look_ahead(move |_| {
                        let found = visit.look_around(&vector, addition.ef).ok()?;
                        Some(Box::new(Ahead { addition, vector, found }))
                    }),
                    None => call.look_ahead_in(key, move |shared| {
                        let set = shared.object()?.get::<VectorSet>()?;
                        let found = set.look_around(&vector, addition.ef).ok()?;
                        Some(Box::new(Ahead { addition, vector, found }))
                    }),
                };
            }
            let set = call.keyspace.write_as::<VectorSet>(key)?.ok_or(CommandError::NoSuchKey)?;
            let is_new = addition.put(args, set, &vector, found)?;
            call.keyspace.finish_change(SILENT, key, 1, false);
            is_new
        }
        None => {
            let (mut set, vector) = addition.for_new()?;
            addition.put(args, &mut set, &vector, None)?;
            call.keyspace.set_object(SILENT, key, Object::new(set), Expiry::Clear);
            true
        }
    };
    reply_bool(call, is_new);
    Ok(())
}
