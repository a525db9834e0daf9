//! Integers that no reader would get back as they were written: those beyond 64 bits, which become doubles.

use std::borrow::Cow;

use super::escaped;
use crate::problem::FieldError;

/// An integer with fewer digits fits into 64 bits.
pub(super) const DIGITS: usize = 19;
/// How much of one is shown, in bytes.
const SHOWN: usize = 40;

/// What is open around a place in a text.
enum Open<'a> {
    /// An object, with the key that was read last as it is written, and whether a key comes next.
    Object { key: &'a [u8], key_comes: bool },
    /// An array, and the index of its item.
    Array(usize),
}

/// Refuses a text with an integer that neither `i64` nor `u64` can hold. A text that is no JSON may pass.
pub(super) fn check(text: &[u8]) -> Result<(), FieldError> {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let length = match byte {
            b'"' => {
                let length = string(&text[at..]);
                if let Some(Open::Object { key, key_comes: key_comes @ true }) = open.last_mut() {
                    (*key, *key_comes) = (&text[at..at + length], false);
                }
                length
            }
            b'-' | b'0'..=b'9' => {
                let number = &text[at..at + number(&text[at..])];
                if is_beyond(number) {
                    return Err(fault(&open, number));
                }
                number.len()
            }
            _ => {
                structure(&mut open, *byte);
                1
            }
        };
        at += length;
    }
    Ok(())
}

/// The text with each integer that neither `i64` nor `u64` can hold put in quotes, so that its digits are kept.
pub(super) fn quoted(text: &[u8]) -> Cow<'_, [u8]> {
    let (mut quoted, mut copied, mut at) = (Vec::new(), 0, 0);
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => string(&text[at..]),
            b'-' | b'0'..=b'9' => {
                let length = number(&text[at..]);
                let number = &text[at..at + length];
                if is_beyond(number) {
                    quoted.extend([&text[copied..at], b"\"", number, b"\""].concat());
                    copied = at + length;
                }
                length
            }
            _ => 1,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.extend_from_slice(&text[copied..]);
    Cow::Owned(quoted)
}

fn structure(open: &mut Vec<Open<'_>>, byte: u8) {
    match (byte, open.last_mut()) {
        (b'{', _) => open.push(Open::Object { key: b"", key_comes: true }),
        (b'[', _) => open.push(Open::Array(0)),
        (b'}' | b']', _) => drop(open.pop()),
        (b',', Some(Open::Array(index))) => *index += 1,
        (b',', Some(Open::Object { key_comes, .. })) => *key_comes = true,
        _ => {}
    }
}

/// The length of the string with which a text begins, with its quotes.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the number with which a text begins.
fn number(text: &[u8]) -> usize {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

fn is_beyond(number: &[u8]) -> bool {
    let is_integer = number.strip_prefix(b"-").unwrap_or(number).iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(number).unwrap_or_default();
    is_integer && number.len() >= DIGITS && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

fn fault(open: &[Open<'_>], number: &[u8]) -> FieldError {
    let mut pointer = String::new();
    for one in open {
        pointer.push('/');
        match one {
            Open::Object { key, .. } => {
                // One that is no text is told by the reader that comes after.
                pointer.push_str(&escaped(&serde_json::from_slice::<String>(key).unwrap_or_default()));
            }
            Open::Array(index) => pointer.push_str(&index.to_string()),
        }
    }
    let shown = String::from_utf8_lossy(&number[..number.len().min(SHOWN)]);
    let dots = if number.len() > SHOWN { "…" } else { "" };
    let message = format!(
        "{shown}{dots}: an integer beyond 64 bits would be read as another number; send it as a string"
    );
    FieldError::new(pointer, message)
}
