//! Nothing by chance and nothing behind a replica's back where one seed must repeat a whole run: `select!`
//! polls its branches in random order unless it is told not to, and threads and the system's random numbers
//! are handed in (see the seams in ARCHITECTURE.md), not reached for.

use super::source::{code_only, without_tests};

/// The sources in which a run must repeat itself: what a replica is made of.
const REPEATABLE: &[&str] = &["crates/raft-store/src/", "crates/scheduler/src/", "crates/api/src/"];
/// The product's side of the seams.
const SEAMS: &[&str] = &["crates/raft-store/src/runner.rs", "crates/raft-store/src/runtime.rs"];
/// What only they may reach for.
const BEHIND: &[(&str, &str)] = &[
    ("spawn_blocking", "threads are the `Runner`'s"),
    ("thread::spawn", "threads are the `Runner`'s"),
    ("thread::Builder", "threads are the `Runner`'s"),
    ("getrandom", "random numbers come from the `Random` that is passed in"),
    ("rand::", "random numbers come from the `Random` that is passed in"),
];

/// What `text`, the source file at `path`, leaves to chance or reaches for.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let under = |roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
    if !under(REPEATABLE) || under(SEAMS) || is_test(path) {
        return Vec::new();
    }
    let code = code_only(text);
    let code = without_tests(&code);
    let mut faults = Vec::new();
    for (at, found) in code.match_indices("select!") {
        let body = code[at + found.len()..].trim_start().trim_start_matches(['{', '(']);
        if !body.trim_start().starts_with("biased;") {
            let line = code[..at].matches('\n').count() + 1;
            faults.push(format!("line {line}: select! without `biased;`: its order is drawn in every run"));
        }
    }
    for (number, line) in code.lines().enumerate() {
        for (name, why) in BEHIND.iter().filter(|(name, _)| stands_in(line, name)) {
            faults.push(format!("line {}: {name}: {why}", number + 1));
        }
    }
    faults
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with("tests.rs")
        || ["testing.rs", "victim.rs"].contains(&name)
        || ["/tests/", "/testing/"].iter().any(|folder| path.contains(folder))
}

/// Whether a name stands in a line and is not the end of a longer one.
fn stands_in(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
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

    #[test]
    fn what_the_machine_decides_is_reached_for_only_at_the_seams() {
        for text in
            ["tokio::task::spawn_blocking(work)", "let x = rand::random();", "getrandom::fill(&mut x)"]
        {
            assert_eq!(check("crates/raft-store/src/log/reader.rs", text).len(), 1, "{text}");
            for allowed in
                ["raft-store/src/runner.rs", "raft-store/src/codec_tests.rs", "executor/src/lib.rs"]
            {
                assert_eq!(check(&format!("crates/{allowed}"), text), Vec::<String>::new(), "{text}");
            }
        }
        let tests = "fn f() {}\n#[cfg(test)]\nmod tests { fn g() { rand::random() } }";
        assert_eq!(check("crates/api/src/ops.rs", tests), Vec::<String>::new());
        assert_eq!(check("crates/api/src/ops.rs", "let operand::X = 1;"), Vec::<String>::new());
    }
}
