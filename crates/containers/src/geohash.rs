// SPDX-License-Identifier: BSD-3-Clause
//! Positions on the globe as sorted-set scores, and searches among them, for the GEO commands.
//!
//! A position is a 52-bit number: 26 bits of longitude and 26 of latitude, interleaved, with a
//! longitude bit on top. Nearby positions share leading bits, so a cell of the grid with `step`
//! bits per axis is one range of scores. A search covers up to nine ranges (the cell around the
//! centre and its neighbours), whose members are then tested one by one against the shape
//! ([`Search::ranges`], [`Search::distance_if_inside`]). Distances are great-circle distances on a
//! sphere. All formulas keep Redis's order of operations, so that distances, coordinates and even
//! the order of unsorted results agree.

use std::f64::consts::PI;
use std::ops::Range;

pub const LONGITUDE_MAX: f64 = 180.0;
/// Web Mercator's limit in degrees; positions nearer to the poles cannot be stored.
pub const LATITUDE_MAX: f64 = 85.05112878;
/// Earth radius in metres: the quadratic mean radius of WGS-84.
pub const EARTH_RADIUS: f64 = 6372797.560856;

/// Bits per axis of a stored position.
const STEP_MAX: u32 = 26;
/// Half the length of the equator in the Mercator projection, in metres.
const MERCATOR_MAX: f64 = 20037726.37;
const RADIANS_PER_DEGREE: f64 = PI / 180.0;

/// A position in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    pub longitude: f64,
    pub latitude: f64,
}

/// A score as an unsigned integer. For out-of-range scores stock servers rely on the processor's
/// conversion: negative numbers become their two's complement, numbers far below the range become
/// the highest bit alone, and numbers above it become 0.
fn truncated(score: f64) -> u64 {
    const HALF: f64 = (1u64 << 63) as f64;
    if score >= 2.0 * HALF {
        0
    } else if score >= 0.0 {
        score as u64
    } else if score >= -HALF {
        score as i64 as u64
    } else {
        1 << 63
    }
}

impl Position {
    /// `None` outside of the valid range (Redis: "ERR invalid longitude,latitude pair %f,%f").
    pub fn new(longitude: f64, latitude: f64) -> Option<Position> {
        let valid = (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&latitude);
        valid.then_some(Position { longitude, latitude })
    }

    /// The score under which GEOADD stores the position: a whole number below 2^52, except on the
    /// eastern and northern limits, whose column and row numbers have one more bit (and may lose
    /// the lowest bit in the double, as in Redis).
    pub fn score(self) -> f64 {
        Cell::around(self, STEP_MAX, LATITUDE_MAX).bits as f64
    }

    /// The centre of the cell with this score. Every score gives a valid position, as in Redis.
    pub fn from_score(score: f64) -> Position {
        let area = Cell { bits: truncated(score), step: STEP_MAX }.area();
        let middle = |low: f64, high: f64, limit: f64| ((low + high) / 2.0).clamp(-limit, limit);
        Position {
            longitude: middle(area.longitude.0, area.longitude.1, LONGITUDE_MAX),
            latitude: middle(area.latitude.0, area.latitude.1, LATITUDE_MAX),
        }
    }

