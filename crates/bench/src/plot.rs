// SPDX-License-Identifier: BSD-3-Clause
//! Plots as inline SVG. Colours come from the page's style sheet (classes `c0` .. `c7`), so that
//! one drawing serves light and dark themes; every mark has a tooltip with its figures.

use std::fmt::Write;

use braid_client::figures::short;

use crate::statistics::Estimate;
use crate::table::escaped;

/// Number of different colours; further series repeat them.
pub const COLOURS: usize = 8;

/// One line, or one colour of bars.
pub struct Series {
    pub name: String,
    /// A value for each position on the axis.
    pub values: Vec<Option<Estimate>>,
}

/// The size of a drawing and the margins of the plot area.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const LINES: Frame = Frame { width: 460.0, height: 280.0, left: 64.0, right: 24.0, top: 34.0, bottom: 44.0 };

impl Frame {
    fn x(&self, part: f64) -> f64 {
        self.left + part * (self.width - self.left - self.right)
    }

    /// `part` counts from the bottom.
    fn y(&self, part: f64) -> f64 {
        self.height - self.bottom - part * (self.height - self.top - self.bottom)
    }

    fn open(&self, title: &str) -> String {
        let (width, height) = (self.width, self.height);
        let title = escaped(title);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-label=\"{title}\">\n<text class=\"title\" x=\"{:.0}\" y=\"18\">{title}</text>\n",
            self.left
        )
    }

    /// Horizontal grid lines with their labels.
    fn grid(&self, ticks: &[(f64, String)]) -> String {
        let mut out = String::new();
        for (part, label) in ticks {
            let y = self.y(*part);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                self.x(0.0),
                self.x(1.0),
                self.left - 6.0,
                y + 4.0
            );
        }
        out
    }

    fn below(&self, part: f64, label: &str) -> String {
        format!(
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            self.x(part),
            self.height - self.bottom + 17.0,
            escaped(label)
        )
    }

    fn axis_name(&self, name: &str) -> String {
        format!(
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            self.x(0.5),
            self.height - 6.0,
            escaped(name)
        )
    }
}

/// Lines over discrete positions on an axis, from zero, with intervals as bars through the points.
pub fn lines(title: &str, axis: &str, places: &[String], series: &[Series]) -> String {
    let frame = &LINES;
    let highest =
        |estimate: &Estimate| estimate.interval.map_or(estimate.mean, |(_, high)| high).max(estimate.mean);
    let most =
        series.iter().flat_map(|series| series.values.iter().flatten()).map(highest).fold(0.0, f64::max);
    let (top, ticks) = linear_ticks(most);
    let mut out = frame.open(title) + &frame.grid(&ticks);
    let at = |place: usize| (place as f64 + 0.5) / places.len() as f64;
    for (place, name) in places.iter().enumerate() {
        out += &frame.below(at(place), name);
    }
    out += &frame.axis_name(axis);
    for (number, one) in series.iter().enumerate() {
        let colour = number % COLOURS;
        // Offset horizontally, so that no interval hides another.
        let aside = (number as f64 - (series.len() as f64 - 1.0) / 2.0) * 4.0;
        let points: Vec<(f64, f64, &Estimate)> = one
            .values
            .iter()
            .enumerate()
            .filter_map(|(place, value)| {
                let value = value.as_ref().filter(|value| value.mean.is_finite())?;
                Some((frame.x(at(place)) + aside, frame.y(value.mean / top), value))
            })
            .collect();
        out += &polyline(points.iter().map(|(x, y, _)| (*x, *y)), colour);
        for (x, y, value) in points {
            if let Some((low, high)) = value.interval {
                let (low, high) =
                    (frame.y((low / top).clamp(0.0, 1.0)), frame.y((high / top).clamp(0.0, 1.0)));
                let _ = writeln!(
                    out,
                    "<line class=\"whisker s{colour}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
                );
            }
            let _ = writeln!(
                out,
                "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {}</title></circle>",
                escaped(&one.name),
                in_words(value)
            );
        }
    }
    out + "</svg>\n"
}

