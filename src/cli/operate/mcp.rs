//! Requests to the MCP endpoint of the gateway, as a client of the newest revision.
//!
//! Invariants: each request describes itself, so there is no session to end. No server asks the client for anything
//! unless the request says that a person can answer.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`.
//!
//! Not here: what a method means, and REST (`remote`).

use std::sync::Arc;

use http::{HeaderName, Method, StatusCode};
use secrecy::SecretString;
use serde::Serialize;

use super::super::error::CommandError;
use super::super::remote::{LIMITS, Remote, not_a_gateway, not_of_a_gateway, of_text};
use super::members::text;
use json::Raw;
use net::http::{Decoded, EventStream, Response, is_media_type, whole};
use net::sse::Item;
use protocol::meta::{self, Sender};
use protocol::{ErrorCode, Version, headers};
use runtime::memory::Payer;

/// The path of the endpoint.
const PATH: &str = "mcp";
/// Pages of one list. A gateway that gives more would never end.
const MAX_PAGES: usize = 10_000;

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    /// Its parameters, without `_meta`.
    pub(super) params: Raw,
    /// Headers that mirror parameters of a tool.
    pub(super) mirrored: &'a [(String, String)],
    /// Whether a person can answer questions: forms, and pages to open.
    pub(super) can_ask: bool,
}

#[derive(Serialize)]
struct Envelope<'a> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: &'a Raw,
}

/// The JSON-RPC response, with its HTTP status.
pub(super) struct Answer {
    status: StatusCode,
    message: Raw,
}

impl Answer {
    /// Whether the gateway refused the request because a header is missing that mirrors a parameter.
    pub(super) fn wants_headers(&self) -> bool {
        let code = self
            .message
            .get("error")
            .and_then(|error| error.get("data"))
            .and_then(|data| data.get_as::<String>("code"));
        code.is_some_and(|code| code == ErrorCode::HeaderMismatch.as_str())
    }

    /// Returns the result, or the error as a failure.
    pub(super) fn result(self) -> Result<Raw, CommandError> {
        if let Some(result) = self.message.get("result") {
            return Ok(result);
        }
        let Some(error) = self.message.get("error") else { return Err(problem(self.status, &self.message)) };
        let data = error.get("data").unwrap_or_else(Raw::empty_object);
        let status = match text(&data, "code").as_str() {
            "forbidden" => StatusCode::FORBIDDEN,
            "unauthorized" => StatusCode::UNAUTHORIZED,
            _ => self.status,
        };
        Err(of_text(status, &text(&error, "message"), &text(&data, "hint")))
    }
}

/// Returns the failure for an answer that is no JSON-RPC response.
pub(super) fn problem(status: StatusCode, document: &Raw) -> CommandError {
    match text(document, "detail") {
        detail if detail.is_empty() => not_of_a_gateway(status),
        detail => of_text(status, &detail, &text(document, "hint")),
    }
}

/// Sends `request`, passes the notifications before the response to `notify`, and returns the response.
pub(super) async fn send(
    remote: &Remote,
    request: &Request<'_>,
    notify: &mut dyn FnMut(&Raw) -> Result<(), CommandError>,
) -> Result<Answer, CommandError> {
    let response = remote.open(written(remote, request)?).await?;
    let status = response.status();
    if is_media_type(response.headers(), "text/event-stream") {
        return streamed(remote, response, notify).await;
    }
    let origin: Arc<str> = remote.origin().into();
    let body =
        whole(response.into_body(), LIMITS.bytes, &origin).await.map_err(|error| remote.lost(&error))?;
    match Raw::parse(&body) {
        Ok(message) => Ok(Answer { status, message }),
        Err(_) => Err(not_of_a_gateway(status)),
    }
}

/// Asks `method` and expects no notifications.
pub(super) async fn ask(remote: &Remote, method: &'static str, params: Raw) -> Result<Raw, CommandError> {
    let request = Request { method, params, mirrored: &[], can_ask: false };
    send(remote, &request, &mut |_| Ok(())).await?.result()
}

/// Returns the elements of all pages of a list.
pub(super) async fn list(
    remote: &Remote,
    method: &'static str,
    member: &str,
) -> Result<Vec<Raw>, CommandError> {
    let (mut all, mut params) = (Vec::new(), Raw::empty_object());
    for _ in 0..MAX_PAGES {
        let page = ask(remote, method, params).await?;
        all.extend(page.get(member).ok_or_else(not_a_gateway)?.elements());
        match page.get("nextCursor") {
            Some(cursor) => params = Raw::object(&[("cursor", &cursor)]),
            None => return Ok(all),
        }
    }
    Err(CommandError::Refused(format!("{method} has more than {MAX_PAGES} pages")))
}

fn written(remote: &Remote, request: &Request<'_>) -> Result<net::http::RequestBuilder, CommandError> {
    let Request { method, params, mirrored, can_ask } = request;
    let version = Version::NEWEST_MODERN;
    let token = Raw::of(&1);
    let mut sender = Sender::gateway();
    if *can_ask {
        sender.capabilities = Raw::of(&serde_json::json!({"elicitation": {"form": {}, "url": {}}}));
    }
    let dressed = meta::dress(Some(params), version.era(), &sender, Some(&token));
    let params = dressed.unwrap_or_else(Raw::empty_object);
    let envelope = Envelope { jsonrpc: "2.0", id: 1, method, params: &params };
    let name = headers::name_member(method).and_then(|member| params.text(member));
    let own = [
        (headers::PROTOCOL_VERSION, Some(version.as_str().into())),
        (headers::METHOD, Some((*method).into())),
        (headers::NAME, name),
    ];
    let own = own.into_iter().filter_map(|(header, value)| Some((header, value?)));
    let all = own.chain(mirrored.iter().map(|(header, value)| (header.as_str(), value.as_str().into())));
    let mut written = remote.request(Method::POST, &[PATH]).json(&envelope);
    for (header, value) in all {
        let header =
            HeaderName::try_from(header).map_err(|error| CommandError::Refused(error.to_string()))?;
        written = written.header(&header, &SecretString::from(headers::encode(&value).into_owned()));
    }
    Ok(written)
}

/// Reads an event stream up to the response.
async fn streamed(
    remote: &Remote,
    response: Response,
    notify: &mut dyn FnMut(&Raw) -> Result<(), CommandError>,
) -> Result<Answer, CommandError> {
    let (status, origin) = (response.status(), remote.origin().into());
    let account = Payer { principal: None, server: &origin }.account();
    let mut events = EventStream::of(response.into_body(), LIMITS.bytes, account);
    while let Some(Decoded { item, .. }) = events.step().await.map_err(|error| remote.lost(&error))? {
        let event = match item {
            Some(Item::Event(event)) => event,
            Some(Item::TooLong(_)) => {
                return Err(CommandError::Refused(format!(
                    "the result is larger than {} MiB",
                    LIMITS.bytes >> 20
                )));
            }
            None => continue,
        };
        let Ok(message) = Raw::parse(&event.data) else { continue };
        if message.get("method").is_none() {
            return Ok(Answer { status, message });
        }
        notify(&message)?;
    }
    Err(CommandError::Refused("the gateway ended the answer before its result; the tool may have run".into()))
}