    /// The common 11-character geohash. It divides latitudes from -90 to 90, so the position is
    /// encoded again; 52 bits fill ten characters, and the last character is always `0`.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::around(self, STEP_MAX, 90.0).bits;
        let mut text = [b'0'; 11];
        for (index, place) in text.iter_mut().take(10).enumerate() {
            *place = ALPHABET[(bits >> (52 - (index + 1) * 5)) as usize & 31];
        }
        text
    }

    /// Great-circle distance in metres (haversine formula).
    pub fn distance(self, other: Position) -> f64 {
        self.haversine(other, 0.0)
    }

    /// The distance as Valkey 9 measures it: it rounds differently if the longitudes differ by a
    /// few nanometres.
    fn distance_in_valkey(self, other: Position) -> f64 {
        self.haversine(other, 1e-15)
    }

    /// Two longitudes count as equal if the sine of half their difference is at most `negligible`.
    fn haversine(self, other: Position, negligible: f64) -> f64 {
        let half_sine = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if half_sine.abs() <= negligible {
            return self.latitude_distance(other);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let half_sine_latitude = ((other_latitude - latitude) / 2.0).sin();
        let haversine = half_sine_latitude * half_sine_latitude
            + latitude.cos() * other_latitude.cos() * half_sine * half_sine;
        2.0 * EARTH_RADIUS * haversine.sqrt().asin()
    }

    /// Distance in metres along a meridian.
    fn latitude_distance(self, other: Position) -> f64 {
        EARTH_RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// Metres per unit of `m`, `km`, `ft`, `mi`, in any case. `None`: Redis replies "unsupported unit
/// provided. please use M, KM, FT, MI".
pub fn metres_per_unit(unit: &[u8]) -> Option<f64> {
    match unit.to_ascii_lowercase().as_slice() {
        b"m" => Some(1.0),
        b"km" => Some(1000.0),
        b"ft" => Some(0.3048),
        b"mi" => Some(1609.34),
        _ => None,
    }
}

/// Appends a distance as GEODIST does: four decimal places, ties to even.
pub fn write_distance(out: &mut Vec<u8>, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    if scaled < 0 {
        out.push(b'-');
    }
    let scaled = scaled.unsigned_abs();
    let mut buffer = [0; braid_base::number::INTEGER_LEN_MAX];
    out.extend_from_slice(braid_base::number::write_u64(&mut buffer, scaled / 10_000));
    out.push(b'.');
    let fraction = braid_base::number::write_u64(&mut buffer, scaled % 10_000);
    out.extend(std::iter::repeat_n(b'0', 4 - fraction.len()));
    out.extend_from_slice(fraction);
}

/// A cell of the grid with `2^step` columns and as many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u32,
}

/// Smallest and largest degrees of a cell.
struct Area {
    longitude: (f64, f64),
    latitude: (f64, f64),
}

/// The bits of a latitude: every second bit, from bit 0 on. The other bits are the longitude's.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

impl Cell {
    fn around(position: Position, step: u32, latitude_max: f64) -> Cell {
        let cells = (1u64 << step) as f64;
        let latitude = (position.latitude + latitude_max) / (latitude_max + latitude_max) * cells;
        let longitude = (position.longitude + LONGITUDE_MAX) / (LONGITUDE_MAX + LONGITUDE_MAX) * cells;
        Cell { bits: spread(latitude as u32) | spread(longitude as u32) << 1, step }
    }

    fn area(self) -> Area {
        let cells = (1u64 << self.step) as f64;
        let side = |index: u32, limit: f64| {
            let edge = |index: u32| -limit + (f64::from(index) / cells) * (limit + limit);
            (edge(index), edge(index.wrapping_add(1)))
        };
        Area {
            longitude: side(gather(self.bits >> 1), LONGITUDE_MAX),
            latitude: side(gather(self.bits), LATITUDE_MAX),
        }
    }

    /// The cell some columns to the east and rows to the north (each -1, 0 or 1), wrapping around
    /// the globe in both directions.
    fn neighbour(self, east: i32, north: i32) -> Cell {
        let used = u64::MAX >> (64 - self.step * 2);
        let moved = |axis: u64, by: i32| {
            let (own, others) = (self.bits & axis, !axis & used);
            // With all bits of the other axis set (or cleared) a carry (or borrow) runs straight
            // through them.
            let moved = match by {
                1 => own.wrapping_add(others + 1),
                -1 => (own | others).wrapping_sub(others + 1),
                // Redis does not change the axis without a move, not even the extra bit of the
                // outermost limits.
                _ => return own,
            };
            moved & axis & used
        };
        Cell { bits: moved(!LATITUDE_BITS, east) | moved(LATITUDE_BITS, north), step: self.step }
    }

    /// The scores of all positions in the cell.
    fn scores(self) -> Range<f64> {
        let shift = 52 - self.step * 2;
        (self.bits << shift) as f64..((self.bits + 1) << shift) as f64
    }
}

/// Inserts a gap before each bit.
fn spread(value: u32) -> u64 {
    let mut spread = u64::from(value);
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    spread = (spread | spread << 2) & 0x3333_3333_3333_3333;
    (spread | spread << 1) & LATITUDE_BITS
}

/// The inverse of [`spread`]; ignores the bits in the gaps.
fn gather(spread: u64) -> u32 {
    let mut value = spread & LATITUDE_BITS;
    value = (value | value >> 1) & 0x3333_3333_3333_3333;
    value = (value | value >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    value = (value | value >> 4) & 0x00ff_00ff_00ff_00ff;
    value = (value | value >> 8) & 0x0000_ffff_0000_ffff;
    (value | value >> 16) as u32
}

/// The area of a search. Lengths are in the unit of the command.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Circle {
        radius: f64,
    },
    /// A rectangle whose sides run along meridians and parallels.
    Rectangle {
        width: f64,
        height: f64,
    },
    /// At least three vertices, joined by straight lines in degrees, the last with the first;
    /// even-odd rule. As in Valkey 9, no edge crosses the date line: an edge always goes the other
    /// way around.
    Polygon {
        vertices: Vec<Position>,
    },
}

