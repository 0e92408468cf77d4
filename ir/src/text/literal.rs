//! Numbers and constants as text, exact to the bit.

use super::error::ParseError;
use super::parse::Parser;
use crate::dtype::DType;
use crate::literal::{Literal, Scalar};
use crate::shape::TensorType;
use std::fmt;

/// Bits of the NaN that is written `nan`.
fn canonical_nan(dtype: DType) -> u64 {
    if dtype == DType::F32 { 0x7fc0_0000 } else { 0x7ff8_0000_0000_0000 }
}

/// Writes one element, so that [`parse_element`] gives the same bits.
pub(crate) fn write_element(out: &mut impl fmt::Write, dtype: DType, bits: u64) -> fmt::Result {
    match dtype {
        DType::Bool => write!(out, "{}", bool::from_bits64(bits)),
        DType::I32 => write!(out, "{}", i32::from_bits64(bits)),
        DType::I64 => write!(out, "{}", i64::from_bits64(bits)),
        DType::U32 => write!(out, "{}", u32::from_bits64(bits)),
        DType::U64 => write!(out, "{bits}"),
        DType::F32 | DType::F64 if bits == canonical_nan(dtype) => out.write_str("nan"),
        DType::F32 if f32::from_bits64(bits).is_nan() => write!(out, "nan({bits:#x})"),
        DType::F64 if f64::from_bits64(bits).is_nan() => write!(out, "nan({bits:#x})"),
        // Rust's debug form is the shortest decimal that reads back, with a point or an exponent.
        DType::F32 => write!(out, "{:?}", f32::from_bits64(bits)),
        DType::F64 => write!(out, "{:?}", f64::from_bits64(bits)),
    }
}

/// The bits of an element written as one token; the message says what is wrong.
pub(crate) fn parse_element(dtype: DType, text: &str) -> Result<u64, String> {
    match dtype {
        DType::Bool => match text {
            "true" => Ok(1),
            "false" => Ok(0),
            _ => Err("expected true or false".into()),
        },
        DType::I32 | DType::I64 | DType::U32 | DType::U64 => parse_integer(dtype, text),
        DType::F32 | DType::F64 => parse_float(dtype, text),
    }
}

/// The bits of the NaN written `nan(0x...)`, given the text between the brackets.
pub(crate) fn parse_nan(dtype: DType, text: &str) -> Result<u64, String> {
    let bits = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let is_nan = |bits| match dtype {
        DType::F32 => bits <= u32::MAX as u64 && f32::from_bits64(bits).is_nan(),
        DType::F64 => f64::from_bits64(bits).is_nan(),
        _ => false,
    };
    bits.filter(|&bits| is_nan(bits)).ok_or_else(|| format!("expected the bits of a {dtype} NaN in hex"))
}

/// An integer in decimal or hex, sign first.
pub(crate) fn parse_i128(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    // A second sign would be taken by the number parsers below.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?,
        None => digits.parse::<u64>().ok()?,
    };
    Some(if negative { -(magnitude as i128) } else { magnitude as i128 })
}

fn parse_integer(dtype: DType, text: &str) -> Result<u64, String> {
    let value = parse_i128(text).ok_or_else(|| format!("expected an integer of type {dtype}"))?;
    let bits = match dtype {
        DType::I32 => i32::try_from(value).map(Scalar::to_bits64).ok(),
        DType::I64 => i64::try_from(value).map(Scalar::to_bits64).ok(),
        DType::U32 => u32::try_from(value).map(Scalar::to_bits64).ok(),
        _ => u64::try_from(value).ok(),
    };
    bits.ok_or_else(|| format!("{text} does not fit in {dtype}"))
}

