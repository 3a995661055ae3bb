// SPDX-License-Identifier: BSD-3-Clause
//! The developer's commands as they arrive: arrays of short bulk strings, as `redis-cli --ldb`
//! sends them.

/// Maximum number of words, and of bytes in one.
const MAX: usize = 1024;

/// A command's words, and its length.
pub(super) type Parsed = (Vec<Vec<u8>>, usize);

/// Not a command.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Invalid;

/// The first command in the input; `None` if it is incomplete.
pub(super) fn parse(input: &[u8]) -> Result<Option<Parsed>, Invalid> {
    let mut rest = input;
    let Some(count) = number(&mut rest, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(len) = number(&mut rest, b'$')? else { return Ok(None) };
        let Some((word, after)) = rest.split_at_checked(len) else { return Ok(None) };
        match after {
            [b'\r', b'\n', after @ ..] => rest = after,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(Invalid),
        }
        words.push(word.to_vec());
    }
    Ok(Some((words, input.len() - rest.len())))
}

/// A line with this first byte and a number.
fn number(rest: &mut &[u8], kind: u8) -> Result<Option<usize>, Invalid> {
    match rest.first() {
        None => return Ok(None),
        Some(&first) if first != kind => return Err(Invalid),
        Some(_) => {}
    }
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        return if rest.len() > MAX { Err(Invalid) } else { Ok(None) };
    };
    let number = braid_base::number::parse_i64(&rest[1..end]).and_then(|number| usize::try_from(number).ok());
    *rest = &rest[end + 2..];
    number.filter(|number| (1..=MAX).contains(number)).map(Some).ok_or(Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_arrive_in_any_pieces() {
        let command = b"*2\r\n$5\r\nprint\r\n$1\r\na\r\n";
        for end in 0..command.len() {
            assert_eq!(parse(&command[..end]), Ok(None), "{end}");
        }
        let words = vec![b"print".to_vec(), b"a".to_vec()];
        let more = [&command[..], b"*1\r\n"].concat();
        assert_eq!(parse(&more), Ok(Some((words, command.len()))));
    }

    #[test]
    fn anything_else_is_invalid() {
        let long = [b"*", &b"1".repeat(MAX + 1)[..]].concat();
        for bad in [
            &b"PING\r\n"[..],
            b"*0\r\n",
            b"*-1\r\n",
            b"*x\r\n",
            b"*1025\r\n",
            b"*99999999999999999999\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$0\r\n\r\n",
            b"*1\r\n$1025\r\n",
            b"*1\r\n$1\r\nabc",
            &long,
        ] {
            assert_eq!(parse(bad), Err(Invalid), "{}", bad.escape_ascii());
        }
    }
}