/// Curves of latency over the share of requests, both axes logarithmic: 90 % is as far from 99 % as
/// 99 % from 99.9 %. Each curve's points are (quantile, value).
pub fn percentiles(title: &str, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let frame = &LINES;
    let values = || curves.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    if !least.is_finite() || most <= 0.0 {
        return String::new();
    }
    let (low, high) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let part = |value: f64| (value.max(least).log10() - low) / (high - low);
    let decades = (high - low) as i32;
    let ticks: Vec<(f64, String)> = (0..=decades)
        .map(|step| (f64::from(step) / f64::from(decades), short(10f64.powf(low + f64::from(step)))))
        .collect();
    let mut out = frame.open(title) + &frame.grid(&ticks);
    // 0 % is at the left, 99.99 % at the right.
    let across = |quantile: f64| (-(1.0 - quantile).log10() / 4.0).clamp(0.0, 1.0);
    for (quantile, name) in [(0.0, "0"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")] {
        out += &frame.below(across(quantile), name);
    }
    out += &frame.axis_name("% of requests are faster than");
    for (number, (name, points)) in curves.iter().enumerate() {
        let colour = number % COLOURS;
        out += &polyline(points.iter().map(|(q, v)| (frame.x(across(*q)), frame.y(part(*v)))), colour);
        for (quantile, value) in points {
            let _ = writeln!(
                out,
                "<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {:.2} % within {} ms</title></circle>",
                frame.x(across(*quantile)),
                frame.y(part(*value)),
                escaped(name),
                quantile * 100.0,
                short(*value)
            );
        }
    }
    out + "</svg>\n"
}

/// Lines over time.
pub fn over_time(title: &str, runs: &[(String, Vec<(f64, f64)>)]) -> String {
    let frame = &LINES;
    let points = || runs.iter().flat_map(|(_, points)| points.iter());
    let end = points().map(|(time, _)| *time).fold(0.0, f64::max);
    let (top, ticks) = linear_ticks(points().map(|(_, value)| *value).fold(0.0, f64::max));
    let (last, seconds) = linear_ticks(end);
    let mut out = frame.open(title) + &frame.grid(&ticks);
    for (part, label) in seconds {
        out += &frame.below(part, &label);
    }
    out += &frame.axis_name("seconds");
    for (number, (_, points)) in runs.iter().enumerate() {
        let place = |(time, value): &(f64, f64)| (frame.x(time / last), frame.y(value / top));
        out += &polyline(points.iter().map(place), number % COLOURS);
    }
    out + "</svg>\n"
}

/// Horizontal bars with intervals. Each row is (name, value, colour).
pub fn bars(title: &str, unit: &str, rows: &[(String, Estimate, usize)]) -> String {
    let frame = bar_frame(rows.len());
    let highest =
        |estimate: &Estimate| estimate.interval.map_or(estimate.mean, |(_, high)| high).max(estimate.mean);
    let most =
        rows.iter().map(|(_, value, _)| highest(value)).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let (top, _) = linear_ticks(most);
    let mut out = frame.open(title);
    for (row, (name, value, colour)) in rows.iter().enumerate() {
        if !value.mean.is_finite() {
            continue;
        }
        let y = frame.top + row as f64 * BAR_STEP;
        let width = frame.x(value.mean / top) - frame.left;
        let _ = writeln!(
            out,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"f{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\">\
             <title>{}: {} {unit}</title></rect>",
            frame.left - 6.0,
            y + BAR_HEIGHT - 4.0,
            escaped(name),
            colour % COLOURS,
            frame.left,
            escaped(name),
            in_words(value)
        );
        let mut end = frame.left + width;
        if let Some((low, high)) = value.interval {
            let middle = y + BAR_HEIGHT / 2.0;
            let (low, high) = (frame.x((low / top).clamp(0.0, 1.0)), frame.x((high / top).clamp(0.0, 1.0)));
            end = end.max(high);
            let _ = writeln!(
                out,
                "<line class=\"whisker ink\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            end + 6.0,
            y + BAR_HEIGHT - 4.0,
            short(value.mean)
        );
    }
    out + "</svg>\n"
}

/// Stacked horizontal bars. Each row is its name and the names and values of its parts.
pub fn stacked(title: &str, unit: &str, rows: &[(String, Vec<(String, f64)>)]) -> String {
    let frame = bar_frame(rows.len());
    let sum = |parts: &[(String, f64)]| parts.iter().map(|(_, value)| value).sum::<f64>();
    let (top, _) = linear_ticks(rows.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max));
    let mut out = frame.open(title);
    for (row, (name, parts)) in rows.iter().enumerate() {
        let y = frame.top + row as f64 * BAR_STEP;
        let _ = writeln!(
            out,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            frame.left - 6.0,
            y + BAR_HEIGHT - 4.0,
            escaped(name)
        );
        let mut x = frame.left;
        for (number, (part, value)) in parts.iter().enumerate() {
            let width = frame.x(value / top) - frame.left;
            let _ = writeln!(
                out,
                "<rect class=\"f{} part\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\">\
                 <title>{}: {} {unit}</title></rect>",
                number % COLOURS,
                escaped(part),
                short(*value)
            );
            // A character is about 6.5 units wide.
            if part.len() as f64 * 6.5 + 8.0 < width {
                let _ = writeln!(
                    out,
                    "<text class=\"within\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    x + 4.0,
                    y + BAR_HEIGHT - 4.0,
                    escaped(part)
                );
            }
            x += width;
        }
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 6.0,
            y + BAR_HEIGHT - 4.0,
            short(sum(parts))
        );
    }
    out + "</svg>\n"
}

