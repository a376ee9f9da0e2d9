//! Rules of views: what each of them selects, in every spelling.

use super::*;

const fn tool<'a>(server: &'a str, name: &'a str, effect: Effect) -> Target<'a> {
    Target { server, kind: Kind::Tools, name, tool: ToolFacts::of(effect) }
}

const fn resource<'a>(server: &'a str, name: &'a str) -> Target<'a> {
    Target { server, kind: Kind::Resources, name, tool: ToolFacts::of(Effect::ReadOnly) }
}

fn view(name: &str, servers: Option<&[&str]>, allow: Option<&[&str]>, deny: &[&str]) -> View {
    View::of(name, servers, allow, deny).expect("rules")
}

fn is_offered(selected: &View, target: Target<'_>) -> bool {
    let decision = decide(Some(selected), &Tools::default(), target);
    assert_eq!(decision.is_offered, offers(Some(selected), &Tools::default(), target), "{target:?}");
    decision.is_offered
}

#[test]
fn only_selected_servers_and_items_are_offered_and_deny_takes_precedence() {
    let whole = view("v", Some(&["files", "doc*"]), None, &["files/delete_*"]);
    let some = view("v", None, Some(&["files/read_*", "docs/*"]), &["docs/secret"]);
    for (server, name, of_whole, of_some) in [
        ("files", "read_a", true, true),
        ("files", "delete_a", false, false),
        ("files", "write_a", true, false),
        ("docs", "search", true, true),
        ("docs", "secret", true, false),
        ("mail", "read_a", false, false),
        ("file", "read_a", false, false),
    ] {
        let tool = tool(server, name, Effect::Unsafe);
        assert_eq!(
            (is_offered(&whole, tool), is_offered(&some, tool)),
            (of_whole, of_some),
            "{server}/{name}"
        );
    }
    assert!(whole.sees("docs") && !whole.sees("mail") && some.sees("files") && !some.sees("mail"));
}

#[test]
fn servers_and_allow_narrow_each_other() {
    let both = view("v", Some(&["files"]), Some(&["*/read"]), &[]);
    assert!(is_offered(&both, tool("files", "read", Effect::Unsafe)));
    assert!(!is_offered(&both, tool("mail", "read", Effect::Unsafe)) && !both.sees("mail"));
}

#[test]
fn read_only_view_has_tools_that_are_declared_to_change_nothing() {
    let selected = View { read_only: true, ..view("v", Some(&["*"]), None, &[]) };
    for (effect, expected) in [
        (Effect::ReadOnly, true),
        (Effect::Metered, true),
        (Effect::Idempotent, false),
        (Effect::Unsafe, false),
    ] {
        assert_eq!(is_offered(&selected, tool("s", "t", effect)), expected, "{effect:?}");
    }
    assert!(is_offered(&selected, resource("s", "file:///a")), "resources are only read");
}

#[test]
fn no_spelling_of_a_uri_gets_around_a_rule() {
    let selected = view("v", Some(&["s"]), None, &["s/file:///secret/*"]);
    let only = view("v", None, Some(&["s/file:///public/*"]), &[]);
    for spelling in [
        "file:///secret/a",
        "file:///%73ecret/a",
        "file:///%73%65cret/%61",
        "file:///public/../secret/a",
        "file:///./secret/a",
        "file:///public/%2e%2e/secret/a",
        "file:///public/%2E%2E%2Fsecret/a",
        "file:///public/./../secret/a",
    ] {
        assert!(!is_offered(&selected, resource("s", spelling)), "{spelling}");
        assert!(!is_offered(&only, resource("s", spelling)), "{spelling}");
    }
    for spelling in ["file:///public/a", "file:///public/a%20b", "file:///public/x/../a"] {
        assert!(is_offered(&selected, resource("s", spelling)), "{spelling}");
        assert!(is_offered(&only, resource("s", spelling)), "{spelling}");
    }
}

