//! `deploy/alerts.yaml`, the page about it, and `deploy/grafana.json`: the page has a row for each alert, and expressions name
//! metrics that are there.

use settings::{Node, Problems, Value, document};

fn part<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    match &part(node, key)?.value {
        Value::Text(text) => Some(text.value()),
        _ => None,
    }
}

fn items<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    let Value::List(items) = &part(node, key).expect("a member").value else { panic!("{key}: no list") };
    items
}

/// The row of an alert on the page, before and after the words about what to do.
fn row(alert: &Node) -> Option<(String, String)> {
    let when = text_of(alert, "for").map_or_else(|| "at once".to_owned(), |time| format!("for {time}"));
    let (name, severity) = (text_of(alert, "alert")?, text_of(part(alert, "labels")?, "severity")?);
    let [meaning, runbook] = ["summary", "runbook"].map(|key| text_of(part(alert, "annotations")?, key));
    let path = runbook?.strip_prefix("docs/")?;
    let place = path.strip_prefix("operate/").map_or_else(|| format!("../{path}"), str::to_owned);
    Some((format!("| `{name}` | {when}, {severity} | {} | [", meaning?), format!("]({place}) |")))
}

#[test]
fn page_of_alerts_has_a_row_for_each_one() {
    let [alerts, page] = ["deploy/alerts.yaml", "docs/operate/alerts.md"]
        .map(|path| std::fs::read_to_string(super::file(path)).expect("it is committed"));
    let root = document::parse(&alerts, &Problems::default()).root;
    let alerts = items(&root, "groups").iter().flat_map(|group| items(group, "rules"));
    let rows: Vec<_> = alerts.map(|alert| row(alert).expect("an alert with a runbook")).collect();
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(shown.len(), rows.len());
    for (line, (start, end)) in shown.into_iter().zip(rows) {
        assert!(line.starts_with(&start) && line.ends_with(&end), "{start}…{end}");
    }
}

#[test]
fn alerts_and_panels_name_metrics_that_are_there() {
    for path in ["deploy/alerts.yaml", "deploy/grafana.json"] {
        let text = std::fs::read_to_string(super::file(path)).expect("it is committed");
        let wrong = super::metrics::unknown_names(&text);
        assert!(text.contains("switchyard_") && wrong.is_empty(), "{path}: {wrong:?}");
    }
    assert_eq!(super::metrics::unknown_names("rate(switchyard_calls[5m])"), ["switchyard_calls"]);
}
