//! Links of the documents: to files, to headings, to paths in the code and to tests.

use std::path::Path;

/// A document of the tree.
pub struct Document<'a> {
    /// Its text.
    pub text: &'a str,
    /// The folder that it lies in.
    pub dir: &'a Path,
    /// The root of the tree.
    pub root: &'a Path,
}

impl Document<'_> {
    /// Which links, paths and test names of the document lead nowhere.
    pub fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (number, line) in prose(self.text) {
            for target in link_targets(line) {
                if let Some(fault) = self.check_link(target) {
                    faults.push(format!("line {number}: {fault}"));
                }
            }
            for span in code_spans(line) {
                if let Some(fault) = self.check_span(span) {
                    faults.push(format!("line {number}: {fault}"));
                }
            }
        }
        faults
    }

    fn check_link(&self, target: &str) -> Option<String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = self.dir.join(file);
        if !file.is_empty() && !path.exists() {
            return Some(format!("link to {target}: no such file"));
        }
        if anchor.is_empty() {
            return None;
        }
        let other = if file.is_empty() { self.text.to_string() } else { super::read(&path) };
        (!anchors(&other).iter().any(|known| known == anchor))
            .then(|| format!("link to {target}: no such heading"))
    }

    /// A span like `crates/model/src/apply.rs` names a file; `tests/tests/tidy.rs::name` names a test in it.
    fn check_span(&self, span: &str) -> Option<String> {
        let roots = ["crates/", "tests/", "docs/", "scripts/", "jepsen/"];
        let plain = span.chars().all(|char| char.is_ascii_alphanumeric() || "/._-:".contains(char));
        if !plain || !roots.iter().any(|root| span.starts_with(root)) {
            return None;
        }
        let (file, function) = span.split_once("::").unwrap_or((span, ""));
        let path = self.root.join(file);
        if !path.exists() {
            return Some(format!("`{span}`: no such file"));
        }
        if function.is_empty() {
            return None;
        }
        let named = format!("fn {function}(");
        (!super::read(&path).contains(&named)).then(|| format!("`{span}`: no such function"))
    }
}

/// The lines outside fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

fn link_targets(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter_map(|(at, _)| {
            let rest = &line[at + 2..];
            rest.find(')').map(|end| rest[..end].trim())
        })
        .collect()
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The anchors of a document's headings, as the common hosts of repositories make them.
fn anchors(text: &str) -> Vec<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|char| match char {
                    ' ' => Some('-'),
                    char if char.is_alphanumeric() || char == '-' || char == '_' => Some(char),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let root = crate::tidy::root();
        Document { text, dir: &root, root: &root }.check()
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(faults("see [a](Cargo.toml) and [b](https://example.com/x)"), Vec::<String>::new());
        assert_eq!(faults("see [a](No-Such.toml)"), vec!["line 1: link to No-Such.toml: no such file"]);
        assert_eq!(
            faults("# One two\n[a](#one-two) [b](#three)"),
            vec!["line 2: link to #three: no such heading"]
        );
    }

    #[test]
    fn broken_paths_and_tests_are_found() {
        let good = "`tests/src/tidy/links.rs::broken_links_are_found` and `crates/model` and `tests pass`";
        assert_eq!(faults(good), Vec::<String>::new());
        assert_eq!(faults("`crates/none/x.rs`"), vec!["line 1: `crates/none/x.rs`: no such file"]);
        assert_eq!(faults("`tests/src/tidy/links.rs::nobody`").len(), 1);
    }

    #[test]
    fn fenced_blocks_are_left_alone() {
        assert_eq!(faults("```\n[a](No-Such.toml)\n```"), Vec::<String>::new());
    }
}
