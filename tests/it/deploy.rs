//! The files under `deploy/`: they parse, and the program has every path, port, flag, variable and setting in
//! them.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gateway, eventually};

const HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
/// Seconds that closing may take after the drain, rounded up.
const CLOSING: u64 = 10;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The documents of a YAML file.
fn yaml(text: &str) -> Vec<Value> {
    let read = |text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    text.split("\n---\n").map(read).collect()
}

/// The values of `key` in a file of `key=value` lines.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// A gateway with `registry`, and with all variables that it needs and that have no default.
fn gateway(registry: &str) -> Gateway {
    Gateway::with_config(registry).env("SWITCHYARD_AGENTS_HASH", HASH).env("SWITCHYARD_OPERATOR_HASH", HASH)
}

/// Checks that `switchyard check` finds no problem, with only the variables above.
fn is_valid(registry: &str) {
    let (status, text) = gateway(registry).printed(&["check", "mcp_servers.yaml"]);
    assert!(status.success() && !text.contains("warning"), "{text}");
}

/// Checks that the program knows these arguments: it would report an error before printing help.
fn are_arguments(arguments: &[&str]) {
    let help = Gateway::with_config("").output(&[arguments, &["--help"]].concat());
    assert!(help.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&help.stderr));
}

/// Checks that the program answers GET at `path`.
fn is_route(path: &str) {
    let document: Value = serde_json::from_str(&file("openapi/switchyard.json")).expect("JSON");
    assert!(document["paths"][path]["get"].is_object(), "nothing is at {path}");
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

/// Returns the object of this `kind` in the manifest.
fn of_kind(kind: &str) -> Value {
    let found = yaml(&file("deploy/kubernetes.yaml")).into_iter().find(|one| one["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

fn registry_in_kubernetes() -> String {
    of_kind("ConfigMap")["data"]["mcp_servers.yaml"].as_str().expect("a file").to_owned()
}

#[test]
fn registry_files_are_what_the_program_takes() {
    is_valid(&file("deploy/mcp_servers.yaml"));
    is_valid(&registry_in_kubernetes());
    let [registry] = &yaml(&file("deploy/mcp_servers.yaml"))[..] else { panic!("one document") };
    // The keys of clients must not have the right to operate.
    assert_eq!(registry["server"]["api_keys"][0]["role"], "caller");
}

#[tokio::test]
async fn the_probes_of_kubernetes_are_answered_by_the_address_of_the_pod() {
    let gateway = gateway(&registry_in_kubernetes()).start().await;
    let deployment = of_kind("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        is_route(path);
        let client = gateway.mcp().to(&gateway.url(path));
        eventually(&format!("{path} is answered"), async || {
            let answer = client.bare(http::Method::GET, &[("host", "10.1.2.3:8080")]).await;
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            (answer.status == 200).then_some(())
        })
        .await;
    }
}

#[test]
fn the_manifest_agrees_with_itself_and_with_the_image() {
    let (deployment, service, image) = (of_kind("Deployment"), of_kind("Service"), file("deploy/Dockerfile"));
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = texts(&container["args"]);
    are_arguments(&arguments);
    let after = |flag: &str| {
        let at = arguments.iter().position(|argument| *argument == flag).expect("the flag is there");
        arguments[at + 1]
    };
    let port = container["ports"][0]["containerPort"].as_u64().expect("a number");
    assert_eq!(after("--listen"), format!("0.0.0.0:{port}"));
    assert!(
        image.contains(&format!("EXPOSE {port}\n"))
            && image.contains(&format!("SWITCHYARD_LISTEN=0.0.0.0:{port}"))
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"]);
    }
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    let mounts = container["volumeMounts"].as_array().expect("a list");
    let config = mounts.iter().find(|mount| mount["name"] == "config").expect("it is mounted");
    assert_eq!(
        after("--config"),
        format!("{}/mcp_servers.yaml", config["mountPath"].as_str().expect("a path"))
    );
    assert_eq!(pod["volumes"][0]["configMap"]["name"], of_kind("ConfigMap")["metadata"]["name"]);
    let user = pod["securityContext"]["runAsUser"].as_u64().expect("a number");
    assert!(image.contains(&format!("USER {user}:{user}\n")) && image.contains(&format!("--uid {user} ")));
    let [registry] = &yaml(&registry_in_kubernetes())[..] else { panic!("one document") };
    let server = |name: &str| registry["server"][name].as_u64().expect("seconds");
    let ends = server("shutdown_delay") + server("drain_timeout") + CLOSING;
    assert!(pod["terminationGracePeriodSeconds"].as_u64() >= Some(ends), "{ends} s are needed");
    assert!(container.get("lifecycle").is_none(), "the delay is the program's own");
}

#[test]
fn the_image_is_built_by_the_pinned_compiler_and_names_what_the_program_reads() {
    let image = file("deploy/Dockerfile");
    let channel = file("rust-toolchain.toml");
    let channel = channel.lines().find_map(|line| line.strip_prefix("channel = ")).expect("a channel");
    assert_eq!(values(&image, "ARG RUST_VERSION"), [channel.trim_matches('"')]);
    let bases: Vec<&str> = image.lines().filter_map(|line| line.strip_prefix("FROM ${")).collect();
    let of_stages = image.lines().filter(|line| line.starts_with("FROM gateway")).count();
    assert_eq!(
        bases.len() + of_stages,
        image.matches("\nFROM ").count(),
        "each can be pinned by an argument"
    );
    assert!(image.ends_with("\nFROM gateway\n"), "the default target has no programs of servers");
    for base in bases {
        let name = base.split('}').next().expect("a name");
        let [image] = values(&image, &format!("ARG {name}"))[..] else { panic!("one default of {name}") };
        assert!(
            !image.contains('/') && !image.contains('@'),
            "{image} names a registry, an owner or a digest"
        );
    }
    let help = Gateway::with_config("").output(&["serve", "--help"]);
    let help = String::from_utf8(help.stdout).expect("text");
    for variable in ["SWITCHYARD_CONFIG", "SWITCHYARD_LISTEN"] {
        assert!(
            image.contains(&format!("{variable}=")) && help.contains(&format!("[env: {variable}]")),
            "{help}"
        );
    }
    let check = image.lines().find_map(|line| line.split_once("GET ")).expect("it checks").1;
    is_route(check.split(' ').next().expect("a path"));
    let [_, command] = image.split("\nCMD ").collect::<Vec<_>>()[..] else { panic!("one command") };
    let command: Value = serde_json::from_str(command.lines().next().expect("a line")).expect("a list");
    are_arguments(&texts(&command));
    let ignored = file("deploy/Dockerfile.dockerignore");
    for needed in ["Cargo.toml", "Cargo.lock", "LICENSE", "benches", "src", "tests"] {
        assert!(ignored.contains(&format!("\n!{needed}\n")), "{needed}");
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(needed).exists(), "{needed}");
    }
}

#[test]
fn compose_starts_the_image_with_the_file_beside_it() {
    let [compose] = &yaml(&file("deploy/compose.yaml"))[..] else { panic!("one document") };
    let (service, image) = (&compose["services"]["switchyard"], file("deploy/Dockerfile"));
    assert!(!file(service["build"]["dockerfile"].as_str().expect("a path")).is_empty());
    let [registry, state] = texts(&service["volumes"])[..] else { panic!("two volumes") };
    let [here, there, "ro"] = registry.split(':').collect::<Vec<_>>()[..] else { panic!("{registry}") };
    assert!(!file(&format!("deploy/{here}")).is_empty());
    assert!(image.contains(&format!("SWITCHYARD_CONFIG={there} ")), "{there}");
    let (volume, folder) = state.split_once(':').expect("two parts");
    assert!(compose["volumes"].get(volume).is_some() && image.contains(&format!("WORKDIR {folder}\n")));
    assert_eq!(texts(&service["ports"]), ["127.0.0.1:8080:8080"]);
    // Every variable of the container is one that the configuration file reads.
    let needed = file("deploy/mcp_servers.yaml");
    for name in service["environment"].as_object().expect("variables").keys() {
        assert!(needed.contains(&format!("${{{name}")), "{name} is not read");
    }
    assert_eq!(
        needed.matches("${").count(),
        service["environment"].as_object().map_or(0, serde_json::Map::len)
    );
}

#[test]
fn compose_with_usual_servers_has_the_programs_that_its_file_names() {
    let [compose] = &yaml(&file("deploy/compose.servers.yaml"))[..] else { panic!("one document") };
    let [base] = &yaml(&file("deploy/compose.yaml"))[..] else { panic!("one document") };
    let (service, base) = (&compose["services"]["switchyard"], &base["services"]["switchyard"]);
    let target = service["build"]["target"].as_str().expect("a target");
    let dockerfile = file("deploy/Dockerfile");
    let (_, stage) = dockerfile.split_once(&format!("\nFROM gateway AS {target}\n")).expect("the target");
    let stage = stage.split("\n# The default target").next().expect("text");
    assert!(stage.trim_end().ends_with("USER 10001:10001") && !stage.contains("ENTRYPOINT"), "{stage}");
    let [mounted, files] = texts(&service["volumes"])[..] else { panic!("two volumes") };
    let (here, there) = mounted.split_once(':').expect("two paths");
    let replaced = texts(&base["volumes"])[0].split_once(':').expect("two paths").1;
    assert_eq!(there, replaced, "the file of compose.yaml is replaced");
    let registry = file(&format!("deploy/{here}"));
    is_valid(&registry);
    let folder = files.rsplit(':').nth(1).expect("a path");
    let [registry] = &yaml(&registry)[..] else { panic!("one document") };
    let servers = registry["mcp_servers"].as_object().expect("servers");
    assert!(texts(&servers["files"]["args"]).contains(&folder), "{folder}");
    for (name, server) in servers {
        let program = server["command"].as_str().expect("a program");
        assert!(
            stage.contains(&format!("/usr/local/bin/{program}")),
            "{name}: {program} is not in the image"
        );
    }
}

#[test]
fn compose_with_r2r_mounts_a_file_that_the_program_takes() {
    let [compose] = &yaml(&file("deploy/r2r/compose.yaml"))[..] else { panic!("one document") };
    let services = compose["services"].as_object().expect("services");
    let gateway_service = &services["switchyard"];
    let [registry, documents] = texts(&gateway_service["volumes"])[..] else { panic!("two volumes") };
    let here = registry.split(':').next().expect("a path");
    let registry = file(&format!("deploy/{here}"));
    for needed in texts(&gateway_service["depends_on"]) {
        assert!(services.contains_key(needed), "{needed}");
        assert!(registry.contains(&format!("://{needed}:")), "{needed} is used");
    }
    let [.., folder, "ro"] = documents.split(':').collect::<Vec<_>>()[..] else { panic!("{documents}") };
    assert!(registry.contains(&format!("ingest_roots: [{folder}]")), "{folder}");
    let variables = gateway_service["environment"].as_object().expect("variables").keys();
    let given = variables.fold(gateway(&registry), |gateway, name| gateway.env(name, "x"));
    let (status, text) = given.printed(&["check", "mcp_servers.yaml"]);
    assert!(status.success(), "{text}");
}

#[tokio::test]
async fn service_of_cloud_run_names_port_probes_and_variables_of_the_image() {
    let [service] = &yaml(&file("deploy/cloud-run/service.yaml"))[..] else { panic!("one document") };
    let template = &service["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    are_arguments(&texts(&container["args"]));
    let port = &container["ports"][0]["containerPort"];
    assert!(file("deploy/Dockerfile").contains(&format!("EXPOSE {port}\n")), "{port}");
    for probe in ["startupProbe", "livenessProbe"] {
        is_route(container[probe]["httpGet"]["path"].as_str().expect("a path"));
    }
    let scale = |name: &str| {
        let number = template["metadata"]["annotations"][format!("autoscaling.knative.dev/{name}")].as_str();
        number.expect("a text").parse::<u32>().expect("a number")
    };
    assert!(1 <= scale("minScale") && scale("minScale") <= scale("maxScale"));
    let registry = file("deploy/cloud-run/mcp_servers.yaml");
    let image = file("deploy/cloud-run/Dockerfile");
    for variable in container["env"].as_array().expect("a list") {
        assert!(registry.contains(&format!("${{{}}}", variable["name"].as_str().expect("a name"))));
    }
    let folder = image.lines().find_map(|line| line.strip_prefix("COPY . ")).expect("documents");
    assert!(registry.contains(&format!("path: {folder}\n")));
    let documents = tempfile::tempdir().expect("a folder");
    std::fs::write(documents.path().join("a.md"), "# Cranes\n\nCranes rest in the harbour.")
        .expect("written");
    let registry = registry.replace(folder, documents.path().to_str().expect("UTF-8"));
    is_valid(&registry);
    let running = gateway(&registry).start().await;
    let client = running.mcp().to(&running.url("/health/live"));
    assert_eq!(client.bare(http::Method::GET, &[]).await.status, 200);
}

#[test]
fn the_unit_starts_reloads_and_ends_the_program_as_it_is() {
    let unit = file("deploy/switchyard.service");
    let [start] = values(&unit, "ExecStart")[..] else { panic!("one command") };
    let (program, arguments) = start.split_once(' ').expect("arguments");
    assert_eq!(program, "/usr/local/bin/switchyard");
    are_arguments(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(values(&unit, "ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    // A missing file counts as wrong arguments.
    let missing = Gateway::with_config("").output(&["serve", "--config", "missing.yaml"]).status.code();
    let codes: Vec<i32> =
        values(&unit, "RestartPreventExitStatus").iter().filter_map(|code| code.parse().ok()).collect();
    assert_eq!(codes, missing.into_iter().collect::<Vec<_>>());
    let patience: u64 = values(&unit, "TimeoutStopSec")[0].parse().expect("seconds");
    assert!(patience >= 10 + CLOSING, "the default drain and the end");
    for line in [
        "After=network-online.target",
        "Wants=network-online.target",
        "WantedBy=multi-user.target",
        "StateDirectory=switchyard",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let sections: Vec<&str> = unit.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(json!(sections), json!(["[Unit]", "[Service]", "[Install]"]));
}

#[test]
fn the_socket_has_the_default_address_and_the_name_of_the_unit() {
    let socket = file("deploy/switchyard.socket");
    let address = downstream::Config::default().listen.to_string();
    assert_eq!(values(&socket, "ListenStream"), [address]);
    assert_eq!(
        (values(&socket, "Accept"), values(&socket, "WantedBy")),
        (vec!["no"], vec!["sockets.target"])
    );
    let sections: Vec<&str> = socket.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(sections, ["[Unit]", "[Socket]", "[Install]"]);
}

/// Parses `512m`, `512Mi` or `2G` to bytes.
fn bytes(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).expect("a unit"));
    let shift = match unit {
        "m" | "Mi" => 20,
        "G" | "Gi" => 30,
        unit => panic!("{unit}"),
    };
    number.parse::<u64>().expect("a number") << shift
}

#[test]
fn memory_and_processes_are_limited_in_every_deployment() {
    let (unit, deployment) = (file("deploy/switchyard.service"), of_kind("Deployment"));
    let [compose] = &yaml(&file("deploy/compose.yaml"))[..] else { panic!("one document") };
    let service = &compose["services"]["switchyard"];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let memory = [
        values(&unit, "MemoryMax")[0],
        service["mem_limit"].as_str().expect("a size"),
        container["resources"]["limits"]["memory"].as_str().expect("a size"),
    ];
    // The memory budget is a quarter, and the program needs 64 MiB more without any load.
    assert!(memory.iter().all(|limit| bytes(limit) / 4 >= 128 << 20), "{memory:?}");
    let tasks: u64 = values(&unit, "TasksMax")[0].parse().expect("a number");
    assert_eq!(service["pids_limit"].as_u64(), Some(tasks));
    // One runtime may have 512 threads for blocking work, and 50 child processes need as many again.
    assert!(tasks >= 2 * 512, "{tasks}");
    // An OOM kill of one child must not stop the unit.
    assert_eq!(values(&unit, "OOMPolicy"), ["continue"]);
}

#[test]
fn the_unit_delegates_its_control_group_and_leaves_it_writable() {
    let unit = file("deploy/switchyard.service");
    assert_eq!(values(&unit, "Delegate"), ["yes"]);
    assert_eq!(values(&unit, "KillMode"), ["mixed"]);
    assert!(values(&unit, "ProtectControlGroups").is_empty());
}

#[test]
fn the_docs_name_every_file() {
    let pages = ["operate/run", "operate/alerts", "migrate/handbook"];
    let docs: String = pages.iter().map(|page| file(&format!("docs/{page}.md"))).collect();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")).expect("a folder") {
        let name = entry.expect("a file").file_name().into_string().expect("UTF-8");
        assert!(docs.contains(&format!("deploy/{name}")) || name.ends_with(".dockerignore"), "{name}");
    }
}