/// A shape with its centre, ready to test members.
#[derive(Clone, Debug)]
pub struct Search {
    centre: Position,
    shape: Shape,
    metres_per_unit: f64,
    screen: Option<Screen>,
}

/// Decides with polynomials instead of sines whether a position is inside a circle, unless it is a
/// close call: this settles most positions at a fraction of the cost of a distance.
#[derive(Clone, Copy, Debug)]
struct Screen {
    longitude: f64,
    latitude: f64,
    sin_latitude: f64,
    cos_latitude: f64,
    /// Squared sine of half the angle of the radius, as seen from the earth's centre.
    limit: f64,
}

impl Screen {
    /// Half angles up to this are within the polynomial's accurate range (2.5e-11 relative error).
    const HALF_ANGLE_MAX: f64 = 0.3;
    /// Relative distance to the limit below which only the exact formula decides.
    const DOUBT: f64 = 1e-9;

    /// `None` for radii where rounding or the polynomial could come near [`Screen::DOUBT`].
    fn new(centre: Position, radius_metres: f64) -> Option<Screen> {
        let (longitude, latitude) = (radians(centre.longitude), radians(centre.latitude));
        let half = radius_metres / EARTH_RADIUS / 2.0;
        (radius_metres >= 100.0 && half < Screen::HALF_ANGLE_MAX).then(|| Screen {
            longitude,
            latitude,
            sin_latitude: latitude.sin(),
            cos_latitude: latitude.cos(),
            limit: half.sin().powi(2),
        })
    }

    /// True or false if certain; `None` for positions too close to the edge or too far away.
    #[inline]
    fn is_inside(&self, position: Position) -> Option<bool> {
        let east = (radians(position.longitude) - self.longitude) / 2.0;
        let north = (radians(position.latitude) - self.latitude) / 2.0;
        if east.abs() > Screen::HALF_ANGLE_MAX || north.abs() > Screen::HALF_ANGLE_MAX {
            return None;
        }
        let (east, north_square) = (sine_square(east), sine_square(north));
        // The cosine of the position's latitude, which is the centre's latitude plus twice `north`.
        let sine = 2.0 * (north_square * (1.0 - north_square)).sqrt().copysign(north);
        let cosine = self.cos_latitude * (1.0 - 2.0 * north_square) - self.sin_latitude * sine;
        let square = north_square + self.cos_latitude * cosine * east;
        let doubt = self.limit * Screen::DOUBT;
        ((square - self.limit).abs() > doubt).then_some(square < self.limit)
    }
}

/// The square of the sine of a small angle, by its Taylor series.
#[inline]
fn sine_square(angle: f64) -> f64 {
    let x = angle * angle;
    x * (1.0 - x * (1.0 / 3.0 - x * (2.0 / 45.0 - x * (1.0 / 315.0 - x * (2.0 / 14175.0)))))
}

/// The edges of a search in degrees: west, south, east, north. May extend beyond the globe.
struct Bounds {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

impl Search {
    /// A circle or rectangle around `centre`. For a polygon use [`Search::polygon`].
    pub fn new(centre: Position, shape: Shape, metres_per_unit: f64) -> Search {
        let screen = match shape {
            Shape::Circle { radius } => Screen::new(centre, radius * metres_per_unit),
            _ => None,
        };
        Search { centre, shape, metres_per_unit, screen }
    }

