//! Keys, samples and calls in, the screen out.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthStr;

use super::frame;
use super::histogram::histograms;
use super::model::{Action, Effect, GatewayRequest, Model, Overlay, ServerCommand, Sort, TopView};
use super::seen::{EndedCall, SeenServer, StatusSample};

/// A server that is ready.
fn seen(name: &str, calls: u64) -> SeenServer {
    let durations = format!(
        "switchyard_server_call_duration_seconds_bucket{{server=\"{name}\",le=\"0.1\"}} {calls}\n\
         switchyard_server_call_duration_seconds_bucket{{server=\"{name}\",le=\"+Inf\"}} {calls}\n"
    );
    SeenServer {
        name: name.into(),
        label: name.into(),
        state: "ready".into(),
        breaker: "closed".into(),
        transport: "http".into(),
        target: "https://issues.example/mcp".into(),
        calls,
        durations: histograms(&durations).remove(name).unwrap_or_default(),
        ..SeenServer::default()
    }
}

fn sample(after: u64, servers: Vec<SeenServer>) -> StatusSample {
    // Any moment will do; only differences count.
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let at = *BEGAN.get_or_init(Instant::now) + Duration::from_secs(after);
    StatusSample { at, servers }
}

/// `docs` is idle, `issues` has ten calls per second, `down` has failed.
fn model(size: (usize, usize)) -> Model {
    let down = || SeenServer {
        state: "failed".into(),
        breaker: "open".into(),
        probe_in: Some(7.6),
        failures: 5,
        last_error: "connection refused".into(),
        ..seen("down", 5)
    };
    let mut model = Model::new("http://127.0.0.1:8080".into(), size);
    model.role = Some("superuser".into());
    model.sampled(sample(0, vec![seen("docs", 3), seen("issues", 0), down()]));
    model.sampled(sample(2, vec![seen("docs", 3), seen("issues", 20), down()]));
    model
}

