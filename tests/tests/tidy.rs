//! The rules of style, checked on the tree itself.

use std::path::PathBuf;

use orloj_tests::tidy::{chance, files, layers, length, links, read, root, shown, words};

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Runs `check` on every file and gathers what it finds, each with the file's name.
fn gather(files: Vec<PathBuf>, check: impl Fn(&str, &str) -> Vec<String>) -> Vec<String> {
    assert!(!files.is_empty(), "nothing to check: the walk over the tree is broken");
    let mut faults = Vec::new();
    for file in files {
        let name = shown(&file);
        faults.extend(check(&name, &read(&file)).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    faults
}

/// The source of the product: no integration tests, benches or examples.
fn product_source() -> Vec<PathBuf> {
    let is_source = |file: &PathBuf| shown(file).contains("/src/");
    files(&root().join("crates"), &[".rs"]).into_iter().filter(is_source).collect()
}

fn all_source() -> Vec<PathBuf> {
    let mut found = product_source();
    found.extend(files(&root().join("tests"), &[".rs"]));
    found.extend(files(&root().join("jepsen"), &[".rs"]));
    found
}

#[test]
fn layers_are_kept() {
    let manifests = files(&root(), &["Cargo.toml"]).into_iter().filter(|file| shown(file) != "Cargo.toml");
    report(gather(manifests.collect(), |_, text| layers::check_manifest(text)));
}

#[test]
fn vendor_names_have_one_home() {
    report(gather(product_source(), layers::check_vendors));
}

#[test]
fn nothing_in_a_replica_is_chosen_by_chance() {
    report(gather(product_source(), chance::check));
}

#[test]
fn files_and_functions_are_short() {
    report(gather(all_source(), length::check));
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    report(gather(files(&root, &[".md"]), |name, text| {
        let path = root.join(name);
        let dir = path.parent().expect("a file lies in a folder");
        links::Document { text, dir, root: &root }.check()
    }));
}

#[test]
fn no_unfinished_work_and_no_machine_paths() {
    let endings = [".rs", ".md", ".toml", ".sh", "Makefile", ".json", ".yml"];
    report(gather(files(&root(), &endings), |_, text| words::check(text)));
}

#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; at most 150: move detail to docs/");
}
