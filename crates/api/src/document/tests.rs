//! That the document and the code say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use orloj_wire::problem::Code;
use serde_json::{Value, json};

use super::*;

/// What `schema` has against `value`; empty when it fits. Knows as much of JSON Schema as the document uses.
fn misfits(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(rules) = schema.as_object() else { return faults };
    for (rule, argument) in rules {
        match rule.as_str() {
            "$ref" => {
                let pointer = argument.as_str().unwrap().strip_prefix('#').unwrap();
                let target =
                    document.pointer(pointer).unwrap_or_else(|| panic!("{at}: {pointer} leads nowhere"));
                faults.extend(misfits(document, target, value, at));
            }
            "type" => {
                let names = argument.as_array().cloned().unwrap_or_else(|| vec![argument.clone()]);
                if !names.iter().any(|name| has_type(value, name.as_str().unwrap())) {
                    faults.push(format!("{at}: {value} is not {argument}"));
                }
            }
            "properties" => {
                for (name, inner) in argument.as_object().unwrap() {
                    if let Some(found) = value.get(name) {
                        faults.extend(misfits(document, inner, found, &format!("{at}/{name}")));
                    }
                }
            }
            "required" if value.is_object() => {
                let missing = argument.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                faults.extend(
                    missing
                        .filter(|name| value.get(name).is_none())
                        .map(|name| format!("{at}: {name} is missing")),
                );
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    faults.extend(misfits(document, argument, item, &format!("{at}/{place}")));
                }
            }
            "enum" if !argument.as_array().unwrap().contains(value) => {
                faults.push(format!("{at}: {value} is none of {argument}"));
            }
            "const" if argument != value => faults.push(format!("{at}: {value} is not {argument}")),
            "anyOf" | "oneOf" => {
                let fits = |one: &Value| misfits(document, one, value, at).is_empty();
                if !argument.as_array().unwrap().iter().any(fits) {
                    faults.push(format!("{at}: {value} fits none of {argument}"));
                }
            }
            "minimum" if value.as_f64().is_some_and(|number| number < argument.as_f64().unwrap()) => {
                faults.push(format!("{at}: {value} is below {argument}"));
            }
            "maximum" if value.as_f64().is_some_and(|number| number > argument.as_f64().unwrap()) => {
                faults.push(format!("{at}: {value} is above {argument}"));
            }
            _ => {}
        }
    }
    // Also where the schema would allow more: an example shows nothing that is not explained.
    if let (Some(known), Some(object)) = (rules.get("properties"), value.as_object()) {
        faults.extend(
            object
                .keys()
                .filter(|name| known.get(name).is_none())
                .map(|name| format!("{at}: {name} is unknown")),
        );
    }
    faults
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

/// The names that `fn name` gives to operations, as the source has them: one that is forgotten in the document is
/// found.
fn names_of_routes() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("route.rs")];
    for entry in fs::read_dir(source.join("route")).into_iter().flatten() {
        files.push(entry.unwrap().path());
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let from = text.find("fn name(").unwrap_or(text.len());
        let rest = &text[from..];
        let block = &rest[..rest.find("\n    }\n").unwrap_or(0)];
        names.extend(block.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    names
}

#[test]
fn every_route_has_an_entry_and_every_entry_a_route() {
    let documented: BTreeSet<String> =
        calls().iter().map(|call| call.operation().name().to_owned()).collect();
    assert!(documented.len() >= 13);
    assert_eq!(documented, names_of_routes(), "calls() in document.rs against Operation::name in route.rs");
    assert_eq!(documented.len(), calls().len(), "one entry each");
}

#[test]
fn an_idempotency_key_stands_where_the_code_takes_it_and_nowhere_else() {
    let document = build();
    for call in calls() {
        let (operation, method) = (call.operation(), call.method.to_lowercase());
        let parameters = &document["paths"][call.path][&method]["parameters"];
        let has =
            parameters.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "Idempotency-Key"));
        assert_eq!(has, operation.takes_idempotency_key(), "{}", operation.name());
    }
}

