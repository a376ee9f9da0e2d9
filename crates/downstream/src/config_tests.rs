//! Reading `server:`.

use serde_json::json;

use super::*;
use settings::{FromSetting, Node, Problems};

fn read(json: serde_json::Value) -> (Config, Vec<String>) {
    let (node, problems) = (Node::from(json), Problems::default());
    let config = Config::from_setting(&Setting::root(&node, &problems)).expect("a mapping");
    (config, problems.sorted().iter().map(ToString::to_string).collect())
}

fn keys() -> serde_json::Value {
    json!([{"id": "ci", "hash": format!("sha256:{}", "0".repeat(64)), "role": "reader"}])
}

#[test]
fn the_address_to_connect_to_follows_from_the_one_to_listen_on() {
    for (listen, connect) in [
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("[::]:80", "[::1]:80"),
        ("10.0.0.5:80", "10.0.0.5:80"),
    ] {
        let [listen, connect] = [listen, connect].map(|text| text.parse().expect("an address"));
        assert_eq!(reachable(listen), connect);
    }
}

#[test]
fn nothing_written_is_a_gateway_for_this_machine_alone() {
    let (config, problems) = read(json!({}));
    assert_eq!(problems, [""; 0]);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!((config.hosts, config.origins), (Hosts::Loopback, Origins::Loopback));
    assert!(config.auth.is_open());
    assert_eq!((config.max_body_bytes, config.limits), (4_194_304, Limits::default()));
    assert_eq!(config.shutdown_delay, Duration::ZERO);
}

#[test]
fn everything_can_be_said() {
    let (config, problems) = read(json!({
        "listen": "0.0.0.0:80", "allowed_hosts": ["gw.example", "10.0.0.5:80"],
        "allowed_origins": ["https://app.example"], "auth_mode": "api_key", "api_keys": keys(),
        "max_body_bytes": 1024, "max_connections": 7, "max_sockets": 9, "header_timeout": 1, "body_timeout": 2,
        "idle_timeout": 3, "write_timeout": 4, "drain_timeout": 0, "shutdown_delay": 7, "max_sessions": 5,
        "session_idle_timeout": 6, "log_format": "json", "log_level": "Warning", "log_file": "logs/a.log",
        "transport": "both", "anonymous_role": "reader", "trusted_proxies": ["10.0.0.7", "2001:db8:1::/48"],
        "client_address_header": "Forwarded",
    }));
    assert_eq!(problems, [""; 0]);
    assert_eq!(config.listen.to_string(), "0.0.0.0:80");
    assert!(matches!(&config.hosts, Hosts::Listed(hosts) if hosts.len() == 2));
    let seconds = Duration::from_secs;
    assert_eq!(
        config.limits,
        Limits {
            max_sockets: 9,
            header_timeout: seconds(1),
            body_timeout: seconds(2),
            idle_timeout: seconds(3),
            write_timeout: seconds(4),
            drain_timeout: seconds(0),
        }
    );
    assert_eq!((config.max_connections, config.shutdown_delay), (7, seconds(7)));
    assert_eq!((config.max_sessions, config.session_idle_timeout), (5, seconds(6)));
    let file = Some("logs/a.log".into());
    let log = telemetry::LogOptions { format: telemetry::Format::Json, level: telemetry::Level::Warn, file };
    assert_eq!((config.max_body_bytes, config.log.clone()), (1_024, log));
    assert!(config.anonymous_reader && !config.allow_unauthenticated);
    assert_eq!(config.exceptions().len(), 1);
    assert_eq!((config.transport, Config::default().transport), (Transport::Both, Transport::Http));
}

#[test]
fn there_are_two_sockets_for_each_client() {
    for (settings, sockets) in [
        (json!({}), 4_096),
        (json!({"max_connections": 5}), 4_096),
        (json!({"max_connections": 30_000}), 60_000),
        (json!({"max_connections": 30_000, "max_sockets": 10}), 10),
    ] {
        let (config, problems) = read(settings.clone());
        assert_eq!((config.limits.max_sockets, problems), (sockets, vec![]), "{settings}");
    }
}