#[test]
fn decision_names_the_setting_and_the_rule() {
    let selected = view("v", Some(&["files"]), Some(&["files/read"]), &["files/*_all"]);
    let tools = Tools { deny: vec!["hidden".to_owned()], ..Tools::default() };
    for (server, name, setting, rule) in [
        ("files", "read", "views.v.allow", Some("files/read")),
        ("files", "write", "views.v.allow", None),
        ("files", "read_all", "views.v.deny", Some("files/*_all")),
        ("mail", "read", "views.v.servers", None),
        ("files", "hidden", "mcp_servers.files.tools.deny", Some("hidden")),
    ] {
        let decision = decide(Some(&selected), &tools, tool(server, name, Effect::Unsafe));
        let found = (decision.setting.as_deref(), decision.rule.as_deref());
        assert_eq!(found, (Some(setting), rule), "{server}/{name}");
    }
    let offered = Decision { is_offered: true, setting: None, rule: None, line: None };
    assert_eq!(decide(None, &Tools::default(), tool("s", "t", Effect::Unsafe)), offered);
}

fn held() -> View {
    View {
        new_tools: NewTools::Held,
        ..view("v", None, Some(&["files/*", "files/named", "docs/read_*"]), &[])
    }
}

#[test]
fn view_that_holds_new_tools_has_those_that_it_names() {
    for (name, is_new, expected) in
        [("read", false, true), ("read", true, false), ("named", true, true), ("named", false, true)]
    {
        let target = tool("files", name, Effect::Unsafe);
        let target = Target { tool: ToolFacts { is_new, ..target.tool }, ..target };
        assert_eq!(is_offered(&held(), target), expected, "{name} {is_new}");
        let decision = decide(Some(&held()), &Tools::default(), target);
        assert_eq!(decision.setting.as_deref() == Some("views.v.new_tools"), !expected);
        let open = View { new_tools: NewTools::Offered, ..held() };
        assert!(is_offered(&open, target), "{name} {is_new}");
    }
    assert!(is_offered(&held(), resource("files", "file:///a")), "resources are not held");
}

#[test]
fn tool_for_apps_is_in_a_view_with_its_app_unless_a_rule_denies_it() {
    let narrow = view("v", None, Some(&["s/board"]), &["s/wipe"]);
    let whole = view("v", Some(&["s"]), None, &[]);
    let target = |name, app| {
        let target = tool("s", name, Effect::Unsafe);
        Target { tool: ToolFacts { app, ..target.tool }, ..target }
    };
    for (name, app, of_narrow, of_whole) in [
        ("move", AppTool::Shown, true, true),
        ("move", AppTool::Hidden, false, false),
        ("move", AppTool::No, false, true),
        ("wipe", AppTool::Shown, false, true),
    ] {
        let found = (is_offered(&narrow, target(name, app)), is_offered(&whole, target(name, app)));
        assert_eq!(found, (of_narrow, of_whole), "{name} {app:?}");
    }
    let only_reads = View { read_only: true, ..narrow };
    assert!(!is_offered(&only_reads, target("move", AppTool::Shown)));
}

/// Random rules, tools and newness: a held tool is in no view, and nothing else is changed by holding.
#[test]
fn holding_hides_new_tools_and_nothing_else() {
    let names = ["read", "named", "read_a", "wipe"];
    let mut cases = 0;
    for servers in [None, Some(&["files"][..]), Some(&["docs", "files"][..])] {
        for allow in
            [None, Some(&["files/*"][..]), Some(&["files/named"][..]), Some(&["*/read*", "files/named"][..])]
        {
            for deny in [&[][..], &["*/wipe"][..], &["files/named"][..]] {
                if servers.is_none() && allow.is_none() {
                    continue;
                }
                let open = view("v", servers, allow, deny);
                let holding = View { new_tools: NewTools::Held, ..open.clone() };
                for name in names {
                    for server in ["files", "docs"] {
                        for is_new in [false, true] {
                            let target = tool(server, name, Effect::Unsafe);
                            let target = Target { tool: ToolFacts { is_new, ..target.tool }, ..target };
                            let is_named =
                                allow.is_some_and(|allow| allow.contains(&&*format!("{server}/{name}")));
                            let expected = is_offered(&open, target) && (!is_new || is_named);
                            assert_eq!(
                                is_offered(&holding, target),
                                expected,
                                "{servers:?} {allow:?} {deny:?} {name}"
                            );
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(cases > 400, "{cases}");
}
