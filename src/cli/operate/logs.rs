//! `switchyard logs`: calls and states of servers as they happen, and past calls.
//!
//! Invariants: each event is one line, written at once. An event has at most [`MAX_EVENT`] bytes, longer ones are left out. A
//! stream that ends is opened again after the last event that was read, so no event is shown twice, and a note says how many
//! were missed. Past calls are written in the order in which they ended. If both are shown, the stream is opened before the
//! history is read, so no call is missed in between.
//!
//! Source: `GET /api/v1/mcp/events`. Not here: which events are recorded (`gateway::manager::live_events`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use secrecy::SecretString;

use super::super::error::CommandError;
use super::super::remote::{LIMITS, Remote, not_a_gateway, not_of_a_gateway};
use super::super::visible;
use super::json_text;
use super::mcp::problem;
use super::screen::{OutputFormat, Screen};
use crate::config::import::yaml;
use json::Raw;
use net::http::{Decoded, EventStream, is_media_type, whole};
use net::sse::{Event, Item};
use runtime::memory::Payer;

/// The pause before an ended stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// Calls of one page of the history.
const PAGE: usize = 1000;
/// The outcomes that `--failed` chooses.
const FAILED: &str = "tool_error,rpc_error,failed";
/// The most bytes of one event.
const MAX_EVENT: usize = 1024 * 1024;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Which events are shown.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EventFilter {
    /// Continue with future events until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Show past calls since then: a date such as 2026-11-20T12:00:00Z, or how long ago, such as 15m, 1h or 2d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only past calls before then.
    #[arg(long, value_name = "TIME", requires = "since", conflicts_with = "follow")]
    until: Option<String>,
    /// The most past calls, of which the last ones are shown.
    #[arg(long, value_name = "NUMBER", requires = "since", default_value = "1000")]
    limit: usize,
    /// Only past calls by this principal.
    #[arg(long, value_name = "ID", requires = "since", conflicts_with = "follow")]
    principal: Option<String>,
    /// Only events of this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool, by its name at its server.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that ended so.
    #[arg(long, value_parser = ["ok", "tool_error", "rpc_error", "failed", "cancelled"])]
    outcome: Option<String>,
    /// Only calls that ended with an error: of the tool, of the server, or on the way.
    #[arg(long, conflicts_with = "outcome")]
    failed: bool,
}

impl EventFilter {
    fn calls(&self) -> Vec<(&str, &str)> {
        let outcome = if self.failed { Some(FAILED) } else { self.outcome.as_deref() };
        let texts =
            [("server", self.server.as_deref()), ("tool", self.tool.as_deref()), ("outcome", outcome)];
        texts.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
    }

    /// The query for the stream of events.
    fn live(&self) -> Vec<(&str, &str)> {
        self.calls().into_iter().chain((!self.follow).then_some(("follow", "false"))).collect()
    }

    /// The query for the history.
    fn past(&self) -> Vec<(&str, &str)> {
        let texts = [("since", &self.since), ("until", &self.until), ("principal", &self.principal)];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        self.calls().into_iter().chain(texts).collect()
    }
}

