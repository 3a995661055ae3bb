// SPDX-License-Identifier: BSD-3-Clause
//! VADD.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_spec::{CommandError, CommandResult};
use braid_values::vector_set::VectorSet;
use braid_vectors::{Metric, Projection, Quantisation, Shape};

use super::arguments::{
    INVALID_VECTOR, SLICE_NANOS, nanos, vector, wrong_arity, wrong_dimension, wrong_input,
};
use crate::family::reply_bool;

/// Stock servers report no events of vector sets but those of keys.
pub(super) const SILENT: Event = Event { class: 0, name: "vadd" };

const LINKS_DEFAULT: u32 = 16;
const LINKS_MIN: i64 = 4;
const LINKS_MAX: i64 = 4096;
const EF_DEFAULT: usize = 200;
const EF_MAX: i64 = 1_000_000;

struct Request<'a> {
    reduce: Option<u32>,
    vector: Vec<f32>,
    element: &'a [u8],
    quantisation: Quantisation,
    links: Option<u32>,
    ef: usize,
    attribute: Option<&'a [u8]>,
}

fn parse<'a>(call: &Call<'a, '_>) -> Result<Request<'a>, CommandError> {
    let args = call.args;
    if args.len() < 5 {
        return Err(wrong_arity(call));
    }
    let (mut at, mut reduce) = (2, None);
    if call.arg_is(2, "reduce") {
        let given = parse_i64(args[3]).and_then(|given| u32::try_from(given).ok()).filter(|&given| given > 0);
        reduce = Some(given.ok_or(CommandError::text(INVALID_VECTOR))?);
        if call.engine.active.is_some() {
            // Peers are sent the vectors that the set returns, which have been reduced.
            return Err(CommandError::text("ERR REDUCE is unavailable with active-replica"));
        }
        at = 4;
    }
    let (vector, end) = vector(args, at)?;
    let element = *args.get(end).ok_or_else(|| wrong_arity(call))?;
    let mut request = Request {
        reduce,
        vector,
        element,
        quantisation: Quantisation::I8,
        links: None,
        ef: EF_DEFAULT,
        attribute: None,
    };
    let mut at = end + 1;
    while at < args.len() {
        let value = args.get(at + 1);
        if call.arg_is(at, "cas") {
            // Candidates are always found as the graph is now.
        } else if call.arg_is(at, "noquant") {
            request.quantisation = Quantisation::F32;
        } else if call.arg_is(at, "q8") {
            request.quantisation = Quantisation::I8;
        } else if call.arg_is(at, "bin") {
            request.quantisation = Quantisation::Bin;
        } else if let Some(value) = value {
            let number = parse_i64(value);
            if call.arg_is(at, "m") {
                let links = number.filter(|number| (LINKS_MIN..=LINKS_MAX).contains(number));
                request.links = Some(links.ok_or(CommandError::text("ERR invalid M"))? as u32);
            } else if call.arg_is(at, "ef") {
                let ef = number.filter(|number| (1..=EF_MAX).contains(number));
                request.ef = ef.ok_or(CommandError::text("ERR invalid EF"))? as usize;
            } else if call.arg_is(at, "setattr") {
                request.attribute = Some(value);
            } else {
                return Err(CommandError::text("ERR invalid option after element"));
            }
            at += 1;
        } else {
            return Err(CommandError::text("ERR invalid option after element"));
        }
        at += 1;
    }
    Ok(request)
}

impl Request<'_> {
    /// The vector as an existing set takes it.
    fn for_set(&mut self, set: &VectorSet) -> Result<Vec<f32>, CommandError> {
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
            (None, None) if given == shape.dim as usize => Ok(std::mem::take(&mut self.vector)),
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

    /// Whether finding the place of a new element takes so long that it is left to the background.
    fn takes_long(&self, set: &VectorSet) -> bool {
        set.find(self.element).is_none() && nanos(set, set.graph().search_effort(self.ef)) > SLICE_NANOS
    }

    fn put(&self, set: &mut VectorSet, vector: &[f32], found: &[u64]) -> Result<bool, CommandError> {
        let put = set.put_near(self.element, vector, self.ef, self.attribute, found);
        put.map_err(|error| CommandError::text(format!("ERR {error}")))
    }
}

pub(super) fn vadd(call: &mut Call) -> CommandResult {
    let mut request = parse(call)?;
    let key = call.args[1];
    let is_new = match call.keyspace.peek_as::<VectorSet>(key)? {
        Some(set) => {
            let vector = request.for_set(set)?;
            if request.takes_long(set) && call.may_precompute() {
                let ef = request.ef;
                return call.look_ahead(key, move |shared| {
                    let set = shared.object()?.get::<VectorSet>()?;
                    set.look_around(&vector, ef).ok()
                });
            }
            let found = call.take_findings();
            let set = call.keyspace.write_as::<VectorSet>(key)?.ok_or(CommandError::NoSuchKey)?;
            let is_new = request.put(set, &vector, &found)?;
            call.keyspace.finish_change(SILENT, key, 1, false);
            is_new
        }
        None => {
            let (mut set, vector) = request.for_new()?;
            request.put(&mut set, &vector, &[])?;
            call.keyspace.set_object(SILENT, key, Object::new(set), Expiry::Clear);
            true
        }
    };
    reply_bool(call, is_new);
    Ok(())
}
