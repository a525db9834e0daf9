//! The style of the project as checks on its text. Each checker is a plain function from text to the list
//! of what is wrong, so that it is itself tested on small strings; `tests/tidy.rs` runs them on the tree.

use std::fs;
use std::path::{Path, PathBuf};

pub mod chance;
pub mod layers;
pub mod length;
pub mod links;
pub mod source;
pub mod words;

/// The root of the work tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the work tree").to_path_buf()
}

/// Every file below `dir` whose name ends with one of `endings`, sorted; build output and git's own files
/// are left out.
pub fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                let generated = ["target", ".git", "store", "orloj-dev", "proptest-regressions"];
                if !generated.contains(&name.as_str()) {
                    open.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads a text file of the tree.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// `path` as it is written in messages: from the root, with `/`.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
