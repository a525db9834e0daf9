//! No choice by chance where one seed must repeat a whole run: `select!` polls its branches in random order
//! unless it is told not to.

use super::source::code_only;

/// The sources in which a run must repeat itself: what a replica is made of.
pub const REPEATABLE: &[&str] = &["crates/raft-store/src/", "crates/scheduler/src/", "crates/api/src/"];

/// Which `select!` in `text`, the source file at `path`, chooses by chance.
pub fn check(path: &str, text: &str) -> Vec<String> {
    if !REPEATABLE.iter().any(|root| path.starts_with(root)) {
        return Vec::new();
    }
    let code = code_only(text);
    let unbiased = code.match_indices("select!").filter(|(at, found)| {
        let body = code[at + found.len()..].trim_start().trim_start_matches(['{', '(']);
        !body.trim_start().starts_with("biased;")
    });
    unbiased
        .map(|(at, _)| {
            let line = code[..at].matches('\n').count() + 1;
            format!("line {line}: select! without `biased;`: its order is drawn anew in every run")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIASED: &str = "tokio::select! {\n    biased;\n    () = a => {}\n}";
    const UNBIASED: &str = "fn f() {\n// select! {\n    tokio::select! {\n        () = a => {}\n}}";

    #[test]
    fn a_choice_by_chance_is_found_where_a_run_must_repeat() {
        assert_eq!(check("crates/api/src/ops.rs", BIASED), Vec::<String>::new());
        let faults = check("crates/api/src/ops.rs", UNBIASED);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("line 3: "), "{faults:?}");
        assert_eq!(check("crates/cli/src/dev.rs", UNBIASED), Vec::<String>::new());
    }
}
