// SPDX-License-Identifier: BSD-3-Clause
//! Functions of expressions.

use braid_containers::geohash::Position;

use super::error::AggregateError;
use super::times::{self, Unit};
use super::value::Value;

macro_rules! functions {
    ($($variant:ident $name:literal $least:literal $most:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function { $($variant,)* }

        impl Function {
            pub fn parse(name: &str) -> Option<Function> {
                $(if name.eq_ignore_ascii_case($name) { return Some(Function::$variant); })*
                None
            }

            /// As RediSearch writes it.
            pub fn name(self) -> &'static str {
                match self { $(Function::$variant => $name,)* }
            }

            /// Whether so many arguments can be given.
            pub fn takes(self, arguments: usize) -> bool {
                match self { $(Function::$variant => ($least..=$most).contains(&arguments),)* }
            }
        }
    };
}

functions! {
    Exists "exists" 1 1,
    Log "log" 1 1,
    Log2 "log2" 1 1,
    Exp "exp" 1 1,
    Abs "abs" 1 1,
    Ceil "ceil" 1 1,
    Floor "floor" 1 1,
    Sqrt "sqrt" 1 1,
    Upper "upper" 1 1,
    Lower "lower" 1 1,
    StrLen "strlen" 1 1,
    StartsWith "startswith" 2 2,
    Contains "contains" 2 2,
    SubStr "substr" 3 3,
    Format "format" 1 64,
    Split "split" 1 3,
    ToNumber "to_number" 1 1,
    ToStr "to_str" 1 1,
    TimeFmt "timefmt" 1 2,
    ParseTime "parsetime" 2 2,
    Minute "minute" 1 1,
    Hour "hour" 1 1,
    Day "day" 1 1,
    Month "month" 1 1,
    DayOfWeek "dayofweek" 1 1,
    DayOfMonth "dayofmonth" 1 1,
    DayOfYear "dayofyear" 1 1,
    Year "year" 1 1,
    MonthOfYear "monthofyear" 1 1,
    GeoDistance "geodistance" 2 4,
}

pub fn call(function: Function, arguments: &[Value]) -> Result<Value, AggregateError> {
    if function == Function::Exists {
        return Ok(Value::truth(!arguments[0].is_none()));
    }
    // What is made of nothing is nothing.
    if arguments.iter().any(Value::is_none) {
        return Ok(Value::None);
    }
    if let Some(value) = mathematical(function, &arguments[0]) {
        return value;
    }
    if let Some(value) = textual(function, arguments) {
        return Ok(value);
    }
    Ok(match function {
        Function::Format => Value::text(&format(arguments)?),
        Function::ToNumber => match (arguments[0].number(), &arguments[0]) {
            (Some(number), _) => Value::Number(number),
            (None, other) => return Err(AggregateError::ToNumber(other.shown())),
        },
        Function::ParseTime => {
            let parsed = times::parse(&arguments[0].shown(), &arguments[1].shown());
            parsed.map_or(Value::None, Value::Number)
        }
        Function::GeoDistance => distance(arguments).unwrap_or_default(),
        _ => timely(function, arguments).unwrap_or_default(),
    })
}

fn mathematical(function: Function, argument: &Value) -> Option<Result<Value, AggregateError>> {
    let calculate: fn(f64) -> f64 = match function {
        Function::Log => f64::ln,
        Function::Log2 => f64::log2,
        Function::Exp => f64::exp,
        Function::Abs => f64::abs,
        Function::Ceil => f64::ceil,
        Function::Floor => f64::floor,
        Function::Sqrt => f64::sqrt,
        _ => return None,
    };
    Some(match argument.number() {
        Some(number) => Ok(Value::Number(calculate(number))),
        None => Err(AggregateError::Convert),
    })
}

