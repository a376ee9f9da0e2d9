//! The value of a plain (unquoted) scalar in the core schema of YAML 1.2, section 10.3.2.
//!
//! Pure. Unlike in YAML 1.1, `yes` and `on` are strings, and `0777` is the number 777.

use crate::{Text, Value};

/// The value of a plain scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).unwrap_or_else(|| Value::Text(Text::literal(text))),
    }
}

fn number(text: &str) -> Option<Value> {
    let written = || text.to_owned();
    if let Some(value) = integer(text) {
        return Some(Value::Integer { written: written(), value });
    }
    let value = if is_float(text) { text.parse().ok()? } else { special(text)? };
    Some(Value::Float { written: written(), value })
}

/// A whole number that fits. A larger one is parsed as a float.
fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0o") {
        return digits_of(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return digits_of(digits, 16);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let decimal = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then(|| text.parse().ok()).flatten()
}

fn digits_of(digits: &str, radix: u32) -> Option<i64> {
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| i64::from_str_radix(digits, radix).ok()).flatten()
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.map(|text| text.strip_prefix(['-', '+']).unwrap_or(text));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|text| !text.is_empty() && digits(text))
}

fn special(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema() {
        let kind = |text: &str| match plain(text) {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("bool {value}"),
            Value::Integer { value, .. } => format!("int {value}"),
            Value::Float { value, .. } => format!("float {value}"),
            Value::Text(text) => format!("text {}", text.value()),
            other => format!("{other:?}"),
        };
        for (text, wanted) in [
            ("", "null"),
            ("~", "null"),
            ("NULL", "null"),
            ("nUll", "text nUll"),
            ("true", "bool true"),
            ("yes", "text yes"),
            ("off", "text off"),
            ("0", "int 0"),
            ("-19", "int -19"),
            ("+12", "int 12"),
            ("0777", "int 777"),
            ("0o17", "int 15"),
            ("0x3C", "int 60"),
            ("0x", "text 0x"),
            ("0x-1", "text 0x-1"),
            ("0o8", "text 0o8"),
            ("30.0", "float 30"),
            (".5", "float 0.5"),
            ("5.", "float 5"),
            ("1e3", "float 1000"),
            ("1e", "text 1e"),
            (".", "text ."),
            ("-", "text -"),
            ("1_000", "text 1_000"),
            ("1:30", "text 1:30"),
            ("inf", "text inf"),
            ("nan", "text nan"),
            ("infinity", "text infinity"),
            ("-.INF", "float -inf"),
            (".nan", "float NaN"),
            ("18446744073709551616", "float 18446744073709552000"),
            ("1.2.3", "text 1.2.3"),
            ("http", "text http"),
        ] {
            assert_eq!(kind(text), wanted, "{text:?}");
        }
    }
}