#[test]
fn examples_are_what_the_code_reads_and_writes() {
    let document = build();
    for call in calls() {
        let name = format!("{} {}", call.method, call.path);
        let at = format!("/paths/{}/{}", call.path.replace('/', "~1"), call.method.to_lowercase());
        let operation = document.pointer(&at).expect("the call is in the document");
        if let Some(body) = &call.takes {
            (body.round_trip)(&body.example).unwrap_or_else(|error| panic!("{name}: {error}"));
            let schema = operation.pointer("/requestBody/content/application~1json/schema").unwrap();
            assert_eq!(misfits(&document, schema, &body.example, &name), Vec::<String>::new());
        }
        for answer in &call.answers {
            let Some(body) = &answer.body else { continue };
            let written = (body.round_trip)(&body.example).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(written, body.example, "{name}: what is written is the example");
            let schema = operation
                .pointer(&format!("/responses/{}/content/application~1json/schema", answer.status))
                .unwrap();
            assert_eq!(misfits(&document, schema, &body.example, &name), Vec::<String>::new());
        }
    }
}

#[test]
fn every_error_stands_there_with_an_example_that_fits() {
    let document = build();
    let mut shown = BTreeSet::new();
    for (_, item) in document["paths"].as_object().unwrap() {
        for (_, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let Some(content) = response.pointer("/content/application~1problem+json") else { continue };
                for (code, example) in content["examples"].as_object().unwrap() {
                    let pointer = example["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
                    let value = document.pointer(&format!("{pointer}/value")).expect("the example is there");
                    assert_eq!(value["status"].to_string(), *status);
                    assert_eq!(misfits(&document, &content["schema"], value, code), Vec::<String>::new());
                    shown.insert(code.clone());
                }
            }
        }
    }
    // What only executors and peers see, and what a path without that method answers.
    let others = [Code::CertificateDenied, Code::NotLeader, Code::Superseded, Code::MethodNotAllowed];
    let missing: Vec<&str> = Code::ALL
        .iter()
        .filter(|code| !others.contains(code) && !shown.contains(code.as_str()))
        .map(|code| code.as_str())
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "codes that no entry refuses with");
}

#[test]
fn the_validator_of_these_tests_finds_faults() {
    let document = json!({ "s": { "type": "object", "required": ["a"], "properties": {
        "a": { "type": ["integer", "null"], "maximum": 3 }, "b": { "enum": ["x"] }, "c": { "items": { "$ref": "#/s" } },
    } } });
    let count = |value: Value| misfits(&document, &document["s"], &value, "").len();
    assert_eq!(count(json!({ "a": 3, "b": "x", "c": [{ "a": null }] })), 0);
    for bad in [
        json!([]),
        json!({}),
        json!({"a": 4}),
        json!({"a": 1, "b": "y"}),
        json!({"a": 1, "c": [{}]}),
        json!({"a": 1, "d": 1}),
    ] {
        assert_eq!(count(bad.clone()), 1, "{bad}");
    }
}

/// The committed document is the built one; `ORLOJ_BLESS=1` writes it anew.
#[test]
fn the_committed_document_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = pretty(&build());
    if std::env::var_os("ORLOJ_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "docs/openapi.json differs from the code: run this test with ORLOJ_BLESS=1");
}

#[test]
fn the_page_shows_every_call_and_loads_nothing() {
    let page = page::render(&build());
    for call in calls() {
        assert!(page.contains(&format!("id=\"{}\"", call.operation().name())), "{}", call.path);
    }
    for foreign in ["<script", "src=", "url(", "@import", "<link", "href=\"http", "//cdn"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for (place, _) in page.match_indices("href=\"#") {
        let target = page[place + 7..].split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{target}\"")), "#{target} leads nowhere");
    }
}
