//! `switchyard logs`: calls and states of servers as they happen, and past calls.
//!
//! Invariants: each event is one line, written at once. A stream that ends is opened again after the last event that was
//! read, so no event is shown twice, and a note says how many were missed. Past calls are written in the order in which
//! they ended. If both are shown, the stream is opened before the history is read, so no call is missed in between.
//!
//! Not here: the stream itself (`events`).

use std::collections::HashSet;
use std::time::Duration;

use http::Method;

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::super::visible;
use super::events::Events;
use super::json_text;
use super::screen::{OutputFormat, Screen};
use crate::config::import::yaml;
use json::Raw;
use net::sse::Event;

/// The pause before an ended stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// Calls of one page of the history.
const PAGE: usize = 1000;
/// The outcomes that `--failed` chooses.
const FAILED: &str = "tool_error,rpc_error,failed";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_call_and_new_state_are_one_line_each() {
        let shown =
            |event, data: &str| line(event, &Raw::parse(&data.to_owned().into()).expect("JSON"), false);
        let call = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":"key:ci","outcome":"failed","code":"timeout","error":"no answer","duration_ms":12.345}"#;
        let expected = "01:02:03.456  failed           12.3 ms  issues  add  key:ci  timeout  no answer";
        assert_eq!(shown("call_ended", call).as_deref(), Some(expected));
        assert_eq!(shown("call_started", call), None);
        let past = line("call_ended", &Raw::parse(&call.to_owned().into()).expect("JSON"), true);
        assert_eq!(past, Some(format!("2026-11-24 {expected}")));
        let event = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":"key:ci","client":"ide/1","outcome":"ok","code":null,"duration_ms":12.345,"attempts":[{},{}],"arguments":{"a":1}}"#;
        let expected =
            r#"01:02:03.456  ok               12.3 ms  issues  add  key:ci  ide/1  2 attempts  {"a":1}"#;
        assert_eq!(shown("call_ended", event).as_deref(), Some(expected));
        let breaker = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","from":"closed","to":"open","reason":"late"}"#;
        let expected = "01:02:03.456  breaker     issues: closed -> open: late";
        assert_eq!(shown("breaker_changed", breaker).as_deref(), Some(expected));
        let tools = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","added":{"count":2},"removed":{"count":0},"changed":{"count":1}}"#;
        let expected = "01:02:03.456  tools       issues: 2 added, 0 removed, 1 changed";
        assert_eq!(shown("tools_changed", tools).as_deref(), Some(expected));
        let action = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","action":"reconnect","principal":"key:ops","outcome":"done"}"#;
        let expected = "01:02:03.456  action      reconnect issues  key:ops  done";
        assert_eq!(shown("action", action).as_deref(), Some(expected));
        let state = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","state":"failed","reason":"gone"}"#;
        let expected = "01:02:03.456  server      issues is failed: gone";
        assert_eq!(shown("server_changed", state).as_deref(), Some(expected));
        let null = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":null,"outcome":"ok","code":null,"duration_ms":0.5}"#;
        assert_eq!(
            shown("call_ended", null).as_deref(),
            Some("01:02:03.456  ok                0.5 ms  issues  add")
        );
    }
}