fn parse_float(dtype: DType, text: &str) -> Result<u64, String> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (1u64, magnitude),
        None => (0, text),
    };
    let sign = sign << (8 * dtype.size() - 1);
    match magnitude {
        "inf" => return Ok(sign | if dtype == DType::F32 { 0x7f80_0000 } else { 0x7ff0_0000_0000_0000 }),
        "nan" if sign == 0 => return Ok(canonical_nan(dtype)),
        _ => {}
    }
    let expected = || format!("expected a number of type {dtype}, inf or nan");
    let is_number = magnitude.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let bits = match magnitude.strip_prefix("0x") {
        Some(hex) => parse_hex_float(dtype, hex),
        None if !is_number => None,
        None if dtype == DType::F32 => magnitude.parse::<f32>().ok().map(Scalar::to_bits64),
        None => magnitude.parse::<f64>().ok().map(Scalar::to_bits64),
    };
    let bits = bits.ok_or_else(expected)?;
    let is_finite = if dtype == DType::F32 {
        f32::from_bits64(bits).is_finite()
    } else {
        f64::from_bits64(bits).is_finite()
    };
    if is_finite {
        Ok(sign | bits)
    } else {
        Err(format!("{text} is too large for {dtype}; write inf if that is meant"))
    }
}

/// The bits of `DIGITS[.DIGITS][p[SIGN]EXPONENT]`, of at most 16 significant digits, rounded to nearest even.
fn parse_hex_float(dtype: DType, text: &str) -> Option<u64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok().filter(|e| e.abs() < 100_000)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all: String = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    if all.is_empty() || significant.len() > 16 || !all.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mantissa = if significant.is_empty() { 0 } else { u64::from_str_radix(significant, 16).ok()? };
    let exponent = exponent - 4 * i32::try_from(fraction.len()).ok()?;
    let (precision, bias) = if dtype == DType::F32 { (24, 127) } else { (53, 1023) };
    Some(round_binary(mantissa, exponent, precision, bias))
}

/// The bits of `mantissa * 2^exponent` in the binary format with this precision and bias.
fn round_binary(mantissa: u64, exponent: i32, precision: i32, bias: i32) -> u64 {
    if mantissa == 0 {
        return 0;
    }
    let top = 63 - mantissa.leading_zeros() as i32 + exponent;
    // Weight of the last place: fixed by the precision, but no finer than that of subnormal numbers.
    let last = (top - precision + 1).max(2 - bias - precision);
    let shift = last - exponent;
    let units = if shift <= 0 {
        (mantissa as u128) << (-shift).min(64)
    } else if shift > 64 {
        0
    } else {
        let wide = mantissa as u128;
        let (kept, rest, half) = (wide >> shift, wide & ((1u128 << shift) - 1), 1u128 << (shift - 1));
        kept + (rest > half || (rest == half && kept & 1 == 1)) as u128
    };
    // Units below 2^(precision - 1) are subnormal; a carry out of the units moves into the exponent by itself.
    let stored_exponent = (last + precision - 2 + bias).max(0) as u64;
    if stored_exponent >= 2 * bias as u64 {
        return ((2 * bias + 1) as u64) << (precision - 1);
    }
    (stored_exponent << (precision - 1)) + units as u64
}

impl fmt::Display for Literal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ty, dtype) = (self.ty(), self.ty().dtype);
        write!(formatter, "{ty} ")?;
        if let Some(bits) = self.splat_value() {
            if ty.shape.rank() > 0 {
                formatter.write_str("splat ")?;
            }
            return write_element(formatter, dtype, bits);
        }
        formatter.write_str("[")?;
        for (i, bits) in self.bits().enumerate() {
            if i > 0 {
                formatter.write_str(", ")?;
            }
            write_element(formatter, dtype, bits)?;
        }
        formatter.write_str("]")
    }
}

