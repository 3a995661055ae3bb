// SPDX-License-Identifier: BSD-3-Clause
//! Numbers, areas and attributes within queries.

use super::ast::{FilterPolicy, GeoArea, Node, VectorOptions, Wanted};
use super::error::QueryError;

pub fn parse_number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| !number.is_nan())
}

/// A unit of distance, and its metres.
pub fn geo_unit(name: &[u8]) -> Option<(&'static str, f64)> {
    let metres = braid_containers::geohash::metres_per_unit(name)?;
    let known = ["m", "km", "ft", "mi"].into_iter();
    known.filter(|one| name.eq_ignore_ascii_case(one.as_bytes())).map(|one| (one, metres)).next()
}

pub fn geo_area(longitude: &str, latitude: &str, radius: &str, unit: &str) -> Result<GeoArea, QueryError> {
    let (unit, metres) = geo_unit(unit.as_bytes()).ok_or(QueryError::GeoUnit)?;
    let radius = parse_number(radius).filter(|radius| *radius > 0.0).ok_or(QueryError::GeoRadius)?;
    let position = parse_number(longitude).zip(parse_number(latitude));
    let (longitude, latitude) = position.ok_or(QueryError::GeoPosition)?;
    braid_containers::geohash::Position::new(longitude, latitude).ok_or(QueryError::GeoPosition)?;
    Ok(GeoArea { longitude, latitude, radius: radius * metres, unit })
}

pub fn set_attribute(node: &mut Node, name: &str, value: &str) -> Result<(), QueryError> {
    let lower = name.to_ascii_lowercase();
    let bad = || QueryError::AttributeValue { name: lower.clone(), value: value.to_owned() };
    let is_true = || match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(bad()),
    };
    match lower.as_str() {
        "weight" => {
            node.weight = parse_number(value).filter(|weight| *weight >= 0.0).ok_or_else(bad)?;
        }
        "slop" => {
            let wanted: i64 = value.parse().map_err(|_| bad())?;
            if let Wanted::All { slop, in_order, .. } = &mut node.wanted {
                // A phrase with a slop is no phrase any more.
                *in_order &= *slop != Some(0);
                *slop = u32::try_from(wanted).ok();
            }
        }
        "inorder" => {
            let wanted = is_true()?;
            if let Wanted::All { in_order, .. } = &mut node.wanted {
                *in_order = wanted;
            }
        }
        // There are no phonetic matches to switch off.
        "phonetic" => drop(is_true()?),
        "yield_distance_as" | "epsilon" | "ef_runtime" => match &mut node.wanted {
            Wanted::VectorsWithin { options, .. } => {
                set_vector_option(options, if lower == "yield_distance_as" { "AS" } else { name }, value)?;
            }
            _ => return Err(QueryError::Attribute(name.to_owned())),
        },
        _ => return Err(QueryError::Attribute(name.to_owned())),
    }
    Ok(())
}

pub fn set_vector_option(options: &mut VectorOptions, name: &str, value: &str) -> Result<(), QueryError> {
    match name.to_ascii_uppercase().as_str() {
        "AS" => options.distance_as = Some(value.to_owned()),
        "EF_RUNTIME" => options.ef_runtime = Some(value.parse().map_err(|_| QueryError::VectorOption)?),
        "EPSILON" => {
            let epsilon = parse_number(value).filter(|epsilon| *epsilon >= 0.0);
            options.epsilon = Some(epsilon.ok_or(QueryError::VectorOption)?);
        }
        "HYBRID_POLICY" => {
            options.policy = Some(match value.to_ascii_uppercase().as_str() {
                "ADHOC_BF" => FilterPolicy::Each,
                "BATCHES" => FilterPolicy::Batches,
                _ => return Err(QueryError::VectorPolicy),
            });
        }
        "BATCH_SIZE" => {
            let size = value.parse().ok().filter(|size| *size > 0);
            options.batch_size = Some(size.ok_or(QueryError::VectorValue)?);
        }
        _ => return Err(QueryError::VectorOption),
    }
    if options.policy == Some(FilterPolicy::Each) && options.batch_size.is_some() {
        return Err(QueryError::VectorBatch);
    }
    Ok(())
}
