//! Mistakes on this machine: ports, files, programs, variables, clients, and the gateway that runs.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{CANARY, DoctorOutput, quiet, server};
use crate::support::{Gateway, Registry};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner may");
}

/// A folder with a program that prints `text`.
fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\necho {text}\n")).expect("written");
    set_mode(&path, 0o755);
}

#[test]
fn a_taken_port_comes_with_the_program_that_holds_it_and_a_free_one() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let gateway = Gateway::with_config(&format!("server: {{listen: \"{address}\"}}\nmcp_servers: {{}}\n"));
    let told = DoctorOutput::by(&gateway, &[]);
    told.ends_with(1);
    let id = std::process::id();
    told.finds(
        "problem",
        "address",
        &format!("{address} is taken by `"),
        &format!("`kill {id}` ends it, `switchyard --listen 127.0.0.1:"),
    );
    assert!(told.1.contains(&format!("process {id}")), "the process");
    // One that it may not look into, or that belongs to another machine.
    let foreign = DoctorOutput::by(&gateway, &["--listen", "192.0.2.1:80"]);
    foreign.ends_with(2);
    foreign.says("problem", "configuration", "others can reach this address");
    foreign.finds(
        "problem",
        "address",
        "192.0.2.1:80 cannot be used",
        "`switchyard --listen 127.0.0.1:8080`",
    );
    drop(taken);
    DoctorOutput::by(&gateway, &[]).says("ok", "address", &format!("{address} is free"));
}

#[tokio::test]
async fn a_gateway_on_the_port_is_recognized_and_its_configuration_compared() {
    let server = server();
    let registry = Registry::new().http("one", &server.url());
    let running = Gateway::of(&registry).start().await;
    let told = || DoctorOutput::by(running.gateway(), &["--listen", &running.address, "--offline"]);
    told().ends_with(0);
    told().says("ok", "address", "a Switchyard gateway listens on");
    told().says("ok", "gateway", "the gateway that runs has read mcp_servers.yaml as it is now");
    running.rewrite(&registry.clone().http("two", &server.url()).yaml());
    let changed = told();
    changed.finds("warning", "gateway", "other settings than mcp_servers.yaml", "`switchyard reload`");
    changed.ends_with(0);
    let reloaded = running.gateway().output(&["reload", "--url", &running.url("")]);
    assert!(reloaded.status.success());
    told().says("ok", "gateway", "as it is now");
    // A secret is not shown, so only the time tells that it changed.
    let file =
        fs::File::options().append(true).open(running.folder().join("mcp_servers.yaml")).expect("there");
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_mins(1)).expect("set");
    told().finds("warning", "gateway", "other settings", "`switchyard reload`");
    let absent = DoctorOutput::by(running.gateway(), &["--url", "http://127.0.0.1:1", "--offline"]);
    absent.ends_with(1);
    absent.finds(
        "problem",
        "gateway",
        "no Switchyard answers at http://127.0.0.1:1",
        "`switchyard` starts a gateway",
    );
}

#[tokio::test]
async fn a_gateway_with_keys_is_recognized_and_gets_no_key_by_mistake() {
    let keys = "server: {auth_mode: api_key, api_keys: [{id: op, hash: \"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", role: reader}]}";
    let running = Gateway::of(&Registry::new().setting(keys)).start().await;
    let told = DoctorOutput::by(running.gateway(), &["--listen", &running.address, "--offline"]);
    told.finds("ok", "gateway", "does not show its configuration", "SWITCHYARD_KEY");
    // A program that is no gateway sees no credential.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let seen = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut request = [0; 4096];
        let read = std::io::Read::read(&mut socket, &mut request).expect("a request");
        std::io::Write::write_all(&mut socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            .expect("sent");
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let gateway = Gateway::with_config("mcp_servers: {}\n").env("SWITCHYARD_KEY", CANARY);
    DoctorOutput::by(&gateway, &["--listen", &address, "--offline"]).says(
        "problem",
        "address",
        "is taken by",
    );
    let request = seen.join().expect("asked");
    assert!(request.starts_with("GET /health ") && !request.contains(CANARY), "{request}");
}

