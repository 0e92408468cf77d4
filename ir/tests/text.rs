//! The text form: printing and parsing are inverse, and errors say where and what.

use pullback_ir::ops::control::barrier::Barrier;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::{Builder, DType, Literal, Loc, Op, Program, TensorType, text};
use std::sync::Arc;

fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Prints, parses and prints again; returns the text.
fn round_trip(program: &Program) -> String {
    let text = program.to_string();
    let parsed = Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(&parsed, program, "{text}");
    assert_eq!(parsed.name(), program.name());
    assert_eq!(parsed.to_string(), text);
    parsed.verify().unwrap();
    text
}

#[test]
fn every_sample_of_every_op_round_trips() {
    let mut count = 0;
    for sample in Op::ALL.iter().flat_map(|family| (family.samples)()) {
        let mut b = Builder::new("sample");
        let operands: Vec<_> = sample.operands.iter().map(|operand| b.param(operand.ty.clone())).collect();
        let results = b.emit(sample.op, &operands).unwrap();
        round_trip(&b.finish(&results));
        count += 1;
    }
    assert!(count > 1000);
}

#[test]
fn programs_nest_in_attributes() {
    let mut b = Builder::new("inner");
    let x = b.param(f32s(&[2]));
    let y = b.neg(x).unwrap();
    let inner = Arc::new(b.finish(&[y, x]));
    let mut b = Builder::new("a name\nwith \"odd\" parts");
    let x = b.param(f32s(&[2]));
    let call = b.emit(Call::new(inner.clone()), &[x]).unwrap();
    let mut outer = Builder::new("outer");
    let program = Arc::new(b.finish(&[call[0], x, call[0]]));
    let x = outer.param(f32s(&[2]));
    let results = outer.emit(Call::new(program), &[x]).unwrap();
    outer.emit(Barrier, &[]).unwrap();
    insta::assert_snapshot!(round_trip(&outer.finish(&results)), @r#"
    program @outer(%0: f32[2]) -> (f32[2], f32[2], f32[2]) {
      %1, %2, %3 = call %0 {program = program @"a name\nwith \"odd\" parts"(%0: f32[2]) -> (f32[2], f32[2], f32[2]) {
        %1, %2 = call %0 {program = program @inner(%0: f32[2]) -> (f32[2], f32[2]) {
          %1 = neg %0 : f32[2]
          return %1, %0
        }} : f32[2], f32[2]
        return %1, %0, %1
      }} : f32[2], f32[2], f32[2]
      barrier : ()
      return %1, %2, %3
    }
    "#);
}

#[test]
fn constants_keep_their_bits() {
    let mut b = Builder::new("constants");
    let nan = f32::from_bits(0xffc0_1234);
    let literals = [
        Literal::dense(&[0.1f32, -0.0, f32::MAX, 1e-45, nan, f32::NAN, f32::NEG_INFINITY], [7]).unwrap(),
        Literal::splat(f64::from_bits(0x7ff0_0000_0000_0001), [2, 3]),
        Literal::splat(-0.0f64, [2, 0]),
        Literal::dense(&[1e300, 1e16, 123456789012345680.0f64], [3, 1]).unwrap(),
        Literal::dense(&[true, false], [2]).unwrap(),
        Literal::scalar(u64::MAX),
        Literal::scalar(i64::MIN),
    ];
    let values: Vec<_> = literals.into_iter().map(|literal| b.constant(literal).unwrap()).collect();
    insta::assert_snapshot!(round_trip(&b.finish(&values)), @r#"
    program @constants() -> (f32[7], f64[2,3], f64[2,0], f64[3,1], bool[2], u64[], i64[]) {
      %0 = constant {value = f32[7] [0.1, -0.0, 3.4028235e38, 1e-45, nan(0xffc01234), nan, -inf]} : f32[7]
      %1 = constant {value = f64[2,3] splat nan(0x7ff0000000000001)} : f64[2,3]
      %2 = constant {value = f64[2,0] splat -0.0} : f64[2,0]
      %3 = constant {value = f64[3,1] [1e300, 1e16, 1.2345678901234568e17]} : f64[3,1]
      %4 = constant {value = bool[2] [true, false]} : bool[2]
      %5 = constant {value = u64[] 18446744073709551615} : u64[]
      %6 = constant {value = i64[] -9223372036854775808} : i64[]
      return %0, %1, %2, %3, %4, %5, %6
    }
    "#);
}

#[test]
fn text_attributes_are_quoted() {
    let mut b = Builder::new("custom");
    let call = CustomCall {
        target: "a \"b\" \\ c".into(),
        version: 3,
        attributes: "line\nline\tend\u{7}".into(),
        results: vec![f32s(&[2]), TensorType::scalar(DType::I64)],
    };
    let results = b.emit(call, &[]).unwrap();
    let nothing = CustomCall { target: "log".into(), version: 1, attributes: String::new(), results: vec![] };
    b.emit(nothing, &[results[0]]).unwrap();
    insta::assert_snapshot!(round_trip(&b.finish(&results)), @r#"
    program @custom() -> (f32[2], i64[]) {
      %0, %1 = custom_call {target = "a \"b\" \\ c", version = 3, attributes = "line\nline\u{9}end\u{7}", results = [f32[2], i64[]]} : f32[2], i64[]
      custom_call %0 {target = "log", results = []} : ()
      return %0, %1
    }
    "#);
}

#[test]
fn an_op_written_twice_stays_twice() {
    let text = "program @f(%0: f32[]) -> (f32[], f32[]) {
  %1 = sin %0 : f32[]
  %2 = sin %0 : f32[]
  return %1, %2
}";
    assert_eq!(Program::parse(text).unwrap().to_string(), text);
}

#[test]
fn any_names_are_read_and_numbers_written() {
    let text = "program @f(%weight: f32[2], %x.1: f32[2],) -> () { return }";
    assert!(Program::parse(text).is_err(), "no comma before the closing mark");
    let text = "program @f(%weight: f32[2], %7: f32[2]) -> (f32[2]) { %_z=mul %7,%weight:f32[2] return %_z }";
    insta::assert_snapshot!(Program::parse(text).unwrap(), @r#"
    program @f(%0: f32[2], %1: f32[2]) -> (f32[2]) {
      %2 = mul %1, %0 : f32[2]
      return %2
    }
    "#);
}

#[test]
fn formatting_keeps_comments() {
    let text = r#"
// A file.

// Two programs.
program @f(%x: f32[2]) -> (f32[2]) { // header
// before the op
   %y = call %x { // inside the op
     // on its own inside the op
     program = program @g(%a: f32[2]) -> (f32[2]) { // nested header
         // before sin
         %b = sin %a : f32[2]  // after sin
         return %b } // closing
     } : f32[2] // after the call
   // before return
   return %y // after return
   // before the brace
} // after the brace
program @h() -> () {
return
}
// the end"#;
    let formatted = text::format(text).unwrap();
    assert_eq!(text::format(&formatted).unwrap(), formatted);
    insta::assert_snapshot!(formatted, @r#"
    // A file.
    // Two programs.
    program @f(%0: f32[2]) -> (f32[2]) { // header
      // before the op
      // on its own inside the op
      %1 = call %0 {program = program @g(%0: f32[2]) -> (f32[2]) { // inside the op // nested header
        // before sin
        %1 = sin %0 : f32[2] // after sin
        return %1
      }} : f32[2] // closing // after the call
      // before return
      return %1 // after return
      // before the brace
    } // after the brace

    program @h() -> () {
      return
    }
    // the end
    "#);
    assert_eq!(text::format("// only this\n").unwrap(), "// only this\n");
    assert_eq!(text::format("").unwrap(), "");
}

#[test]
fn locations_are_comments() {
    let mut b = Builder::new("f");
    let x = b.param(f32s(&[]));
    b.set_loc(Loc { file: "model.rs", line: 3, column: 7, via: None });
    let y = b.neg(x).unwrap();
    b.set_loc(Loc { file: "model.rs", line: 3, column: 7, via: Some(("transpose", "neg")) });
    let z = b.neg(y).unwrap();
    let program = b.finish(&[z]);
    let text = program.print_with_locations();
    insta::assert_snapshot!(text, @r#"
    program @f(%0: f32[]) -> (f32[]) {
      %1 = neg %0 : f32[] // model.rs:3:7
      %2 = neg %1 : f32[] // transpose of neg at model.rs:3:7
      return %2
    }
    "#);
    assert_eq!(Program::parse(&text).unwrap(), program);
}

/// The errors of texts that are each wrong in one way.
#[test]
fn errors_have_a_place_and_say_what_was_expected() {
    let body = |body: &str| format!("program @f(%x: f32[2], %i: i32[2]) -> (f32[2]) {{\n  {body}\n}}");
    let texts = [
        "",
        "program f() -> () { return }",
        "program @f(%x: f32) -> () { return }",
        "program @f(%x: f16[2]) -> () { return }",
        "program @f(%x: f32[-1]) -> () { return }",
        "program @f(%x: f32[281474976710656,2]) -> () { return }",
        "program @f(%x: f32[0,281474976710656,2]) -> () { return }",
        "program @f(%x: f32[99999999999999999999]) -> () { return }",
        "program @f(%x: f32[2], %x: f32[2]) -> () { return }",
        "program @f() -> (f32[]) { return }",
        "program @f() -> () { return } program @g() -> () { return }",
        "program @\"f\\q\"() -> () { return }",
        "program @\"f",
        "program @f() -> () { return; }",
        "program @f() -> () {",
        &body("return %y"),
        &body("return %i"),
        &body("return %x, %x"),
        &body("%y = sine %x : f32[2]"),
        &body("%y = add %x : f32[2]"),
        &body("%y = add %x, %i : f32[2]"),
        &body("%y = neg %x : f32[3]"),
        &body("%y = neg %x : f32[2], f32[2]"),
        &body("%y, %z = neg %x : f32[2]"),
        &body("%x = neg %x : f32[2]"),
        &body("%y = neg %y : f32[2]"),
        &body("%y = neg %x f32[2]"),
        &body("%y neg %x : f32[2]"),
        &body("%y = reduce %x {op = median, dims = [0]} : f32[]"),
        &body("%y = reduce %x {op = sum} : f32[]"),
        &body("%y = reduce %x {op = sum, dims = [0], keep = 1} : f32[]"),
        &body("%y = reduce %x {op = sum, dims = [0], dims = [0]} : f32[]"),
        &body("%y = reduce %x {op = sum, dims = [x]} : f32[]"),
        &body("%y = reduce %x {op = sum, dims = [1]} : f32[]"),
        &body("%y = constant {value = f32[2] [1.0, 2.0, 3.0]} : f32[2]"),
        &body("%y = constant {value = f32[2,2] [[1.0, 2.0], [3.0]]} : f32[2,2]"),
        &body("%y = constant {value = f32[2] [1.0, x]} : f32[2]"),
        &body("%y = constant {value = i32[] 1.5} : i32[]"),
        &body("%y = constant {value = f32[] nan(0x1)} : f32[]"),
        &body("%y = constant {value = f32[2] 1.0} : f32[2]"),
        &body("%y = custom_call {target = \"\\z\", results = []} : ()"),
        &body("%y = neg %x : f32[2]\n  é"),
    ];
    let errors: Vec<String> =
        texts.iter().map(|text| Program::parse(text).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(errors.join("\n\n"));
}

#[test]
fn hostile_texts_are_refused_in_little_time_and_stack() {
    let nested = "program @f() -> () { call {program = ".repeat(100_000);
    assert!(Program::parse(&nested).unwrap_err().message.contains("nest deeper than 64"));
    let brackets = format!("program @f() -> () {{ %0 = constant {{value = f32[1,1] {}", "[".repeat(100_000));
    assert!(Program::parse(&brackets).is_err());
    let rank = format!("program @f(%x: f32[{}]) -> () {{ return }}", vec!["1"; 100_000].join(","));
    assert!(Program::parse(&rank).unwrap_err().message.contains("at most 255"));
    let long = format!("program @f() -> () {{ {}", "x".repeat(1_000_000));
    assert!(Program::parse(&long).unwrap_err().to_string().len() < 1000);
}

#[test]
fn nesting_up_to_the_limit_is_read() {
    let nested = |levels: usize| {
        let open = "program @f() -> () { call {program = ".repeat(levels - 1);
        let close = "} : () return }".repeat(levels - 1);
        format!("{open}program @f() -> () {{ return }}{close}")
    };
    round_trip(&Program::parse(&nested(text::MAX_NESTING)).unwrap());
    assert!(Program::parse(&nested(text::MAX_NESTING + 1)).is_err());
}

#[test]
fn a_hundred_thousand_ops_are_read_in_a_small_stack() {
    let parse = || {
        let mut b = Builder::new("chain");
        let mut x = b.param(f32s(&[]));
        for _ in 0..100_000 {
            x = b.unary(pullback_ir::ops::elementwise::unary::Unary::Sin, x).unwrap();
        }
        round_trip(&b.finish(&[x]));
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(parse).unwrap().join().unwrap();
}

/// Texts that hold everything the grammar has.
const RICH: [&str; 5] = [
    include_str!("../../snapshots/text/attributes.ir"),
    include_str!("../../snapshots/text/loops.ir"),
    include_str!("../../snapshots/text/stack_types.ir"),
    include_str!("../../snapshots/text/floats.ir"),
    include_str!("../../snapshots/text/names.ir"),
];

/// Reads a text that may be wrong: what it gives holds together, or the error has a place in the text.
fn read(text: &str) -> bool {
    match Program::parse(text) {
        Ok(program) => {
            program.verify().unwrap();
            assert_eq!(Program::parse(&program.to_string()).as_ref(), Ok(&program), "{text}");
            true
        }
        Err(error) => {
            let line = text.split('\n').nth(error.line - 1).unwrap_or_else(|| panic!("{error}\n{text}"));
            assert!(error.column <= line.chars().count() + 1, "{error}\n{text}");
            assert!(!error.message.is_empty() && error.to_string().contains('^'), "{error}\n{text}");
            false
        }
    }
}

#[test]
fn texts_that_end_anywhere_or_miss_a_piece_are_refused_with_a_place() {
    for text in RICH {
        assert!(read(text));
        let end = text.trim_end().len();
        let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
        for &at in places.iter().filter(|&&at| at < end) {
            assert!(!read(&text[..at]), "{}", &text[..at]);
        }
        for (&from, &to) in places.iter().zip(&places[1..]) {
            read(&[&text[..from], &text[to..]].concat());
        }
    }
}

#[test]
fn any_number_may_stand_in_place_of_another() {
    const NUMBERS: [&str; 10] = [
        "-1",
        "2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "0xffffffffffffffff",
        "99999999999999999999999999999999999999999",
        "1e999999999999",
        "0x1p-99999999999",
    ];
    for text in RICH {
        let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        for at in (0..text.len()).filter(|&at| is_digit(at) && !is_digit(at.wrapping_sub(1))) {
            let rest = text[at..].trim_start_matches(|c: char| c.is_ascii_digit());
            for number in NUMBERS {
                read(&[&text[..at], number, rest].concat());
            }
        }
    }
}

#[test]
fn nesting_of_anything_takes_little_stack() {
    let read_all = || {
        for open in
            ["(", "[", "{", "program @f(", "program @f() -> () { ", "%0 = ", "f32[", "-", "\\", "\"", "//"]
        {
            let many = open.repeat(100_000);
            for before in [
                "",
                "program @f",
                "program @f(%x: ",
                "program @f() -> () { %0 = constant {value = ",
                "program @f() -> () { %0 = constant {value = f32[1,1] ",
                "program @f() -> () { custom_call {results = ",
                "program @f(%0: i32[]) -> () { branch %0 {arms = [",
            ] {
                assert!(!read(&[before, &many].concat()), "{before}{open}");
            }
        }
        for open in ["call {program = ", "%1 = branch %0 {arms = [", "loop {trip = while, condition = "] {
            let nested = format!("program @f(%0: i32[]) -> () {{ {open}").repeat(100_000);
            assert!(Program::parse(&nested).unwrap_err().message.contains("nest deeper than 64"));
        }
        let levels = text::MAX_NESTING - 1;
        let open = "program @f() -> () { call {program = ".repeat(levels);
        let deep = format!("{open}program @f() -> () {{ return }}{}", "} : () return }".repeat(levels));
        assert!(read(&deep));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(read_all).unwrap().join().unwrap();
}
