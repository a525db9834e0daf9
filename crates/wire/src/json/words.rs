//! What the reader says of a value that does not fit, in plain words: no names of types of this program, and no place in
//! a text that nobody may have seen, since the field is named.

use serde_json::error::Category;

use super::escaped;
use crate::problem::FieldError;

/// The fault that an error of the reader stands for. `pointer` is where it was met.
pub(super) fn fault(mut pointer: String, error: &serde_json::Error) -> FieldError {
    let whole = error.to_string();
    if error.classify() != Category::Data {
        // The text itself is broken: only its line and column say where.
        return FieldError::new(pointer, whole);
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let said = whole.strip_suffix(&place).unwrap_or(&whole);
    if let Some(field) = quoted_after(said, "missing field ") {
        pointer.push('/');
        pointer.push_str(&escaped(field));
        return FieldError::new(pointer, "it is missing");
    }
    FieldError::new(pointer, plain(said))
}

/// The name in backticks after `start`, with which a message begins.
fn quoted_after<'a>(said: &'a str, start: &str) -> Option<&'a str> {
    said.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

fn plain(said: &str) -> String {
    if let Some(name) = quoted_after(said, "unknown field ") {
        // Each name in snake case is another spelling of one that is told as well.
        return format!("there is no field {name:?}; {}", known(said, |name| !name.contains('_')));
    }
    if let Some(name) = quoted_after(said, "unknown variant ") {
        return format!("{name:?} is not known here; {}", known(said, |_| true));
    }
    if let Some(field) = quoted_after(said, "duplicate field ") {
        return format!("the field {field:?} stands twice in one object");
    }
    let does_not_fit = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "));
    match does_not_fit.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, wanted)) => format!("{} is not {}", found_words(found), wanted_words(wanted)),
        None if said.starts_with("data did not match any variant of untagged enum") => {
            "it has none of the forms that this field takes".to_owned()
        }
        None => said.to_owned(),
    }
}

/// What a message names that there is, as far as it is to be told: `` …, expected one of `a`, `b` ``.
fn known(said: &str, is_told: fn(&str) -> bool) -> String {
    match said.rsplit_once(", expected ") {
        Some((_, names)) => {
            let names = names.trim_start_matches("one of ").replace('`', "").replace(" or ", ", ");
            let told: Vec<&str> = names.split(", ").filter(|name| is_told(name)).collect();
            format!("there is {}", told.join(", "))
        }
        None => "there is none".to_owned(),
    }
}

/// A value as the reader met it.
fn found_words(found: &str) -> String {
    match found {
        "null" | "unit value" => return "null".to_owned(),
        "map" => return "an object".to_owned(),
        "sequence" => return "a list".to_owned(),
        _ => {}
    }
    let number = found.strip_prefix("integer ").or_else(|| found.strip_prefix("floating point "));
    let bare = number.or_else(|| found.strip_prefix("boolean "));
    match (bare, found.strip_prefix("string ")) {
        (Some(value), _) => value.replace('`', ""),
        (None, Some(text)) => shortened(text),
        (None, None) => found.to_owned(),
    }
}

/// Enough of a text in quotes to recognise it.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…\"", &text[..end]),
    }
}

/// What a field takes.
fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" => "a name or an object",
        "struct" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::super::{read, read_object};
    use crate::problem::FieldError;
    use crate::rest::Submit;
    use crate::rest::job::JobSpec;

    fn submission(text: &str) -> FieldError {
        read_object::<Submit>(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_in_plain_words() {
        for (text, pointer, message) in [
            (r#"{"params": {}}"#, "/handler", "it is missing"),
            (r#"{"handler": 5}"#, "/handler", "5 is not a string"),
            (r#"{"handler": null}"#, "/handler", "null is not a string"),
            (
                r#"{"handler": "h", "delayMs": "soon"}"#,
                "/delayMs",
                "\"soon\" is not a whole number from 0 on",
            ),
            (r#"{"handler": "h", "delayMs": -1}"#, "/delayMs", "-1 is not a whole number from 0 on"),
            (r#"{"handler": "h", "delayMs": 1.5}"#, "/delayMs", "1.5 is not a whole number from 0 on"),
            (r#"{"handler": "h", "priority": 11}"#, "/priority", "11 is outside 0-9"),
            (r#"{"handler": "h", "labels": []}"#, "/labels", "a list is not an object"),
            (r#"{"handler": "h", "dependsOn": {}}"#, "/dependsOn", "an object is not a list"),
            (
                r#"{"handler": "h", "allowUnknownHandler": "yes"}"#,
                "/allowUnknownHandler",
                "\"yes\" is not true or false",
            ),
            (
                r#"{"handler": "h", "dependsOn": [{"taskId": "t", "on": "x, expected y"}]}"#,
                "/dependsOn/0/on",
                "\"x, expected y\" is not known here; there is success, completed, failure",
            ),
        ] {
            let fault = submission(text);
            assert_eq!((fault.pointer.as_str(), fault.message.as_str()), (pointer, message), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_a_number_too_large_is_told_its_bounds() {
        let long = format!(r#"{{"handler": "h", "delayMs": "{}"}}"#, "ä".repeat(10_000));
        assert!(submission(&long).message.len() < 300);
        let fault = read::<u16>(b"70000").unwrap_err();
        assert_eq!(fault.message, "70000 is not a whole number from 0 to 65535");
    }

    #[test]
    fn a_field_that_there_is_not_is_told_with_those_that_there_are() {
        let fault = submission(r#"{"handler": "h", "retry": {"maxretries": 3}}"#);
        assert_eq!(fault.pointer, "/retry/maxretries");
        assert_eq!(
            fault.message,
            "there is no field \"maxretries\"; there is maxRetries, backoffMs, jitterPct, maxLost"
        );
        assert!(
            submission(r#"{"handler": "h", "handler": "h"}"#).message.contains("\"handler\" stands twice")
        );
        let day = r#"{"handler": "h", "triggers": [{"kind": "dailyWindow", "daysOfWeek": [true]}]}"#;
        let fault = read_object::<JobSpec>(day.as_bytes()).unwrap_err();
        assert_eq!(fault.message, "it has none of the forms that this field takes", "{fault:?}");
    }

    #[test]
    fn only_a_text_that_is_no_json_is_told_by_line_and_column() {
        let broken = read::<Submit>(b"{\"handler\": \"h\",\n}").unwrap_err();
        assert!(broken.message.contains("line 2"), "{broken:?}");
        for text in [
            r#"{"handler": 5}"#,
            r#"{"handler": "h", "colour": 1}"#,
            r#"[]"#,
            r#"{"handler": "h", "runAt": 5}"#,
        ] {
            let fault = submission(text);
            assert!(!fault.message.contains("column"), "{text}: {fault:?}");
        }
    }
}
