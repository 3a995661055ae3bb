// SPDX-License-Identifier: BSD-3-Clause
//! Times in expressions: seconds since 1970, UTC.

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The date and time of a number of seconds; `None` if it is out of range.
pub fn date_time(seconds: f64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds as i64).ok()
}

/// The seconds of a date and time.
pub fn seconds(moment: OffsetDateTime) -> f64 {
    moment.unix_timestamp() as f64
}

/// The beginning of a unit that contains a moment.
pub fn floor(moment: OffsetDateTime, unit: Unit) -> f64 {
    let seconds = moment.unix_timestamp();
    let days_back = match unit {
        Unit::Minute => return (seconds - seconds.rem_euclid(60)) as f64,
        Unit::Hour => return (seconds - seconds.rem_euclid(3600)) as f64,
        Unit::Day => 0,
        Unit::Month => i64::from(moment.day()) - 1,
    };
    (seconds - seconds.rem_euclid(86_400) - days_back * 86_400) as f64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Minute,
    Hour,
    Day,
    Month,
}

/// Writes a moment as C's `strftime` does, with its usual letters. `None` for others.
pub fn format(moment: OffsetDateTime, format: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(one) = rest.next() {
        if one != '%' {
            out.push(one);
            continue;
        }
        let (month, weekday) = (moment.month() as usize, moment.weekday().number_days_from_sunday() as usize);
        let text = match rest.next()? {
            'Y' => format!("{:04}", moment.year()),
            'y' => format!("{:02}", moment.year().rem_euclid(100)),
            'm' => format!("{month:02}"),
            'd' => format!("{:02}", moment.day()),
            'e' => format!("{:2}", moment.day()),
            'H' => format!("{:02}", moment.hour()),
            'I' => format!("{:02}", (moment.hour() + 11) % 12 + 1),
            'M' => format!("{:02}", moment.minute()),
            'S' => format!("{:02}", moment.second()),
            'p' => if moment.hour() < 12 { "AM" } else { "PM" }.to_owned(),
            'j' => format!("{:03}", moment.ordinal()),
            'F' => self::format(moment, "%Y-%m-%d")?,
            'T' => self::format(moment, "%H:%M:%S")?,
            'a' => DAYS[weekday][..3].to_owned(),
            'A' => DAYS[weekday].to_owned(),
            'b' => MONTHS[month - 1][..3].to_owned(),
            'B' => MONTHS[month - 1].to_owned(),
            'Z' => "UTC".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        };
        out.push_str(&text);
    }
    Some(out)
}

/// Reads a moment written in a format; `None` if it is not.
pub fn parse(text: &str, format: &str) -> Option<f64> {
    // Year, month, day, hour, minute, second.
    let mut fields = [1900, 1, 1, 0, 0, 0];
    let rest = read(text, format, &mut fields)?;
    if !rest.is_empty() {
        return None;
    }
    let [year, month, day, hour, minute, second] = fields;
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    let part = |value: i32| u8::try_from(value).ok();
    let time = Time::from_hms(part(hour)?, part(minute)?, part(second)?).ok()?;
    Some(seconds(PrimitiveDateTime::new(date, time).assume_offset(UtcOffset::UTC)))
}

/// Reads fields from the beginning of a text, and returns what is left.
fn read<'a>(text: &'a str, format: &str, fields: &mut [i32; 6]) -> Option<&'a str> {
    let mut rest = text;
    let mut format = format.chars();
    while let Some(one) = format.next() {
        if one != '%' {
            rest = rest.strip_prefix(one)?;
            continue;
        }
        let (field, digits) = match format.next()? {
            'Y' => (0, 4),
            'm' => (1, 2),
            'd' | 'e' => (2, 2),
            'H' => (3, 2),
            'M' => (4, 2),
            'S' => (5, 2),
            'F' => {
                rest = read(rest, "%Y-%m-%d", fields)?;
                continue;
            }
            'T' => {
                rest = read(rest, "%H:%M:%S", fields)?;
                continue;
            }
            '%' => {
                rest = rest.strip_prefix('%')?;
                continue;
            }
            _ => return None,
        };
        rest = rest.trim_start_matches(' ');
        let len = rest.bytes().take(digits).take_while(u8::is_ascii_digit).count();
        fields[field] = rest[..len].parse().ok()?;
        rest = &rest[len..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: f64 = 1_517_417_144.0;

    #[test]
    fn moments_are_written_read_and_floored() {
        let moment = date_time(MOMENT).unwrap();
        assert_eq!(format(moment, "%FT%TZ").as_deref(), Some("2018-01-31T16:45:44Z"));
        assert_eq!(format(moment, "%a %b %e %j %I%p %%").as_deref(), Some("Wed Jan 31 031 04PM %"));
        assert_eq!(format(moment, "%Q"), None);
        assert_eq!(parse("2018-01-31", "%Y-%m-%d"), Some(1_517_356_800.0));
        assert_eq!(parse("2018-01-31T16:45:44Z", "%FT%TZ"), Some(MOMENT));
        for bad in ["2018-13-01", "2018-01", "x", "2018-01-31 "] {
            assert_eq!(parse(bad, "%F"), None, "{bad}");
        }
        let floors = [Unit::Minute, Unit::Hour, Unit::Day, Unit::Month].map(|unit| floor(moment, unit));
        assert_eq!(floors, [1_517_417_100.0, 1_517_414_400.0, 1_517_356_800.0, 1_514_764_800.0]);
        assert_eq!(date_time(1e18), None);
    }
}
