//! Bytes that serde takes at one go. What is written is what a list of numbers would be, in bincode and in JSON, but
//! without a call for each of them: parameters and results are walked several times on every replica.

use std::fmt;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

/// The same where there may be none.
pub(crate) mod option {
    use super::{Deserialize as _, Deserializer, Owned, Serializer, Shown};

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_some(&Shown(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let owned = Option::<Owned>::deserialize(deserializer)?;
        Ok(owned.map(|Owned(bytes)| bytes))
    }
}

struct Shown<'a>(&'a [u8]);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

struct Owned(Vec<u8>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Owned)
    }
}

/// Takes bytes, and a list of numbers where a format has nothing else.
struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Blobs {
        #[serde(with = "crate::blob")]
        one: Vec<u8>,
        #[serde(with = "crate::blob::option")]
        maybe: Option<Vec<u8>>,
    }

    #[derive(Serialize)]
    struct Lists {
        one: Vec<u8>,
        maybe: Option<Vec<u8>>,
    }

    #[test]
    fn bytes_are_written_and_read_as_lists_of_numbers_are() {
        for (one, maybe) in [(vec![0, 7, 255], None), (vec![], Some(vec![])), (vec![1], Some(vec![9, 255]))] {
            let text = serde_json::to_string(&Lists { one: one.clone(), maybe: maybe.clone() }).unwrap();
            let blobs = Blobs { one, maybe };
            assert_eq!(serde_json::to_string(&blobs).unwrap(), text);
            assert_eq!(serde_json::from_str::<Blobs>(&text).unwrap(), blobs);
            let wrong = text.replace("255", "256");
            assert_eq!(serde_json::from_str::<Blobs>(&wrong).is_err(), wrong != text, "{wrong}");
        }
    }
}
