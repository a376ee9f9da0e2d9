//! `switchyard call`: runs a tool and shows its progress.
//!
//! Invariants: a tool runs at most once. The request is sent again in two cases only. The gateway refused it before it was
//! routed, because headers are missing that mirror parameters; or the user answered what the tool asked.
//!
//! Not here: how arguments are read (`arguments`), how questions are asked (`questions`), and the protocol (`mcp`).

use std::io::BufRead;

use super::super::error::CommandError;
use super::super::remote::Remote;
use super::arguments::TypedArguments;
use super::mcp::{Answer, Request, send};
use super::questions::Person;
use super::screen::{OutputFormat, Screen};
use super::{members, tools};
use json::Raw;
use protocol::{headers, method};

/// How often one call asks its user.
const MAX_ROUNDS: usize = 16;

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
    input: &mut dyn BufRead,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let given = TypedArguments::read(call.words, call.json, &mut *input)?;
    // The definition is needed only if a value may be a string or a number.
    let schema = if given.depends_on_schema() { tools::schema(remote, call.name).await? } else { None };
    let arguments = given.object(schema.as_ref());
    let params = Raw::object(&[("name", &Raw::of(call.name)), ("arguments", &arguments)]);
    let mut request = Request { method: method::TOOLS_CALL, params, mirrored: &[], can_ask: screen.can_ask };
    let mirrored;
    let mut answer = sent(remote, &request, screen).await?;
    if answer.wants_headers() {
        let schema = tools::schema(remote, call.name).await?;
        let params = headers::header_params(schema.as_ref()).map_err(CommandError::Refused)?;
        let value = |param: &headers::HeaderParam| {
            Some((param.header_name(), param.value_in(Some(arguments.as_part()))?))
        };
        mirrored = params.iter().filter_map(value).collect::<Vec<_>>();
        request.mirrored = &mirrored;
        answer = sent(remote, &request, screen).await?;
    }
    let bare = request.params.clone();
    for _ in 0..MAX_ROUNDS {
        let result = answer.result()?;
        if !(screen.can_ask && result.text("resultType").is_some_and(|state| state == "input_required")) {
            return show(&result, screen);
        }
        let responses = Person { input: &mut *input, out: &mut *screen.err }.answer(&result)?;
        let state = result.get("requestState").filter(|state| !state.is_null());
        request.params = bare.with("inputResponses", &responses);
        if let Some(state) = state {
            request.params = request.params.with("requestState", &state);
        }
        answer = sent(remote, &request, screen).await?;
    }
    Err(CommandError::Refused(format!("the tool asked more than {MAX_ROUNDS} times")))
}

/// Sends the request, and shows its progress meanwhile.
async fn sent(
    remote: &Remote,
    request: &Request<'_>,
    screen: &mut Screen<'_>,
) -> Result<Answer, CommandError> {
    let mut notify = |message: &Raw| match progress_of(message) {
        Some(line) => Ok(screen.progress(&line)?),
        None => Ok(()),
    };
    let answer = send(remote, request, &mut notify).await;
    screen.end_progress()?;
    answer
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

fn show(result: &Raw, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let state = result.text("resultType").unwrap_or_else(|| "complete".into());
    match screen.format {
        OutputFormat::Table if state == "complete" => show_text(result, screen)?,
        _ => screen.document(result)?,
    }
    if state != "complete" {
        return Err(CommandError::Refused(
            "the tool asks for input, which this command can give on a terminal only".into(),
        ));
    }
    if result.get("isError").is_some_and(|is_error| is_error.as_str() == "true") {
        return Err(CommandError::Refused("the tool reported an error".into()));
    }
    Ok(())
}

/// Writes the text of the content, or the structured content if there is no other.
fn show_text(result: &Raw, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let content = result.get("content").filter(|content| content.elements().next().is_some());
    match (content, result.get("structuredContent")) {
        (Some(content), _) => screen.lines(&members::text_of_all(&content))?,
        (None, Some(structured)) => screen.document(&structured)?,
        (None, None) => {}
    }
    Ok(())
}
