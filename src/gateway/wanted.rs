//! The members of a request's parameters that say what it is about.

use std::borrow::Cow;

use super::error;
use crate::protocol::{ErrorObject, Raw};

/// `params` and the text in its `member`, which says `what`.
pub(super) fn text<'a>(
    params: Option<&'a Raw>,
    member: &str,
    what: &str,
) -> Result<(Cow<'a, str>, &'a Raw), ErrorObject> {
    let params =
        params.ok_or_else(|| error::bad_input(&format!("params is missing; {member} says {what}")))?;
    let text = params
        .part(member)
        .ok_or_else(|| error::bad_input(&format!("params.{member} is missing; it says {what}")))?;
    let text = text.text().ok_or_else(|| error::bad_input(&format!("params.{member} must be a string")))?;
    Ok((text, params))
}

/// Refuses arguments that are no object.
pub(super) fn arguments(params: &Raw) -> Result<(), ErrorObject> {
    match params.part("arguments") {
        Some(arguments) if !arguments.is_object() => {
            Err(error::bad_input("params.arguments must be an object"))
        }
        _ => Ok(()),
    }
}
