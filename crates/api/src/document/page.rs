//! The document as one page of HTML: no script, nothing loaded from anywhere, so it works without a network.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The page.
pub(super) fn render(document: &Value) -> String {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut page = String::new();
    let title = escape(text("/info/title"));
    put(&mut page, format_args!("<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"));
    put(
        &mut page,
        format_args!("<meta name=\"viewport\" content=\"width=device-width\"><title>{title} API</title>"),
    );
    put(&mut page, format_args!("<style>{STYLE}</style></head>\n<body><main>\n<h1>{title} API "));
    put(&mut page, format_args!("<small>{}</small></h1>\n", escape(text("/info/version"))));
    paragraphs(&mut page, text("/info/description"));
    put(&mut page, format_args!("<p>For programs: <a href=\"/openapi.json\">/openapi.json</a></p>\n"));
    contents(&mut page, document);
    for (tag, description) in tags(document) {
        put(
            &mut page,
            format_args!("<h2 id=\"tag-{0}\">{0}</h2>\n<p>{1}</p>\n", escape(tag), escape(description)),
        );
        for (path, method, operation) in operations(document, tag) {
            call(&mut page, path, method, operation);
        }
    }
    put(&mut page, format_args!("<h2 id=\"errors\">Errors</h2>\n<table>\n"));
    for (code, example) in object(document.pointer("/components/examples")) {
        let status = example.pointer("/value/status").unwrap_or(&Value::Null);
        let (code, summary) = (escape(code), inline(string(example, "summary")));
        put(
            &mut page,
            format_args!("<tr><td>{status}</td><td><code>{code}</code></td><td>{summary}</td></tr>\n"),
        );
    }
    put(&mut page, format_args!("</table>\n<h2 id=\"schemas\">Bodies</h2>\n"));
    for (name, schema) in object(document.pointer("/components/schemas")) {
        put(&mut page, format_args!("<section id=\"schema-{0}\"><h3>{0}</h3>\n", escape(name)));
        body(&mut page, schema);
        page.push_str("</section>\n");
    }
    page.push_str("</main></body></html>\n");
    page
}

/// Writing to a text cannot fail.
fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text with `code` in backticks.
fn inline(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in escape(text).split('`').enumerate() {
        match place % 2 {
            0 => html.push_str(part),
            _ => put(&mut html, format_args!("<code>{part}</code>")),
        }
    }
    html
}

fn paragraphs(page: &mut String, text: &str) {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        put(page, format_args!("<p>{}</p>\n", inline(paragraph)));
    }
}

fn object(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn tags(document: &Value) -> impl Iterator<Item = (&str, &str)> {
    list(document.get("tags")).map(|tag| (string(tag, "name"), string(tag, "description")))
}

/// The operations of a tag, with path and method.
fn operations<'a>(
    document: &'a Value,
    tag: &'a str,
) -> impl Iterator<Item = (&'a String, &'a String, &'a Value)> {
    object(document.get("paths"))
        .flat_map(|(path, item)| object(Some(item)).map(move |(method, operation)| (path, method, operation)))
        .filter(move |(_, _, operation)| list(operation.get("tags")).any(|one| one == tag))
}

fn contents(page: &mut String, document: &Value) {
    page.push_str("<nav><table>\n");
    for (tag, _) in tags(document) {
        for (path, method, operation) in operations(document, tag) {
            let (id, summary) =
                (escape(string(operation, "operationId")), inline(string(operation, "summary")));
            let method = escape(&method.to_uppercase());
            put(
                page,
                format_args!(
                    "<tr><td><b>{method}</b></td><td><a href=\"#{id}\"><code>{}</code></a></td>",
                    escape(path)
                ),
            );
            put(page, format_args!("<td>{summary}</td></tr>\n"));
        }
    }
    page.push_str("</table></nav>\n");
}

