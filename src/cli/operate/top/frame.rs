//! The whole screen: a title, the list or one server, and the footer.
//!
//! Invariants: there are as many lines as the terminal has, so the screen never scrolls.
//!
//! Not here: one server (`detail`), and escape sequences (`line`).

use super::super::super::visible;
use super::super::table::Severity;
use super::detail;
use super::history::{duration, rate};
use super::keys::HELP;
use super::line::{Column, Line, LineStyle, Span, table};
use super::model::{Model, Overlay, Server, ServerCommand, TopView};

/// The columns of the list by how much they are needed: server, state, calls/s, errors, p99, breaker, p50, running,
/// tools, calls.
const ORDER: [usize; 10] = [0, 1, 3, 4, 6, 2, 5, 7, 8, 9];
const KEYS: &str = "? help  q quit  enter show  s sort  / filter  r reset  c reconnect";
const KEYS_OF_ONE: &str = "esc back  ? help  q quit  ↑↓ scroll  r reset  c reconnect";

/// Returns the lines of the screen.
pub(super) fn lines(model: &Model) -> Vec<Line> {
    let height = model.size.1;
    let mut lines = vec![title(model)];
    match (&model.overlay, &model.view) {
        (Some(Overlay::Help), _) => lines.extend(help()),
        (_, TopView::List) => lines.extend(list(model)),
        (_, TopView::Detail { scroll, .. }) => lines.extend(detail::lines(model).into_iter().skip(*scroll)),
    }
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(model));
    lines.truncate(height);
    lines
}

fn title(model: &Model) -> Line {
    if let Some((since, reason)) = &model.away {
        let text = format!("away for {} s: {reason}; asking again", since.elapsed().as_secs());
        return Line::with_severity(text, Severity::Bad);
    }
    let enabled = || model.servers.iter().filter(|server| server.seen.state != "disabled");
    let (all, fine) = (enabled().count(), enabled().filter(|server| server.seen.is_fine()).count());
    let rates: Option<f64> = model.servers.iter().map(|server| server.history.rate()).sum();
    let severity = if fine == all { Severity::Good } else { Severity::Warning };
    let spans = vec![
        Span::new(format!("{fine} of {all} ready"), severity),
        Span::plain(format!("  {} calls/s  sorted by {}", rate(rates), model.sort.as_str())),
        Span::plain(format!("  {}", model.origin)),
    ];
    Line { spans, look: LineStyle::Plain }
}

fn list(model: &Model) -> Vec<Line> {
    let rows = model.rows();
    if rows.is_empty() {
        let text = if model.filter.is_empty() {
            "The configuration has no servers."
        } else {
            "No server has these letters in its name; Esc shows all."
        };
        return vec![Line::plain(text)];
    }
    let mut lines = table(&columns(&rows), &ORDER, model.size.0);
    let selected = rows.iter().position(|row| model.selected.as_ref() == Some(&row.seen.name));
    if let Some(line) = selected.and_then(|at| lines.get_mut(at + 1)) {
        line.look = LineStyle::Reversed;
    }
    let header = lines.remove(0);
    let page = model.page();
    let mut shown: Vec<_> =
        std::iter::once(header).chain(lines.into_iter().skip(model.scroll).take(page)).collect();
    let reason = model.current().map(|server| &server.seen).filter(|seen| !seen.is_fine());
    if let Some(seen) = reason.filter(|seen| !seen.last_error.is_empty() && seen.state != "disabled") {
        shown.resize(model.body().saturating_sub(1), Line::default());
        shown.push(Line::plain(format!("{}: {}", seen.label, seen.last_error)));
    }
    shown
}

fn columns(rows: &[&Server]) -> Vec<Column> {
    let column = |title, least, cell: &dyn Fn(&Server) -> Span| Column {
        title,
        least,
        cells: rows.iter().map(|row| cell(row)).collect(),
    };
    let plain = |text: String| Span::plain(text);
    vec![
        column("SERVER", Some(10), &|row| plain(row.seen.label.clone())),
        column("STATE", Some(8), &state),
        column("BREAKER", Some(8), &detail::breaker),
        column("CALLS/S", None, &|row| plain(rate(row.history.rate()))),
        column("ERRORS", None, &|row| plain(row.seen.failures.to_string())),
        column("P50", None, &|row| plain(duration(row.history.durations()[0]))),
        column("P99", None, &|row| plain(duration(row.history.durations()[1]))),
        column("RUNNING", None, &|row| plain((row.seen.running + row.seen.waiting).to_string())),
        column("TOOLS", None, &|row| plain(row.seen.tools.to_string())),
        column("CALLS", None, &|row| plain(row.seen.calls.to_string())),
    ]
}

/// The state; for a server that is ready, the breaker if that refuses its calls, because its column may be missing.
fn state(row: &Server) -> Span {
    let seen = &row.seen;
    match (seen.state.as_str(), seen.breaker.as_str()) {
        ("ready", "open") => Span::new("breaker open", Severity::Bad),
        (state, _) => Span::new(state, Severity::of_state(state)),
    }
}

fn help() -> Vec<Line> {
    let key = |(keys, meaning): &(&str, &str)| Line::plain(format!("{keys:<13} {meaning}"));
    std::iter::once(Line::bold("Keys")).chain(HELP.iter().map(key)).collect()
}

fn footer(model: &Model) -> Line {
    match (&model.overlay, &model.message) {
        (Some(Overlay::Confirm(action)), _) => {
            let server = visible::line(&action.server);
            let question = match action.deed {
                ServerCommand::ResetBreaker => {
                    format!("y/n: reset the breaker of {server}? Its failures are forgotten")
                }
                ServerCommand::Reconnect => format!("y/n: connect to {server} again? Its running calls fail"),
            };
            Line::with_severity(question, Severity::Warning)
        }
        (Some(Overlay::Filter), _) => Line::plain(format!("filter: {}_", visible::line(&model.filter))),
        (Some(Overlay::Help), _) => Line::plain("any key closes this list"),
        (None, Some(message)) => Line::plain(message.clone()),
        (None, None) if model.view != TopView::List => Line::plain(KEYS_OF_ONE),
        (None, None) if model.filter.is_empty() => Line::plain(KEYS),
        (None, None) => {
            Line::plain(format!("filter: {} (esc ends it)  {KEYS}", visible::line(&model.filter)))
        }
    }
}
