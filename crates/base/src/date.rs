// SPDX-License-Identifier: BSD-3-Clause
//! Calendar dates in UTC, which the standard library lacks. For logs and reports; commands report
//! times as numbers.

use time::OffsetDateTime;

/// A moment in the Gregorian calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date {
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

impl Date {
    /// Converts seconds since the Unix epoch to a date; times beyond the year 9999 give the epoch
    /// itself. Allocates nothing.
    pub fn from_unix(seconds: i64) -> Date {
        let moment = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Date {
            year: moment.year(),
            month: moment.month().into(),
            day: moment.day(),
            hour: moment.hour(),
            minute: moment.minute(),
            second: moment.second(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_moments() {
        let date = |seconds| {
            let Date { year, month, day, hour, minute, second } = Date::from_unix(seconds);
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        };
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(11_016 * 86_400 + 86_399), "2000-02-29 23:59:59");
        assert_eq!(date(20_778 * 86_400 + 5 * 3600 + 44 * 60 + 12), "2026-11-21 05:44:12");
        assert_eq!(date(i64::MAX), "1970-01-01 00:00:00");
    }
}
