//! What the documents show is what the code does.

use std::collections::BTreeMap;

use orloj_tests::tidy::{read, root};
use orloj_wire::problem::Code;
use orloj_wire::sign::{Label, Parts, Secret};
use serde_json::Value;

/// The cells of every row of the table that begins with `first`, without their backticks.
fn rows(text: &str, first: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    text.lines()
        .skip_while(|line| !line.starts_with(first))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(cell).collect())
        .collect()
}

#[test]
fn the_signing_vectors_are_right() {
    let text = read(&root().join("docs/openapi.md"));
    let rows = rows(&text, "| name | method | path |");
    assert_eq!(rows.len(), 6, "every vector is found");
    let secret = Secret::new("sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8").expect("it is not empty");
    for row in rows {
        let [name, method, path, query, key, body, signature] = &row[..] else {
            panic!("seven cells: {row:?}")
        };
        let parts = Parts {
            label: Label::Caller,
            audience: "default",
            access_key: "ak_TESTAAAAAAAAAAAAAAAA",
            timestamp: "1800000000",
            nonce: "0123456789abcdef0123456789abcdef",
            method,
            path,
            query,
            idempotency_key: key,
            body: body.as_bytes(),
        };
        assert_eq!(parts.sign(&secret), *signature, "{name}");
        if name == "V1" {
            assert!(text.contains(&parts.canonical()), "the canonical string of V1 is shown");
        }
    }
}

#[test]
fn every_error_code_is_documented_with_its_status() {
    let text = read(&root().join("docs/openapi.md"));
    // Other tables tell of codes as well.
    let (_, table) = text.split_once("| status | codes |").expect("the table of errors");
    for code in Code::ALL {
        let quoted = format!("`{}`", code.as_str());
        let row = table.lines().find(|line| line.starts_with("| ") && line.contains(&quoted));
        let row = row.unwrap_or_else(|| panic!("{quoted} is not in the table of errors"));
        assert!(row.contains(&code.status().to_string()), "{quoted} stands under another status: {row}");
    }
}

#[test]
fn what_a_shell_command_is_given_is_documented() {
    let code = read(&root().join("crates/executor/src/builtin/shell.rs"));
    let names: Vec<&str> =
        code.split('"').skip(1).step_by(2).filter(|text| text.starts_with("ORLOJ_")).collect();
    assert!(names.contains(&"ORLOJ_SHARD_INDEX") && names.contains(&"ORLOJ_SHARD_TOTAL"), "{names:?}");
    let text = read(&root().join("docs/configuration.md"));
    let (_, section) = text.split_once("### What a shell command is given").expect("there is such a section");
    for name in names {
        assert!(section.contains(&format!("`{name}`")), "{name} is not in docs/configuration.md");
    }
}

#[test]
fn every_call_is_listed_under_the_scope_that_it_needs() {
    let text = read(&root().join("docs/openapi.md"));
    let mut told = BTreeMap::new();
    for row in rows(&text, "| scope | calls") {
        let [scope, calls] = &row[..] else { panic!("two cells: {row:?}") };
        told.extend(calls.split("`, `").map(|call| (call.to_owned(), scope.clone())));
    }
    let document = read(&root().join("docs/openapi.json"));
    let document: Value = serde_json::from_str(&document).expect("the document is JSON");
    let paths = document["paths"].as_object().expect("the document has paths");
    let calls = paths.values().flat_map(|item| item.as_object().expect("a path has calls").values());
    let signed =
        calls.filter(|call| call["security"].as_array().is_some_and(|security| !security.is_empty()));
    let needed: BTreeMap<String, String> = signed
        .map(|call| {
            let name = call["operationId"].as_str().expect("a call has a name").to_owned();
            (name, call["x-orloj-scope"].as_str().unwrap_or("none").to_owned())
        })
        .collect();
    assert!(needed.len() > 50, "{needed:?}");
    assert_eq!(told, needed);
}
