//! Changes an input by chance, in the ways that upset parsers.

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};

/// The largest input that is made, in bytes.
const LIMIT: usize = 64 * 1024;
/// Pieces that have a meaning to some parser.
const TOKENS: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1e309",
    b"18446744073709551616",
    b"9007199254740993",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"{",
    b"[",
    b"\"",
    b":",
    b",",
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b"%2e",
    b"%00",
    b"..",
    b"/",
    b"//",
    b"?",
    b"&",
    b"=",
    b"#",
    b"@",
    b";",
    b"://",
    b"*.",
    b"127.0.0.1",
    b"[::1]",
    b"%c0%ae",
    b"\xef\xbc\x8e",
    b"\t",
    b"hooks.example.com",
    b"2027-01-15T08:00:00Z",
    b"9999-12-31T23:59:60+14:00",
    b"tsk_AAECAwQFBgcICQoLDA0ODw",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
];

/// A changed copy of `input`; `other` is another input to take pieces from.
pub fn mutate(input: &[u8], other: &[u8], chance: &mut StdRng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..chance.random_range(1..=4) {
        change(&mut bytes, other, chance);
    }
    bytes.truncate(LIMIT);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], chance: &mut StdRng) {
    let at = chance.random_range(0..=bytes.len());
    let end = chance.random_range(at..=bytes.len().min(at + 32));
    match chance.random_range(0..8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << chance.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = chance.next_u32() as u8,
        2 => {
            bytes.drain(at..end);
        }
        3 => {
            // The same again: keys that stand there twice, headers, brackets.
            let piece = bytes[at..end].to_vec();
            for _ in 0..chance.random_range(1..=8) {
                bytes.splice(at..at, piece.iter().copied());
            }
        }
        4 | 5 => {
            let token = TOKENS[chance.random_range(0..TOKENS.len())];
            bytes.splice(at..end, token.iter().copied());
        }
        6 if !other.is_empty() => {
            let from = chance.random_range(0..other.len());
            let until = chance.random_range(from..=other.len().min(from + 256));
            bytes.splice(at..end, other[from..until].iter().copied());
        }
        _ => {
            let many = chance.random_range(1..=200);
            let byte = if at < bytes.len() { bytes[at] } else { b'[' };
            bytes.splice(at..at, std::iter::repeat_n(byte, many));
        }
    }
}
