//! `switchyard logs`: calls and states of servers as they happen.
//!
//! Invariants: each event is one line, written at once. A stream that ends is opened again after the last event that was
//! read, so no event is shown twice, and a note says how many were missed.
//!
//! Not here: the stream itself (`events`).

use std::time::Duration;

use super::super::remote::{Remote, RemoteError};
use super::super::visible;
use super::events::Events;
use super::json_text;
use super::screen::{OutputFormat, Screen};
use crate::config::import::yaml;
use json::Raw;
use net::sse::Event;

/// The pause before an ended stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// Which events are shown.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EventFilter {
    /// Continue with future events until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Only events of this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool, by its name at its server.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that ended so.
    #[arg(long, value_parser = ["ok", "tool_error", "rpc_error", "failed", "cancelled"])]
    outcome: Option<String>,
}

impl EventFilter {
    fn query(&self) -> Vec<(&str, &str)> {
        let texts = [("server", &self.server), ("tool", &self.tool), ("outcome", &self.outcome)];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        texts.chain((!self.follow).then_some(("follow", "false"))).collect()
    }
}

/// Shows the recorded events, and future ones if that is wanted.
pub(super) async fn run(
    remote: &Remote,
    filter: &EventFilter,
    screen: &mut Screen<'_>,
) -> Result<(), RemoteError> {
    let (mut last, mut is_lost) = (None, false);
    loop {
        match read(remote, filter, &mut last, screen).await {
            Ok(()) if !filter.follow => return Ok(()),
            Ok(()) => {}
            // A gateway that restarts is away for a while. A gateway that never answered is an error.
            Err(RemoteError::Unreachable { .. }) if filter.follow && last.is_some() => {
                if !std::mem::replace(&mut is_lost, true) {
                    screen.note("the gateway is away; waiting for it")?;
                }
            }
            Err(failed) => return Err(failed),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads one stream to its end. `last` is the id of the last event, empty if a stream had none yet.
async fn read(
    remote: &Remote,
    filter: &EventFilter,
    last: &mut Option<Vec<u8>>,
    screen: &mut Screen<'_>,
) -> Result<(), RemoteError> {
    let mut events = Events::open(remote, &filter.query(), last.as_deref()).await?;
    last.get_or_insert_default();
    while let Some(event) = events.next().await? {
        show(&event, filter, screen)?;
        *last = events.last_id().or(last.take());
    }
    Ok(())
}

fn show(event: &Event, filter: &EventFilter, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let Ok(data) = Raw::parse(&event.data) else { return Ok(()) };
    let name = String::from_utf8_lossy(&event.name);
    if name == "gap" && screen.format == OutputFormat::Table {
        // Without `--follow`, everything before the recording began counts as missed.
        let missed = data.get("missed").filter(|_| filter.follow);
        return Ok(
            missed.map_or(Ok(()), |count| screen.note(&format!("{} events were missed", count.as_str())))?
        );
    }
    let written = || Raw::object(&[("event", &Raw::of(&*name)), ("data", &data)]);
    match screen.format {
        OutputFormat::Json => writeln!(screen.out, "{}", json_text::line(&written()))?,
        OutputFormat::Yaml => write!(screen.out, "---\n{}", yaml::document(&written()))?,
        _ => match line(&name, &data) {
            Some(line) => writeln!(screen.out, "{}", visible::line(&line))?,
            None => return Ok(()),
        },
    }
    Ok(screen.out.flush()?)
}

/// Returns the line of an event for people; none for the start of a call, whose end has a line too.
fn line(event: &str, data: &Raw) -> Option<String> {
    let text = |name| data.text(name).unwrap_or_default();
    let at = text("at");
    let time = at.split_once('T').map_or(&*at, |(_, time)| time.trim_end_matches('Z'));
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
        let shown = |event, data: &str| line(event, &Raw::parse(&data.to_owned().into()).expect("JSON"));
        let call = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":"key:ci","outcome":"failed","code":"timeout","error":"no answer","duration_ms":12.345}"#;
        let expected = "01:02:03.456  failed           12.3 ms  issues  add  key:ci  timeout  no answer";
        assert_eq!(shown("call_ended", call).as_deref(), Some(expected));
        assert_eq!(shown("call_started", call), None);
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
