//! What is refused, with the place the compiler will point at.

use proc_macro2::TokenTree;

/// The error of a type that cannot be a tree, under the line it is about.
fn refused(source: &str) -> String {
    let error = super::expand(syn::parse_str(source).expect("Rust")).expect_err("refused");
    let (start, end) = (error.span().start(), error.span().end());
    let line = source.lines().nth(start.line - 1).expect("a line");
    let width = if end.line == start.line { end.column - start.column } else { 1 };
    format!("{line}\n{}{} {error}\n", " ".repeat(start.column), "^".repeat(width))
}

#[test]
fn errors_point_at_what_is_wrong() {
    let sources = [
        "union Either { a: f32, b: u32 }",
        "enum Never {}",
        "#[tree(skip)]\nstruct Line { slope: Tensor }",
        "enum Activation { Plain, #[tree(skip)] Scaled(Tensor) }",
        "struct Line { slope: Tensor, #[tree(ignore)] rate: f64 }",
        "struct Line { slope: Tensor, #[tree] rate: f64 }",
        "struct Line { slope: Tensor, #[tree()] rate: f64 }",
        "struct Line { slope: Tensor, #[tree(skip = true)] rate: f64 }",
        "struct Line { slope: Tensor, #[tree(skip, default)] rate: f64 }",
        "struct Line { slope: Tensor, #[tree = \"skip\"] rate: f64 }",
        "struct Line(Tensor, #[tree(skip)] f64, #[tree(7)] f64);",
        "enum Activation {\n    Plain,\n    Scaled { by: Tensor, #[tree(leaf)] rate: f64 },\n}",
        "struct Line<'a, T> { slope: T, name: &'a str }",
    ];
    insta::assert_snapshot!(sources.map(refused).join("\n"));
}

/// Where a field is no tree, or skipped and cannot be cloned or shown, the compiler points at its type.
#[test]
fn code_for_a_field_stands_at_its_type() {
    let source = "struct Line { slope: f32, #[tree(skip)] rate: File }";
    let mut open = vec![super::expand(syn::parse_str(source).expect("Rust")).expect("a tree")];
    let mut places = Vec::new();
    while let Some(stream) = open.pop() {
        for token in stream {
            let name = token.to_string();
            if let TokenTree::Group(group) = token {
                open.push(group.stream());
            } else if ["part0", "part1", "visit_part", "fact", "Clone"].contains(&&*name) {
                let span = token.span();
                places.push(format!("{name} at {}", &source[span.start().column..span.end().column]));
            }
        }
    }
    places.sort();
    places.dedup();
    let expected = ["Clone at File", "fact at File", "part0 at f32", "part1 at File", "visit_part at f32"];
    assert_eq!(places, expected);
}
