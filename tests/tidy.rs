//! House rules that a reader should not have to check.

use std::fs;
use std::path::{Path, PathBuf};

/// Rust sources below the folder, `target` left out.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    sources(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    found
}

#[test]
fn no_file_grows_past_its_idea() {
    for path in all_sources() {
        let lines = fs::read_to_string(&path).expect("a source file").lines().count();
        assert!(lines <= 800, "{} has {lines} lines; split it by idea", path.display());
    }
}

#[test]
fn every_file_says_what_it_is() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).expect("a source file");
        assert!(text.starts_with("//!"), "{} does not begin with a module comment", path.display());
    }
}

#[test]
fn unsafe_code_stays_at_its_addresses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in all_sources() {
        let relative = path.strip_prefix(root).expect("below the root");
        let allowed = relative.starts_with("runtime") || relative.starts_with("lower");
        let text = fs::read_to_string(&path).expect("a source file");
        let uses = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains(concat!("unsafe", " {")) || code.contains(concat!("unsafe", " fn"))
        });
        assert!(allowed || !uses, "{} uses unsafe code", path.display());
    }
}
