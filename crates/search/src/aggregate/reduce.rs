// SPDX-License-Identifier: BSD-3-Clause
//! The functions of REDUCE: what they keep of a group's rows, and what they make of it.
//!
//! Missing values count for COUNT only.

use std::collections::HashSet;

use super::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Reducer {
    Count,
    /// The column, and what of it.
    Sum(usize),
    Min(usize),
    Max(usize),
    Average(usize),
    Deviation(usize),
    Quantile(usize, f64),
    List(usize),
    CountDistinct(usize),
    /// The column, what the first row is the first by, and whether descending.
    First {
        column: usize,
        by: Option<(usize, bool)>,
    },
    Sample {
        column: usize,
        size: usize,
    },
}

/// What a reducer keeps of a group.
#[derive(Debug)]
pub enum Kept {
    Number(u64, f64),
    /// Count, mean, and the sum of squared differences from the mean.
    Moments(u64, f64, f64),
    Extreme(Value),
    Numbers(Vec<f64>),
    Distinct(HashSet<Value>, Vec<Value>),
    First(Option<(Value, Value)>),
    Sample(Vec<Value>, u64, u64),
}

impl Reducer {
    pub fn start(&self) -> Kept {
        match self {
            Reducer::Count | Reducer::Sum(_) | Reducer::Average(_) => Kept::Number(0, 0.0),
            Reducer::Min(_) | Reducer::Max(_) => Kept::Extreme(Value::None),
            Reducer::Deviation(_) => Kept::Moments(0, 0.0, 0.0),
            Reducer::Quantile(..) => Kept::Numbers(Vec::new()),
            Reducer::List(_) | Reducer::CountDistinct(_) => Kept::Distinct(HashSet::new(), Vec::new()),
            Reducer::First { .. } => Kept::First(None),
            Reducer::Sample { .. } => Kept::Sample(Vec::new(), 0, 0x9e37_79b9_7f4a_7c15),
        }
    }

    /// How many values a group keeps at most beyond a few words; `None` if as many as it has rows.
    pub fn is_bounded(&self) -> bool {
        !matches!(self, Reducer::Quantile(..) | Reducer::List(_) | Reducer::CountDistinct(_))
    }

