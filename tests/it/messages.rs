//! Messages about usual mistakes: each names what is wrong and what to type.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::thread;

use crate::support::{Gateway, Registry, eventually};

/// Exit code, standard output and standard error.
pub fn texts_of(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let texts = (output.status.code(), text(&output.stdout), text(&output.stderr));
    eprintln!("{:?}\n{}{}", texts.0, texts.1, texts.2);
    texts
}

#[test]
fn unknown_key_is_told_where_it_belongs() {
    for (yaml, path, hint) in [
        (
            "mcp_servers: {a: {command: b, listen: x}}\n",
            "mcp_servers.a.listen",
            "write it as `server.listen`",
        ),
        ("mcp_servers: {}\nlisten: x\n", "listen", "write it as `server.listen`"),
        ("mcp_servers: {}\nauth_mode: none\n", "auth_mode", "write it as `server.auth_mode`"),
        ("mcp_servers: {}\ncommand: x\n", "command", "write it as `mcp_servers.NAME.command`"),
        ("mcp_servers: {}\nserver: {watch: true}\n", "server.watch", "write it as `watch`"),
        ("mcp_servers: {}\nserver: {mcp_servers: {}}\n", "server.mcp_servers", "write it as `mcp_servers`"),
        (
            "mcp_servers: {a: {url: \"http://a\", bearer: x}}\n",
            "mcp_servers.a.bearer",
            "`mcp_servers.a.auth.bearer`",
        ),
        (
            "mcp_servers: {a: {command: b, tool_names: x}}\n",
            "mcp_servers.a.tool_names",
            "write it as `tool_names`",
        ),
        (
            "mcp_servers: {a: {command: b, retry_attempt: 1}}\n",
            "mcp_servers.a.retry_attempt",
            "`retry_attempts`?",
        ),
        (
            "mcp_servers: {a: {command: b, max_conections: 1}}\n",
            "a.max_conections",
            "`server.max_connections`",
        ),
        (
            "mcp_servers: {}\nserver: {api_keys: [{hsh: x}]}\n",
            "server.api_keys[0].hsh",
            "did you mean `hash`?",
        ),
        ("mcp_servers: {a: {command: b, colour: red}}\n", "mcp_servers.a.colour", "`switchyard schema`"),
        (
            "mcp_servers: {a: {url: \"http://a\", auth: {colour: x}}}\n",
            "a.auth.colour",
            "the keys here are `bearer`",
        ),
    ] {
        let (code, _, err) = texts_of(&Gateway::with_config(yaml).output(&["check", "mcp_servers.yaml"]));
        assert_eq!(code, Some(2), "{yaml}");
        let mut lines = err.lines().skip_while(|line| !line.contains(&format!("{path}: unknown key")));
        assert!(lines.next().is_some(), "{path} is not reported: {err}");
        let found = lines.take_while(|line| !line.is_empty()).find(|line| line.contains("hint: "));
        assert!(found.is_some_and(|found| found.contains(hint)), "{hint:?} is not the hint of {path}: {err}");
    }
}

#[test]
fn dry_run_writes_nothing_also_with_yes() {
    let gateway = Gateway::without_file();
    let names = || {
        let entries = std::fs::read_dir(gateway.folder()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
    };
    for arguments in [
        &["init", "--no-import", "--dry-run", "--yes"][..],
        &["add", "a", "http://127.0.0.1:1/mcp", "--yes", "--dry-run"],
        &["connect", "cursor", "--dry-run", "--yes"],
    ] {
        let (code, out, _) = texts_of(&gateway.output(arguments));
        assert_eq!(code, Some(0), "{arguments:?}");
        assert!(out.contains('+'), "{arguments:?} shows no change: {out}");
        assert!(names().is_empty(), "{arguments:?} wrote {:?}", names());
    }
}

/// Serves each connection with `answer`, on a port that the system chose. Returns its address.
fn foreign(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request, mut piece) = (stream.expect("a client"), Vec::new(), [0; 4096]);
            while !is_whole(&String::from_utf8_lossy(&request)) {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            let _ = stream.write_all(answer(&String::from_utf8_lossy(&request)).as_bytes());
        }
    });
    address
}

