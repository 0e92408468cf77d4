//! Which crate may import what: the table of docs/ARCHITECTURE.md, compared with the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crate and the dependencies it may have (development ones apart).
const ALLOWED: [(&str, &[&str]); 7] = [
    ("pullback-ir", &["slotmap", "indexmap", "smallvec", "thiserror"]),
    (
        "pullback-runtime",
        &["pullback-ir", "slotmap", "indexmap", "smallvec", "thiserror", "rayon", "matrixmultiply"],
    ),
    ("pullback-autodiff", &["pullback-ir", "slotmap", "indexmap", "smallvec", "thiserror"]),
    (
        "pullback-lower",
        &[
            "pullback-ir",
            "pullback-runtime",
            "slotmap",
            "indexmap",
            "smallvec",
            "thiserror",
            "rayon",
            "cranelift-codegen",
            "cranelift-frontend",
            "cranelift-jit",
            "cranelift-module",
            "cranelift-native",
        ],
    ),
    (
        "pullback-trace",
        &[
            "pullback-ir",
            "pullback-runtime",
            "pullback-autodiff",
            "pullback-lower",
            "pullback-derive",
            "slotmap",
            "indexmap",
            "smallvec",
            "thiserror",
        ],
    ),
    ("pullback-derive", &["syn", "quote", "proc-macro2"]),
    (
        "pullback",
        &["pullback-ir", "pullback-runtime", "pullback-autodiff", "pullback-lower", "pullback-trace", "clap"],
    ),
];

/// Normal dependencies of each workspace crate, from `cargo tree`.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--workspace",
            "--depth",
            "1",
            "--edges",
            "normal",
            "--prefix",
            "depth",
            "--format",
            "{p}",
        ])
        .args(["--all-features", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints text");
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let name = line[1..].split(' ').next().expect("a name").to_string();
        match &line[..1] {
            "0" => {
                all.entry(name.clone()).or_default();
                current = name;
            }
            _ => {
                all.entry(current.clone()).or_default().insert(name);
            }
        }
    }
    all
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    let found = dependencies();
    for (name, allowed) in ALLOWED {
        let found = found.get(name).unwrap_or_else(|| panic!("{name} is not in the workspace"));
        for dependency in found {
            assert!(allowed.contains(&dependency.as_str()), "{name} may not depend on {dependency}");
        }
    }
    assert_eq!(found.len(), ALLOWED.len(), "every crate of the workspace has a row here");
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ARCHITECTURE.md"))
        .expect("docs/ARCHITECTURE.md exists");
    for (name, _) in ALLOWED {
        let short = name.strip_prefix("pullback-").unwrap_or(name);
        assert!(page.contains(&format!("`{short}`")), "docs/ARCHITECTURE.md does not mention `{short}`");
    }
}