    pub fn add(&self, kept: &mut Kept, row: &[Value]) {
        let value = |column: &usize| row.get(*column).filter(|value| !value.is_none());
        match (self, kept) {
            (Reducer::Count, Kept::Number(count, _)) => *count += 1,
            (Reducer::Sum(column) | Reducer::Average(column), Kept::Number(count, sum)) => {
                if let Some(number) = value(column).and_then(Value::number) {
                    *count += 1;
                    *sum += number;
                }
            }
            (Reducer::Min(column), Kept::Extreme(extreme)) => {
                if let Some(value) = value(column)
                    && (extreme.is_none() || value.compare(extreme).is_lt())
                {
                    *extreme = value.clone();
                }
            }
            (Reducer::Max(column), Kept::Extreme(extreme)) => {
                if let Some(value) = value(column)
                    && (extreme.is_none() || value.compare(extreme).is_gt())
                {
                    *extreme = value.clone();
                }
            }
            (Reducer::Deviation(column), Kept::Moments(count, mean, squares)) => {
                if let Some(number) = value(column).and_then(Value::number) {
                    *count += 1;
                    let difference = number - *mean;
                    *mean += difference / *count as f64;
                    *squares += difference * (number - *mean);
                }
            }
            (Reducer::Quantile(column, _), Kept::Numbers(numbers)) => {
                numbers.extend(value(column).and_then(Value::number));
            }
            (Reducer::List(column) | Reducer::CountDistinct(column), Kept::Distinct(seen, order)) => {
                if let Some(value) = value(column)
                    && seen.insert(value.clone())
                {
                    order.push(value.clone());
                }
            }
            (Reducer::First { column, by }, Kept::First(first)) => {
                let by_value = by.and_then(|(by, _)| value(&by)).cloned().unwrap_or_default();
                let descending = by.is_some_and(|(_, descending)| descending);
                let is_first = match (&first, by) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some((best, _)), Some(_)) if by_value.is_none() || best.is_none() => {
                        best.is_none() && !by_value.is_none()
                    }
                    (Some((best, _)), Some(_)) if descending => by_value.compare(best).is_gt(),
                    (Some((best, _)), Some(_)) => by_value.compare(best).is_lt(),
                };
                if is_first {
                    *first = Some((by_value, value(column).cloned().unwrap_or_default()));
                }
            }
            (Reducer::Sample { column, size }, Kept::Sample(sample, seen, random)) => {
                let Some(value) = value(column) else { return };
                *seen += 1;
                if sample.len() < *size {
                    sample.push(value.clone());
                    return;
                }
                // Each value stays with the same probability.
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                if let Some(place) = sample.get_mut((*random % *seen) as usize) {
                    *place = value.clone();
                }
            }
            _ => {}
        }
    }

    pub fn finish(&self, kept: Kept) -> Value {
        match (self, kept) {
            (Reducer::Count, Kept::Number(count, _)) => Value::Number(count as f64),
            (Reducer::Average(_), Kept::Number(count, sum)) if count > 0 => Value::Number(sum / count as f64),
            (_, Kept::Number(_, sum)) => Value::Number(sum),
            (_, Kept::Moments(count, _, squares)) => {
                let variance = if count > 1 { squares / (count - 1) as f64 } else { 0.0 };
                Value::Number(variance.sqrt())
            }
            (_, Kept::Extreme(value)) => value,
            (Reducer::Quantile(_, quantile), Kept::Numbers(mut numbers)) => {
                numbers.sort_unstable_by(f64::total_cmp);
                let rank = (quantile * numbers.len() as f64).ceil() as usize;
                numbers.get(rank.saturating_sub(1)).map_or(Value::None, |number| Value::Number(*number))
            }
            (Reducer::CountDistinct(_), Kept::Distinct(seen, _)) => Value::Number(seen.len() as f64),
            (_, Kept::Distinct(_, order)) => Value::List(order.into()),
            (_, Kept::First(first)) => first.map_or(Value::None, |(_, value)| value),
            (_, Kept::Sample(sample, ..)) => Value::List(sample.into()),
            (_, Kept::Numbers(_)) => Value::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(reducer: &Reducer, rows: &[&[Value]]) -> String {
        let mut kept = reducer.start();
        rows.iter().for_each(|row| reducer.add(&mut kept, row));
        reducer.finish(kept).shown()
    }

    #[test]
    fn reducers_give_what_redis_gives() {
        let number = Value::Number;
        let rows: Vec<Vec<Value>> = vec![
            vec![number(1.0), Value::text("b")],
            vec![number(2.0), Value::text("a")],
            vec![Value::None, Value::text("c")],
            vec![number(2.0), Value::None],
        ];
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        for (reducer, expected) in [
            (Reducer::Count, "4"),
            (Reducer::Sum(0), "5"),
            (Reducer::Average(0), "1.66666666667"),
            (Reducer::Min(1), "a"),
            (Reducer::Max(0), "2"),
            (Reducer::Deviation(0), "0.57735026919"),
            (Reducer::Quantile(0, 0.5), "2"),
            (Reducer::Quantile(0, 0.0), "1"),
            (Reducer::List(0), "1, 2"),
            (Reducer::CountDistinct(1), "3"),
            (Reducer::First { column: 1, by: None }, "b"),
            (Reducer::First { column: 1, by: Some((0, true)) }, "a"),
            (Reducer::First { column: 0, by: Some((1, true)) }, ""),
            (Reducer::Sample { column: 0, size: 9 }, "1, 2, 2"),
        ] {
            assert_eq!(reduce(&reducer, &rows), expected, "{reducer:?}");
        }
        assert_eq!(reduce(&Reducer::Average(0), &[]), "0");
        assert_eq!(reduce(&Reducer::Min(0), &[]), "");
    }

    #[test]
    fn samples_are_of_all_rows() {
        let rows: Vec<Vec<Value>> = (0..1000).map(|n| vec![Value::Number(f64::from(n))]).collect();
        let sampled = reduce(
            &Reducer::Sample { column: 0, size: 50 },
            &rows.iter().map(|row| &row[..]).collect::<Vec<_>>(),
        );
        let late = sampled.split(", ").filter(|one| one.parse::<f64>().unwrap() >= 500.0).count();
        assert!((10..=40).contains(&late), "{late}");
    }
}
