//! Updates written where their operand lies: the same bits as on copies, whoever else reads the operand and when.

use pullback::ir::Program;
use pullback::runtime::{Array, interpret};
use pullback_autodiff::{grad, jvp, vjp};
use pullback_lower::{Options, lower};

/// Bodies of a loop over two carries `f64[4]`, its counter, and a const that is the first carry as it begins.
const BODIES: [(&str, &str); 10] = [
    (
        "the place is read before",
        "%r = dynamic_slice %a, %i {sizes = [1]} : f64[1]\n%n = dynamic_update_slice %a, %r, %j : f64[4]\nreturn %j, %n, %b, %a",
    ),
    (
        "the old value is read after",
        "%n = dynamic_update_slice %a, %u, %i : f64[4]\n%m = mul %a, %b : f64[4]\nreturn %j, %n, %m, %b",
    ),
    (
        "the old value is handed on in the other place",
        "%n = dynamic_update_slice %a, %u, %i : f64[4]\nreturn %j, %n, %a, %b",
    ),
    ("places are exchanged", "%n = dynamic_update_slice %a, %u, %i : f64[4]\nreturn %j, %b, %n, %a"),
    ("the old value is kept", "%n = dynamic_update_slice %a, %u, %i : f64[4]\nreturn %j, %n, %b, %a"),
    ("the new value is kept", "%n = dynamic_update_slice %a, %u, %i : f64[4]\nreturn %j, %n, %b, %n"),
    (
        "two updates of one value",
        "%n = dynamic_update_slice %a, %u, %i : f64[4]\n%m = dynamic_update_slice %a, %u, %j : f64[4]\nreturn %j, %n, %m, %b",
    ),
    (
        "updates of an update",
        "%n = dynamic_update_slice %a, %u, %i : f64[4]\n%m = dynamic_update_slice %n, %u, %j : f64[4]\n%o = mul %n, %b : f64[4]\nreturn %j, %m, %o, %n",
    ),
    (
        "the update is the operand",
        "%n = dynamic_update_slice %a, %a, %i {mode = drop} : f64[4]\n%m = mul %n, %c : f64[4]\nreturn %j, %n, %m, %n",
    ),
    (
        "all that is read is the const",
        "%n = dynamic_update_slice %c, %u, %i : f64[4]\n%m = add %n, %a : f64[4]\nreturn %j, %n, %m, %c",
    ),
];

/// The loop with this body, alone or inside another loop, and the values it began with used once more after it.
fn program(body: &str, is_nested: bool) -> Program {
    let body = format!(
        "program @body(%c: f64[4], %i: i64[], %a: f64[4], %b: f64[4]) -> (i64[], f64[4], f64[4], f64[4]) {{
            %one = constant {{value = i64[] 1}} : i64[]
            %j = add %i, %one : i64[]
            %h = constant {{value = f64[1] splat 0.75}} : f64[1]
            %v = dynamic_slice %b, %i {{sizes = [1]}} : f64[1]
            %u = mul %v, %h : f64[1]
            {body}
        }}"
    );
    let loop_of = |start: &str, x: &str, y: &str| {
        format!(
            "%k, %p, %q, %ys = loop {x}, {start}, {x}, {y} {{trip = 3, consts = 1, carries = 3, body = {body}}} : \
             i64[], f64[4], f64[4], f64[3,4]"
        )
    };
    let once = loop_of("%zero", "%x", "%y");
    let text = if is_nested {
        format!(
            "program @f(%x: f64[4], %y: f64[4]) -> (f64[4], f64[4], f64[4]) {{
                %p, %q = loop %x, %y {{trip = 2, carries = 2, body = program @outer(%x: f64[4], %y: f64[4]) -> (f64[4], f64[4]) {{
                    %zero = constant {{value = i64[] 0}} : i64[]
                    {once}
                    %s = reduce %ys {{op = sum, dims = [0]}} : f64[4]
                    %t = add %q, %s : f64[4]
                    return %p, %t
                }}}} : f64[4], f64[4]
                %r = mul %x, %y : f64[4]
                return %p, %q, %r
            }}"
        )
    } else {
        format!(
            "program @f(%x: f64[4], %y: f64[4]) -> (f64[4], f64[4], f64[4], f64[3,4]) {{
                %zero = constant {{value = i64[] 0}} : i64[]
                {once}
                %r = mul %x, %y : f64[4]
                return %p, %q, %r, %ys
            }}"
        )
    };
    Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn check(what: &str, program: &Program, arguments: &[Array]) {
    let kept: Vec<Array> = arguments.iter().map(|a| a.view().to_array()).collect();
    let due = interpret(program, arguments).unwrap();
    for small in [64, 0] {
        let executable = lower(program, &Options { small }).unwrap().compile().unwrap();
        for _ in 0..2 {
            for (found, due) in executable.call(arguments).unwrap().iter().zip(&due) {
                if let Some(difference) = found.first_difference(due) {
                    panic!("{what}: {difference}\n{program}");
                }
            }
        }
    }
    assert!(
        arguments.iter().zip(&kept).all(|(now, before)| now.bits_equal(before)),
        "{what}: arguments stay"
    );
}

