//! Words that have no place in the project's files.

/// Marks of unfinished work and of one developer's machine.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it or file it"),
    (concat!("FIX", "ME"), "fix it or file it"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("#[ign", "ore"), "a test that does not run is no test"),
];

/// Which of them stand in `text`.
pub fn check(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (word, why) in BANNED {
            if line.contains(word) {
                faults.push(format!("line {}: {word}: {why}", number + 1));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found() {
        let bad = format!("fine\n// {}: later\nopen(\"{}x\")", BANNED[0].0, BANNED[2].0);
        assert_eq!(check(&bad).len(), 2);
        assert!(check(&bad)[0].starts_with("line 2: "));
        assert_eq!(check("a working note about roots"), Vec::<String>::new());
    }
}
