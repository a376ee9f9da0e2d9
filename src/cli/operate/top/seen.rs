//! Answers of the gateway about its servers, calls and tools.
//!
//! Invariants: texts are visible text of at most [`MAX_TEXT`] characters. Only the name of a server is kept as it is too,
//! because requests need it.
//!
//! Not here: rates and quantiles (`history`), which need two samples.

use std::collections::HashMap;
use std::time::Instant;

use super::super::super::remote::{Failed, not_a_gateway};
use super::super::super::visible;
use super::histogram::{Histogram, histograms};
use json::Raw;

/// The most characters of one text.
const MAX_TEXT: usize = 500;

/// The answers of the gateway at one moment.
#[derive(Debug, Clone)]
pub(super) struct StatusSample {
    pub(super) at: Instant,
    /// In the order of the registry.
    pub(super) servers: Vec<SeenServer>,
}

/// One server.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenServer {
    /// As requests name it.
    pub(super) name: String,
    /// Its name as visible text.
    pub(super) label: String,
    pub(super) state: String,
    pub(super) breaker: String,
    /// Seconds until the open breaker lets a call through.
    pub(super) probe_in: Option<f64>,
    /// How and where it is reached.
    pub(super) transport: String,
    pub(super) target: String,
    pub(super) version: String,
    pub(super) last_error: String,
    /// Calls since the gateway started.
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) refusals: u64,
    pub(super) retries: u64,
    /// Calls of now.
    pub(super) running: u64,
    pub(super) waiting: u64,
    pub(super) connections: u64,
    pub(super) tools: u64,
    pub(super) durations: Histogram,
}

impl StatusSample {
    /// Reads the lists of servers and breakers, and the metrics.
    pub(super) fn read(servers: &Raw, breakers: &Raw, metrics: &str) -> Result<Self, Failed> {
        let mut durations = histograms(metrics);
        let breakers = breakers.get("circuit_breakers").ok_or_else(not_a_gateway)?;
        let probe = |breaker: Raw| Some((name(&breaker, "server"), breaker.get_as("seconds_until_probe")?));
        let probes: HashMap<String, f64> = breakers.elements().filter_map(probe).collect();
        let servers = servers.get("servers").ok_or_else(not_a_gateway)?;
        let mut servers: Vec<_> = servers.elements().map(|server| SeenServer::read(&server)).collect();
        for server in &mut servers {
            server.probe_in = probes.get(&server.name).copied();
            server.durations = durations.remove(&server.name).unwrap_or_default();
        }
        Ok(Self { at: Instant::now(), servers })
    }
}

impl SeenServer {
    fn read(server: &Raw) -> Self {
        let counters = server.get("counters").unwrap_or_else(Raw::empty_object);
        let count = |of: &Raw, member| of.get_as(member).unwrap_or(0);
        let target = ["url", "command", "builtin"].iter().find_map(|member| server.text(member));
        Self {
            name: name(server, "name"),
            label: text(server, "name"),
            state: text(server, "state"),
            breaker: text(server, "breaker"),
            probe_in: None,
            transport: text(server, "transport"),
            target: shown(&target.unwrap_or_default()),
            version: text(server, "protocol_version"),
            last_error: text(server, "last_error"),
            calls: count(&counters, "calls"),
            failures: count(&counters, "failures"),
            refusals: count(&counters, "refusals"),
            retries: count(&counters, "retries"),
            running: count(server, "running_calls"),
            waiting: count(server, "waiting_calls"),
            connections: count(server, "connections"),
            tools: count(server, "tool_count"),
            durations: Histogram::default(),
        }
    }

    /// Whether it is used, and neither its state nor its breaker is a problem.
    pub(super) fn is_fine(&self) -> bool {
        matches!(&*self.state, "ready" | "idle") && self.breaker == "closed"
    }
}

