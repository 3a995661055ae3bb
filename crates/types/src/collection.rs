// SPDX-License-Identifier: BSD-3-Clause
//! Code shared by the commands of all collections: parsing of arguments, and replies with elements.

use braid_base::number;
use braid_containers::listpack::Element;
use braid_executor::Call;
use braid_keyspace::object::{ExpiredMembers, Expiring, ObjectType};
use braid_keyspace::txn::WrongType;
use braid_resp::reply::ReplyBuffer;
use braid_spec::CommandError;

/// Operations on this many members run in the background (`braid_executor::background`): they take
/// several milliseconds.
pub const MANY_MEMBERS: usize = 10_000;

/// Removes expired members; every body that writes to a collection starts with this.
#[inline]
pub fn purge<T: Expiring>(collection: &mut T, now: i64) -> ExpiredMembers {
    if has_expired(collection, now) {
        collection.remove_expired(now, usize::MAX)
    } else {
        ExpiredMembers::new()
    }
}

/// True if a member is expired but not yet removed.
#[inline]
pub fn has_expired<T: Expiring>(collection: &T, now: i64) -> bool {
    collection.next_expiry().is_some_and(|at| now > at)
}

/// The first key that holds a collection from which this client may take an element, as `can_give`
/// decides.
///
/// # Errors
/// If an earlier key holds another type.
pub fn first_filled<'k, T: ObjectType>(
    call: &Call,
    keys: &[&'k [u8]],
    can_give: impl Fn(&T) -> bool,
) -> Result<Option<&'k [u8]>, WrongType> {
    for &key in keys.iter().filter(|key| call.may_take(key, T::TYPE)) {
        if call.keyspace.peek_as::<T>(key)?.is_some_and(&can_give) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Replies with an element as a string. Writes nothing once the reply exceeds the client's limit,
/// so that the reply's memory is bounded for a collection of any size.
#[inline]
pub fn reply_element(reply: &mut ReplyBuffer, element: Element<'_>) {
    if reply.is_full() {
        return;
    }
    match element {
        Element::Int(number) => reply.bulk_integer(number),
        Element::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Parses argument `index` as an integer of at least `least`.
///
/// # Errors
/// The error `refusal`, if the argument is not such an integer.
pub fn least_arg(call: &Call, index: usize, least: i64, refusal: &'static str) -> Result<i64, CommandError> {
    number::parse_i64(call.args[index]).filter(|&value| value >= least).ok_or(CommandError::text(refusal))
}

/// Parses argument `index` as the number of elements to pop.
///
/// # Errors
/// If it is negative or not an integer.
pub fn pop_count_arg(call: &Call, index: usize) -> Result<usize, CommandError> {
    let count = least_arg(call, index, 0, "ERR value is out of range, must be positive")?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Parses argument `index` as an integer between `-most` and `most`.
///
/// # Errors
/// If it is not an integer, or out of the range.
pub fn symmetric_arg(call: &Call, index: usize, most: i64) -> Result<i64, CommandError> {
    let value = call.integer_arg(index)?;
    if value < -most || value > most {
        let text = format!("ERR value is out of range, value must between {} and {most}", -most);
        return Err(CommandError::text(text));
    }
    Ok(value)
}

/// The position of the first element and the number of elements between two inclusive indexes;
/// negative ones count from the end. Indexes out of range are clamped.
pub fn index_range(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_front = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, end) = (from_front(start).max(0), from_front(end).min(len - 1));
    let count = usize::try_from(end.saturating_sub(start).saturating_add(1)).unwrap_or(0);
    if start >= len { (0, 0) } else { (usize::try_from(start).unwrap_or(0), count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_indexes() {
        assert_eq!(index_range(0, -1, 5), (0, 5));
        assert_eq!(index_range(1, 2, 5), (1, 2));
        assert_eq!(index_range(-2, 100, 5), (3, 2));
        assert_eq!(index_range(3, 1, 5), (3, 0));
        assert_eq!(index_range(5, 9, 5), (0, 0));
        assert_eq!(index_range(0, -1, 0), (0, 0));
        assert_eq!(index_range(i64::MIN, i64::MAX, 3), (0, 3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ranges_stay_within(start: i64, end: i64, small in -9i64..9, len in 0usize..8) {
            for (start, end) in [(start, end), (small, end), (start, small)] {
                let (first, count) = index_range(start, end, len);
                prop_assert!(first + count <= len);
            }
        }
    }
}
