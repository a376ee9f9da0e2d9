//! Every client: golden files, undo, a second run, and files that cannot be used.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use clients::{Constant, Reference, System};
use tempfile::TempDir;

use super::document::Syntax;
use super::*;

/// A gateway at the default address, whose configuration file names it.
pub(super) fn gateway() -> Gateway {
    Gateway {
        url: "http://127.0.0.1:8080/mcp".parse().expect("a URL"),
        is_url_named: false,
        is_started: false,
        view: None,
        key_variable: None,
        program: "/usr/bin/switchyard".into(),
        config: "/etc/switchyard/mcp_servers.yaml".into(),
    }
}

/// A gateway that wants a key where the file of `client` can name one.
fn keyed(client: &Client) -> Gateway {
    let has_reference = client.http.is_some() && !matches!(client.reference, Reference::Unknown);
    Gateway { key_variable: has_reference.then(|| "SWITCHYARD_KEY".to_owned()), ..gateway() }
}

fn no_variable(_: &str) -> Option<String> {
    None
}

/// A home folder, and a project below it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn host(&self) -> Host<'static> {
        let home = self.folder.path().to_owned();
        Host { system: System::MacOs, project: home.join("project"), home, variable: &no_variable }
    }

    /// The user's file of `client`, with `content`.
    fn file(&self, client: &Client, content: &str) -> PathBuf {
        let file = client.file(Scope::User, &self.host()).expect("a file");
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, content).expect("written");
        file
    }
}

/// Servers of other programs, as people write them, with comments and an odd layout.
fn others(client: &Client) -> String {
    let keys = |inner: String| {
        let open = client.key.iter().map(|key| format!("    \"{key}\": {{\n")).collect::<Vec<_>>().concat();
        format!("{open}{inner}    }}")
    };
    match client.format {
        Syntax::Json => {
            let servers = "        // the issue tracker\n        \"issues\": {\"url\": \"https://issues.example/mcp\", \"headers\": {\"X\": \"1\"}},\n        \"files\": {\n            \"command\": \"npx\",   \"args\": [\"-y\", \"files\"] // all of them\n        }\n";
            format!(
                "// mine\n{{\n    \"theme\": \"dark\",\n{},\n    \"last\": [1, 2.50,\n        3] /* odd */\n}}\n",
                keys(servers.to_owned())
            )
        }
        Syntax::Toml => format!(
            "# mine\nmodel = 'big'  # odd\n\n[{0}.issues] # the issue tracker\nurl = \"https://issues.example/mcp\"\n\n[{0}.files]\ncommand = \"npx\"\nargs = [\"-y\",\n  \"files\"]\n\n# about the theme\n[tui]\ntheme = \"dark\"\n",
            client.key[0]
        ),
        Syntax::Yaml => format!(
            "# mine\nmodel:   big\n{}:\n    # the issue tracker\n    issues:\n        url: https://issues.example/mcp   # odd\n\n    files:\n        command: npx\n        args:\n          - -y\n          - files\n\n# about the theme\ntheme: dark\n",
            client.key[0]
        ),
        Syntax::YamlList => format!(
            "# mine\nname: big\n{}:\n# the issue tracker\n- name: issues\n  type: streamable-http\n  url: https://issues.example/mcp\n\n- name: files\n  command: npx\n  args: [-y, files]\n\n# about the theme\ntheme: dark\n",
            client.key[0]
        ),
    }
}

/// The file with an entry of Switchyard at another address.
fn old(client: &Client) -> String {
    let old = Json::Object(match client.format {
        Syntax::YamlList => vec![
            ("name".to_owned(), Json::Text("switchyard".to_owned())),
            ("url".to_owned(), Json::Text("http://127.0.0.1:9/old".to_owned())),
        ],
        _ => vec![("url".to_owned(), Json::Text("http://127.0.0.1:9/old".to_owned()))],
    });
    let edit = Edit { name: "switchyard", entry: &old, remove: &[] };
    let text = client.place().apply(&others(client), &edit).expect("an entry");
    // One after it, and a comment at it.
    match client.format {
        Syntax::Toml => {
            text.replace("[mcp_servers.switchyard]", "# the gateway\n[mcp_servers.switchyard] # old")
        }
        _ => text,
    }
}

/// Empty, with other servers, and with an old entry.
fn starts(client: &Client) -> [(&'static str, String); 3] {
    [("empty", String::new()), ("others", others(client)), ("old entry", old(client))]
}

fn connected(client: &Client, file: &Path) -> Plan {
    plan(client, file, &keyed(client), None).unwrap_or_else(|error| panic!("{}: {error}", client.id))
}

#[test]
fn every_client_is_connected_as_its_golden_file_says() {
    for client in CLIENTS {
        let mut golden = String::new();
        for (name, before) in starts(client) {
            let place = Place::new();
            let file = place.file(client, &before);
            let after = connected(client, &file).client.after;
            write!(golden, "=== {name}, before\n{before}=== {name}, after\n{after}").expect("a string");
        }
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/configs/connect/{}.txt", client.id));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, &golden).expect("written");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            golden == expected,
            "{}: `UPDATE_GOLDEN=1` renews it:\n{}",
            path.display(),
            diff(&expected, &golden)
        );
    }
}