fn press(model: &mut Model, keys: &str) -> Option<Effect> {
    let mut last = None;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        last = model.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

fn screen(model: &Model) -> String {
    let line = |line: super::line::Line| line.text().trim_end().to_owned() + "\n";
    frame::lines(model).into_iter().map(line).collect()
}

fn call(server: &str, tool: &str) -> EndedCall {
    EndedCall {
        server: server.into(),
        at: "01:02:03".into(),
        tool: tool.into(),
        outcome: "ok".into(),
        milliseconds: Some(12.5),
        about: "key:ci".into(),
    }
}

#[test]
fn the_list_has_the_figures_of_each_server_and_the_busiest_comes_first() {
    let wanted = "\
2 of 3 ready  10 calls/s  sorted by calls/s  http://127.0.0.1:8080
SERVER  STATE   BREAKER  CALLS/S  ERRORS    P50    P99  RUNNING  TOOLS  CALLS
issues  ready   closed        10       0  50 ms  99 ms        0      0     20
docs    ready   closed       0.0       0      -      -        0      0      3
down    failed  open 8s      0.0       5      -      -        0      0      5


? help  q quit  enter show  s sort  / filter  r reset  c reconnect
";
    assert_eq!(screen(&model((80, 8))), wanted);
}

#[test]
fn a_narrow_screen_keeps_the_columns_that_matter_most() {
    let wanted = "\
2 of 3 ready  10 calls/s  sorted by calls/s  http://127.0.0.1:8080
SERVER  STATE   CALLS/S  ERRORS    P99
issues  ready        10       0  99 ms
docs    ready       0.0       0      -
down    failed      0.0       5      -
";
    assert!(screen(&model((40, 24))).starts_with(wanted), "{}", screen(&model((40, 24))));
}

#[test]
fn every_view_has_the_size_of_the_terminal() {
    for keys in ["", "\n", "?", "r", "/x", "\nc"] {
        for (width, height) in [(0, 0), (1, 1), (5, 2), (40, 3), (40, 24), (80, 24), (200, 60)] {
            let mut model = model((width, height));
            press(&mut model, keys);
            let lines = frame::lines(&model);
            assert_eq!(lines.len(), height, "{keys:?}");
            for line in lines {
                let text = line.written(width, false).replace("\u{1b}[K", "").replace("\u{1b}[0m", "");
                let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[7m", "");
                assert!(text.width() <= width, "{keys:?} {width}: {text:?}");
            }
        }
    }
}

#[test]
fn the_selection_stays_on_its_server_where_rows_move() {
    let mut model = model((80, 24));
    press(&mut model, "jj");
    assert_eq!(model.selected.as_deref(), Some("down"));
    assert!(screen(&model).contains("down: connection refused"), "{}", screen(&model));
    press(&mut model, "sss");
    assert_eq!((model.sort, model.selected.as_deref()), (Sort::Running, Some("down")));
    press(&mut model, "s");
    assert_eq!(model.rows()[0].seen.name, "down");
    press(&mut model, "ss/DOC");
    assert_eq!(model.selected.as_deref(), Some("docs"), "the only one that is left");
    press(&mut model, "\u{8}\u{8}\u{8}x\n");
    assert!(screen(&model).contains("No server has these letters"), "{}", screen(&model));
    press(&mut model, "\u{1b}G");
    assert_eq!((model.rows().len(), model.selected.as_deref()), (3, Some("down")));
    model.sampled(sample(4, vec![seen("docs", 3)]));
    assert_eq!(model.selected.as_deref(), Some("docs"));
}

#[test]
fn a_long_list_scrolls_to_the_selection() {
    let mut model = Model::new(String::new(), (80, 8));
    model.sampled(sample(0, (0..30).map(|at| seen(&format!("s{at:02}"), 0)).collect()));
    for (keys, selected, first) in
        [("jjj", 3, 0), ("j", 4, 1), ("kkk", 1, 1), ("k", 0, 0), ("G", 29, 26), ("g", 0, 0)]
    {
        press(&mut model, keys);
        assert_eq!(model.selected, Some(format!("s{selected:02}")), "{keys}");
        let shown = screen(&model);
        assert!(
            shown.lines().nth(2).is_some_and(|line| line.starts_with(&format!("s{first:02}"))),
            "{keys}\n{shown}"
        );
    }
}

#[test]
fn a_server_is_shown_with_its_last_calls_and_tools() {
    let mut model = model((80, 40));
    let asked = press(&mut model, "\n");
    assert_eq!(asked, Some(Effect::Ask(GatewayRequest::Tools("issues".into()))));
    for at in 0..200 {
        model.called(call("issues", &format!("t{at}")));
    }
    model.called(call("docs", "elsewhere"));
    model.called(call("unknown", "elsewhere"));
    model.offered("docs", Ok(vec![("late".into(), String::new())]));
    model.offered("issues", Ok(vec![("create_issue".into(), "Creates an issue.".into())]));
    let shown = screen(&model);
    for part in [
        "calls/s     10  █",
        "p50 / p99   50 ms / 99 ms",
        "TIME      OUTCOME  DURATION  TOOL  BY",
        "01:02:03  ok          12 ms  t199  key:ci",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("elsewhere"), "{shown}");
    press(&mut model, "G");
    let shown = screen(&model);
    assert!(shown.contains("create_issue  Creates an issue.") && !shown.contains("late"), "{shown}");
    assert!(shown.contains("t180") && !shown.contains("t179"), "the last twenty calls\n{shown}");
    model.sampled(sample(4, vec![seen("docs", 3)]));
    assert_eq!(model.view, TopView::List, "a server that is gone is not shown");
}

#[test]
fn an_action_is_done_after_y_only_and_only_if_the_role_allows_it() {
    let mut model = model((80, 24));
    press(&mut model, "r");
    assert!(screen(&model).contains("y/n: reset the breaker of issues?"), "{}", screen(&model));
    for other in ["n", "\n", "r", "\u{1b}", "q"] {
        model.overlay = None;
        assert_eq!(press(&mut model, &format!("r{other}")), None, "{other:?}");
        assert_eq!(model.message.as_deref(), Some("nothing was done"), "{other:?}");
    }
    let action =
        |deed, server: &str| Some(Effect::Ask(GatewayRequest::Act(Action { deed, server: server.into() })));
    assert_eq!(press(&mut model, "ry"), action(ServerCommand::ResetBreaker, "issues"));
    assert_eq!(press(&mut model, "G\ncy"), action(ServerCommand::Reconnect, "down"));
    model.role = Some("reader".into());
    assert_eq!(press(&mut model, "ry"), None);
    assert_eq!(model.overlay, None);
    press(&mut model, "c");
    assert!(
        screen(&model).contains("needs the role superuser; this credential is a reader"),
        "{}",
        screen(&model)
    );
    // The gateway decides.
    model.role = None;
    press(&mut model, "r");
    assert!(matches!(model.overlay, Some(Overlay::Confirm(_))));
}

#[test]
fn a_gateway_that_is_away_is_named_until_it_answers() {
    let mut model = model((80, 24));
    model.lost("connection refused\u{1b}[2J");
    let shown = screen(&model);
    assert!(shown.starts_with(r"away for 0 s: connection refused\u{1b}[2J; asking again"), "{shown}");
    assert!(shown.contains("issues  ready"), "what was known stays\n{shown}");
    model.sampled(sample(4, vec![seen("docs", 3)]));
    assert!(screen(&model).starts_with("1 of 1 ready"), "{}", screen(&model));
}

#[test]
fn q_and_ctrl_c_quit_and_letters_of_a_filter_do_not() {
    let mut model = model((80, 24));
    assert_eq!(press(&mut model, "/q"), None);
    assert_eq!(model.filter, "q");
    assert_eq!(press(&mut model, "\nq"), Some(Effect::Quit));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut model, "/");
    assert_eq!(model.press(ctrl_c), Some(Effect::Quit));
}

#[test]
fn an_interval_has_a_unit_and_bounds() {
    assert_eq!(super::parse_interval("500ms"), Ok(Duration::from_millis(500)));
    for text in ["2", "100ms", "2h", ""] {
        assert!(super::parse_interval(text).is_err(), "{text}");
    }
}
