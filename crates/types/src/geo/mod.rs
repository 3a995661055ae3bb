// SPDX-License-Identifier: BSD-3-Clause
//! Commands on positions: sorted sets whose scores are geohashes (`braid_containers::geohash`).
//!
//! Flow: a search parses its request (`search.rs`; `radius.rs` for the older forms), collects the
//! members in the shape from the few score ranges that cover it, sorts them, and replies with them
//! or stores them (`found.rs`).

mod found;
mod place;
mod radius;
mod rows;
mod search;

use braid_base::long_double::LongDouble;
use braid_base::number;
use braid_containers::geohash::{Position, metres_per_unit, write_distance};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::CommandError;

pub use rows::COMMANDS;

/// Parses a position from two arguments.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let float = |text: &[u8]| number::parse_f64(text).ok_or(CommandError::NotAFloat);
    let (longitude, latitude) = (float(longitude)?, float(latitude)?);
    Position::new(longitude, latitude).ok_or_else(|| {
        CommandError::text(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
    })
}

/// Parses a unit into its length in metres.
fn unit(text: &[u8]) -> Result<f64, CommandError> {
    metres_per_unit(text).ok_or(CommandError::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Parses a radius and its unit.
fn radius_and_unit(radius: &[u8], unit_name: &[u8]) -> Result<(f64, f64), CommandError> {
    let radius = number::parse_f64(radius).ok_or(CommandError::text("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(CommandError::text("ERR radius cannot be negative"));
    }
    Ok((radius, unit(unit_name)?))
}

/// Replies with a distance with four decimal places.
fn reply_distance(reply: &mut ReplyBuffer, distance: f64) {
    let mut text = Vec::with_capacity(24);
    write_distance(&mut text, distance);
    reply.bulk(&text);
}

/// Replies with longitude and latitude with all their decimal places.
fn reply_position(reply: &mut ReplyBuffer, position: Position) {
    reply.array(2);
    for degrees in [position.longitude, position.latitude] {
        let mut text = Vec::with_capacity(24);
        let is_resp3 = reply.protocol == Protocol::Resp3;
        if is_resp3 {
            text.push(b',');
        }
        LongDouble::from_f64(degrees).write_human(&mut text);
        if is_resp3 {
            text.extend_from_slice(b"\r\n");
            reply.raw(&text);
        } else {
            reply.bulk(&text);
        }
    }
}