/// The constant of this type with these elements: one number for a scalar, `splat` and a number, or a list of
/// all elements, flat or nested as the shape is.
pub fn parse_literal(ty: &TensorType, text: &str) -> Result<Literal, ParseError> {
    let mut parser = Parser::new(text)?;
    let literal = parser.elements(ty.clone())?;
    parser.end()?;
    Ok(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dtype: DType, bits: u64) -> String {
        let mut text = String::new();
        write_element(&mut text, dtype, bits).unwrap();
        text
    }

    #[test]
    fn floats_round_trip_to_the_bit() {
        let mut state = 1u64;
        for i in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bits = state ^ (state >> 29);
            let bits = if i % 3 == 0 { bits & 0x800f_ffff_ffff_ffff } else { bits };
            for (dtype, bits) in [(DType::F64, bits), (DType::F32, bits >> 32)] {
                let text = written(dtype, bits);
                let back = match text.strip_prefix("nan(") {
                    Some(rest) => parse_nan(dtype, rest.trim_end_matches(')')),
                    None => parse_element(dtype, &text),
                };
                assert_eq!(back, Ok(bits), "{text}");
            }
        }
    }

    #[test]
    fn hex_floats_are_rounded_like_decimal_ones() {
        for (hex, value) in [
            ("0x1p0", 1.0),
            ("-0x1.8p-3", -0.1875),
            ("0x.1p4", 1.0),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x0p-99999", 0.0),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.0000000000000p-1022", f64::MIN_POSITIVE),
            ("0x1.fffffffffffff8p-1", 1.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000081p0", 1.0 + f64::EPSILON),
            ("0xfffffffffffffffep-64", 1.0),
        ] {
            assert_eq!(parse_element(DType::F64, hex), Ok(value.to_bits()), "{hex}");
        }
        assert_eq!(parse_element(DType::F32, "0x1.000001p0"), Ok(1f32.to_bits64()));
        assert_eq!(parse_element(DType::F32, "0x1p-149"), Ok(1));
        assert!(parse_element(DType::F64, "0x1p1024").unwrap_err().contains("too large"));
        assert!(parse_element(DType::F64, "0x1.fffffffffffff8p1023").unwrap_err().contains("too large"));
        assert!(parse_element(DType::F64, "0x").is_err());
    }

    #[test]
    fn numbers_outside_the_type_are_refused() {
        assert!(parse_element(DType::I32, "2147483648").unwrap_err().contains("does not fit in i32"));
        assert_eq!(parse_element(DType::I32, "-2147483648"), Ok(0x8000_0000));
        assert!(parse_element(DType::U64, "-1").is_err());
        assert_eq!(parse_element(DType::U64, "0xffffffffffffffff"), Ok(u64::MAX));
        assert!(parse_element(DType::F32, "1e39").unwrap_err().contains("too large"));
        for nonsense in ["", "-", "+", "--1", "1e", "infinity", "-nan", "NaN", "1.5.2", "0x", "1_000"] {
            assert!(parse_element(DType::F64, nonsense).is_err(), "{nonsense}");
            assert!(parse_element(DType::I64, nonsense).is_err(), "{nonsense}");
        }
        assert!(parse_nan(DType::F32, "0x7f800000").is_err());
    }

    #[test]
    fn literals_are_read_flat_nested_and_repeated() {
        let ty = TensorType::new(DType::F32, [2, 2]);
        let dense = Literal::dense(&[1f32, 2.0, 3.0, -0.0], [2, 2]).unwrap();
        assert_eq!(parse_literal(&ty, "[1, 2, 3, -0.0]").unwrap(), dense);
        assert_eq!(parse_literal(&ty, "[[1, 2], [3, -0.0]]").unwrap(), dense);
        assert_eq!(parse_literal(&ty, "splat 1").unwrap(), Literal::splat(1f32, [2, 2]));
        for wrong in ["[1, 2, 3]", "[[1, 2, 3, 4]]", "[[1], [2, 3, 4]]", "[[[1]]]", "1.0", "[1, 2, 3, 4", ""]
        {
            assert!(parse_literal(&ty, wrong).is_err(), "{wrong}");
        }
        let empty = TensorType::new(DType::I64, [2, 0]);
        assert_eq!(parse_literal(&empty, "[[], []]").unwrap(), parse_literal(&empty, "[]").unwrap());
    }
}