#[test]
fn carries_are_updated_in_place_where_nobody_sees_it() {
    let vector = |scale: f64| Array::vector(&[0.5, -1.0, 2.0, 0.25].map(|x| scale * x));
    let arguments = [vector(1.0), vector(-1.5)];
    for (what, body) in BODIES {
        for is_nested in [false, true] {
            let f = program(body, is_nested);
            check(what, &f, &arguments);
            let seeds: Vec<Array> =
                f.output_types().into_iter().map(|ty| Array::full(0.5, ty.shape).unwrap()).collect();
            check(what, &vjp(&f, &[0, 1]).unwrap(), &[&arguments[..], &seeds].concat());
            check(what, &jvp(&f, &[0, 1]).unwrap(), &[arguments.clone(), arguments.clone()].concat());
        }
    }
}

/// What a caller passes in is never written to, and what it has got not written to again.
#[test]
fn arguments_and_results_of_calls_stay() {
    let text = "program @f(%x: f64[3], %i: i64[], %j: i64[1,1]) -> (f64[3], f64[3], f64[3]) {
        %u = constant {value = f64[1] splat 7.0} : f64[1]
        %a = dynamic_update_slice %x, %u, %i : f64[3]
        %b = scatter %a, %j, %u {op = add, index_dims = [0]} : f64[3]
        return %a, %b, %x
    }";
    let f = Program::parse(text).unwrap();
    let arguments = [Array::from([1.0, 2.0, 3.0]), Array::from(1i64), Array::from([[2i64]])];
    check("a chain", &f, &arguments);
    let f = Program::parse(&text.replace("return %a, %b, %x", "%c = add %a, %b : f64[3]\nreturn %b, %c, %x"));
    check("a value read after its update", &f.unwrap(), &arguments);
}

/// Contributions to the cotangent of a table that is read in a loop go to the elements read.
#[test]
fn gradients_of_tables_touch_what_was_read() {
    let text = "program @f(%t: f64[1000]) -> (f64[]) {
        %zero = constant {value = i64[] 0} : i64[]
        %s = constant {value = f64[] 0.0} : f64[]
        %i, %r = loop %t, %zero, %s {trip = 5, consts = 1, carries = 2, body = program @body(%t: f64[1000], %i: i64[], %s: f64[]) -> (i64[], f64[]) {
            %one = constant {value = i64[] 1} : i64[]
            %j = add %i, %one : i64[]
            %a = dynamic_slice %t, %i {sizes = [1]} : f64[1]
            %p = reshape %a {shape = []} : f64[]
            %at = reshape %j {shape = [1]} : i64[1]
            %q = gather %t, %at {index_dims = [0]} : f64[]
            %m = mul %p, %q : f64[]
            %n = add %s, %m : f64[]
            return %j, %n
        }} : i64[], f64[]
        return %r
    }";
    let slope = grad(&Program::parse(text).unwrap(), &[0]).unwrap();
    let table = Array::vector(&(0..1000).map(|i| (i as f64).sqrt()).collect::<Vec<_>>());
    check("a table", &slope, std::slice::from_ref(&table));
    let kernels = lower(&slope, &Options::default()).unwrap().kernels();
    let body = kernels.rsplit("\nn").next().unwrap();
    assert!(!body.contains("for [1000]"), "an iteration touches the whole table:\n{body}");
}
