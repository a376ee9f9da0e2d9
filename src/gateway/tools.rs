//! `tools/list` and `tools/call`.

use std::time::Duration;

use super::caller::Caller;
use super::{Gateway, asking, era, error};
use crate::auth::Action;
use crate::manager::catalog::Page;
use crate::manager::{Error, Invocation, Manager};
use crate::protocol::error::code;
use crate::protocol::feature::Kind;
use crate::protocol::headers::HeaderParam;
use crate::protocol::{ErrorObject, Raw, Reply, meta};
use crate::upstream::Outlet;

/// How long a list waits for servers that are still connecting for the first time.
const LIST_PATIENCE: Duration = Duration::from_millis(300);

/// One page of the tools the caller sees.
pub async fn list(manager: &Manager, caller: &Caller, params: Option<&Raw>) -> Reply {
    manager.settled_at_start(&caller.scope, LIST_PATIENCE).await;
    let snapshot = manager.snapshot();
    let catalog = snapshot.catalog(&caller.scope).map_err(|error| error::object(&error))?;
    let cursor = params.and_then(|params| params.get("cursor")).filter(|cursor| !cursor.is_null());
    let after = cursor.as_ref().map(read_cursor).transpose()?;
    let page = match catalog.listing(Kind::Tools).page(after.as_deref()) {
        Some(page) => page,
        // Nothing was offered yet: an empty list, not an unknown page.
        None if after.is_none() => Page { items: Raw::of(&[(); 0]), next: None },
        None => return Err(bad_cursor()),
    };
    Ok(era::list(caller, &result(&page), snapshot.is_settled(&caller.scope)))
}

/// `{"tools":[…],"nextCursor":…}` around a page that is already printed.
fn result(page: &Page) -> Raw {
    let next = page.next.as_deref().map(write_cursor);
    Raw::empty_object().edit(&[("tools", Some(&page.items)), ("nextCursor", next.as_ref())])
}

/// A cursor names the tool behind which to go on, so it survives changes elsewhere in the list.
fn write_cursor(after: &str) -> Raw {
    Raw::of(&format!("after:{after}"))
}

fn read_cursor(cursor: &Raw) -> Result<String, ErrorObject> {
    let text: String = cursor.read().map_err(|_| bad_cursor())?;
    text.strip_prefix("after:").map(str::to_owned).ok_or_else(bad_cursor)
}

fn bad_cursor() -> ErrorObject {
    ErrorObject::new(
        code::INVALID_PARAMS,
        "the cursor is not one of this list; list again from the beginning",
    )
}

/// Runs a tool where it lives.
pub(super) async fn call(gateway: &Gateway, caller: &Caller, params: Option<&Raw>, outlet: &Outlet) -> Reply {
    if !caller.principal.may(Action::Call) {
        return Err(error::forbidden("call tools"));
    }
    let (name, params) = checked(params)?;
    let invocation = Invocation {
        wants_progress: meta::progress_token(Some(&params)).is_some(),
        ..Invocation::begin(caller.sender(), caller.version.era(), caller.owner)
    };
    let target = gateway.manager.tool_target(&caller.scope, &name, &params, None).await;
    let target = target.map_err(|error| error::object(&error))?;
    asking::answer(gateway, caller, (target, invocation), outlet).await
}

fn checked(params: Option<&Raw>) -> Result<(String, Raw), ErrorObject> {
    let invalid = |text: &str| ErrorObject::new(code::INVALID_PARAMS, text);
    let params = params.ok_or_else(|| invalid("params is missing; name says which tool to call"))?;
    let name =
        params.get("name").ok_or_else(|| invalid("params.name is missing; it says which tool to call"))?;
    let name: String = name.read().map_err(|_| invalid("params.name must be a string"))?;
    match params.get("arguments") {
        Some(arguments) if !arguments.is_object() => Err(invalid("params.arguments must be an object")),
        _ => Ok((name, params.clone())),
    }
}

/// A parameter that a modern client mirrors into a header.
#[derive(Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The header, in lower case.
    pub header: String,
    /// What the body says; none when it says nothing.
    pub value: Option<String>,
    /// Whether the body says it twice, so that nobody knows which one counts.
    pub is_ambiguous: bool,
}

/// The parameters that a modern client mirrors into headers for this call. An unknown tool is an
/// error, and its call will say so too.
pub async fn mirrored(manager: &Manager, caller: &Caller, params: &Raw) -> Result<Vec<Mirrored>, Error> {
    let name: String = params.get_as("name").unwrap_or_default();
    let route = manager.route(&caller.scope, &name).await?;
    let arguments = params.get("arguments");
    let mirrored = |param: &HeaderParam| Mirrored {
        header: param.header_name(),
        value: param.value_in(arguments.as_ref()),
        is_ambiguous: param.is_ambiguous_in(arguments.as_ref()),
    };
    Ok(route.header_params.iter().map(mirrored).collect())
}
