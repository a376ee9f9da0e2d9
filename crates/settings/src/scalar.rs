//! The value of a plain (unquoted) scalar in the core schema of YAML 1.2, section 10.3.2.
//!
//! Pure. Unlike in YAML 1.1, `yes` and `on` are strings, and `0777` is the number 777.

use std::time::Duration;

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

/// Units with their seconds. `ms` comes first, because it ends as `s` does.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Reads a number with a unit, whole or with a fraction: `500ms`, `30s`, `1.5m`, `2h` or `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds_with_unit(text)?).ok()
}

pub(crate) fn seconds_with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) =
        UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain { Some(number.parse::<f64>().ok()? * unit) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let kind = |text: &str| match plain(text) {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("bool {value}"),
            Value::Integer { value, .. } => format!("int {value}"),
            Value::Float { value, .. } => format!("float {value}"),
            Value::Text(text) => format!("text {}", text.value()),
            other => format!("{other:?}"),
        };
        for (text, expected) in [
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
            assert_eq!(kind(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 1.5m ", 90_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        let long = format!("{}d", "9".repeat(400));
        for text in [
            "", "s", "30", "-1s", "+1s", ".5s", "5.s", "1.2.3s", "1e3s", "1 s", "1S", "1w", "infs", "nans",
            &long,
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
