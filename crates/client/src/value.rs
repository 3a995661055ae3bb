// SPDX-License-Identifier: BSD-3-Clause
//! A reply as a value, the same for RESP2 and RESP3.
//!
//! For the tools' control connections, where replies are few and their exact form does not
//! matter.

use crate::reply::Reply;

/// One reply. Verbatim strings become [`Value::Bulk`] without their format, sets and pushes
/// become [`Value::Array`], and attributes are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Double(f64),
    Boolean(bool),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The text of a status, error, string or number; empty for other values.
    pub fn text(&self) -> String {
        match self {
            Value::Status(text) | Value::Error(text) => text.clone(),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Double(number) => number.to_string(),
            Value::Boolean(yes) => yes.to_string(),
            Value::Null | Value::Array(_) | Value::Map(_) => String::new(),
        }
    }

    /// The elements of an array, or the alternating keys and values of a map; none for other
    /// values.
    pub fn elements(self) -> Vec<Value> {
        match self {
            Value::Array(elements) => elements,
            Value::Map(pairs) => pairs.into_iter().flat_map(|(key, value)| [key, value]).collect(),
            _ => Vec::new(),
        }
    }

    /// The number of an integer, or of a string that holds an integer.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Bulk(_) | Value::Status(_) => self.text().parse().ok(),
            _ => None,
        }
    }
}

impl From<Reply> for Value {
    fn from(reply: Reply) -> Value {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let values = |replies: Vec<Reply>| replies.into_iter().map(Value::from).collect();
        match reply {
            Reply::Simple(bytes) => Value::Status(text(bytes)),
            Reply::Error(bytes) => Value::Error(text(bytes)),
            Reply::Integer(number) => Value::Integer(number),
            Reply::Bulk(bytes) | Reply::BigNumber(bytes) => Value::Bulk(bytes),
            Reply::Verbatim(bytes) => Value::Bulk(bytes.get(4..).unwrap_or_default().to_vec()),
            Reply::Double(bytes) => Value::Double(text(bytes).parse().unwrap_or(f64::NAN)),
            Reply::Boolean(yes) => Value::Boolean(yes),
            Reply::Null | Reply::NullBulk | Reply::NullArray => Value::Null,
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Value::Array(values(items)),
            Reply::Map(pairs) => {
                Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
            }
            Reply::Attribute(_, reply) => Value::from(*reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_resp::{Protocol, ReplyBuffer};

    fn parse(bytes: &[u8]) -> Value {
        let (reply, len) = Reply::parse(bytes).unwrap();
        assert_eq!(len, bytes.len());
        reply.into()
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut reply = ReplyBuffer::new(protocol);
            reply.array(6);
            reply.simple("OK");
            reply.bulk(b"a\r\nb");
            reply.null();
            reply.integer(-7);
            reply.verbatim("txt", b"words");
            reply.set(0);
            let values = parse(reply.as_contiguous().unwrap()).elements();
            assert_eq!(values[0], Value::Status("OK".into()));
            assert_eq!(values[1], Value::Bulk(b"a\r\nb".to_vec()));
            assert_eq!(values[2], Value::Null);
            assert_eq!(values[3].integer(), Some(-7));
            assert_eq!(values[4].text(), "words");
            assert_eq!(values[5], Value::Array(Vec::new()));
        }
        assert_eq!(
            parse(b"%1\r\n+a\r\n,1.5\r\n").elements(),
            [Value::Status("a".into()), Value::Double(1.5)]
        );
        assert_eq!(parse(b"|1\r\n+a\r\n:1\r\n#t\r\n"), Value::Boolean(true));
    }
}
