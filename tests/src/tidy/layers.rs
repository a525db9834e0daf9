//! Which crate may import which, and where each vendor's name may stand.

use super::source::code_only;

/// One crate of the workspace and what it may import.
pub struct Layer {
    /// Its package name.
    pub package: &'static str,
    /// The packages of the workspace that it may depend on.
    pub own: &'static [&'static str],
    /// The other packages that it may depend on; `None` for any.
    pub others: Option<&'static [&'static str]>,
}

const fn layer(package: &'static str, own: &'static [&'static str]) -> Layer {
    Layer { package, own, others: None }
}

/// The layers, lowest first. ARCHITECTURE.md shows them with their reasons.
pub const LAYERS: &[Layer] = &[
    Layer { package: "orloj-model", own: &[], others: Some(&["serde", "uuid", "croner", "jiff"]) },
    layer("orloj-wire", &["orloj-model"]),
    layer("orloj-net", &[]),
    layer("orloj-raft-store", &["orloj-model", "orloj-net"]),
    layer("orloj-scheduler", &["orloj-model", "orloj-wire", "orloj-net", "orloj-raft-store"]),
    layer("orloj-executor", &["orloj-wire", "orloj-net"]),
    layer("orloj-client", &["orloj-wire"]),
    layer("orloj-bench", &["orloj-wire", "orloj-net", "orloj-executor"]),
    layer(
        "orloj-api",
        &["orloj-model", "orloj-wire", "orloj-net", "orloj-raft-store", "orloj-scheduler", "orloj-client"],
    ),
    layer(
        "orloj-cli",
        &[
            "orloj-model",
            "orloj-wire",
            "orloj-net",
            "orloj-raft-store",
            "orloj-scheduler",
            "orloj-executor",
            "orloj-api",
            "orloj-bench",
            "orloj-client",
        ],
    ),
    Layer {
        package: "orloj-jepsen-core",
        own: &[],
        // The hash of the ring, for a ring of its own that the product's is checked against.
        others: Some(&["serde", "serde_json", "thiserror", "xxhash-rust"]),
    },
    layer("orloj-jepsen-agents", &["orloj-jepsen-core", "orloj-wire"]),
    layer("orloj-jepsen", &["orloj-jepsen-core", "orloj-jepsen-agents", "orloj-wire"]),
    layer(
        "orloj-sim",
        &[
            "orloj-jepsen-core",
            "orloj-jepsen-agents",
            "orloj-model",
            "orloj-wire",
            "orloj-raft-store",
            "orloj-scheduler",
            "orloj-executor",
            "orloj-api",
        ],
    ),
    layer("orloj-fuzz-targets", &["orloj-fuzz"]),
    layer("orloj-fuzz", &["orloj-model", "orloj-wire", "orloj-net", "orloj-raft-store", "orloj-api"]),
    layer(
        "orloj-tests",
        &[
            "orloj-model",
            "orloj-wire",
            "orloj-raft-store",
            "orloj-scheduler",
            "orloj-executor",
            "orloj-api",
            "orloj-client",
        ],
    ),
];

/// What a manifest breaks. Only what the product links counts: dev-dependencies are free.
pub fn check_manifest(text: &str) -> Vec<String> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("not TOML: {error}")],
    };
    let package = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(|name| name.as_str())
        .unwrap_or_default();
    let Some(layer) = LAYERS.iter().find(|layer| layer.package == package) else {
        return vec![format!("package {package:?} has no layer: add it to tidy::layers::LAYERS")];
    };
    let mut faults = Vec::new();
    for name in dependencies(&manifest) {
        if name.starts_with("orloj-") {
            if !layer.own.contains(&name.as_str()) {
                faults.push(format!("{package} must not depend on {name}"));
            }
        } else if layer.others.is_some_and(|others| !others.contains(&name.as_str())) {
            faults.push(format!("{package} must not depend on {name}: it does no IO and reads no clock"));
        }
    }
    faults
}

fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(|targets| targets.as_table()) {
        tables.extend(targets.values().filter_map(|target| target.as_table()));
    }
    for table in tables {
        for section in ["dependencies", "build-dependencies"] {
            let Some(entries) = table.get(section).and_then(|entries| entries.as_table()) else { continue };
            for (key, value) in entries {
                // A renamed dependency counts under its real name.
                let real = value.get("package").and_then(|package| package.as_str()).unwrap_or(key);
                names.push(real.to_string());
            }
        }
    }
    names
}

/// A vendor's crate and the only places that may name it.
pub struct Home {
    /// The crate as it is written in code.
    pub vendor: &'static str,
    /// Beginnings of the paths that may name it.
    pub paths: &'static [&'static str],
}

/// The home of each vendor's name.
pub const HOMES: &[Home] = &[
    Home { vendor: "openraft", paths: &["crates/raft-store/"] },
    Home { vendor: "rocksdb", paths: &["crates/raft-store/src/engine/"] },
    Home { vendor: "bincode", paths: &["crates/raft-store/src/codec.rs"] },
    Home { vendor: "rustls", paths: &["crates/net/"] },
    Home { vendor: "axum", paths: &["crates/api/", "crates/executor/"] },
];

/// Which vendors `text`, the source file at `path`, names outside their homes.
pub fn check_vendors(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut faults = Vec::new();
    for home in HOMES {
        if home.paths.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            if names_crate(line, home.vendor) {
                faults.push(format!(
                    "line {}: {} is named outside {}",
                    number + 1,
                    home.vendor,
                    home.paths.join(", ")
                ));
            }
        }
    }
    faults
}

/// Whether a line of code has `vendor::` or `use vendor` in it.
fn names_crate(line: &str, vendor: &str) -> bool {
    line.match_indices(vendor).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + vendor.len()..].chars().next();
        let whole = !before.is_some_and(|char| char.is_alphanumeric() || char == '_' || char == '.')
            && !after.is_some_and(|char| char.is_alphanumeric() || char == '_');
        whole && (line[at + vendor.len()..].starts_with("::") || line.trim_start().starts_with("use "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(package: &str, section: &str, dependency: &str) -> String {
        format!("[package]\nname = \"{package}\"\n[{section}]\n{dependency}\n")
    }

    #[test]
    fn a_crossed_layer_is_found() {
        let bad = manifest("orloj-executor", "dependencies", "orloj-scheduler.workspace = true");
        assert_eq!(check_manifest(&bad), vec!["orloj-executor must not depend on orloj-scheduler"]);
        let good = manifest("orloj-executor", "dependencies", "orloj-wire.workspace = true");
        assert_eq!(check_manifest(&good), Vec::<String>::new());
    }

    #[test]
    fn the_model_may_not_do_io() {
        for section in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            assert_eq!(
                check_manifest(&manifest("orloj-model", section, "tokio = \"1\"")).len(),
                1,
                "{section}"
            );
        }
        assert!(check_manifest(&manifest("orloj-model", "dev-dependencies", "proptest = \"1\"")).is_empty());
    }

    #[test]
    fn renamed_and_unknown_packages_are_found() {
        let renamed =
            manifest("orloj-wire", "dependencies", "x = { package = \"orloj-api\", path = \"..\" }");
        assert_eq!(check_manifest(&renamed), vec!["orloj-wire must not depend on orloj-api"]);
        assert_eq!(check_manifest(&manifest("orloj-new", "dependencies", "")).len(), 1);
    }

    #[test]
    fn vendors_are_found_outside_their_homes() {
        let text = "use rocksdb::DB;\n// rocksdb::DB in a comment\nlet a = \"openraft::Raft\";\n";
        assert_eq!(check_vendors("crates/raft-store/src/engine/rocks.rs", text), Vec::<String>::new());
        assert_eq!(check_vendors("crates/raft-store/src/store.rs", text).len(), 1);
        assert_eq!(check_vendors("crates/scheduler/src/lib.rs", "x: openraft::Raft<A>").len(), 1);
        assert_eq!(check_vendors("crates/scheduler/src/lib.rs", "let my_openraft = 1; axum_like()").len(), 0);
        assert_eq!(check_vendors("crates/raft-store/src/codec2.rs", "bincode::serialize(x)").len(), 1);
    }
}
