// SPDX-License-Identifier: BSD-3-Clause
//! Vectors in arguments, and what several commands share.

use braid_base::number::{parse_f64, parse_i64};
use braid_executor::Call;
use braid_spec::CommandError;
use braid_values::vector_set::VectorSet;
use braid_vectors::{DIM_MAX, Metric, Projection, Quantisation};

pub(super) const INVALID_VECTOR: &str = "ERR invalid vector specification";

/// Longer searches are left to the background, if they may be.
pub(super) const SLICE_NANOS: usize = 1_000_000;

/// Roughly how long comparing with so many vectors of a set takes.
pub(super) fn nanos(set: &VectorSet, vectors: usize) -> usize {
    vectors.saturating_mul(vector_nanos(set))
}

/// Roughly how long comparing with a vector of a set takes.
pub(super) fn vector_nanos(set: &VectorSet) -> usize {
    20 + set.graph().vector_bytes() / 8
}

/// Checks the number of arguments, the command's name included.
pub(super) fn arity(call: &Call, counts: std::ops::RangeInclusive<usize>) -> Result<(), CommandError> {
    if counts.contains(&call.args.len()) { Ok(()) } else { Err(wrong_arity(call)) }
}

pub(super) fn wrong_arity(call: &Call) -> CommandError {
    CommandError::WrongArity(call.command.full_name.to_ascii_uppercase().into())
}

/// The vector set at the key, for reading.
pub(super) fn read<'s>(call: &'s Call) -> Result<Option<&'s VectorSet>, CommandError> {
    Ok(call.keyspace.read_as::<VectorSet>(call.args[1])?)
}

/// A vector from `FP32 bytes` or `VALUES count value ...`, and the position after it.
pub(super) fn vector(args: &[&[u8]], at: usize) -> Result<(Vec<f32>, usize), CommandError> {
    parse_vector(args, at).ok_or(CommandError::text(INVALID_VECTOR))
}

fn parse_vector(args: &[&[u8]], at: usize) -> Option<(Vec<f32>, usize)> {
    let (form, first) = (args.get(at)?, args.get(at + 1)?);
    if form.eq_ignore_ascii_case(b"FP32") {
        let (floats, rest) = first.as_chunks::<4>();
        let is_sound = rest.is_empty() && !floats.is_empty() && floats.len() <= DIM_MAX as usize;
        return is_sound.then(|| (floats.iter().map(|float| f32::from_le_bytes(*float)).collect(), at + 2));
    }
    if !form.eq_ignore_ascii_case(b"VALUES") {
        return None;
    }
    let count = parse_i64(first).filter(|count| (1..=i64::from(DIM_MAX)).contains(count))? as usize;
    let values = args.get(at + 2..)?.get(..count)?;
    let vector: Option<Vec<f32>> = values.iter().map(|value| parse_f64(value).map(|x| x as f32)).collect();
    Some((vector?, at + 2 + count))
}

/// The error for a vector of another dimension than the set's.
pub(super) fn wrong_dimension(given: usize, set: &VectorSet) -> CommandError {
    let dim = set.graph().shape().dim;
    CommandError::text(format!("ERR Vector dimension mismatch - got {given} but set has {dim}"))
}

/// The error for a vector of another dimension than the set's projection takes.
pub(super) fn wrong_input(given: usize, projection: &Projection) -> CommandError {
    let input = projection.input();
    CommandError::text(format!(
        "ERR Input dimension mismatch for projection - got {given} but projection expects {input}"
    ))
}

/// The similarity of a distance: 1 for the same direction, 0 for the opposite one. A quantised
/// vector can be a little longer than 1, and so a distance a little below 0.
pub(super) fn score(set: &VectorSet, distance: f32) -> f64 {
    debug_assert_eq!(set.graph().shape().metric, Metric::Cosine);
    1.0 - f64::from(distance.max(0.0)) / 2.0
}

/// The name of a quantisation in replies.
pub(super) fn quantisation_name(quantisation: Quantisation) -> &'static str {
    match quantisation {
        Quantisation::F32 => "f32",
        Quantisation::I8 => "int8",
        Quantisation::Bin => "bin",
    }
}
