//! Maps from log indexes in JSON.
//!
//! JSON has text for keys. serde_json turns it back into numbers, but not inside of an event, whose fields are
//! buffered before it is known which observation they belong to.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<V: Serialize, S: Serializer>(
    map: &BTreeMap<u64, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(index, value)| (index.to_string(), value)))
}

pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<u64, V>, D::Error> {
    let texts = BTreeMap::<String, V>::deserialize(deserializer)?;
    let number = |text: &str| {
        text.parse::<u64>().map_err(|error| D::Error::custom(format!("index {text:?}: {error}")))
    };
    texts.into_iter().map(|(text, value)| Ok((number(&text)?, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Probe, What};
    use crate::testing::probe;

    #[test]
    fn indexes_survive_in_an_event() {
        let told = Probe {
            digests: BTreeMap::from([(256, "00ff".to_owned()), (1024, "ff00".to_owned())]),
            log_terms: BTreeMap::from([(9, 2)]),
            ..Probe::default()
        };
        let line = serde_json::to_string(&probe(1, "n1", told.clone())).unwrap();
        assert!(line.contains(r#""256":"00ff""#), "{line}");
        let read: Event = serde_json::from_str(&line).unwrap();
        assert_eq!(read.what, What::Probe(told));
        let spoiled = line.replace("256", "x");
        let error = serde_json::from_str::<Event>(&spoiled).unwrap_err();
        assert!(error.to_string().contains("index \"x\""), "{error}");
    }
}
