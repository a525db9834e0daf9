//! Digests of results: what an executor reported and what a caller was shown are compared by them.

use serde_json::Value;

/// 16 hex digits over the canonical form of a JSON value: objects in the order of their keys, without spaces.
/// FNV-1a: it tells apart what a faulty program mixes up, not what an enemy makes.
pub fn digest(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The digest of a JSON text; of the text itself as a string when it does not parse.
pub fn digest_text(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(value) => digest(&value),
        Err(_) => digest(&Value::String(text.to_owned())),
    }
}

fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spaces_do_not_matter_and_values_do() {
        let digest = digest_text(r#"{"label":"a-1","attempt":2}"#);
        assert_eq!(digest, digest_text(r#" { "attempt" : 2, "label": "a-1" } "#));
        assert_ne!(digest, digest_text(r#"{"label":"a-1","attempt":3}"#));
        assert_ne!(digest_text("[[1],2]"), digest_text("[1,[2]]"));
        assert_eq!(digest.len(), 16);
        assert_ne!(digest_text("{"), digest_text("}"));
    }
}
