// SPDX-License-Identifier: BSD-3-Clause
//! LOLWUT: a drawing and the version.
//!
//! The drawing is a braid: strands that swing around each other, one in front of the other.
//! VERSION 5 and 6 replace other servers' drawings for these numbers: a flat braid and a knotted
//! one.

use braid_base::number;
use braid_executor::{Call, Row};
use braid_spec::{CommandError, CommandResult, Flags, Group};

pub const LOLWUT: Row = Row::new("lolwut", Group::Server, lolwut)
    .at_least(1)
    .flags(Flags::READONLY.and(Flags::FAST))
    .docs("5.0.0", "Draws a picture and shows the version.", "")
    .syntax("[VERSION version:integer]");

/// Maximum size of a drawing that a client may request.
const COLUMNS_MAX: i64 = 1000;
const ROWS_MAX: i64 = 200;

fn lolwut(call: &mut Call) -> CommandResult {
    let integer = |arg: &[u8]| number::parse_i64(arg).ok_or(CommandError::NotAnInteger);
    let mut rest = &call.args[1..];
    let mut version = 0;
    if rest.len() >= 2 && rest[0].eq_ignore_ascii_case(b"version") {
        version = integer(rest[1])?;
        rest = &rest[2..];
    }
    let columns = rest.first().map_or(Ok(66), |arg| integer(arg))?.clamp(1, COLUMNS_MAX);
    let strands = rest.get(1).map_or(Ok(3), |arg| integer(arg))?.clamp(1, ROWS_MAX / 2);
    let swing = match version {
        5 => Swing { turns_per_column: 0.16, wobble: 0.0 },
        6 => Swing { turns_per_column: 0.22, wobble: 0.6 },
        _ => Swing { turns_per_column: 0.16 + fastrand::f64() * 0.1, wobble: fastrand::f64() },
    };
    let mut text = draw(columns as usize, strands as usize, swing);
    text.push_str(&format!(
        "\nBraid ver. {} (as Redis ver. {})\n",
        env!("CARGO_PKG_VERSION"),
        call.engine.config.redis_version()
    ));
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

#[derive(Clone, Copy)]
struct Swing {
    turns_per_column: f64,
    /// The degree to which the second harmonic distorts the swing.
    wobble: f64,
}

/// Draws the strands as seen from the side: height is the sine of the phase, depth its cosine. The
/// nearest strand covers the others and looks heavier.
fn draw(columns: usize, strands: usize, swing: Swing) -> String {
    let rows = 2 * strands + 1;
    let mut cells = vec![(' ', f64::NEG_INFINITY); rows * columns];
    for strand in 0..strands {
        let offset = std::f64::consts::TAU * strand as f64 / strands as f64;
        for column in 0..columns {
            let phase = column as f64 * swing.turns_per_column + offset;
            let height = (phase.sin() + swing.wobble * 0.3 * (2.0 * phase).sin()).clamp(-1.0, 1.0);
            let depth = phase.cos();
            let row = ((height + 1.0) / 2.0 * (rows - 1) as f64).round() as usize;
            let ink = match depth {
                depth if depth > 0.5 => '#',
                depth if depth > -0.5 => '=',
                _ => '-',
            };
            let cell = &mut cells[row * columns + column];
            if depth > cell.1 {
                *cell = (ink, depth);
            }
        }
    }
    let mut text = String::new();
    for row in cells.chunks_exact(columns) {
        let line: String = row.iter().map(|(ink, _)| *ink).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_a_braid_shows_at_least_one_strand() {
        for (columns, strands) in [(1, 1), (66, 3), (200, 20)] {
            let text = draw(columns, strands, Swing { turns_per_column: 0.2, wobble: 1.0 });
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2 * strands + 1);
            for column in 0..columns {
                assert!(lines.iter().any(|line| line.as_bytes().get(column).is_some_and(|&ink| ink != b' ')));
            }
        }
    }
}
