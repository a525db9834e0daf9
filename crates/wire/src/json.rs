//! Reading JSON from outside: with a bound on its depth, without duplicate keys, and with errors that name
//! the field and the value.

mod integers;
mod words;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::FieldError;

/// How deep arrays and objects may nest.
pub const DEPTH_LIMIT: usize = 64;

/// Reads a whole JSON text, which must be an object, into `T`.
pub fn read_object<T: DeserializeOwned>(text: &[u8]) -> Result<T, FieldError> {
    read(text).map(|Object(value)| value)
}

/// Reads a whole JSON text into `T`.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, FieldError> {
    if check_depth(text)? {
        integers::check(text)?;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = pointer(error.path());
        words::fault(pointer, &error.into_inner())
    })?;
    deserializer.end().map_err(|error| FieldError::new("", error.to_string()))?;
    Ok(value)
}

/// A JSON text that was stored as it came, as a value. An integer beyond 64 bits, which would be read as another number, is
/// a string of its digits. `None` where the text is no JSON.
pub fn stored(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(&integers::quoted(text)).ok()
}

/// A value that is written as an object, and not as the list of its fields in the order in which they stand in the
/// code, which serde takes as well.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(std::marker::PhantomData))
    }
}

struct ObjectVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A list of values that are each written as an object.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(items.into_iter().map(|Object(item)| item).collect())
}

/// Refuses a text that nests deeper than [`DEPTH_LIMIT`], before anything is built from it. Whether it may have an
/// integer beyond 64 bits: it has as many digits in a row.
fn check_depth(text: &[u8]) -> Result<bool, FieldError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let (mut digits, mut has_long) = (0_usize, false);
    for byte in text {
        digits = if !in_string && byte.is_ascii_digit() { digits + 1 } else { 0 };
        has_long |= digits >= integers::DIGITS;
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > DEPTH_LIMIT {
                    let message = format!("arrays and objects nest deeper than {DEPTH_LIMIT}");
                    return Err(FieldError::new("", message));
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(has_long)
}

/// The path as a JSON pointer (RFC 6901).
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Map { key } => {
                pointer.push('/');
                pointer.push_str(&escaped(key));
            }
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Enum { variant } => pointer.push_str(&format!("/{variant}")),
            Segment::Unknown => {}
        }
    }
    pointer
}

/// A key as a part of a pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Any JSON value in which no object has a key twice, so that no two readers can see different values.
#[derive(Debug, Clone, PartialEq)]
pub struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed.deserialize(deserializer).map(Strict)
    }
}

impl JsonSchema for Strict {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}

impl serde::Serialize for Strict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number outside the range of a double"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Seed)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            let value = entries.next_value_seed(Seed)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded_and_strings_do_not_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read::<Strict>(nested(DEPTH_LIMIT).as_bytes()).is_ok());
        let error = read::<Strict>(nested(DEPTH_LIMIT + 1).as_bytes()).unwrap_err();
        assert!(error.message.contains("64"), "{error:?}");
        assert!(read::<Strict>("[".repeat(100_000).as_bytes()).is_err());
        let text = serde_json::to_string(&"[{\\\"".repeat(1000)).unwrap();
        assert_eq!(read::<Strict>(text.as_bytes()).unwrap().0, Value::from("[{\\\"".repeat(1000)));
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"a":2}}]"#, r#"{"a":1,"\u0061":2}"#] {
            let error = read::<Strict>(text.as_bytes()).unwrap_err();
            assert!(error.message.contains("twice"), "{text}: {error:?}");
        }
    }

    #[test]
    fn only_one_whole_json_text_passes() {
        for text in ["", " ", "{", "{}{}", "{} x", "nul", "{'a':1}", "\u{feff}{}", "[1,]", "NaN", "01"] {
            assert!(read::<Strict>(text.as_bytes()).is_err(), "{text:?} passed");
        }
        assert!(read::<Strict>(b"\"\xff\"").is_err(), "text that is not UTF-8 passed");
        assert_eq!(read::<Strict>(b" {} ").unwrap().0, serde_json::json!({}));
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused_where_it_stands() {
        for (text, at) in [
            ("18446744073709551616", ""),
            ("-9223372036854775809", ""),
            (r#"{"params": {"a": [1, {"b/c": 12345678901234567890123}]}}"#, "/params/a/1/b~1c"),
            (r#"[["1", "x,{"], {"k": 1, "n\u0061m\"e": 100000000000000000000}, 2]"#, "/1/nam\"e"),
            (r#"{"a": {"b": 2}, "c": [[], [0, 99999999999999999999]]}"#, "/c/1/1"),
        ] {
            let fault = read::<Strict>(text.as_bytes()).unwrap_err();
            assert_eq!(fault.pointer, at, "{text}: {fault:?}");
            assert!(fault.message.contains("64 bits"), "{fault:?}");
        }
        let long = format!("[{}]", "9".repeat(10_000));
        assert!(read::<Strict>(long.as_bytes()).unwrap_err().message.len() < 200);
        // A fraction or an exponent says that it is a double; digits in a text are no number.
        for text in
            ["12345678901234567890123.5", "1e22", "12345678901234567890123E0", r#""12345678901234567890123""#]
        {
            assert!(read::<Strict>(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn values_come_back_unchanged() {
        for text in
            ["null", "true", "18446744073709551615", "-9223372036854775808", "1.5", r#""é\u0000""#, "[[],{}]"]
        {
            let strict: Strict = read(text.as_bytes()).unwrap();
            assert_eq!(strict.0, serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }
}