/// A call that ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EndedCall {
    /// As requests name it.
    pub(super) server: String,
    /// The time of day, in UTC.
    pub(super) at: String,
    pub(super) tool: String,
    pub(super) outcome: String,
    pub(super) milliseconds: Option<f64>,
    /// Principal, client and code of the error, as far as the credential may see them.
    pub(super) about: String,
}

impl EndedCall {
    /// Reads the `data` of an event `call_ended`.
    pub(super) fn read(data: &Raw) -> Self {
        let at = text(data, "at");
        let about = ["code", "principal", "client"].map(|member| text(data, member));
        let about: Vec<_> = about.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
        Self {
            server: name(data, "server"),
            at: at
                .split_once('T')
                .map_or(&*at, |(_, time)| time.split('.').next().unwrap_or(time))
                .to_owned(),
            tool: text(data, "tool"),
            outcome: text(data, "outcome"),
            milliseconds: data.get_as("duration_ms"),
            about: about.join("  "),
        }
    }
}

/// Returns each tool of a list with the first line of its description.
pub(super) fn tools(list: &Raw) -> Result<Vec<(String, String)>, Failed> {
    let list = list.get("tools").ok_or_else(not_a_gateway)?;
    let described = |tool: Raw| {
        let definition = tool.get("definition").unwrap_or_else(Raw::empty_object);
        let about = definition.text("description").or_else(|| definition.text("title")).unwrap_or_default();
        (text(&tool, "name"), shown(about.trim().lines().next().unwrap_or_default()))
    };
    Ok(list.elements().map(described).collect())
}

fn name(of: &Raw, member: &str) -> String {
    of.text(member).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn text(of: &Raw, member: &str) -> String {
    shown(&of.text(member).unwrap_or_default())
}

/// Makes a text visible, and shortens it.
pub(super) fn shown(text: &str) -> String {
    let mut shown = visible::line(text);
    if let Some((end, _)) = shown.char_indices().nth(MAX_TEXT) {
        shown.truncate(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&text.to_owned().into()).expect("JSON")
    }

    #[test]
    fn texts_of_servers_are_visible_and_requests_keep_the_name() {
        let servers = r#"{"servers":[{"name":"a\u001b[2J","state":"ready","breaker":"open","command":"x\u202ey",
            "last_error":"gone\u0007","counters":{"calls":3,"failures":1},"running_calls":2}]}"#;
        let breakers = r#"{"circuit_breakers":[{"server":"a\u001b[2J","seconds_until_probe":2.5}]}"#;
        let sample = StatusSample::read(&raw(servers), &raw(breakers), "").expect("a sample");
        let [server] = sample.servers.as_slice() else { panic!("{sample:?}") };
        assert_eq!((server.name.as_str(), server.label.as_str()), ("a\u{1b}[2J", r"a\u{1b}[2J"));
        assert_eq!((server.target.as_str(), server.last_error.as_str()), (r"x\u{202e}y", r"gone\u{7}"));
        assert_eq!((server.probe_in, server.calls, server.failures), (Some(2.5), 3, 1));
        assert_eq!((server.running, server.waiting, server.tools), (2, 0, 0));
        assert!(StatusSample::read(&raw("{}"), &raw(breakers), "").is_err(), "that is not a gateway");
        assert_eq!(shown(&"x".repeat(2 * MAX_TEXT)).len(), MAX_TEXT);
    }

    #[test]
    fn a_call_has_its_time_of_day_and_who_made_it() {
        let data = r#"{"at":"2026-11-24T01:02:03.456Z","server":"a","tool":"t\u001b","outcome":"failed",
            "code":"timed_out","principal":"key:ci","client":null,"duration_ms":12.5}"#;
        let call = EndedCall::read(&raw(data));
        assert_eq!((call.at.as_str(), call.tool.as_str()), ("01:02:03", r"t\u{1b}"));
        assert_eq!((call.about.as_str(), call.milliseconds), ("timed_out  key:ci", Some(12.5)));
    }
}