/// Shows the recorded events, and future ones if that is wanted. With `--since`, past calls come first.
pub(super) async fn run(
    remote: &Remote,
    filter: &EventFilter,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let mut stream = Stream { last: None, past: HashSet::new() };
    let mut opened = None;
    if filter.since.is_some() {
        if filter.follow {
            opened = Some(stream.open(remote, filter).await?);
        }
        stream.past = history(remote, filter, screen).await?;
        if !filter.follow {
            return Ok(());
        }
    }
    let mut is_lost = false;
    loop {
        match stream.read(remote, filter, opened.take(), screen).await {
            Ok(()) if !filter.follow => return Ok(()),
            Ok(()) => {}
            // A gateway that restarts is away for a while. A gateway that never answered is an error.
            Err(CommandError::Unreachable { .. }) if filter.follow && stream.last.is_some() => {
                if !std::mem::replace(&mut is_lost, true) {
                    screen.note("the gateway is away; waiting for it")?;
                }
            }
            Err(failed) => return Err(failed),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The place in the stream of events.
struct Stream {
    /// The id of the last event, empty if a stream had none yet.
    last: Option<Vec<u8>>,
    /// The past calls that were shown already.
    past: HashSet<String>,
}

impl Stream {
    async fn open<'r>(
        &mut self,
        remote: &'r Remote,
        filter: &EventFilter,
    ) -> Result<Events<'r>, CommandError> {
        let events = Events::open(remote, &filter.live(), self.last.as_deref()).await?;
        self.last.get_or_insert_default();
        Ok(events)
    }

    /// Reads one stream to its end, if there is one that is `opened` already.
    async fn read<'r>(
        &mut self,
        remote: &'r Remote,
        filter: &EventFilter,
        opened: Option<Events<'r>>,
        screen: &mut Screen<'_>,
    ) -> Result<(), CommandError> {
        let mut events = match opened {
            Some(events) => events,
            None => self.open(remote, filter).await?,
        };
        while let Some(event) = events.next().await? {
            if let Ok(data) = Raw::parse(&event.data)
                && !self.past.remove(&identity(&data))
            {
                show(&event, &data, filter, screen)?;
            }
            self.last = events.last_id().or(self.last.take());
        }
        Ok(())
    }
}

/// Shows past calls, the newest last. Returns which they are.
async fn history(
    remote: &Remote,
    filter: &EventFilter,
    screen: &mut Screen<'_>,
) -> Result<HashSet<String>, CommandError> {
    let (mut calls, mut cursor) = (Vec::new(), None::<String>);
    while calls.len() < filter.limit {
        let limit = PAGE.min(filter.limit - calls.len()).to_string();
        let mut query = filter.past();
        query.push(("limit", &limit));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = remote.rest(Method::GET, &["history"], &query).await?;
        let found = page.get("calls").ok_or_else(not_a_gateway)?;
        calls.extend(found.elements().map(|call| Raw::of(&call)));
        cursor = page.get_as("next_cursor");
        if cursor.is_none() {
            break;
        }
    }
    if cursor.is_some() {
        screen.note(&format!("the last {} calls are shown; --limit shows more", filter.limit))?;
    } else if calls.is_empty() {
        screen.note("no call was found")?;
    }
    for call in calls.iter().rev() {
        write("call_ended", call, true, screen)?;
    }
    Ok(calls.iter().map(identity).collect())
}

/// The identity of a call, by which its event is found again in the history.
fn identity(data: &Raw) -> String {
    let part = |name| data.get(name).map(|part| part.as_str().to_owned()).unwrap_or_default();
    format!("{} {} {}", part("call"), part("duration_ms"), part("outcome"))
}

fn show(
    event: &Event,
    data: &Raw,
    filter: &EventFilter,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let name = String::from_utf8_lossy(&event.name);
    if name == "gap" && screen.format == OutputFormat::Table {
        // Without `--follow`, everything before the recording began counts as missed.
        let missed = data.get("missed").filter(|_| filter.follow);
        return Ok(
            missed.map_or(Ok(()), |count| screen.note(&format!("{} events were missed", count.as_str())))?
        );
    }
    write(&name, data, false, screen)
}

/// Writes an event in the form that is wanted. A line of a past call has the date.
fn write(name: &str, data: &Raw, is_past: bool, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let written = || Raw::object(&[("event", &Raw::of(name)), ("data", data)]);
    match screen.format {
        OutputFormat::Json => writeln!(screen.out, "{}", json_text::line(&written()))?,
        OutputFormat::Yaml => write!(screen.out, "---\n{}", yaml::document(&written()))?,
        _ => match line(name, data, is_past) {
            Some(line) => writeln!(screen.out, "{}", visible::line(&line))?,
            None => return Ok(()),
        },
    }
    Ok(screen.out.flush()?)
}

