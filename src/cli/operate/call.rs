//! `switchyard call`: runs a tool and shows its progress.
//!
//! Invariants: a tool runs at most once. The request is sent again only if the gateway refused it before it was routed,
//! because headers are missing that mirror parameters.
//!
//! Not here: how arguments are read (`arguments`), and the protocol (`mcp`).

use std::io::Read;

use super::super::remote::{Failed, Remote};
use super::arguments::Given;
use super::mcp::{Request, send};
use super::screen::{OutputFormat, Screen};
use super::{content, tools};
use json::Raw;
use protocol::{headers, method};

/// A call as it was typed.
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) words: &'a [String],
    pub(super) json: Option<&'a str>,
}

/// Runs the tool and shows its result.
pub(super) async fn run(
    remote: &Remote,
    call: &Call<'_>,
    input: &mut dyn Read,
    screen: &mut Screen<'_>,
) -> Result<(), Failed> {
    let given = Given::read(call.words, call.json, input)?;
    // The definition is needed only if a value may be a string or a number.
    let schema = if given.depends_on_schema() { tools::schema(remote, call.name).await? } else { None };
    let arguments = given.object(schema.as_ref());
    let ended = answered(remote, call.name, &arguments, screen).await;
    screen.end_progress()?;
    let result = ended?;
    show(&result, screen)
}

/// Sends the call, and once more with the headers that mirror its parameters if the tool has such.
async fn answered(
    remote: &Remote,
    name: &str,
    arguments: &Raw,
    screen: &mut Screen<'_>,
) -> Result<Raw, Failed> {
    let mut told = |message: &Raw| match progress_of(message) {
        Some(line) => Ok(screen.progress(&line)?),
        None => Ok(()),
    };
    let params = Raw::object(&[("name", &Raw::of(name)), ("arguments", arguments)]);
    let mut request = Request { method: method::TOOLS_CALL, params, mirrored: &[] };
    let answer = send(remote, &request, &mut told).await?;
    if !answer.wants_headers() {
        return answer.result();
    }
    let schema = tools::schema(remote, name).await?;
    let mirrored = headers::header_params(schema.as_ref()).map_err(Failed::Refused)?;
    let value = |param: &headers::HeaderParam| {
        Some((param.header_name(), param.value_in(Some(arguments.as_part()))?))
    };
    let mirrored: Vec<_> = mirrored.iter().filter_map(value).collect();
    request.mirrored = &mirrored;
    send(remote, &request, &mut told).await?.result()
}

/// Returns the line for a notification about progress.
fn progress_of(message: &Raw) -> Option<String> {
    let is_progress = message.get("method")?.as_part().says("notifications/progress");
    let params = message.get("params").filter(|_| is_progress)?;
    let number = |name| params.get(name).map(|number| number.as_str().to_owned());
    let done = number("progress").unwrap_or_default();
    let of = number("total").map(|total| format!("/{total}")).unwrap_or_default();
    let text = params.text("message").unwrap_or_default();
    Some(format!("{done}{of} {text}"))
}

fn show(result: &Raw, screen: &mut Screen<'_>) -> Result<(), Failed> {
    let state = result.text("resultType").unwrap_or_else(|| "complete".into());
    match screen.format {
        OutputFormat::Table if state == "complete" => show_text(result, screen)?,
        _ => screen.document(result)?,
    }
    if state != "complete" {
        return Err(Failed::Refused("the tool asks for input, which this command cannot give".into()));
    }
    if result.get("isError").is_some_and(|is_error| is_error.as_str() == "true") {
        return Err(Failed::Refused("the tool reported an error".into()));
    }
    Ok(())
}

/// Writes the text of the content, or the structured content if there is no other.
fn show_text(result: &Raw, screen: &mut Screen<'_>) -> Result<(), Failed> {
    let content = result.get("content").filter(|content| content.elements().next().is_some());
    match (content, result.get("structuredContent")) {
        (Some(content), _) => screen.lines(&content::text_of_all(&content))?,
        (None, Some(structured)) => screen.document(&structured)?,
        (None, None) => {}
    }
    Ok(())
}
