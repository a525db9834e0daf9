//! References to the results of parents, in the parameters of a task that depends on others.
//!
//! | written | becomes |
//! |---|---|
//! | `{"$result": PARENT}` | what the parent returned; null where it returned nothing |
//! | `{"$result": PARENT, "pointer": "/a/0"}` | the part of it that the JSON pointer names; null where there is none |
//! | `{"$status": PARENT}` | how the parent ended, such as `"FAILED"` |
//!
//! PARENT is a task id, the name of a step of the same workflow, or the place of the parent in `dependsOn`, from 0. An
//! object with any other member is no reference, and nothing is one in the parameters of a task without parents.

use serde_json::Value;

/// The most references in one task's parameters: the result and the status of each of as many parents as it may have. Each
/// is looked up for every attempt.
pub const REFERENCES_LIMIT: usize = 2_000;

/// What is referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// What the parent returned.
    Result,
    /// How it ended.
    Status,
}

/// Which parent is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// A task id, or the name of a step.
    Name(String),
    /// A place among the parents, from 0.
    Place(usize),
}

/// A reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// To what.
    pub what: What,
    /// Of which parent.
    pub which: Which,
    /// The part that is meant.
    pub pointer: Option<String>,
}

impl Reference {
    /// The reference that a value is, if it is one.
    pub fn of(value: &Value) -> Option<Reference> {
        let object = value.as_object()?;
        let (what, which) = match (object.get("$result"), object.get("$status")) {
            (Some(which), None) => (What::Result, which),
            (None, Some(which)) => (What::Status, which),
            _ => return None,
        };
        let pointer = object.get("pointer").filter(|_| what == What::Result);
        if object.len() != 1 + usize::from(pointer.is_some()) {
            return None;
        }
        let which = match which {
            Value::String(name) => Which::Name(name.clone()),
            Value::Number(number) => Which::Place(usize::try_from(number.as_u64()?).ok()?),
            _ => return None,
        };
        let pointer = match pointer {
            Some(Value::String(pointer)) => Some(pointer.clone()),
            Some(_) => return None,
            None => None,
        };
        Some(Reference { what, which, pointer })
    }
}

/// Puts a value in the place of every reference. What is put in is not looked at again.
pub fn replace(value: Value, by: &mut dyn FnMut(&Reference) -> Value) -> Value {
    if let Some(reference) = Reference::of(&value) {
        return by(&reference);
    }
    match value {
        Value::Array(items) => items.into_iter().map(|item| replace(item, by)).collect(),
        Value::Object(members) => members.into_iter().map(|(name, item)| (name, replace(item, by))).collect(),
        other => other,
    }
}

/// Every reference in a value, with its JSON pointer.
pub fn all(value: &Value) -> Vec<(String, Reference)> {
    let mut found = Vec::new();
    collect(value, &mut String::new(), &mut found);
    found
}

fn collect(value: &Value, path: &mut String, found: &mut Vec<(String, Reference)>) {
    if let Some(reference) = Reference::of(value) {
        found.push((path.clone(), reference));
        return;
    }
    let length = path.len();
    let mut below = |name: &str, item: &Value| {
        path.push('/');
        path.push_str(name);
        collect(item, path, found);
        path.truncate(length);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| below(&place.to_string(), item));
        }
        Value::Object(members) => {
            for (name, item) in members {
                below(&name.replace('~', "~0").replace('/', "~1"), item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_is_an_object_of_exactly_this_form() {
        let result = |which| Some(Reference { what: What::Result, which, pointer: None });
        assert_eq!(Reference::of(&json!({"$result": "load"})), result(Which::Name("load".into())));
        assert_eq!(Reference::of(&json!({"$result": 2})), result(Which::Place(2)));
        let status = Reference { what: What::Status, which: Which::Name("load".into()), pointer: None };
        assert_eq!(Reference::of(&json!({"$status": "load"})), Some(status));
        let part = Reference { what: What::Result, which: Which::Place(0), pointer: Some("/rows/0".into()) };
        assert_eq!(Reference::of(&json!({"$result": 0, "pointer": "/rows/0"})), Some(part));
        for other in [
            json!({}),
            json!("$result"),
            json!({"$result": null}),
            json!({"$result": -1}),
            json!({"$result": 1.5}),
            json!({"$result": "a", "b": 1}),
            json!({"$result": "a", "$status": "a"}),
            json!({"$result": "a", "pointer": 1}),
            json!({"$status": "a", "pointer": "/b"}),
        ] {
            assert_eq!(Reference::of(&other), None, "{other}");
        }
    }

    #[test]
    fn references_are_replaced_at_any_depth_and_what_is_put_in_is_left_alone() {
        let params = json!({"a": [{"$result": "x"}, 1], "b/c": {"d": {"$status": 0}}, "e": "$result"});
        let pointers: Vec<_> = all(&params).into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(pointers, ["/a/0", "/b~1c/d"]);
        let filled = replace(params, &mut |reference| match reference.what {
            What::Result => json!({"$result": "y"}),
            What::Status => json!("SUCCESS"),
        });
        assert_eq!(filled, json!({"a": [{"$result": "y"}, 1], "b/c": {"d": "SUCCESS"}, "e": "$result"}));
    }
}
