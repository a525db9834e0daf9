//! Schemas of bodies, from their types.
//!
//! A body that is read and one that is written differ: what has a default may be left out by a caller, and is always
//! there in an answer. Where one type is both, the one that is read gets a name of its own.

use std::borrow::Cow;

use orloj_wire::problem::Problem;
use orloj_wire::rest::job::JobSpec;
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where definitions stand in the document.
const PLACE: &str = "/components/schemas";
const REFERENCE: &str = "#/components/schemas/";
/// What distinguishes the name of a type that is read.
const READ: &str = "Input";

/// Makes the reference to a type's schema.
pub(super) type Make = fn(&mut SchemaGenerator) -> Value;

/// The one for `T`.
pub(super) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// The schemas that a document needs.
pub(super) struct Schemas {
    written: SchemaGenerator,
    read: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Schemas {
        let generator = |contract: Contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = PLACE.into();
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        Schemas { written: generator(Contract::Serialize), read: generator(Contract::Deserialize) }
    }

    /// A reference to what is answered.
    pub(super) fn answer(&mut self, make: Make) -> Value {
        make(&mut self.written)
    }

    /// A reference to what is read.
    pub(super) fn request(&mut self, make: Make) -> Value {
        let mut reference = make(&mut self.read);
        rename(&mut reference);
        reference
    }

    /// A reference to a problem document.
    pub(super) fn problem(&mut self) -> Value {
        self.answer(of::<Problem>)
    }

    /// All of them by name.
    pub(super) fn finish(mut self) -> Value {
        let mut all: Map<String, Value> = self.written.take_definitions(true);
        for (name, mut schema) in self.read.take_definitions(true) {
            rename(&mut schema);
            all.insert(format!("{name}{READ}"), schema);
        }
        all.values_mut().for_each(plain_text);
        all.values_mut().for_each(bound);
        Value::Object(all)
    }
}

/// Turns references to the names of types that are read.
fn rename(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref")
                && reference.starts_with(REFERENCE)
            {
                reference.push_str(READ);
            }
            object.values_mut().for_each(rename);
        }
        Value::Array(list) => list.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Says how large a number may be where its type alone says so: other languages have no such types.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let most = match object.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(u64::from(u32::MAX)),
                Some("uint64") => Some(u64::MAX),
                _ => None,
            };
            if let Some(most) = most {
                object.entry("maximum").or_insert(most.into());
            }
            object.values_mut().for_each(bound);
        }
        Value::Array(list) => list.iter_mut().for_each(bound),
        _ => {}
    }
}

/// Takes out what a comment has for those who read the code: links, and the ends of its lines.
fn plain_text(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text =
                    text.replace("[`", "`").replace("`]", "`").replace("\n\n", "\u{0}").replace('\n', " ");
                *text = text.replace('\u{0}', "\n\n");
            }
            object.values_mut().for_each(plain_text);
        }
        Value::Array(list) => list.iter_mut().for_each(plain_text),
        _ => {}
    }
}

/// The body of a call that needs to be told nothing: `{}`.
#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The body of a merge patch of a job: any of its fields, and `null` for one that is taken out. What every job needs
/// stays.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct JobPatch(Map<String, Value>);

impl JsonSchema for JobPatch {
    fn schema_name() -> Cow<'static, str> {
        "JobPatch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = JobSpec::json_schema(generator);
        let needed = schema.remove("required").unwrap_or_default();
        let is_needed = |name: &String| needed.as_array().is_some_and(|all| all.contains(&json!(name)));
        if let Some(Value::Object(fields)) = schema.get_mut("properties") {
            for (_, field) in fields.iter_mut().filter(|(name, _)| !is_needed(name)) {
                *field = json!({ "anyOf": [field.take(), { "type": "null" }] });
            }
        }
        schema
    }
}
