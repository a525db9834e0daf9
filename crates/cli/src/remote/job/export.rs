//! A job as a file that `orloj job apply` takes: the way back of [`file`](super::file). Pure.

use anyhow::{Context as _, anyhow};
use orloj_wire::rest::job::{Job, JobSpec};
use serde_json::Value;

use crate::args::FileFormat;

/// The file.
///
/// # Errors
/// The server knows fields that this program does not, or the job holds what this kind of file cannot.
pub(super) fn text(job: &Job, format: FileFormat) -> anyhow::Result<String> {
    let newer = |fault: orloj_wire::problem::FieldError| {
        let at = fault.pointer;
        anyhow!("job {:?}: {at}: the server is newer than this program: {}", job.job_id, fault.message)
    };
    let spec = JobSpec { job_id: Some(job.job_id.clone()), ..job.spec().map_err(newer)? };
    match format {
        FileFormat::Toml => {
            // TOML has neither null nor integers beyond 63 bits.
            let text = toml::to_string(&spec);
            text.with_context(|| format!("job {:?} does not fit into TOML: take yaml or json", job.job_id))
        }
        // A struct with string keys always serialises.
        FileFormat::Json => Ok(serde_json::to_string_pretty(&spec).expect("a job serialises") + "\n"),
        FileFormat::Yaml => {
            let rest = JobSpec { job_id: None, ..spec };
            let rest = serde_json::to_value(rest).expect("a job serialises");
            Ok(format!("jobId: {}\n{}", scalar(&Value::from(job.job_id.as_str())), yaml(&rest)))
        }
    }
}

/// YAML with a line for each field, and every text in quotes, so that none is taken for a number, a date or a truth.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes the lines of a value that has some. The first is not indented: it follows `- ` where the value is an item.
fn block(value: &Value, indent: usize, text: &mut String) {
    let margin = |place: usize| if place == 0 { String::new() } else { " ".repeat(indent) };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (place, (key, value)) in fields.iter().enumerate() {
                text.push_str(&format!("{}{}:", margin(place), key_text(key)));
                after_key(value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                text.push_str(&format!("{}- ", margin(place)));
                block(item, indent + 2, text);
            }
        }
        single => text.push_str(&format!("{}\n", scalar(single))),
    }
}

/// A value of one line. JSON is a part of YAML, but for characters that no text of YAML may hold as they are.
fn scalar(value: &Value) -> String {
    let is_special = |char: char| matches!(char, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let escape = |char: char| match is_special(char) {
        true => format!("\\u{:04x}", u32::from(char)),
        false => char.to_string(),
    };
    value.to_string().chars().map(escape).collect()
}

/// What follows a key: a scalar in its line, anything longer in lines of its own.
fn after_key(value: &Value, indent: usize, text: &mut String) {
    let has_lines = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if has_lines {
        text.push_str(&format!("\n{}", " ".repeat(indent + 2)));
        block(value, indent + 2, text);
    } else {
        text.push(' ');
        block(value, indent, text);
    }
}

/// A key without quotes where it can be nothing but a text.
fn key_text(key: &str) -> String {
    let plain = key.len() > 1 && key.starts_with(|char: char| char.is_ascii_alphabetic());
    let is_word = plain && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_other = ["true", "false", "null", "yes", "no", "on", "off"].contains(&key.to_lowercase().as_str());
    if is_word && !is_other { key.to_owned() } else { scalar(&Value::from(key)) }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