/// Whether a request has its head and all of its body.
fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn http(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn foreign_program_at_the_port_is_told() {
    let nothing = http("404 Not Found", "text/html", "<h1>no</h1>");
    let page = http("200 OK", "text/html", "<h1>Welcome</h1>");
    let json = http("200 OK", "application/json", "{\"ok\": true}");
    let refused = http("401 Unauthorized", "text/plain", "log in");
    let gateway = Gateway::without_file();
    for (answer, what) in [
        (nothing, "(status 404 Not Found)"),
        (page, "(its answer is not that of a gateway)"),
        (json, "(its answer is not that of a gateway)"),
        (refused, "(status 401 Unauthorized)"),
        ("-ERR unknown command\r\n".to_owned(), "(it does not speak HTTP)"),
    ] {
        let address = foreign(move |_| answer.clone());
        let url = format!("http://{address}");
        for command in [
            &["status"][..],
            &["servers"],
            &["tools"],
            &["reconnect", "a"],
            &["reload"],
            &["forget", "a"],
            &["prompts"],
            &["logs"],
            &["logout", "a"],
        ] {
            let (code, _, err) = texts_of(&gateway.output(&[command, &["--url", &url]].concat()));
            let expected = format!("no Switchyard answers at {url}, another program does {what}; ");
            assert!(err.starts_with(&expected), "{command:?}: {err}");
            assert!(err.contains("--url") && err.contains("`switchyard doctor`"), "{command:?}: {err}");
            assert_eq!(code, Some(3), "{command:?}");
        }
        std::fs::write(
            gateway.folder().join("here.yaml"),
            format!("server: {{listen: \"{address}\"}}\nmcp_servers: {{}}\n"),
        )
        .expect("written");
        let add = ["add", "a", "http://127.0.0.1:1/mcp", "--yes", "--config", "here.yaml"];
        let (_, _, err) = texts_of(&gateway.output(&add));
        assert!(err.contains("`switchyard` starts the gateway"), "{err}");
    }
}

#[tokio::test]
async fn program_that_repeats_requests_is_told_as_such() {
    let echo = foreign(|request| {
        let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        http("200 OK", "application/json", body)
    });
    let registry = Registry::new()
        .command("echo", "cat", &[])
        .http("web", &format!("http://{echo}/mcp"))
        .setting("server: {listen: \"127.0.0.1:0\"}");
    let gateway = Gateway::of(&registry);
    let why = "it sends the requests of Switchyard back";
    let (code, _, err) = texts_of(&gateway.output(&["check", "--connect", "mcp_servers.yaml"]));
    assert_eq!(code, Some(1));
    let (_, doctor, _) = texts_of(&gateway.output(&["doctor", "--config", "mcp_servers.yaml"]));
    let running = gateway.start().await;
    for name in ["echo", "web"] {
        assert!(
            err.lines().any(|line| line.starts_with(&format!("{name}: ")) && line.contains(why)),
            "{name}: {err}"
        );
        assert!(
            doctor.lines().any(|line| line.contains(&format!("{name}: ")) && line.contains(why)),
            "{doctor}"
        );
        eventually("the reason is the last error", async || {
            let servers = running.get("/servers").await.json();
            let all = servers["servers"].as_array().expect("servers").clone();
            let server = all.into_iter().find(|server| server["name"] == name).expect("it is listed");
            server["last_error"].as_str().is_some_and(|error| error.contains(why)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn refused_permission_says_what_is_needed() {
    let gateway = Gateway::of(&Registry::new().setting("server: {listen: \"127.0.0.1:0\"}"));
    let script = |name: &str, text: &str, mode| {
        let path = gateway.folder().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("allowed");
        path.display().to_string()
    };
    let plain = script("plain.sh", "#!/bin/sh\n", 0o644);
    let denied = script("denied.sh", &format!("#!{plain}\n"), 0o755);
    let absent = script("absent.sh", "#!/no/such/interpreter\n", 0o755);
    let folder = gateway.folder().display().to_string();
    let programs = [
        ("plain", plain, "permission denied: it has no execute permission; `chmod +x` sets it"),
        ("denied", denied, "the interpreter in its first line needs execute permission"),
        ("absent", absent, "the interpreter in its first line does not exist"),
        ("folder", folder, "it is a folder and no program"),
    ];
    let registry = programs.iter().fold(Registry::new(), |all, (name, path, _)| all.command(name, path, &[]));
    std::fs::write(gateway.folder().join("programs.yaml"), registry.yaml()).expect("written");
    let (_, _, err) = texts_of(&gateway.output(&["check", "--connect", "programs.yaml"]));
    for (name, _, needed) in programs {
        assert!(
            err.lines().any(|line| line.starts_with(&format!("{name}: ")) && line.contains(needed)),
            "{name}: {err}"
        );
    }

    // Files, as a user without privileges.
    let gateway = gateway.unprivileged();
    let secret = gateway.folder().join("secret.yaml");
    std::fs::write(&secret, "mcp_servers: {}\n").expect("written");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o000)).expect("allowed");
    for arguments in [
        &["check", "secret.yaml"][..],
        &["serve", "--config", "secret.yaml"],
        &["add", "a", "http://a/mcp", "--yes", "--config", "secret.yaml"],
        &["status", "--config", "secret.yaml"],
        &["doctor", "--offline", "--config", "secret.yaml"],
    ] {
        let (_, out, err) = texts_of(&gateway.output(arguments));
        let all = format!("{out}{err}");
        assert!(
            all.contains("permission denied: the user with id ") && all.contains("must be able to read it"),
            "{arguments:?}: {all}"
        );
    }
}

#[tokio::test]
async fn weak_credential_is_told_what_makes_a_better_one() {
    let (key, hash) = auth_key("one");
    let yaml = format!(
        "mcp_servers: {{a: {{command: \"true\", enabled: false}}}}\nserver:\n  auth_mode: api_key\n  api_keys: [{{id: one, hash: \"{hash}\", role: reader}}]\n"
    );
    let running = Gateway::with_config(&yaml).start().await;
    let url = format!("http://{}", running.address);
    let of = |key: &str, command: &str| {
        texts_of(&running.gateway().output(&[command, "--url", &url, "--key", key]))
    };
    let (code, _, err) = of(&key, "reload");
    assert_eq!(code, Some(4));
    assert!(err.contains("role superuser") && err.contains("`switchyard key add NAME --role ROLE`"), "{err}");
    let (code, _, err) = of("wrong", "status");
    assert_eq!(code, Some(4));
    assert!(err.contains("valid credential") && err.contains("`switchyard key add NAME`"), "{err}");
}

/// A key and the hash of it.
fn auth_key(id: &str) -> (String, String) {
    let (_, out, _) = texts_of(&Gateway::without_file().output(&["key", "new", "--id", id]));
    let after = |mark: &str| {
        out.lines().find_map(|line| line.trim().strip_prefix(mark)).expect(mark).trim().to_owned()
    };
    (after("#   "), after("hash:"))
}

#[test]
fn mistake_of_another_entry_stops_neither_add_nor_remove() {
    let before = "mcp_servers:\n  broken: {urk: \"http://127.0.0.1:1/mcp\"}\n  old: {command: \"true\"}\n";
    let gateway = Gateway::with_config(before);
    let file = || std::fs::read_to_string(gateway.folder().join("mcp_servers.yaml")).expect("a file");
    let (code, _, err) = texts_of(&gateway.output(&["add", "new", "http://127.0.0.1:1/mcp", "--yes"]));
    assert_eq!(code, Some(0));
    assert!(err.contains("note: the file has other mistakes") && err.contains("`switchyard check`"), "{err}");
    assert!(file().starts_with(before) && file().contains("  new:\n"), "{}", file());
    let (code, _, err) = texts_of(&gateway.output(&["remove", "old", "--yes"]));
    assert_eq!(code, Some(0));
    assert!(err.contains("note: the file has other mistakes") && !file().contains("old:"), "{err}{}", file());
    let (code, _, err) = texts_of(&gateway.output(&["remove", "broken", "--yes"]));
    assert_eq!(code, Some(0));
    assert!(!err.contains("mistake") && !file().contains("urk"), "{err}{}", file());
}

#[test]
fn add_and_import_move_secrets_into_the_vault() {
    let gateway = Gateway::with_config("server: {state_dir: state}\nmcp_servers: {}\n");
    let file = |name: &str| std::fs::read_to_string(gateway.folder().join(name)).expect("a file");
    let header = "Authorization: Bearer ghp_0123456789abcdef0123456789abcdef0123";
    let (code, out, err) = texts_of(&gateway.output(&[
        "add",
        "issues",
        "http://127.0.0.1:1/mcp",
        "-H",
        header,
        "--to-vault",
        "--yes",
    ]));
    assert_eq!(code, Some(0), "{err}");
    assert!(
        file("mcp_servers.yaml").contains("${secret:ISSUES_AUTHORIZATION}"),
        "{}",
        file("mcp_servers.yaml")
    );
    assert!(!format!("{out}{err}{}", file("mcp_servers.yaml")).contains("ghp_"), "{out}{err}");
    let (_, names, _) = texts_of(&gateway.output(&["secret", "list"]));
    assert!(names.contains("ISSUES_AUTHORIZATION"), "{names}");
    std::fs::create_dir(gateway.folder().join(".cursor")).expect("made");
    let servers = r#"{"mcpServers": {"tracker": {"command": "true", "env": {"TRACKER_TOKEN": "xoxb-0123456789-abcdefghij"}}}}"#;
    std::fs::write(gateway.folder().join(".cursor/mcp.json"), servers).expect("written");
    let (code, out, err) =
        texts_of(&gateway.output(&["connect", "cursor", "--import", "--to-vault", "--yes"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(
        file("mcp_servers.yaml").contains("${secret:TRACKER_TRACKER_TOKEN}"),
        "{}",
        file("mcp_servers.yaml")
    );
    assert!(
        !format!("{out}{err}{}{}", file("mcp_servers.yaml"), file(".cursor/mcp.json")).contains("xoxb-"),
        "{out}{err}"
    );
    let (code, _, err) = texts_of(&gateway.output(&["check", "mcp_servers.yaml"]));
    assert_eq!(code, Some(0), "{err}");
}