#[test]
fn permissions_that_open_or_close_too_much_are_found() {
    let yaml = format!(
        "server: {{listen: \"127.0.0.1:0\"}}\nmcp_servers:\n  a: {{url: \"http://127.0.0.1:1/mcp\", auth: {{bearer: {CANARY}}}}}\n"
    );
    let gateway = Gateway::with_config(&yaml);
    let file = gateway.folder().join("mcp_servers.yaml");
    let told = |mode| {
        set_mode(&file, mode);
        DoctorOutput::by(&gateway, &["--offline"])
    };
    told(0o600).says("ok", "permissions", "");
    told(0o640).says("ok", "permissions", "");
    told(0o644).finds("warning", "permissions", "other users can read it", "`chmod 600 mcp_servers.yaml`");
    told(0o666).finds("problem", "permissions", "every user can write it", "`chmod go-w mcp_servers.yaml`");
    told(0o666).ends_with(1);
    set_mode(&file, 0o600);
    let state = gateway.folder().join("state");
    let with = |settings: &str| {
        fs::write(&file, format!("server: {{listen: \"127.0.0.1:0\", {settings}}}\nmcp_servers: {{}}\n"))
            .expect("written");
        DoctorOutput::by(&gateway, &["--offline"])
    };
    with("state_dir: state").says("ok", "permissions", "");
    let set =
        gateway.output_with_input(&["secret", "set", "A", "--config", "mcp_servers.yaml"], CANARY.as_bytes());
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    with("state_dir: state").says("ok", "permissions", "");
    set_mode(&state.join("vault.key"), 0o644);
    with("state_dir: state").finds(
        "problem",
        "permissions",
        "other users can read its key file",
        "`chmod 600 ",
    );
    fs::write(gateway.folder().join("file"), "").expect("written");
    with("state_dir: file/below").finds("problem", "permissions", "is not a folder", "`state_dir: FOLDER`");
    with("log_file: logs/a.log").finds("problem", "permissions", "there is no folder", "`mkdir -p ");
    with("log_file: state").finds(
        "problem",
        "permissions",
        "it is not a file",
        "another path for `log_file`",
    );
    assert!(!gateway.folder().join("logs").exists());
}

#[test]
fn a_missing_program_comes_with_its_package_and_an_old_one_is_named() {
    let registry = Registry::new()
        .command("files", "npx", &["-y", "x"])
        .command("time", "uvx", &["y"])
        .command("own", "own-server", &[]);
    let gateway = quiet(registry);
    let folder = gateway.folder().to_owned();
    let gateway = gateway.env("PATH", &folder.display().to_string());
    let told = DoctorOutput::by(&gateway, &[]);
    told.ends_with(1);
    told.finds(
        "problem",
        "programs",
        "files: `npx` cannot be started: it is not in PATH",
        "install Node.js 18",
    );
    told.finds("problem", "programs", "time: `uvx` cannot be started", "install uv");
    told.says("problem", "programs", "own: `own-server` cannot be started: it is not in PATH; install it");
    assert!(!told.1.contains("servers "), "they are not reported twice: {}", told.1);
    for name in ["npx", "uvx", "own-server"] {
        program(&folder, name, "");
    }
    program(&folder, "node", "v16.20.2");
    let old = DoctorOutput::by(&gateway, &[]);
    old.finds("warning", "programs", "/node is version 16.20", "install Node.js 18");
    program(&folder, "node", "v22.1.0");
    let told = DoctorOutput::by(&gateway, &["--offline"]);
    told.says("ok", "programs", "the programs of 3 servers are there");
}

