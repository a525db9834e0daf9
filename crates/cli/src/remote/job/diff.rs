//! What is different between two values. Pure.

use serde::Serialize;
use serde_json::{Map, Value};

/// One place at which two values differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Difference {
    /// JSON pointer.
    pub(super) pointer: String,
    /// What is there; absent where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<Value>,
    /// What shall be there; absent where nothing shall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "~ {}: {from} -> {to}", self.pointer),
            (Some(from), None) => write!(f, "- {}: {from}", self.pointer),
            (None, Some(to)) => write!(f, "+ {}: {to}", self.pointer),
            (None, None) => Ok(()),
        }
    }
}

/// Every place at which they differ, down to the values of objects; lists are compared item by item where they have
/// the same length.
pub(super) fn differences(from: &Value, to: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(from), Some(to), &mut found);
    found
}

fn compare(pointer: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<Difference>) {
    match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            for key in keys(from, to) {
                let inner = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare(&inner, from.get(key), to.get(key), found);
            }
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) if from.len() == to.len() => {
            for (place, (from, to)) in from.iter().zip(to).enumerate() {
                compare(&format!("{pointer}/{place}"), Some(from), Some(to), found);
            }
        }
        (from, to) if from == to => {}
        (from, to) => {
            found.push(Difference { pointer: pointer.to_owned(), from: from.cloned(), to: to.cloned() });
        }
    }
}

fn keys<'a>(from: &'a Map<String, Value>, to: &'a Map<String, Value>) -> Vec<&'a String> {
    let added = to.keys().filter(|key| !from.contains_key(*key));
    let mut keys: Vec<_> = from.keys().chain(added).collect();
    keys.sort();
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_difference_is_named_where_it_is() {
        let from = json!({"a": 1, "b": {"c": "x", "d": []}, "e": [1, {"f": 2}], "g/h": true});
        let to = json!({"a": 1, "b": {"c": "y", "d": [1]}, "e": [1, {"f": 3}], "i": null});
        let shown: Vec<_> = differences(&from, &to).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "~ /b/c: \"x\" -> \"y\"",
                "~ /b/d: [] -> [1]",
                "~ /e/1/f: 2 -> 3",
                "- /g~1h: true",
                "+ /i: null"
            ]
        );
        assert_eq!(differences(&from, &from), []);
    }
}