#[test]
fn errors_are_reported() {
    for (settings, expected) in [
        (json!({"listen": "gw.example:80"}), "listen: `gw.example:80` is not an address and a port"),
        (json!({"listen": "127.0.0.1"}), "listen: `127.0.0.1` is not an address and a port"),
        (json!({"listen": "0.0.0.0:80"}), "listen: others can reach this address, and nobody would be asked"),
        (json!({"listen": "[::]:80"}), "listen: others can reach this address, and nobody would be asked"),
        (
            json!({"listen": "10.0.0.5:80", "auth_mode": "api_key", "api_keys": keys()}),
            "listen: others can reach this address, and the names they may use for it are not listed",
        ),
        (json!({"allowed_hosts": []}), "allowed_hosts: no host is listed"),
        (json!({"allowed_hosts": ["*"]}), "allowed_hosts[0]: `*` is not a host"),
        (
            json!({"allowed_hosts": ["http://gw.example"]}),
            "allowed_hosts[0]: `http://gw.example` is not a host",
        ),
        (json!({"public_url": "gw.example"}), "public_url: `gw.example` is not a URL without query"),
        (json!({"allowed_origins": ["*"]}), "allowed_origins[0]: `*` is not an origin"),
        (
            json!({"allowed_origins": ["https://app.example/"]}),
            "allowed_origins[0]: `https://app.example/` is not",
        ),
        (json!({"max_body_bytes": 10}), "max_body_bytes: 10 is out of range"),
        (json!({"header_timeout": 61}), "header_timeout: 61 is out of range"),
        (json!({"transport": "sse"}), "transport: `sse` is not one of `http`, `stdio`, `both`"),
        (json!({"log_format": "xml"}), "log_format: `xml` is not one of `auto`, `json`, `pretty`"),
        (json!({"log_level": "loud"}), "log_level: `loud` is not one of `error`, `warn`"),
        (
            json!({"anonymous_role": "reader"}),
            "anonymous_role: it has no effect while `auth_mode` asks for no",
        ),
        (
            json!({"anonymous_role": "caller", "auth_mode": "api_key", "api_keys": keys()}),
            "anonymous_role: `caller` is not one of `reader` (hint: only GET requests",
        ),
        (
            json!({"allow_unauthenticated": true, "auth_mode": "api_key", "api_keys": keys()}),
            "allow_unauthenticated: it has no effect while `auth_mode` asks for credentials",
        ),
        (json!({"max_conections": 3}), "max_conections: unknown key (hint: did you mean `max_connections`?)"),
    ] {
        let (_, problems) = read(settings);
        assert!(
            problems.iter().any(|problem| problem.starts_with(expected)),
            "{problems:?} lacks {expected}"
        );
    }
}

#[test]
fn another_address_is_checked_like_the_one_in_the_file() {
    let open = "0.0.0.0:80".parse().expect("an address");
    let refused = |settings| read(settings).0.listening_on(open).map(|config| config.listen);
    assert_eq!(refused(json!({})), Err(Exposed::NoAuthentication));
    assert_eq!(refused(json!({"auth_mode": "api_key", "api_keys": keys()})), Err(Exposed::NoHosts));
    let named = json!({"auth_mode": "api_key", "api_keys": keys(), "allowed_hosts": ["gw.example"]});
    assert_eq!(refused(named), Ok(open));
    assert_eq!(refused(json!({"allow_unauthenticated": true})), Ok(open));
    let text = Exposed::NoAuthentication.to_string();
    assert!(text.contains("auth_mode: api_key") && text.contains("127.0.0.1"), "{text}");
    for (text, read) in [
        ("localhost:1", Some("127.0.0.1:1")),
        ("[::1]:0", Some("[::1]:0")),
        ("localhost", None),
        (":80", None),
    ] {
        assert_eq!(parse_address(text).map(|address| address.to_string()).as_deref(), read, "{text}");
    }
}

#[test]
fn the_memory_budget_has_a_unit_and_a_lower_bound() {
    let of = |written: serde_json::Value| read(json!({ "memory_budget": written }));
    for (written, bytes) in [
        (json!("256 MiB"), 256 << 20),
        (json!("1GiB"), 1 << 30),
        (json!("65536 KiB"), 64 << 20),
        (json!("67108864"), 64 << 20),
        (json!(67_108_864), 64 << 20),
    ] {
        let (config, problems) = of(written);
        assert_eq!((config.memory_budget, problems), (bytes, Vec::new()));
    }
    let texts = ["31 MiB", "1", "many", "-1 MiB", "256 MB"].map(|text| json!(text));
    for written in
        texts.into_iter().chain([json!(1), json!(-67_108_864), json!(1.5), json!([1]), json!(true)])
    {
        let (_, problems) = of(written.clone());
        assert_eq!(problems.len(), 1, "{written}: {problems:?}");
    }
}

#[test]
fn roles_of_certificates_need_an_authority_and_a_mode() {
    let problems = |settings: serde_json::Value| {
        let (node, problems) = (Node::from(settings), Problems::default());
        let _ = Config::from_setting(&Setting::root(&node, &problems));
        problems.sorted().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let tls = |more: serde_json::Value| {
        let mut tls = json!({"cert": "c", "key": "k"});
        tls.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        tls
    };
    let full = tls(json!({"client_ca": "ca", "client_roles": {"cn:robot": "caller"}}));
    assert_eq!(problems(json!({"tls": tls(json!({}))})), [""; 0]);
    assert_eq!(problems(json!({"auth_mode": "certificate", "tls": full})), [""; 0]);
    for (settings, expected) in [
        (json!({"auth_mode": "certificate"}), "`auth_mode: certificate`, but no certificate has a role"),
        (json!({"tls": full}), "`tls.client_roles` has no effect without `auth_mode`"),
        (
            json!({"tls": tls(json!({"client_ca": "ca", "client_roles": {"robot.example": "caller"}}))}),
            "the name does not say its kind: `dns:`, `email:`, `uri:` or `cn:` (common name) before it",
        ),
        (
            json!({"tls": tls(json!({"client_roles": {"cn:robot": "caller"}}))}),
            "tls.client_roles: it has no effect without `client_ca`",
        ),
        (
            json!({"tls": tls(json!({"client_ca": "ca", "client_views": {"cn:robot": "support"}}))}),
            "no certificate of this name has a role",
        ),
        (
            json!({"tls": tls(json!({
                "client_ca": "ca", "client_roles": {"cn:ops": "superuser"}, "client_views": {"cn:ops": "support"}
            }))}),
            "a view does not go with the role superuser",
        ),
        (json!({"tls": {"cert": "c"}}), "tls: `key` is missing"),
    ] {
        let found = problems(settings);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{found:?} lacks {expected}");
    }
}
