//! Which texts count as secret, how they are found in texts of servers, and that they are never shown.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::fake::{Answer, Fake, config, tool_call};
use super::super::{EventSender, Upstream};
use super::{BLANK, SHORTEST, *};
use crate::token_file::TokenFile;
use protocol::feature::Effect;
use protocol::sanitize::shown;
use protocol::{ErrorObject, Version, method};
use runtime::shutdown::Shutdown;

const KEY: &str = "s3cr3t-key";

fn secrets(texts: &[&str]) -> Secrets {
    Secrets::new(&texts.iter().map(|text| (*text).into()).collect::<Vec<_>>())
}

fn of_url(url: &str, headers: &[(&'static str, &str)]) -> Secrets {
    let named = |(name, value): &(&'static str, &str)| (http::HeaderName::from_static(name), (*value).into());
    let headers = headers.iter().map(named).collect();
    let http = Http { headers, ..Http::at(Url::parse(url).expect("a URL")) };
    Secrets::of(&Config { transport: Transport::Http(http), ..config("s") }, None, None)
}

/// A server that was given [`KEY`] in its environment.
fn keyed() -> Config {
    let mut config = config("s");
    let Transport::Stdio(stdio) = &mut config.transport else { panic!("a child") };
    stdio.env.insert("KEY".into(), KEY.into());
    config
}

#[test]
fn a_secret_is_blanked_and_a_short_one_stands_in_innocent_words() {
    assert_eq!(secrets(&[KEY, "no"]).redact("bad key s3cr3t-key, no"), "bad key ***, no");
}

#[tokio::test]
async fn a_token_in_a_file_is_blanked_and_so_is_the_one_before_it_that_was_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let token = TokenFile::new(path.clone());
    let url = Url::parse("http://a").expect("a URL");
    let http = Http { token: Some(TokenSource::File(token.clone())), ..Http::at(url) };
    let secrets = Secrets::of(&Config { transport: Transport::Http(http), ..config("s") }, None, None);
    std::fs::write(&path, KEY).expect("written");
    let sent = token.header().await.expect("a token");
    assert_eq!(secrets.redact("bad key s3cr3t-key"), "bad key ***");
    std::fs::write(&path, "an0ther-key").expect("written");
    assert!(token.has_another_than(&sent).await);
    assert_eq!(secrets.redact("an0ther-key for s3cr3t-key"), "*** for ***");
}

#[test]
fn secrets_in_a_passed_variable_are_blanked_and_hosts_and_paths_are_not() {
    let known = |name: &str, value: &str| -> Secrets { Secrets::new(&in_variable(name, value)) };
    let proxy = known("HTTPS_PROXY", "http://someone:s3cr3t-key@proxy:3128");
    assert_eq!(
        proxy.redact("407 from http://proxy:3128 for s3cr3t-key"),
        "407 from http://proxy:3128 for ***"
    );
    assert_eq!(known("SOME_TOKEN", KEY).redact("bad s3cr3t-key"), "bad ***");
    for (name, value) in [("no_proxy", "localhost,.example.org"), ("SSL_CERT_FILE", "/etc/ssl/ca.pem")] {
        assert_eq!(known(name, value).redact(value), value);
    }
}

#[test]
fn longer_of_two_secrets_is_blanked_as_a_whole() {
    let secrets = secrets(&[KEY, "--key=s3cr3t-key:more", KEY]);
    assert_eq!(secrets.redact("unknown --key=s3cr3t-key:more (s3cr3t-key)"), "unknown *** (***)");
}

#[test]
fn a_secret_is_found_escaped_and_where_it_was_cut() {
    let odd = "it's a \"s3cr3t\"\\key\t!";
    let secrets = secrets(&[odd, KEY]);
    assert_eq!(secrets.redact(&shown(&format!("bad {odd} {odd}"))), "bad *** ***");
    assert_eq!(secrets.redact(&format!("{:?}", format!("bad {odd}"))), "\"bad ***\"");
    for (room, end) in [(0, "…"), (5, "s3cr3…"), (6, "***…"), (9, "***…")] {
        let text = secrets.redact(&shown(&format!("{}{KEY}", "x".repeat(200 - room))));
        assert!(text.ends_with(&format!("x{end}")), "{room}: {text}");
    }
    let many = "s3cr3t-k…".repeat(3);
    assert_eq!(secrets.redact(&many), "***…***…***…");
}

#[test]
fn lines_of_a_secret_are_secret_and_its_last_line_break_is_none_of_it() {
    let secrets = secrets(&["first-line\nsecond-line\n"]);
    assert_eq!(secrets.redact("at second-line"), "at ***");
    assert_eq!(secrets.redact("x first-line\nsecond-line"), "x ***");
}

#[test]
fn query_of_a_url_is_secret_and_its_host_is_not() {
    let headers = [("authorization", "Bearer tok-123456"), ("x-key", "key-123456")];
    let secrets = of_url("https://someone:pass%20word@example.org/mcp?key=in%20query&bare-1234", &headers);
    for text in [
        "tok-123456",
        "Bearer tok-123456",
        "key-123456",
        "someone",
        "pass word",
        "pass%20word",
        "c29tZW9uZTpwYXNzIHdvcmQ=",
        "in query",
        "in%20query",
        "bare-1234",
    ] {
        assert_eq!(secrets.redact(&format!("bad: {text}!")), "bad: ***!", "{text}");
    }
    assert_eq!(secrets.redact("https://example.org/mcp"), "https://example.org/mcp");
}

#[test]
fn every_failure_with_words_is_covered() {
    let secrets = secrets(&[KEY]);
    let reason = || format!("bad key {KEY}");
    for error in [
        Error::Connect { reason: reason() },
        Error::NotSent { reason: reason() },
        Error::Lost { reason: reason() },
        Error::Cut { reason: reason() },
        Error::AuthFailed { reason: reason() },
        Error::Malformed { reason: reason() },
        Error::backend(500, reason()),
    ] {
        let covered = secrets.redact_error(error.clone());
        assert_eq!(covered.to_string(), error.to_string().replace(KEY, "***"));
        assert_eq!(covered.delivery(), error.delivery());
    }
}

#[tokio::test(start_paused = true)]
async fn neither_the_state_of_a_server_nor_the_failure_of_a_call_tells_its_key() {
    let server = Fake::new(Version::V2025_11_25);
    let text = format!("Incorrect API key provided: {KEY}");
    let refusal = ErrorObject::new(-32001, &text);
    let answer = Answer::Reply(Err(refusal.clone()));
    server.answer(move |call| (call.method == method::TOOLS_LIST).then(|| answer.clone()));
    let (shutdown, (sender, mut updates)) = (Shutdown::new(), mpsc::channel(4));
    let upstream = Upstream::start(keyed(), server.connector(), sender, &shutdown);
    shutdown.spawn(async move { while updates.recv().await.is_some() {} });
    let last_error = |upstream: &Arc<Upstream>| upstream.status().last_error.unwrap_or_default();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = "it refused to list its tools: -32001 \"Incorrect API key provided: ***\"";
    assert!(last_error(&upstream).ends_with(refused), "{}", last_error(&upstream));

    let deadline = || Instant::now() + Duration::from_mins(1);
    let error = upstream.reconnect(deadline()).await.expect_err("it refuses");
    assert!(error.to_string().contains("***") && !error.to_string().contains(KEY), "{error}");

    server.answer_calls(Answer::Fail(Error::Cut { reason: text.clone() }));
    let call = tool_call(Effect::Unsafe);
    let error = upstream.call(&call, deadline(), &EventSender::none()).await.expect_err("it is cut");
    assert_eq!(error.to_string(), "the answer was cut off: Incorrect API key provided: ***");
    assert!(last_error(&upstream).contains("***"));

    // The result of a call is passed to its caller unchanged.
    server.answer_calls(Answer::Reply(Err(refusal.clone())));
    let answered = upstream.call(&call, deadline(), &EventSender::none()).await.expect("it answers");
    assert_eq!(answered.body.as_buffered(), Some(&Err(refusal)));

    upstream.connect(deadline()).await.expect("it lists now");
    server.die(&text);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(last_error(&upstream), "the connection closed: Incorrect API key provided: ***");
    shutdown.begin();
}

#[test]
fn the_user_and_the_password_of_basic_credentials_are_secret() {
    let secrets = of_url("http://a", &[("authorization", "Basic c29tZW9uZTpzM2NyM3Qta2V5")]);
    assert_eq!(secrets.redact("bad s3cr3t-key of someone"), "bad *** of ***");
}

#[test]
fn secrets_that_overlap_are_blanked_together() {
    let secrets = secrets(&["first-half-and", "and-second-half"]);
    assert_eq!(secrets.redact("x first-half-and-second-half y"), "x *** y");
}

proptest::proptest! {
    /// A server that repeats a secret in a usual encoding, in the middle of a text.
    #[test]
    fn a_secret_is_blanked_in_every_usual_encoding(
        secret in r"[ -~äß€]{8,40}", before in "[a-z]{0,5}", after in "[a-z]{0,5}"
    ) {
        use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
        let secret = secret.trim();
        proptest::prop_assume!(secret.len() >= SHORTEST);
        let secrets = secrets(&[secret]);
        let percent = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
        let json = json!(secret).to_string();
        for form in [secret.to_owned(), percent.clone(), json[1..json.len() - 1].replace('/', "\\/"),
            hex::encode(secret.as_bytes()), hex::encode(secret.as_bytes()).to_uppercase()] {
            let blanked = secrets.redact(&format!("{before}⟨{form}⟩{after}"));
            proptest::prop_assert!(!blanked.contains(&form), "{} in {}", form, blanked);
            proptest::prop_assert!(blanked.starts_with(&before) && blanked.contains(BLANK), "{}", blanked);
        }
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            let blanked = secrets.redact(&engine.encode(format!("{before}{secret}{after}")));
            let beside = engine.encode(&before).len() + engine.encode(&after).len() + 4;
            proptest::prop_assert!(blanked.replacen(BLANK, "", 1).len() <= beside, "{:?}: {}", secret, blanked);
        }
    }
}
