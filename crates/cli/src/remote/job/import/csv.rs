//! Tables as CSV (RFC 4180) with a head line. Pure.

use anyhow::{bail, ensure};
use serde_json::{Map, Value};

/// The rows of a table, each by the names of the head line. Every value is a text; `NULL` and `\N`, unquoted, are none.
pub(super) fn rows(text: &str) -> anyhow::Result<Vec<Map<String, Value>>> {
    let mut records = records(text.strip_prefix('\u{feff}').unwrap_or(text))?.into_iter();
    let Some(head) = records.next() else { bail!("the file is empty") };
    let mut rows = Vec::new();
    for (place, record) in records.enumerate() {
        let (found, right) = (record.len(), head.len());
        ensure!(found == right, "row {} has {found} values and the head line {right}", place + 1);
        let cell = |(name, field): (&Field, Field)| {
            let none = !field.quoted && matches!(field.text.as_str(), "NULL" | "\\N");
            (name.text.trim().to_owned(), if none { Value::Null } else { Value::String(field.text) })
        };
        rows.push(head.iter().zip(record).map(cell).collect());
    }
    Ok(rows)
}

#[derive(Default)]
struct Field {
    text: String,
    quoted: bool,
}

fn records(text: &str) -> anyhow::Result<Vec<Vec<Field>>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), Field::default());
    let mut chars = text.chars().peekable();
    let mut in_quotes = false;
    while let Some(char) = chars.next() {
        match char {
            '"' if in_quotes && chars.peek() == Some(&'"') => {
                chars.next();
                field.text.push('"');
            }
            '"' if in_quotes => in_quotes = false,
            '"' if field.text.is_empty() && !field.quoted => (in_quotes, field.quoted) = (true, true),
            ',' if !in_quotes => record.push(std::mem::take(&mut field)),
            '\r' if !in_quotes && chars.peek() == Some(&'\n') => {}
            '\n' if !in_quotes => {
                record.push(std::mem::take(&mut field));
                // A blank line is no row.
                let blank = record.len() == 1 && record[0].text.is_empty() && !record[0].quoted;
                let record = std::mem::take(&mut record);
                if !blank {
                    records.push(record);
                }
            }
            other => field.text.push(other),
        }
    }
    ensure!(!in_quotes, "a quote is not closed");
    if !field.text.is_empty() || field.quoted || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotes_hold_commas_lines_and_quotes() {
        let text = "\u{feff}id,name,note\r\n1,\"a, \"\"b\"\"\nc\",NULL\r\n\r\n2,,\"NULL\"";
        let found: Vec<Value> = rows(text).unwrap().into_iter().map(Value::Object).collect();
        assert_eq!(
            found,
            [
                json!({"id": "1", "name": "a, \"b\"\nc", "note": null}),
                json!({"id": "2", "name": "", "note": "NULL"})
            ]
        );
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for bad in ["", "a,b\n1\n", "a\n\"1"] {
            assert!(rows(bad).is_err(), "{bad:?}");
        }
    }
}
