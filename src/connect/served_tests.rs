//! Tests of changes that clients ask for: what they can write, and what they cannot.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const FILE: &str = "\
# The team's servers.
mcp_servers:
  issues:
    url: https://issues.example.org/mcp   # by ann
    headers: {Authorization: \"Bearer ${TOKEN}\", X-Plain: canary}
    timeout: 20
  program: {command: cat, env: {A: \"${secret:ONE}\"}}
  # Notes of everybody.
  notes:
    url: https://notes.example.org/mcp
    auth: oauth
";

struct Served {
    folder: tempfile::TempDir,
    file: ServedFile,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mcp_servers.yaml");
        fs::write(&path, FILE).expect("written");
        let environment =
            |name: &str| if name == "TOKEN" { Ok("t0ken".to_owned()) } else { Err(VarError::NotPresent) };
        Self { folder, file: ServedFile { path, environment } }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file.path).expect("there")
    }

    fn change(&self, name: &str, change: &EntryChange, is_local: bool) -> Result<EditedEntry, NotEdited> {
        let planned = self.file.edit(name, change, is_local, true);
        assert_eq!(self.text(), FILE, "a dry run writes nothing");
        let made = self.file.edit(name, change, is_local, false);
        assert_eq!(planned.map(|edit| edit.after), made.clone().map(|edit| edit.after));
        made
    }
}

fn at(url: &str) -> EntrySettings {
    EntrySettings { url: Some(url.to_owned()), ..EntrySettings::default() }
}

fn with_header(settings: EntrySettings, value: &str) -> EntrySettings {
    EntrySettings { headers: Some(BTreeMap::from([("X-A".to_owned(), value.to_owned())])), ..settings }
}

#[test]
fn server_is_added_with_backup_and_everything_else_stays() {
    let served = Served::new();
    let settings = EntrySettings {
        oauth: Some(true),
        description: Some("costs 5 $".to_owned()),
        enabled: Some(false),
        ..with_header(at("https://new.example.org/mcp"), "pa$$word $1")
    };
    let made = served.change("new", &EntryChange::Add(settings), false).expect("added");
    let text = served.text();
    assert!(text.starts_with(FILE) && made.written, "{text}");
    for line in ["public_only: true", "auth: oauth", "costs 5 $$", "pa$$$$word $$1", "enabled: false"] {
        assert!(text[FILE.len()..].contains(line), "{line}: {text}");
    }
    let shown = made.after.expect("an entry").as_str().to_owned();
    assert!(!shown.contains("pa$") && shown.contains("new.example.org"), "{shown}");
    let backup = served.folder.path().join(made.backup.expect("a backup"));
    assert_eq!(fs::read_to_string(backup).expect("there"), FILE);
}

#[test]
fn no_text_of_a_client_refers_to_anything() {
    let all = ["${TOKEN}", "Bearer ${TOKEN}", "${secret:ONE}", "a$$${TOKEN}", "~", "~/x", "${X:-y}"];
    for text in all {
        let served = Served::new();
        for settings in [
            with_header(at("https://new.example.org/mcp"), text),
            at(&format!("https://new.example.org/{text}")),
            EntrySettings { description: Some(text.to_owned()), ..at("https://new.example.org/mcp") },
        ] {
            let is_path =
                text.starts_with('~') && settings.headers.is_none() && settings.description.is_none();
            let refused = served.file.edit("new", &EntryChange::Add(settings), true, false);
            assert!(is_path || matches!(refused, Err(NotEdited::Invalid(_))), "{text}: {refused:?}");
        }
        let edit = EntryChange::Edit(with_header(EntrySettings::default(), text));
        assert!(matches!(served.file.edit("notes", &edit, true, false), Err(NotEdited::Invalid(_))));
    }
}

#[test]
fn addresses_of_this_network_are_refused_where_others_reach_the_gateway() {
    for url in [
        "http://127.0.0.1:1/mcp",
        "http://localhost/mcp",
        "http://a.localhost./mcp",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
    ] {
        let served = Served::new();
        let add = EntryChange::Add(at(url));
        assert!(matches!(served.file.edit("new", &add, false, false), Err(NotEdited::Invalid(_))), "{url}");
        let edit = EntryChange::Edit(at(url));
        assert!(served.file.edit("notes", &edit, false, false).is_err(), "{url}");
        assert_eq!(served.text(), FILE);
        assert!(served.file.edit("new", &add, true, false).is_ok(), "{url}");
        assert!(!served.text().contains(PUBLIC_ONLY));
    }
    for url in ["file:///etc/passwd", "ftp://a.example.org", "not a url", "unix:/run/x", "javascript:1"] {
        let add = EntryChange::Add(at(url));
        assert!(
            matches!(Served::new().file.edit("new", &add, true, false), Err(NotEdited::Invalid(_))),
            "{url}"
        );
    }
}

#[test]
fn edit_keeps_the_rest_and_sends_no_secret_to_another_url() {
    let served = Served::new();
    let moved = EntryChange::Edit(at("https://evil.example.org/mcp"));
    let refused = served.change("issues", &moved, false).expect_err("its headers would go there");
    assert!(format!("{refused:?}").contains("headers"), "{refused:?}");
    let settings = with_header(at("https://other.example.org/mcp"), "plain");
    let made = served.change("issues", &EntryChange::Edit(settings), false).expect("changed");
    let text = served.text();
    assert!(
        !text.contains("${TOKEN}") && text.contains("timeout: 20") && text.contains("Notes of everybody"),
        "{text}"
    );
    assert!(text.contains("public_only: true") && text.contains("other.example.org"), "{text}");
    let before = made.before.expect("an entry").as_str().to_owned();
    assert!(!before.contains("canary") && before.contains("${TOKEN}"), "{before}");

    let program = EntryChange::Edit(at("https://other.example.org/mcp"));
    assert!(served.file.edit("program", &program, true, false).is_err(), "it is no server at a URL");
    let off = EntryChange::Edit(EntrySettings {
        enabled: Some(false),
        oauth: Some(false),
        ..EntrySettings::default()
    });
    let made = served.file.edit("notes", &off, true, false).expect("changed");
    assert_eq!(
        made.after.expect("an entry").as_str(),
        r#"{"url":"https://notes.example.org/mcp","enabled":false}"#
    );
    assert!(
        !served.file.edit("notes", &off, true, false).expect("it is so").written,
        "nothing changes twice"
    );
}

#[test]
fn reason_against_a_change_is_named() {
    let served = Served::new();
    let edit = |name: &str, change: &EntryChange| served.file.edit(name, change, true, false);
    let add = EntryChange::Add(at("https://new.example.org/mcp"));
    assert!(
        matches!(edit("notes", &add), Err(NotEdited::Conflict(text)) if text.contains("another server `notes`"))
    );
    assert!(matches!(edit("../x", &add), Err(NotEdited::Invalid(_))));
    assert!(
        matches!(edit("note", &EntryChange::Remove), Err(NotEdited::Unknown(text)) if text.contains("`notes`"))
    );
    assert!(matches!(
        edit("note", &EntryChange::Edit(at("https://a.example.org"))),
        Err(NotEdited::Unknown(_))
    ));
    let header = BTreeMap::from([("Content-Type".to_owned(), "a".to_owned())]);
    let reserved =
        EntryChange::Add(EntrySettings { headers: Some(header), ..at("https://new.example.org/mcp") });
    assert!(matches!(edit("new", &reserved), Err(NotEdited::Invalid(_))));
    fs::set_permissions(&served.file.path, PermissionsExt::from_mode(0o444)).expect("set");
    for change in [&add, &EntryChange::Remove] {
        let name = if *change == add { "new" } else { "notes" };
        let refused = edit(name, change);
        assert!(
            matches!(&refused, Err(NotEdited::Conflict(text)) if text.contains("read-only")),
            "{refused:?}"
        );
    }
    assert_eq!(served.text(), FILE);
    fs::set_permissions(&served.file.path, PermissionsExt::from_mode(0o644)).expect("set");
    let made = edit("notes", &EntryChange::Remove).expect("removed");
    assert!(made.after.is_none() && made.before.is_some());
    assert!(!served.text().contains("notes.example.org") && served.text().contains("by ann"));
}
