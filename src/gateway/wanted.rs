//! The members of a request's parameters that say what it is about.

use super::error;
use crate::protocol::{ErrorObject, Raw};

/// `params` and the text in its `member`, which says `what`.
pub(super) fn text<'a>(
    params: Option<&'a Raw>,
    member: &str,
    what: &str,
) -> Result<(String, &'a Raw), ErrorObject> {
    let params =
        params.ok_or_else(|| error::bad_input(&format!("params is missing; {member} says {what}")))?;
    let text = params
        .get(member)
        .ok_or_else(|| error::bad_input(&format!("params.{member} is missing; it says {what}")))?;
    let text = text.read().map_err(|_| error::bad_input(&format!("params.{member} must be a string")))?;
    Ok((text, params))
}

/// Refuses arguments that are no object.
pub(super) fn arguments(params: &Raw) -> Result<(), ErrorObject> {
    match params.get("arguments") {
        Some(arguments) if !arguments.is_object() => {
            Err(error::bad_input("params.arguments must be an object"))
        }
        _ => Ok(()),
    }
}
