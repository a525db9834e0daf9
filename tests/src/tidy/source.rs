//! Rust source reduced to its code: comments, strings and character literals blanked out, line by line.

/// The code of `text` with everything inside comments, strings and character literals replaced by spaces.
/// Line breaks stay, so line numbers are those of `text`.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'r' | b'b' | b'c' if !follows_identifier(bytes, at) => match raw_string_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'"' => string_end(bytes, at),
            b'\'' => match char_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Whole tokens were blanked, so no character was cut in two.
    String::from_utf8(out).expect("only whole tokens were blanked")
}

/// The part of `code` that is no test: everything before its first `#[cfg(test)]` on a module.
pub fn without_tests(code: &str) -> &str {
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let start = from + found;
        let after = code[start + "#[cfg(test)]".len()..].trim_start();
        if after.starts_with("mod ") || after.starts_with("pub mod ") || after.starts_with("#[") {
            return &code[..start];
        }
        from = start + 1;
    }
    code
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut here = at;
    while here + 1 < bytes.len() {
        match &bytes[here..here + 2] {
            b"/*" => {
                depth += 1;
                here += 2;
            }
            b"*/" => {
                depth -= 1;
                here += 2;
                if depth == 0 {
                    return here;
                }
            }
            _ => here += 1,
        }
    }
    bytes.len()
}

fn follows_identifier(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// The end of `r"…"`, `r#"…"#`, `br"…"` and the like, if one begins at `at`.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut here = at;
    if matches!(bytes[here], b'b' | b'c') {
        here += 1;
    }
    if bytes.get(here) != Some(&b'r') {
        return None;
    }
    here += 1;
    let hashes = bytes[here..].iter().take_while(|byte| **byte == b'#').count();
    here += hashes;
    if bytes.get(here) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = here + 1;
    let length = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| body + length + close.len()))
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while here < bytes.len() {
        match bytes[here] {
            b'\\' => here += 2,
            b'"' => return here + 1,
            _ => here += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal at `at`; `None` where the quote begins a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes[at + 3..].iter().position(|byte| *byte == b'\'')?;
        return Some(at + 3 + close + 1);
    }
    // One character of up to four bytes, then the closing quote.
    (2..=5).find(|length| bytes.get(at + length) == Some(&b'\'')).and_then(|length| {
        let inner = std::str::from_utf8(&bytes[at + 1..at + length]).ok()?;
        (inner.chars().count() == 1).then_some(at + length + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let code =
            code_only("let a = \"fn x() {\"; // fn y() {\nlet b = '{'; /* { /* } */ */ let c = r#\"}\"#;");
        assert!(!code.contains('{') && !code.contains('}') && !code.contains("fn"), "{code}");
        assert_eq!(code.lines().count(), 2);
        assert!(code.contains("let b") && code.contains("let c"));
    }

    #[test]
    fn lifetimes_and_escapes_are_code() {
        assert_eq!(code_only("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code_only("let q = '\\''; let s = \"\\\"\"; {"), "let q =     ; let s =     ; {");
        assert!(code_only("let e = 'é'; }").ends_with('}'));
        assert_eq!(code_only("for r in bar {}"), "for r in bar {}");
    }

    #[test]
    fn the_test_module_is_cut_off() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {}"), "a\n");
        assert_eq!(without_tests("a\n#[cfg(test)]\nuse x;\nb"), "a\n#[cfg(test)]\nuse x;\nb");
    }
}