const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 24.0;

fn bar_frame(rows: usize) -> Frame {
    let height = 34.0 + rows as f64 * BAR_STEP + 6.0;
    Frame { width: 700.0, height, left: 200.0, right: 64.0, top: 34.0, bottom: 6.0 }
}

/// Names and colours of the series.
pub fn legend(names: &[String]) -> String {
    let item = |(number, name): (usize, &String)| {
        format!(
            "<span><svg width=\"12\" height=\"12\"><rect class=\"f{}\" width=\"12\" height=\"12\"/></svg> {}</span>",
            number % COLOURS,
            escaped(name)
        )
    };
    format!("<p class=\"legend\">{}</p>\n", names.iter().enumerate().map(item).collect::<Vec<_>>().join(" "))
}

fn polyline(points: impl Iterator<Item = (f64, f64)>, colour: usize) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!("<polyline class=\"s{colour}\" points=\"{}\"/>\n", points.join(" "))
}

/// The end of an axis that starts at zero, and its ticks as fractions of the axis: five to seven
/// round numbers.
fn linear_ticks(most: f64) -> (f64, Vec<(f64, String)>) {
    if most <= 0.0 || !most.is_finite() {
        return (1.0, vec![(0.0, "0".into()), (1.0, "1".into())]);
    }
    let magnitude = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| most / step <= 6.0)
        .unwrap_or(10.0 * magnitude);
    let count = (most / step).ceil().max(1.0) as u32;
    let top = step * f64::from(count);
    (
        top,
        (0..=count).map(|tick| (f64::from(tick) / f64::from(count), short(step * f64::from(tick)))).collect(),
    )
}

fn in_words(estimate: &Estimate) -> String {
    match estimate.interval {
        None => short(estimate.mean),
        Some((low, high)) => format!("{} (95 % {} .. {})", short(estimate.mean), short(low), short(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_the_highest_value_at_round_numbers() {
        for most in [0.3, 1.0, 7.2, 99.0, 1234567.0] {
            let (top, ticks) = linear_ticks(most);
            assert!(top >= most && top <= most * 2.0, "{most}: {top}");
            assert!((3..=8).contains(&ticks.len()), "{most}: {ticks:?}");
        }
        assert_eq!(linear_ticks(0.0).0, 1.0);
    }

    #[test]
    fn plots_contain_all_input_data() {
        let value = |mean: f64| Some(Estimate { mean, interval: Some((mean * 0.9, mean * 1.1)) });
        let series = [Series { name: "a<b".into(), values: vec![value(1.0), None, value(3.0)] }];
        let places = ["1", "16", "64"].map(str::to_owned);
        let drawing = lines("throughput", "depth", &places, &series);
        assert_eq!(drawing.matches("<circle").count(), 2);
        assert!(drawing.contains("a&lt;b: 3 (95 % 2.7 .. 3.3)") && drawing.ends_with("</svg>\n"));
        let drawing =
            stacked("time", "cores", &[("s".into(), vec![("io".into(), 0.5), ("main".into(), 0.25)])]);
        assert_eq!(drawing.matches("<rect").count(), 2);
        assert!(drawing.contains(">0.75<"));
        let curve = vec![(0.5, 0.1), (0.99, 1.0), (0.9999, 12.0)];
        assert_eq!(percentiles("latency", &[("x".into(), curve)]).matches("<circle").count(), 3);
        assert_eq!(percentiles("nothing", &[]), "");
        assert!(
            bars("b", "ms", &[("x".into(), Estimate { mean: f64::NAN, interval: None }, 0)])
                .contains("</svg>")
        );
    }
}