/// Returns the line of an event for people; none for the start of a call, whose end has a line too.
fn line(event: &str, data: &Raw, is_past: bool) -> Option<String> {
    let text = |name| data.text(name).unwrap_or_default();
    let at = text("at");
    let at = at.trim_end_matches('Z').replacen('T', " ", 1);
    let time = if is_past { &at } else { at.split_once(' ').map_or(&*at, |(_, time)| time) };
    let (server, reason) = (text("server"), text("reason"));
    match event {
        "call_ended" => {
            let duration = data.get_as::<f64>("duration_ms").unwrap_or_default();
            let attempts = data.get("attempts").map_or(0, |attempts| attempts.elements().count());
            let attempts = if attempts > 1 { format!("{attempts} attempts") } else { String::new() };
            let arguments = data.get("arguments");
            let arguments = arguments.as_ref().map_or("", Raw::as_str).into();
            let rest =
                [text("principal"), text("client"), text("code"), attempts.into(), text("error"), arguments];
            let rest: Vec<_> = rest.iter().filter(|text| !text.is_empty()).map(AsRef::as_ref).collect();
            let line = format!(
                "{time}  {outcome:<10}  {duration:>9.1} ms  {server}  {tool}  {rest}",
                outcome = text("outcome"),
                tool = text("tool"),
                rest = rest.join("  "),
            );
            Some(line.trim_end().to_owned())
        }
        "server_changed" => {
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some(format!("{time}  server      {server} is {state}{reason}", state = text("state")))
        }
        "breaker_changed" => {
            let (from, to) = (text("from"), text("to"));
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some(format!("{time}  breaker     {server}: {from} -> {to}{reason}"))
        }
        "tools_changed" => {
            let count = |name| data.get(name)?.get_as::<u64>("count");
            let [added, removed, changed] =
                ["added", "removed", "changed"].map(|name| count(name).unwrap_or_default());
            Some(format!("{time}  tools       {server}: {added} added, {removed} removed, {changed} changed"))
        }
        "action" => {
            let (action, principal) = (text("action"), text("principal"));
            let line = format!("{time}  action      {action} {server}  {principal}  {}", text("outcome"));
            Some(line.trim_end().to_owned())
        }
        _ => None,
    }
}

/// An open stream.
struct Events<'r> {
    remote: &'r Remote,
    stream: EventStream,
}

impl<'r> Events<'r> {
    /// Opens a stream after the event `last`. An empty id means that there was none.
    async fn open(
        remote: &'r Remote,
        query: &[(&str, &str)],
        last: Option<&[u8]>,
    ) -> Result<Self, CommandError> {
        let mut request = remote.request(Method::GET, &["api", "v1", "mcp", "events"]).query(query);
        if let Some(id) = last.filter(|id| !id.is_empty()) {
            let id = SecretString::from(String::from_utf8_lossy(id).into_owned());
            request = request.header(&LAST_EVENT_ID, &id);
        }
        let response = remote.open(request).await?;
        let (status, origin): (_, Arc<str>) = (response.status(), remote.origin().into());
        if status != StatusCode::OK {
            let body = whole(response.into_body(), LIMITS.bytes, &origin).await;
            let body = Raw::parse(&body.map_err(|error| remote.lost(&error))?);
            return Err(body.map_or_else(|_| not_of_a_gateway(status), |document| problem(status, &document)));
        }
        if !is_media_type(response.headers(), "text/event-stream") {
            return Err(not_of_a_gateway(status));
        }
        let account = Payer { principal: None, server: &origin }.account();
        Ok(Self { remote, stream: EventStream::of(response.into_body(), MAX_EVENT, account) })
    }

    /// Returns the next event; none at the end of the stream.
    async fn next(&mut self) -> Result<Option<Event>, CommandError> {
        loop {
            match self.stream.step().await {
                Ok(Some(Decoded { item: Some(Item::Event(event)), .. })) => return Ok(Some(event)),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.remote.lost(&error)),
            }
        }
    }

    /// Returns the id of the last event, if it had one.
    fn last_id(&self) -> Option<Vec<u8>> {
        self.stream.last_id().map(|id| id.to_vec())
    }
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
