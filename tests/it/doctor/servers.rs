//! Mistakes that show when a server is contacted: endpoint, login, TLS, clock and token.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{DoctorOutput, quiet, server};
use crate::support::{Gateway, Registry, Running};

/// A server that answers every request with `head`, and then closes the connection. Returns its address.
fn answering(head: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().take(50).flatten() {
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(
                format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
            );
        }
    });
    address
}

#[test]
fn a_url_that_leads_to_no_endpoint_gets_the_usual_one() {
    let address = answering("404 Not Found".to_owned());
    let told = |path: &str| {
        let registry = Registry::new().http("one", &format!("http://{address}{path}")).with("timeout: 2");
        DoctorOutput::by(&quiet(registry), &[])
    };
    let url = format!("`url: http://{address}/mcp` below `one:`");
    let other = told("/api?key=canary-0123456789");
    other.ends_with(1);
    other.finds("problem", "servers", "one: the server answered HTTP 404", &url);
    assert!(!told("/mcp").1.contains("fix: most"), "it has that already");
    let bare = told("");
    bare.says(
        "problem",
        "servers",
        "nothing is at `/mcp` and `/sse` either, so put the path of the endpoint in `url`",
    );
    assert!(!bare.1.contains("fix: most"), "it was tried");
}

#[test]
fn a_server_that_wants_a_login_comes_with_the_commands_for_one() {
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"kb\"".to_owned();
    let url = format!("http://{}/mcp", answering(challenge));
    let registry = Registry::new().http("my-notes", &url).with("timeout: 2");
    let told = DoctorOutput::by(&quiet(registry.clone()), &[]);
    told.ends_with(1);
    told.finds("problem", "servers", "my-notes: ", "`switchyard login my-notes`");
    told.finds(
        "problem",
        "servers",
        "WWW-Authenticate: Bearer realm",
        "`switchyard secret set MY_NOTES_TOKEN`",
    );
    let wrong = DoctorOutput::by(&quiet(registry.clone().with("auth: {bearer: \"canary\"}")), &[]);
    wrong.finds("problem", "servers", "my-notes: ", "another token in `auth` or `headers` below `my-notes:`");
    let oauth = DoctorOutput::by(&quiet(registry.with("auth: oauth")), &[]);
    oauth.finds("problem", "servers", "my-notes: ", "`switchyard login my-notes`, while the gateway runs");
}

/// A server that speaks TLS: another gateway.
async fn started(certificate: &str, key: &str) -> Running {
    let gateway = Gateway::with_config("server: {tls: {cert: cert.pem, key: key.pem}}\nmcp_servers: {}\n");
    for (name, text) in [("cert.pem", certificate), ("key.pem", key)] {
        fs::write(gateway.folder().join(name), text).expect("written");
    }
    gateway.start().await
}

#[tokio::test]
async fn an_unknown_certificate_authority_comes_with_the_ways_to_trust_it() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let running = started(&made.cert.pem(), &made.signing_key.serialize_pem()).await;
    let folder = running.folder().to_owned();
    let port = running.address.rsplit_once(':').expect("a port").1;
    let registry = |host: &str| {
        quiet(Registry::new().http("one", &format!("https://{host}:{port}/mcp")).with("timeout: 2"))
    };
    let told = DoctorOutput::by(&registry("localhost"), &[]);
    told.ends_with(1);
    told.finds("problem", "servers", "one: ", "`SSL_CERT_FILE=FILE`");
    told.finds("problem", "servers", "one: ", "update-ca-certificates");
    let certificate = folder.join("cert.pem").display().to_string();
    let trusting = registry("localhost").env("SSL_CERT_FILE", &certificate);
    DoctorOutput::by(&trusting, &[]).says("ok", "servers", "one: ready");
    let other_name = registry("127.0.0.1").env("SSL_CERT_FILE", &certificate);
    DoctorOutput::by(&other_name, &[]).finds(
        "problem",
        "servers",
        "one: ",
        "the host name of the certificate",
    );
}

#[tokio::test]
async fn a_certificate_of_another_time_comes_with_both_causes() {
    for (year, reason) in [(2001, "certificate expired"), (2098, "certificate not valid yet")] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        parameters.not_before = rcgen::date_time_ymd(year, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year + 1, 1, 1);
        let certificate = parameters.self_signed(&key).expect("a certificate").pem();
        let running = started(&certificate, &key.serialize_pem()).await;
        let port = running.address.rsplit_once(':').expect("a port").1;
        let registry =
            Registry::new().http("one", &format!("https://localhost:{port}/mcp")).with("timeout: 2");
        let trusted = running.folder().join("cert.pem").display().to_string();
        let told = DoctorOutput::by(&quiet(registry).env("SSL_CERT_FILE", &trusted), &[]);
        told.finds(
            "problem",
            "servers",
            reason,
            "renew the certificate of the server; if it is good, correct the clock",
        );
    }
}

#[test]
fn a_clock_that_differs_and_a_token_that_has_expired_are_found() {
    let now = SystemTime::now();
    let date = httpdate::fmt_http_date(now + Duration::from_mins(10));
    let url = format!("http://{}/mcp", answering(format!("404 Not Found\r\nDate: {date}")));
    let told = DoctorOutput::by(&quiet(Registry::new().http("ahead", &url).with("timeout: 2")), &[]);
    told.finds("warning", "clock", "s behind that of ahead", "`timedatectl set-ntp true`");
    let near = httpdate::fmt_http_date(now);
    let url = format!("http://{}/mcp", answering(format!("404 Not Found\r\nDate: {near}")));
    DoctorOutput::by(&quiet(Registry::new().http("near", &url).with("timeout: 2")), &[])
        .says("ok", "clock", "agrees");

    let server = server();
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let token = |claims: String| format!("canary.{}.canary", URL_SAFE_NO_PAD.encode(claims));
    let of = |token: &str| {
        let registry = Registry::new().http("one", &server.url()).with("auth: {bearer: \"${TOKEN}\"}");
        DoctorOutput::by(&quiet(registry).env("TOKEN", token), &["--offline"])
    };
    let expired = of(&token(format!("{{\"exp\": {}}}", seconds - 100)));
    expired.ends_with(1);
    expired.finds("problem", "clock", "one: its token expired 1", "get a new token");
    let early = of(&token(format!("{{\"exp\": {}, \"nbf\": {}}}", seconds + 900, seconds + 600)));
    early.finds("problem", "clock", "one: its token is not valid for another ", "`timedatectl set-ntp true`");
    for good in [token(format!("{{\"exp\": {}}}", seconds + 900)), "canary-opaque".to_owned()] {
        assert!(!of(&good).1.contains("its token"), "{good}");
    }
}

#[test]
fn a_server_with_a_program_that_ends_says_why() {
    let gateway = quiet(Registry::new().command("one", "sh", &["-c", "echo no module left-pad >&2; exit 3"]));
    let told = DoctorOutput::by(&gateway, &[]);
    told.ends_with(1);
    told.says("problem", "servers", "no module left-pad");
}