    /// A polygon. Distances are measured from its centre, the mean of its vertices as points on
    /// the sphere. `None` for fewer than three vertices (Valkey: "GEOSEARCH BYPOLYGON must have at
    /// least 3 vertices").
    pub fn polygon(vertices: Vec<Position>, metres_per_unit: f64) -> Option<Search> {
        if vertices.len() < 3 {
            return None;
        }
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for vertex in &vertices {
            let (longitude, latitude) = (radians(vertex.longitude), radians(vertex.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        // The direction of the sum is that of the mean; Valkey does not divide either.
        let centre =
            Position { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) };
        Some(Search { centre, shape: Shape::Polygon { vertices }, metres_per_unit, screen: None })
    }

    pub fn centre(&self) -> Position {
        self.centre
    }

    /// True if `position` is inside the shape. Agrees with [`Search::distance_if_inside`] but is
    /// cheaper.
    #[inline]
    pub fn contains(&self, position: Position) -> bool {
        let screened = self.screen.and_then(|screen| screen.is_inside(position));
        screened.unwrap_or_else(|| self.exact_distance_if_inside(position).is_some())
    }

    /// Distance from the centre, in the command's unit, if `position` is inside the shape.
    #[inline]
    pub fn distance_if_inside(&self, position: Position) -> Option<f64> {
        if self.screen.and_then(|screen| screen.is_inside(position)) == Some(false) {
            return None;
        }
        self.exact_distance_if_inside(position)
    }

    fn exact_distance_if_inside(&self, position: Position) -> Option<f64> {
        let metres = match &self.shape {
            Shape::Circle { radius } => {
                let metres = self.centre.distance(position);
                (metres <= radius * self.metres_per_unit).then_some(metres)
            }
            Shape::Rectangle { width, height } => {
                let too_far = self.centre.latitude_distance(position) > height * self.metres_per_unit / 2.0
                    // Along the parallel of the position.
                    || position.distance(Position { latitude: position.latitude, ..self.centre })
                        > width * self.metres_per_unit / 2.0;
                (!too_far).then(|| self.centre.distance(position))
            }
            Shape::Polygon { vertices } => {
                is_inside(vertices, position).then(|| self.centre.distance_in_valkey(position))
            }
        };
        metres.map(|metres| metres / self.metres_per_unit)
    }

    /// At most nine ranges of scores that contain all members of the shape, in the order in which
    /// Redis scans them (the order of unsorted results). If a range occurs twice, its members may
    /// be returned twice, as in Redis. Of a polygon that spans much of the globe Valkey may miss
    /// members.
    pub fn ranges(&self) -> Vec<Range<f64>> {
        // No cell contains a centre near a pole. (Valkey then reads uninitialized memory.)
        if self.centre.latitude.abs() > LATITUDE_MAX {
            return vec![f64::NEG_INFINITY..f64::INFINITY];
        }
        let bounds = self.bounds();
        let mut step = step_for_radius(self.radius_metres(&bounds), self.centre.latitude);
        let mut cell = Cell::around(self.centre, step, LATITUDE_MAX);
        // For circles and rectangles one coarser grid suffices; a polygon may lie anywhere around
        // its centre.
        let coarser_max = if matches!(self.shape, Shape::Polygon { .. }) { STEP_MAX } else { 1 };
        for _ in 0..coarser_max {
            if step == 1 || covers(cell, &bounds) {
                break;
            }
            step -= 1;
            cell = Cell::around(self.centre, step, LATITUDE_MAX);
        }
        let area = cell.area();
        // If the middle cell already extends past the bounds, its neighbours contribute nothing.
        let skip_south = step >= 2 && area.latitude.0 < bounds.south;
        let skip_north = step >= 2 && area.latitude.1 > bounds.north;
        let skip_west = step >= 2 && area.longitude.0 < bounds.west;
        let skip_east = step >= 2 && area.longitude.1 > bounds.east;
        let order = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::with_capacity(order.len());
        for (east, north) in order {
            let skip = (north < 0 && skip_south)
                || (north > 0 && skip_north)
                || (east < 0 && skip_west)
                || (east > 0 && skip_east);
            let next = cell.neighbour(east, north);
            // On coarse grids neighbours coincide; Redis skips a cell that repeats the previous
            // one, except when that is the middle cell.
            let repeated = cells.len() > 1 && cells.last() == Some(&next);
            if !skip && !repeated {
                cells.push(next);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    fn bounds(&self) -> Bounds {
        let Position { longitude, latitude } = self.centre;
        let (width, height) = match &self.shape {
            Shape::Circle { radius } => (*radius, *radius),
            Shape::Rectangle { width, height } => (width / 2.0, height / 2.0),
            Shape::Polygon { vertices } => {
                let fold = |first: f64, pick: fn(f64, f64) -> f64, of: fn(&Position) -> f64| {
                    vertices.iter().map(of).fold(first, pick)
                };
                return Bounds {
                    west: fold(f64::INFINITY, f64::min, |vertex| vertex.longitude),
                    south: fold(f64::INFINITY, f64::min, |vertex| vertex.latitude),
                    east: fold(f64::NEG_INFINITY, f64::max, |vertex| vertex.longitude),
                    north: fold(f64::NEG_INFINITY, f64::max, |vertex| vertex.latitude),
                };
            }
        };
        let height = self.metres_per_unit * height;
        let width = self.metres_per_unit * width;
        let latitude_delta = degrees(height / EARTH_RADIUS);
        // The side nearer to the equator is the wider one in metres, the other side in degrees.
        let side = if latitude < 0.0 { latitude - latitude_delta } else { latitude + latitude_delta };
        let longitude_delta = degrees(width / EARTH_RADIUS / radians(side).cos());
        Bounds {
            west: longitude - longitude_delta,
            south: latitude - latitude_delta,
            east: longitude + longitude_delta,
            north: latitude + latitude_delta,
        }
    }

    /// Distance from the centre to the farthest point of the shape.
    fn radius_metres(&self, bounds: &Bounds) -> f64 {
        match &self.shape {
            Shape::Circle { radius } => radius * self.metres_per_unit,
            Shape::Rectangle { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt() * self.metres_per_unit
            }
            Shape::Polygon { .. } => {
                let corner =
                    |longitude, latitude| self.centre.distance_in_valkey(Position { longitude, latitude });
                corner(bounds.west, bounds.south)
                    .max(corner(bounds.west, bounds.north))
                    .max(corner(bounds.east, bounds.south))
                    .max(corner(bounds.east, bounds.north))
            }
        }
    }
}

/// True if a cell and its neighbours extend to the bounds in all four directions.
fn covers(cell: Cell, bounds: &Bounds) -> bool {
    cell.neighbour(0, 1).area().latitude.1 >= bounds.north
        && cell.neighbour(0, -1).area().latitude.0 <= bounds.south
        && cell.neighbour(1, 0).area().longitude.1 >= bounds.east
        && cell.neighbour(-1, 0).area().longitude.0 <= bounds.west
}

/// The finest grid on which a cell and its neighbours should cover a circle; coarser near the
/// poles.
fn step_for_radius(metres: f64, latitude: f64) -> u32 {
    if metres == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1;
    let mut reach = metres;
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        step += 1;
    }
    step -= 2;
    if latitude.abs() > 66.0 {
        step -= 1;
        if latitude.abs() > 80.0 {
            step -= 1;
        }
    }
    step.clamp(1, STEP_MAX as i32) as u32
}

/// Even-odd rule: the position is inside if a ray to the east crosses an odd number of edges.
fn is_inside(vertices: &[Position], position: Position) -> bool {
    let Some(&(mut previous)) = vertices.last() else { return false };
    let mut inside = false;
    for &vertex in vertices {
        if (vertex.latitude > position.latitude) != (previous.latitude > position.latitude) {
            let crossing = (previous.longitude - vertex.longitude) * (position.latitude - vertex.latitude)
                / (previous.latitude - vertex.latitude)
                + vertex.longitude;
            inside ^= position.longitude < crossing;
        }
        previous = vertex;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    fn stored(position: Position) -> Position {
        Position::from_score(position.score())
    }

    fn text(distance: f64) -> String {
        let mut out = Vec::new();
        write_distance(&mut out, distance);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn examples_of_the_manual() {
        assert_eq!(PALERMO.score(), 3479099956230698.0);
        assert_eq!(CATANIA.score(), 3479447370796909.0);
        assert_eq!(&stored(PALERMO).geohash(), b"sqc8b49rny0");
        assert_eq!(&stored(CATANIA).geohash(), b"sqdtr74hyu0");
        assert_eq!(text(stored(PALERMO).distance(stored(CATANIA))), "166274.1516");
        let kilometres = metres_per_unit(b"KM").unwrap();
        assert_eq!(text(stored(PALERMO).distance(stored(CATANIA)) / kilometres), "166.2742");
        assert_eq!(stored(PALERMO).longitude, 13.361389338970184);
        assert_eq!(metres_per_unit(b"yd"), None);
    }

    #[test]
    fn distances_as_text() {
        for (distance, expected) in [
            (0.0, "0.0000"),
            (0.00005, "0.0000"),
            (0.03125, "0.0312"),
            (0.09375, "0.0938"),
            (12.3456789, "12.3457"),
            (-1.5, "-1.5000"),
        ] {
            assert_eq!(text(distance), expected);
        }
    }

    #[test]
    fn shapes() {
        let search = Search::new(PALERMO, Shape::Circle { radius: 200.0 }, 1000.0);
        assert_eq!(text(search.distance_if_inside(stored(CATANIA)).unwrap()), "166.2742");
        let search = Search::new(PALERMO, Shape::Circle { radius: 166.0 }, 1000.0);
        assert_eq!(search.distance_if_inside(stored(CATANIA)), None);
        let search = Search::new(PALERMO, Shape::Rectangle { width: 310.0, height: 100.0 }, 1000.0);
        assert_eq!(search.distance_if_inside(CATANIA), None, "too far south");
        let search = Search::new(PALERMO, Shape::Rectangle { width: 310.0, height: 140.0 }, 1000.0);
        assert!(search.distance_if_inside(CATANIA).is_some());
        assert!(Search::polygon(vec![PALERMO, CATANIA], 1.0).is_none());
    }

    /// The reply of Valkey 9.1 for the same polygon.
    #[test]
    fn polygon_of_a_stock_server() {
        let corner = |longitude, latitude| Position { longitude, latitude };
        let vertices = vec![corner(12.0, 37.0), corner(12.0, 39.0), corner(16.0, 39.0), corner(16.0, 37.0)];
        let search = Search::polygon(vertices, 1.0).unwrap();
        assert_eq!(text(search.distance_if_inside(stored(PALERMO)).unwrap()), "56987.4933");
        assert_eq!(text(search.distance_if_inside(stored(CATANIA)).unwrap()), "111411.0839");
        assert_eq!(search.distance_if_inside(corner(17.241510, 38.788135)), None);
        assert_eq!(search.distance_if_inside(stored(PALERMO)), Some(56987.49327453733));
        assert_eq!(search.distance_if_inside(stored(CATANIA)), Some(111411.08391561486));
    }

    #[test]
    fn polygons_without_area_contain_nothing() {
        let search = Search::polygon(vec![stored(PALERMO); 3], 1.0).unwrap();
        assert_eq!(search.distance_if_inside(stored(PALERMO)), None);
        assert!(search.ranges().iter().any(|range| range.contains(&PALERMO.score())));
        let line = [12.0, 14.0, 16.0].map(|east| Position { longitude: east, latitude: east + 25.0 });
        let search = Search::polygon(line.to_vec(), 1.0).unwrap();
        assert_eq!(search.distance_if_inside(PALERMO), None);
        assert_eq!(search.distance_if_inside(line[1]), None);
    }

    #[test]
    fn polygons_around_a_pole_are_searched_everywhere() {
        let corners = [-150.0, -30.0, 90.0].map(|longitude| Position { longitude, latitude: 84.0 });
        let search = Search::polygon([corners[0], corners[1], corners[2], PALERMO].to_vec(), 1.0).unwrap();
        assert!(search.centre().latitude < LATITUDE_MAX);
        let search = Search::polygon(corners.to_vec(), 1.0).unwrap();
        assert!(search.centre().latitude > LATITUDE_MAX);
        assert!(search.ranges().iter().any(|range| range.contains(&CATANIA.score())));
    }

    fn position() -> impl Strategy<Value = Position> {
        (-180.0..=180.0, -LATITUDE_MAX..=LATITUDE_MAX)
            .prop_map(|(longitude, latitude)| Position { longitude, latitude })
    }

    proptest! {
        #[test]
        fn decoding_stays_within_the_cell(position in position()) {
            let decoded = stored(position);
            prop_assert!((decoded.longitude - position.longitude).abs() <= 360.0 / (1u64 << 26) as f64);
            prop_assert!((decoded.latitude - position.latitude).abs() <= 171.0 / (1u64 << 26) as f64);
            // The centre of a cell lies in that cell.
            prop_assert_eq!(decoded.score(), position.score());
        }

        #[test]
        fn spreading_is_undone(value: u32, noise: u64) {
            prop_assert_eq!(gather(spread(value) | noise & !LATITUDE_BITS), value);
        }

        #[test]
        fn neighbours_are_next_to_each_other(position in position(), step in 1u32..=26) {
            let cell = Cell::around(position, step, LATITUDE_MAX);
            let size = 1i64 << step;
            for (east, north) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (0, 0)] {
                let other = cell.neighbour(east, north);
                let moved = |from: u32, by: i32| (i64::from(from) + i64::from(by)).rem_euclid(size);
                prop_assert_eq!(i64::from(gather(other.bits >> 1)), moved(gather(cell.bits >> 1), east));
                prop_assert_eq!(i64::from(gather(other.bits)), moved(gather(cell.bits), north));
                prop_assert_eq!(other.neighbour(-east, -north), cell);
            }
        }

        #[test]
        fn search_ranges_cover_every_position_inside_the_shape(
            longitude in -120.0..120.0, latitude in -60.0..60.0, radius in 0.0..2_000_000.0,
            east in -1.2..1.2, north in -1.2..1.2, shape in 0..3,
        ) {
            let centre = Position { longitude, latitude };
            let extent = degrees(radius / EARTH_RADIUS);
            let shifted = |east: f64, north: f64| Position {
                longitude: longitude + east * extent,
                latitude: latitude + north * extent,
            };
            let search = match shape {
                0 => Search::new(centre, Shape::Circle { radius }, 1.0),
                1 => Search::new(centre, Shape::Rectangle { width: radius * 2.0, height: radius * 1.5 }, 1.0),
                _ => {
                    let corners = [(-1.0, -1.0), (1.0, -1.0), (0.9, 0.8), (0.0, 0.1), (-1.0, 1.0)];
                    Search::polygon(corners.map(|(east, north)| shifted(east, north)).to_vec(), 1.0).unwrap()
                }
            };
            let candidate = shifted(east, north);
            let score = candidate.score();
            let inside = search.distance_if_inside(Position::from_score(score)).is_some();
            prop_assert!(!inside || search.ranges().iter().any(|range| range.contains(&score)));
        }

        #[test]
        fn the_screen_never_disagrees(
            centre in position(),
            exponent in 0.0..6.6f64,
            east in -1.2..1.2f64,
            north in -1.2..1.2f64,
            edge in 3.0..14.0f64,
        ) {
            let radius = 10f64.powf(exponent);
            let search = Search::new(centre, Shape::Circle { radius }, 1.0);
            let extent = degrees(radius / EARTH_RADIUS);
            let near = |east: f64, north: f64| Position {
                longitude: centre.longitude + east * extent,
                latitude: centre.latitude + north * extent,
            };
            let edge = 10f64.powf(-edge);
            for candidate in [near(east, north), near(0.0, 1.0 + edge), near(0.0, edge - 1.0), near(edge, 1.0)] {
                let exact = search.exact_distance_if_inside(candidate);
                prop_assert_eq!(search.contains(candidate), exact.is_some());
                prop_assert_eq!(search.distance_if_inside(candidate), exact);
            }
        }

        #[test]
        fn distance_is_symmetric(left in position(), right in position()) {
            prop_assert!((left.distance(right) - right.distance(left)).abs() < 1e-6);
            prop_assert!(left.distance(right) <= EARTH_RADIUS * PI + 1.0);
        }

        #[test]
        fn any_score_is_survived(score: f64) {
            let position = Position::from_score(score);
            prop_assert!(Position::new(position.longitude, position.latitude).is_some());
            position.geohash();
        }
    }
}