#[test]
fn undo_restores_the_bytes_of_every_client_and_the_mode() {
    let mut restored = 0;
    for client in CLIENTS {
        for (name, before) in starts(client) {
            for text in [before.clone(), before.replace('\n', "\r\n"), format!("\u{feff}{before}")] {
                let place = Place::new();
                let file = place.file(client, &text);
                fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
                let plan = connected(client, &file);
                let backup = plan.client.write().expect("written").expect("a backup");
                assert_eq!(fs::read(&backup).expect("a backup"), text.as_bytes());
                assert_ne!(fs::read(&file).expect("a file"), text.as_bytes(), "{}: {name}", client.id);
                assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
                assert!(undo(&file).expect("restored"), "{}: there was a file", client.id);
                assert_eq!(fs::read(&file).expect("a file"), text.as_bytes(), "{}: {name}", client.id);
                assert_eq!(files_in(file.parent().expect("a folder")), 1, "no backup is left");
                restored += 1;
            }
        }
    }
    assert_eq!(restored, CLIENTS.len() * 9);
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

#[test]
fn a_file_that_did_not_exist_is_removed_again() {
    for client in CLIENTS {
        let place = Place::new();
        let file = client.file(Scope::User, &place.host()).expect("a file");
        assert!(connected(client, &file).client.write().expect("written").is_none(), "{}", client.id);
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        assert!(!undo(&file).expect("removed"), "{}", client.id);
        assert!(!file.exists(), "{}", client.id);
        assert_eq!(files_in(file.parent().expect("a folder")), 0, "no mark is left");
    }
}

#[test]
fn a_second_connect_changes_nothing_and_line_ends_stay() {
    for client in CLIENTS {
        let place = Place::new();
        let file = place.file(client, &format!("\u{feff}{}", others(client).replace('\n', "\r\n")));
        let first = connected(client, &file);
        assert!(first.client.after.starts_with('\u{feff}'), "{}", client.id);
        assert_eq!(
            first.client.after.matches('\n').count(),
            first.client.after.matches("\r\n").count(),
            "{}",
            client.id
        );
        first.client.write().expect("written");
        assert!(connected(client, &file).client.is_empty(), "{}", client.id);
    }
}

#[test]
fn additions_of_the_user_stay_while_the_entry_leads_to_the_same_gateway() {
    let client = CLIENTS.iter().find(|client| client.id == "cursor").expect("Cursor");
    let place = Place::new();
    let own = r#""headers": {"X-Team": "a"}, "disabled": false"#;
    let entry = |url: &str| format!(r#"{{"mcpServers": {{"switchyard": {{{own}, "url": "{url}"}}}}}}"#);
    let file = place.file(client, &entry("http://127.0.0.1:8080/mcp"));
    assert!(plan(client, &file, &gateway(), None).expect("a plan").client.is_empty());
    let keyed = plan(client, &file, &keyed(client), None).expect("a plan").client.after;
    for part in ["SWITCHYARD_KEY", "disabled", "X-Team"] {
        assert!(keyed.contains(part), "{keyed}");
    }
    let wrong = r#""type": "sse", "serverUrl": "http://127.0.0.1:8080/mcp", "disabled""#;
    fs::write(&file, keyed.replace(r#""disabled""#, wrong)).expect("written");
    let open = plan(client, &file, &gateway(), None).expect("a plan").client.after;
    assert!(open.contains("X-Team") && open.contains("disabled"), "{open}");
    assert!(
        !open.contains("SWITCHYARD_KEY") && !open.contains("sse") && !open.contains("serverUrl"),
        "{open}"
    );
    let file = place.file(client, &entry("http://127.0.0.1:9/mcp"));
    let moved = plan(client, &file, &gateway(), None).expect("a plan").client.after;
    assert!(moved.contains("8080") && !moved.contains("X-Team"), "a header of another gateway: {moved}");
}

#[test]
fn a_view_has_an_entry_of_its_own() {
    for client in CLIENTS.iter().filter(|client| client.http.is_some()) {
        let place = Place::new();
        let file = place.file(client, &others(client));
        connected(client, &file).client.write().expect("written");
        let files = Gateway { view: Some("my_files".into()), ..keyed(client) };
        let plan = plan(client, &file, &files, None).expect("a plan");
        let root = client.place().parse(&plan.client.after).expect("valid");
        let entries = client.place().entries(&root);
        let targets: Vec<_> =
            entries.iter().filter(|(name, _)| is_ours(name)).map(|(_, entry)| target(entry)).collect();
        let both = ["http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/mcp/my_files"];
        assert_eq!(targets, both, "{}", client.id);
    }
}

#[test]
fn options_that_a_client_cannot_have_are_refused() {
    for client in CLIENTS {
        let place = Place::new();
        let file = place.file(client, "");
        let with_key = Gateway { key_variable: Some("KEY".into()), ..gateway() };
        let refused = plan(client, &file, &with_key, None).is_err();
        assert_eq!(
            refused,
            client.http.is_none() || matches!(client.reference, Reference::Unknown),
            "{}",
            client.id
        );
        let named = Gateway { is_url_named: true, key_variable: None, ..keyed(client) };
        assert_eq!(plan(client, &file, &named, None).is_err(), client.http.is_none(), "{}", client.id);
        let started = Gateway { is_started: true, key_variable: None, ..keyed(client) };
        let started = plan(client, &file, &started, None).expect("each client starts programs").client.after;
        assert!(
            started.contains("/usr/bin/switchyard") && !started.contains("127.0.0.1"),
            "{}: {started}",
            client.id
        );
        let long = Gateway { view: Some("v".repeat(120)), key_variable: None, ..keyed(client) };
        assert!(plan(client, &file, &long, None).is_err(), "{}", client.id);
        assert_eq!(fs::read(&file).expect("a file"), b"");
    }
}

#[test]
fn invalid_files_give_an_error_with_their_name_and_stay() {
    for client in CLIENTS {
        let wrong = match client.format {
            Syntax::Json => ["{\"a\": ", "[1]", "{\"a\": 1, \"a\": 2}"],
            Syntax::Toml => ["a = ", "[a", "a = 1\na = 2"],
            Syntax::Yaml | Syntax::YamlList => ["a: [", "- 1", "a: 1\na: 2"],
        };
        let not_servers = match client.format {
            Syntax::Json => format!("{{{}: 7}}", serde_json::Value::from(client.key[0])),
            Syntax::Toml => format!("{} = 7", client.key[0]),
            Syntax::Yaml | Syntax::YamlList => format!("{}: 7", client.key[0]),
        };
        for text in wrong.into_iter().chain([not_servers.as_str()]) {
            let place = Place::new();
            let file = place.file(client, text);
            let error = plan(client, &file, &keyed(client), None).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{}:", file.display())), "{error}");
            assert_eq!(fs::read_to_string(&file).expect("a file"), text);
            assert_eq!(files_in(file.parent().expect("a folder")), 1);
        }
    }
}

#[test]
fn links_are_followed_and_stay() {
    for client in CLIENTS {
        let place = Place::new();
        let file = place.file(client, "");
        let real = place.folder.path().join("dotfiles");
        fs::write(&real, others(client)).expect("written");
        fs::remove_file(&file).expect("removed");
        symlink(&real, &file).expect("linked");
        connected(client, &file).client.write().expect("written");
        assert!(fs::symlink_metadata(&file).expect("a link").is_symlink(), "{}", client.id);
        assert_ne!(fs::read_to_string(&real).expect("a file"), others(client));
        assert!(undo(&file).expect("restored"));
        assert!(fs::symlink_metadata(&file).expect("a link").is_symlink());
        assert_eq!(fs::read_to_string(&real).expect("a file"), others(client));
    }
}

#[test]
fn clients_on_the_machine_are_listed_with_their_state() {
    let place = Place::new();
    let host = place.host();
    assert!(installed(&host).is_empty());
    let [cursor, codex, zed] = ["cursor", "codex", "zed"].map(|id| Client::find(id).expect("a client"));
    let file = place.file(cursor, "{}");
    connected(cursor, &file).client.write().expect("written");
    place.file(codex, "broken = ");
    let zed_file = zed.file(Scope::User, &host).expect("a file");
    fs::create_dir_all(zed_file.parent().expect("a folder")).expect("made");
    fs::create_dir_all(&host.project).expect("made");
    fs::write(host.project.join(".mcp.json"), "{}").expect("written");
    let found: Vec<_> =
        installed(&host).into_iter().map(|found| (found.client.id, found.scope, found.state)).collect();
    let [claude, codex, cursor, zed] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*claude, ("claude-code", Scope::Project, State::NotConnected));
    assert!(matches!(codex, ("codex", Scope::User, State::Unreadable(_))));
    let state = State::Connected("http://127.0.0.1:8080/mcp".into());
    assert_eq!(*cursor, ("cursor", Scope::User, state));
    assert_eq!(*zed, ("zed", Scope::User, State::NotConnected));
}

#[test]
fn rows_are_complete_and_in_order() {
    assert!(CLIENTS.is_sorted_by_key(|client| client.id));
    assert_eq!(CLIENTS.len(), 31);
    for client in CLIENTS {
        assert!(
            !client.name.is_empty() && !client.key.is_empty() && !client.user.is_empty(),
            "{}",
            client.id
        );
        assert!(client.source.starts_with("https://") && client.checked.len() == 10, "{}", client.id);
        let members = client.http.iter().flat_map(|http| http.before.iter().chain(http.after));
        let has_variable =
            members.chain(client.stdio.before).any(|(_, value)| matches!(value, Constant::Variable));
        assert!(!has_variable, "{}: the variable stands in `reference`", client.id);
    }
}