fn textual(function: Function, arguments: &[Value]) -> Option<Value> {
    let text = || match &arguments[0] {
        Value::Text(text) => Some(&**text),
        _ => None,
    };
    let value = match function {
        Function::Upper => text().map(|text| Value::text(&text.to_uppercase())),
        Function::Lower => text().map(|text| Value::text(&text.to_lowercase())),
        Function::ToStr => Some(Value::text(&arguments[0].shown())),
        Function::StrLen => Some(Value::Number(arguments[0].shown().len() as f64)),
        Function::StartsWith => {
            Some(Value::truth(arguments[0].shown().starts_with(arguments[1].shown().as_str())))
        }
        Function::Contains => {
            let (text, part) = (arguments[0].shown(), arguments[1].shown());
            // Between all characters and at both ends there is nothing.
            let times = if part.is_empty() { text.len() + 1 } else { text.matches(part.as_str()).count() };
            Some(Value::Number(times as f64))
        }
        Function::SubStr => text().map(|text| Value::text(sub_text(text, &arguments[1], &arguments[2]))),
        Function::Split => text().map(|text| split(text, arguments)),
        _ => return None,
    };
    Some(value.unwrap_or_default())
}

/// A part by its offset, from the end if it is negative, and its length; a negative length leaves
/// so many bytes at the end out.
fn sub_text<'a>(text: &'a str, offset: &Value, count: &Value) -> &'a str {
    let len = text.len() as i64;
    let offset = offset.number().unwrap_or(0.0) as i64;
    let count = count.number().unwrap_or(0.0) as i64;
    let start = if offset < 0 { len.saturating_add(offset).max(0) } else { offset.min(len) };
    let end =
        if count < 0 { len.saturating_add(count).max(start) } else { start.saturating_add(count).min(len) };
    let (start, end) = (text.floor_char_boundary(start as usize), text.floor_char_boundary(end as usize));
    &text[start..end.max(start)]
}

fn split(text: &str, arguments: &[Value]) -> Value {
    let separators = arguments.get(1).map_or_else(|| ",".to_owned(), Value::shown);
    let strip = arguments.get(2).map_or_else(|| " ".to_owned(), Value::shown);
    let parts =
        text.split(|one| separators.contains(one)).map(|part| part.trim_matches(|one| strip.contains(one)));
    Value::List(parts.filter(|part| !part.is_empty()).map(Value::text).collect())
}

fn format(arguments: &[Value]) -> Result<String, AggregateError> {
    let pattern = arguments[0].shown();
    let mut values = arguments[1..].iter();
    let mut out = String::new();
    let mut rest = pattern.chars();
    while let Some(one) = rest.next() {
        if one != '%' {
            out.push(one);
            continue;
        }
        match rest.next() {
            Some('%') => out.push('%'),
            Some('s') => out.push_str(&values.next().ok_or(AggregateError::Format)?.shown()),
            _ => return Err(AggregateError::Format),
        }
    }
    Ok(out)
}

/// Functions of a time; `None` if it is none, or out of range.
fn timely(function: Function, arguments: &[Value]) -> Option<Value> {
    let moment = times::date_time(arguments[0].number()?)?;
    let number = match function {
        Function::TimeFmt => {
            let format = arguments.get(1).map_or_else(|| "%FT%TZ".to_owned(), Value::shown);
            return times::format(moment, &format).map(|text| Value::text(&text));
        }
        Function::Minute => times::floor(moment, Unit::Minute),
        Function::Hour => times::floor(moment, Unit::Hour),
        Function::Day => times::floor(moment, Unit::Day),
        Function::Month => times::floor(moment, Unit::Month),
        Function::Year => f64::from(moment.year()),
        Function::DayOfWeek => f64::from(moment.weekday().number_days_from_sunday()),
        Function::DayOfMonth => f64::from(moment.day()),
        Function::DayOfYear => f64::from(moment.ordinal()) - 1.0,
        Function::MonthOfYear => f64::from(moment.month() as u8) - 1.0,
        _ => return None,
    };
    Some(Value::Number(number))
}

/// Between two positions, in metres, to the centimetre: four numbers, or texts with two each.
fn distance(arguments: &[Value]) -> Option<Value> {
    let mut numbers = Vec::new();
    for argument in arguments {
        match argument {
            Value::Text(text) if text.contains(',') => {
                let (longitude, latitude) = text.split_once(',')?;
                numbers.push(longitude.trim().parse::<f64>().ok()?);
                numbers.push(latitude.trim().parse::<f64>().ok()?);
            }
            other => numbers.push(other.number()?),
        }
    }
    let [a, b, c, d] = numbers[..] else { return None };
    let metres = Position::new(a, b)?.distance(Position::new(c, d)?);
    Some(Value::Number((metres * 100.0).round() / 100.0))
}