#[test]
fn proxy_variables_that_have_no_effect_are_named() {
    let registry = Registry::new()
        .http("near", "http://127.0.0.1:1/mcp")
        .http("far", "https://far.example/mcp")
        .command("without", "true", &[])
        .command("with", "true", &[])
        .with("pass_env: [HTTPS_PROXY]");
    let gateway = quiet(registry).env("HTTPS_PROXY", "http://user:canary-0123456789@proxy:3128");
    let told = DoctorOutput::by(&gateway, &["--offline"]);
    told.ends_with(0);
    told.finds("warning", "proxy", "connects to servers directly: far", "without the proxy");
    told.finds(
        "warning",
        "proxy",
        "these programs do not get it: without",
        "`default_pass_env: [HTTPS_PROXY]`",
    );
    assert!(!told.1.contains("directly: near") && !told.1.contains("without, with"), "{}", told.1);
}

#[test]
fn a_client_that_leads_elsewhere_is_named_with_the_command_that_corrects_it() {
    let gateway = Gateway::with_config("server: {listen: \"127.0.0.1:18653\"}\nmcp_servers: {}\n");
    let write = |path: &str, text: &str| {
        let file = gateway.folder().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, text).expect("written");
    };
    let cursor = |url: &str| {
        write(".cursor/mcp.json", &format!("{{\"mcpServers\": {{\"switchyard\": {{\"url\": \"{url}\"}}}}}}"));
    };
    let amazon = |command: &str, config: &str| {
        let entry =
            format!("{{\"command\": \"{command}\", \"args\": [\"stdio\", \"--config\", \"{config}\"]}}");
        write(".aws/amazonq/mcp.json", &format!("{{\"mcpServers\": {{\"switchyard\": {entry}}}}}"));
    };
    cursor("http://127.0.0.1:9/mcp?key=canary-0123456789");
    amazon("/no/such/switchyard", "mcp_servers.yaml");
    let told = DoctorOutput::by(&gateway, &["--offline"]);
    told.ends_with(0);
    told.finds(
        "warning",
        "clients",
        "leads elsewhere: http://127.0.0.1:9/mcp, and this gateway is at http://127.0.0.1:18653/mcp",
        "`switchyard connect cursor`",
    );
    told.finds(
        "warning",
        "clients",
        "/no/such/switchyard, which does not exist",
        "`switchyard connect amazon-q`",
    );
    cursor("http://localhost:18653/mcp/one");
    amazon("switchyard", "/other/mcp_servers.yaml");
    let told = DoctorOutput::by(&gateway, &["--offline"]);
    told.finds(
        "warning",
        "clients",
        "it uses /other/mcp_servers.yaml, and not",
        "`switchyard connect amazon-q`",
    );
    assert!(!told.1.contains("connect cursor"), "{}", told.1);
    // The commands that it says.
    for client in ["cursor", "amazon-q"] {
        let connected = gateway.output(&["connect", client, "--yes", "--config", "mcp_servers.yaml"]);
        assert!(connected.status.success(), "{}", String::from_utf8_lossy(&connected.stderr));
    }
    let told = DoctorOutput::by(&gateway, &["--offline"]);
    told.says("ok", "clients", "connected: Amazon Q Developer CLI, Cursor");
    cursor("https://gateway.example.org/mcp");
    let public =
        "server: {listen: \"127.0.0.1:18653\", public_url: https://gateway.example.org}\nmcp_servers: {}\n";
    fs::write(gateway.folder().join("mcp_servers.yaml"), public).expect("written");
    DoctorOutput::by(&gateway, &["--offline"]).says(
        "ok",
        "clients",
        "connected: Amazon Q Developer CLI, Cursor",
    );
    write(".cursor/mcp.json", "{");
    DoctorOutput::by(&gateway, &["--offline"]).says("warning", "clients", "cannot be used");
}

#[test]
fn programs_that_do_not_get_the_authorities_of_this_machine_are_named() {
    let registry = Registry::new().command("one", "true", &[]).command("two", "true", &[]);
    let registry = registry.with("pass_env: [NODE_EXTRA_CA_CERTS]");
    let gateway = Gateway::of(&registry).env("NODE_EXTRA_CA_CERTS", "/etc/ca.pem");
    DoctorOutput::by(&gateway, &["--offline"]).finds(
        "warning",
        "certificates",
        "(NODE_EXTRA_CA_CERTS) do not reach these programs: one",
        "`default_pass_env: [NODE_EXTRA_CA_CERTS]`",
    );
}
