//! Rows as JSON, so that a failed test can be read.

use orloj_model::tables::Codec;
use serde::Serialize;
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(super) struct Json;

impl Codec for Json {
    type Error = serde_json::Error;

    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Self::Error> {
        serde_json::to_vec(value)
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Self::Error> {
        serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
    }
}
