//! One server: its state, its figures, its last calls and its tools.
//!
//! Not here: how far it is scrolled (`frame`).

use unicode_width::UnicodeWidthStr;

use super::super::table::{Severity, shortened};
use super::history::{duration, rate};
use super::line::{Column, Line, LineStyle, Span, table};
use super::model::{Model, Server, Tools, TopView};
use super::seen::EndedCall;

/// Columns of the names of figures.
const LABEL: usize = 12;
/// Tools that are shown.
const MAX_TOOLS: usize = 1000;

/// Returns all lines; none if no server is shown.
pub(super) fn lines(model: &Model) -> Vec<Line> {
    let TopView::Detail { server, .. } = &model.view else { return Vec::new() };
    let Some(server) = model.server(server) else { return Vec::new() };
    let width = model.size.0;
    let mut lines = vec![Line::bold(server.seen.label.clone())];
    lines.extend(facts(server, width));
    lines.push(Line::default());
    let missed = if model.missed > 0 { format!(", {} missed", model.missed) } else { String::new() };
    lines.push(Line::bold(format!("Last calls{missed}")));
    lines.extend(calls(server, width));
    lines.push(Line::default());
    lines.push(Line::bold(format!("Tools ({})", server.seen.tools)));
    match &model.tools {
        Tools::Unknown => lines.push(Line::plain("asking…")),
        Tools::Failed(reason) => lines.push(Line::with_severity(reason.clone(), Severity::Bad)),
        Tools::Known(tools) => lines.extend(
            tools
                .iter()
                .take(MAX_TOOLS)
                .map(|(name, about)| Line::plain(format!("{name}  {about}").trim_end())),
        ),
    }
    lines
}

fn facts(server: &Server, width: usize) -> Vec<Line> {
    let (seen, history) = (&server.seen, &server.history);
    let [p50, p99] = history.durations().map(duration);
    let version = if seen.version.is_empty() { "not known yet" } else { &seen.version };
    let bars = history.bars();
    let room = width.saturating_sub(LABEL + rate(history.rate()).width() + 2);
    let newest = bars.chars().skip(bars.chars().count().saturating_sub(room));
    let plain = |text: String| Span::plain(text);
    let mut facts = vec![
        ("state", Span::new(seen.state.clone(), Severity::of_state(&seen.state))),
        ("breaker", breaker(server)),
        ("address", plain(format!("{} {}", seen.transport, seen.target))),
        ("protocol", plain(format!("{version}, {} connections", seen.connections))),
        ("calls now", plain(format!("{} running, {} waiting", seen.running, seen.waiting))),
        (
            "calls",
            plain(format!(
                "{}, {} failed, {} refused, {} retries",
                seen.calls, seen.failures, seen.refusals, seen.retries
            )),
        ),
        ("calls/s", plain(format!("{}  {}", rate(history.rate()), newest.collect::<String>()))),
        ("p50 / p99", plain(format!("{p50} / {p99}"))),
    ];
    if !seen.last_error.is_empty() {
        facts.push(("last error", plain(seen.last_error.clone())));
    }
    let line = |(label, value): (&str, Span)| Line {
        spans: vec![Span::plain(format!("{label:<LABEL$}")), value],
        look: LineStyle::Plain,
    };
    facts.into_iter().map(line).collect()
}

/// The breaker, and when it lets a call through.
pub(super) fn breaker(row: &Server) -> Span {
    let seen = &row.seen;
    let probe = seen.probe_in.filter(|_| seen.breaker == "open");
    let probe = probe.map(|seconds| format!(" {seconds:.0}s")).unwrap_or_default();
    Span::new(format!("{}{probe}", seen.breaker), Severity::of_state(&seen.breaker))
}

fn calls(server: &Server, width: usize) -> Vec<Line> {
    let calls = &server.calls;
    if calls.is_empty() {
        return vec![Line::plain("none since this began")];
    }
    let column = |title, least, cell: &dyn Fn(&EndedCall) -> Span| Column {
        title,
        least,
        cells: calls.iter().map(cell).collect(),
    };
    let outcome = |call: &EndedCall| match call.outcome.as_str() {
        "ok" => Severity::Good,
        "tool_error" => Severity::Warning,
        "cancelled" => Severity::Plain,
        _ => Severity::Bad,
    };
    let columns = [
        column("TIME", Some(8), &|call| Span::plain(call.at.clone())),
        column("OUTCOME", Some(10), &|call| Span::new(call.outcome.clone(), outcome(call))),
        column("DURATION", None, &|call| Span::plain(duration(call.milliseconds))),
        column("TOOL", Some(8), &|call| Span::plain(call.tool.clone())),
        column("BY", Some(6), &|call| Span::plain(shortened(&call.about, width))),
    ];
    table(&columns, &[3, 1, 2, 0, 4], width)
}
