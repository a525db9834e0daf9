//! Files with one purpose and functions that fit a screen.

use super::source::{code_only, without_tests};

/// The most lines of code in a file, without blank lines, comments and the test module.
pub const FILE_LINES: usize = 400;
/// The most lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES: usize = 70;

/// Whether a file holds tests alone. It may be long; its functions may not.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || !path.contains("/src/")
}

/// What is too long in the source file at `path`.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let code = without_tests(&code);
    let mut faults = Vec::new();
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    if lines > FILE_LINES && !is_test(path) {
        faults.push(format!("{lines} lines of code; at most {FILE_LINES}"));
    }
    for function in functions(code) {
        if function.lines > FUNCTION_LINES {
            faults.push(format!(
                "line {}: fn {} has {} lines; at most {FUNCTION_LINES}",
                function.line, function.name, function.lines
            ));
        }
    }
    faults
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where it begins, from 1.
    pub line: usize,
    /// From there to its closing brace, both counted.
    pub lines: usize,
}

/// Every function with a body in `code` (see [`code_only`]), nested ones too.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|char| char.is_alphanumeric() || char == '_') {
            continue;
        }
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        if name.is_empty() {
            continue;
        }
        if let Some(length) = body_end(rest) {
            let line = code[..at].matches('\n').count() + 1;
            let lines = rest[..length].matches('\n').count() + 1;
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// The length of `rest` up to the brace that closes the first body in it; `None` for a declaration.
fn body_end(rest: &str) -> Option<usize> {
    let mut depth = 0;
    let mut round = 0;
    for (at, char) in rest.char_indices() {
        match char {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' if depth == 0 && round == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/a/src/b.rs";

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_is_found() {
        assert_eq!(check(FILE, &function_of(FUNCTION_LINES)), Vec::<String>::new());
        let faults = check(FILE, &format!("// first\n{}", function_of(FUNCTION_LINES + 1)));
        assert_eq!(faults, vec!["line 2: fn long has 71 lines; at most 70"]);
    }

    #[test]
    fn a_long_file_is_found_and_comments_and_tests_do_not_count() {
        let code = "use a;\n".repeat(FILE_LINES);
        let padded = format!("{code}{}\n\n#[cfg(test)]\nmod tests {{\n{code}}}\n", "// why\n".repeat(50));
        assert_eq!(check(FILE, &padded), Vec::<String>::new());
        let long = format!("{code}use b;\n");
        assert_eq!(check(FILE, &long), vec!["401 lines of code; at most 400"]);
        for tests in ["crates/a/src/b_tests.rs", "crates/a/src/b/tests.rs", "crates/a/tests/b.rs"] {
            assert_eq!(check(tests, &long), Vec::<String>::new());
            assert_eq!(check(tests, &function_of(FUNCTION_LINES + 1)).len(), 1);
        }
    }

    #[test]
    fn declarations_and_braces_in_strings_do_not_confuse() {
        let code = code_only("trait T { fn a(&self, x: [u8; 3]); }\nfn b() {\n  let s = \"}\";\n}\n");
        let names: Vec<_> = functions(&code).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(names, vec![("b".to_string(), 3)]);
    }
}
