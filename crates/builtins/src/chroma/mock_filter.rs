//! Comparison of vectors, and of metadata with a `where`, in the fake Chroma for tests.

use serde_json::{Map, Value};

/// Returns the cosine distance.
pub(super) fn distance(one: &[f64], other: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    1.0 - dot(one, other) / (dot(one, one) * dot(other, other)).sqrt().max(1e-9)
}

/// Whether `metadata` fit `filter`. Fails if Chroma would call the filter invalid.
pub(super) fn fits(filter: &Value, metadata: &Map<String, Value>) -> Result<bool, String> {
    let invalid = || format!("Invalid where clause: {filter}");
    let (key, value) = filter
        .as_object()
        .filter(|one| one.len() == 1)
        .and_then(|one| one.iter().next())
        .ok_or_else(invalid)?;
    if let "$and" | "$or" = key.as_str() {
        let parts = value.as_array().filter(|parts| parts.len() > 1).ok_or_else(invalid)?;
        let fit = parts.iter().map(|part| fits(part, metadata)).collect::<Result<Vec<_>, _>>()?;
        return Ok(if key == "$and" { fit.iter().all(|fit| *fit) } else { fit.contains(&true) });
    }
    let (operator, operand) = value
        .as_object()
        .filter(|one| one.len() == 1)
        .and_then(|one| one.iter().next())
        .ok_or_else(invalid)?;
    let own = metadata.get(key);
    let compared = own.and_then(Value::as_f64).zip(operand.as_f64());
    let listed = || operand.as_array().ok_or_else(invalid);
    let holds = || own.and_then(Value::as_array).is_some_and(|own| own.contains(operand));
    Ok(match operator.as_str() {
        "$eq" => own == Some(operand),
        "$ne" => own != Some(operand),
        "$gt" => compared.is_some_and(|(a, b)| a > b),
        "$gte" => compared.is_some_and(|(a, b)| a >= b),
        "$lt" => compared.is_some_and(|(a, b)| a < b),
        "$lte" => compared.is_some_and(|(a, b)| a <= b),
        "$in" => own.is_some_and(|own| listed().is_ok_and(|all| all.contains(own))),
        "$nin" => !listed()?.iter().any(|one| Some(one) == own),
        "$contains" => holds(),
        "$not_contains" => !holds(),
        _ => return Err(invalid()),
    })
}