fn call(page: &mut String, path: &str, method: &str, operation: &Value) {
    let id = escape(string(operation, "operationId"));
    let method = escape(&method.to_uppercase());
    put(page, format_args!("<section id=\"{id}\"><h3>{}</h3>\n", inline(string(operation, "summary"))));
    put(page, format_args!("<p class=\"call\"><b>{method}</b> <code>{}</code></p>\n", escape(path)));
    paragraphs(page, string(operation, "description"));
    if operation.get("parameters").is_some() {
        page.push_str("<table><tr><th>parameter</th><th>in</th><th>is</th><th></th></tr>\n");
        for parameter in list(operation.get("parameters")) {
            let (name, place) = (escape(string(parameter, "name")), escape(string(parameter, "in")));
            let kind = parameter.get("schema").map(kind).unwrap_or_default();
            let text = inline(string(parameter, "description"));
            put(
                page,
                format_args!(
                    "<tr><td><code>{name}</code></td><td>{place}</td><td>{kind}</td><td>{text}</td></tr>\n"
                ),
            );
        }
        page.push_str("</table>\n");
    }
    for (media_type, content) in object(operation.pointer("/requestBody/content")) {
        put(page, format_args!("<h4>Body</h4>\n"));
        shown(page, media_type, content);
    }
    page.push_str("<h4>Answers</h4>\n");
    for (status, response) in object(operation.get("responses")) {
        put(
            page,
            format_args!(
                "<details><summary><b>{status}</b> {}</summary>\n",
                inline(string(response, "description"))
            ),
        );
        for (media_type, content) in object(response.get("content")) {
            shown(page, media_type, content);
        }
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}

/// A body: its type and its examples.
fn shown(page: &mut String, media_type: &str, content: &Value) {
    let kind = content.get("schema").map(kind).unwrap_or_default();
    put(page, format_args!("<p>{}: {kind}</p>\n", escape(media_type)));
    if let Some(example) = content.get("example") {
        put(page, format_args!("<pre>{}</pre>\n", escape(&format!("{example:#}"))));
    }
}

/// What a schema stands for, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", escape(name));
    }
    if let Some(constant) = schema.get("const") {
        return format!("<code>{}</code>", escape(&constant.to_string()));
    }
    if schema.get("enum").is_some() {
        let values: Vec<String> = list(schema.get("enum"))
            .map(|value| format!("<code>{}</code>", escape(&value.to_string())))
            .collect();
        return values.join(", ");
    }
    for key in ["oneOf", "anyOf"] {
        if schema.get(key).is_some() {
            let kinds: Vec<String> = list(schema.get(key)).map(kind).collect();
            return kinds.join(" or ");
        }
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "any JSON".to_owned(),
    };
    let mut text = names.join(" or ");
    if let Some(items) = schema.get("items") {
        put(&mut text, format_args!(" of {}", kind(items)));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        put(&mut text, format_args!(" of {} by name", kind(values)));
    }
    let bound = |key: &str| schema.get(key).map(Value::to_string);
    match (bound("minimum"), bound("maximum")) {
        (Some(min), Some(max)) => put(&mut text, format_args!(" {min} to {max}")),
        (Some(min), None) if min != "0" => put(&mut text, format_args!(" from {min}")),
        _ => {}
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str).filter(|name| *name == "date-time") {
        put(&mut text, format_args!(" ({format})"));
    }
    if let Some(properties) = schema.get("properties") {
        let names: Vec<String> = object(Some(properties))
            .map(|(name, value)| format!("<code>{}</code>: {}", escape(name), kind(value)))
            .collect();
        put(&mut text, format_args!(" {{ {} }}", names.join(", ")));
    }
    text
}

fn body(page: &mut String, schema: &Value) {
    paragraphs(page, string(schema, "description"));
    let Some(properties) = schema.get("properties") else {
        put(page, format_args!("<p>{}</p>\n", kind(schema)));
        return;
    };
    page.push_str("<table>\n");
    let required: Vec<&Value> = list(schema.get("required")).collect();
    for (name, property) in object(Some(properties)) {
        let needed = required.iter().any(|one| *one == name);
        let mark = if needed { "" } else { " <i>optional</i>" };
        let text = inline(string(property, "description"));
        let name = escape(name);
        put(
            page,
            format_args!(
                "<tr><td><code>{name}</code>{mark}</td><td>{}</td><td>{text}</td></tr>\n",
                kind(property)
            ),
        );
    }
    page.push_str("</table>\n");
}

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}\
main{max-width:60rem;margin:0 auto;padding:1rem}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #8884}\
pre{overflow:auto;padding:.6rem;background:#8882}section{border-top:1px solid #8886;margin-top:1.5rem}\
summary{cursor:pointer}small,i{color:#888;font-weight:normal}";
