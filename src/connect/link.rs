//! Links that install a server in a client, as the pages of servers have them.
//!
//! | client | link |
//! |---|---|
//! | VS Code | `vscode:mcp/install?JSON`, and `https://vscode.dev/redirect` with the same as `url`, or with `name` and `config` |
//! | Cursor | `cursor://anysphere.cursor-deeplink/mcp/install?name=…&config=BASE64`, and `https://cursor.com/install-mcp?…` |
//! | LM Studio, Kiro | `lmstudio://add_mcp?name=…&config=BASE64`, `kiro://…?name=…&config=JSON` |
//! | Goose | `goose://extension?cmd=…&arg=…&name=…` |
//!
//! A link of the web is one only at the hosts of these clients, because the URL of a server may have a `config` too.
//! Sources: the documentation of these clients, read on 2026-11-28.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use url::{Url, form_urlencoded};

use crate::config::import::json::{self, Json, Members, member};

/// Hosts of clients, below which a link may be.
const HOSTS: [&str; 4] = ["vscode.dev", "cursor.com", "kiro.dev", "lmstudio.ai"];
/// The longest link.
const MAX_BYTES: usize = 256 << 10;

/// A server in a link or a line.
#[derive(Debug, PartialEq)]
pub(super) struct OneServer {
    pub(super) name: Option<String>,
    pub(super) entry: Json,
    pub(super) inputs: Option<Json>,
}

/// Reads `text`, if it is such a link, perhaps that of a picture in Markdown.
pub(super) fn read(text: &str) -> Option<Result<OneServer, String>> {
    read_link(text, true)
}

/// Reads a link, which may hold another one in its query if it `is_outer`.
fn read_link(text: &str, is_outer: bool) -> Option<Result<OneServer, String>> {
    let text = text.trim();
    let in_markdown = text.rsplit_once("](").and_then(|(_, rest)| rest.split_once(')')).map(|(link, _)| link);
    let link = in_markdown.unwrap_or(text);
    if link.len() > MAX_BYTES || link.contains(char::is_whitespace) {
        return None;
    }
    let url = Url::parse(link).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https");
    let is_of_client =
        |host: &str| HOSTS.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")));
    if is_web && !url.host_str().is_some_and(is_of_client) {
        return None;
    }
    let query = url.query()?;
    let value =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if let Some(inner) = value("url").filter(|_| is_web && is_outer) {
        return read_link(&inner, false);
    }
    if let Some(config) = value("config") {
        return Some(configured(&config).map(|entry| OneServer {
            name: value("name"),
            entry,
            inputs: value("inputs").and_then(|inputs| json::read(&inputs).ok()),
        }));
    }
    let whole = decoded(query);
    if whole.starts_with('{') {
        return Some(entry(&whole).map(named));
    }
    (url.scheme() == "goose").then(|| of_goose(&url))
}

/// Decodes a query that is one value.
fn decoded(query: &str) -> String {
    let one = query.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(one.as_bytes()).map(|(text, _)| text.into_owned()).next().unwrap_or_default()
}

/// Reads a configuration, which is JSON or the Base64 of JSON.
fn configured(config: &str) -> Result<Json, String> {
    if config.trim_start().starts_with('{') {
        return entry(config);
    }
    // The plus signs of Base64 are blanks in a query, and some links have its other alphabet.
    let plain: String = config.trim_end_matches('=').replace([' ', '-'], "+").replace('_', "/");
    let decoded = STANDARD_NO_PAD.decode(plain).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    entry(&decoded.ok_or("the `config` of the link is neither JSON nor Base64")?)
}

fn entry(text: &str) -> Result<Json, String> {
    json::read(text).map_err(|error| format!("the link: {error}"))
}

/// Takes name and inputs out of an entry.
pub(super) fn named(entry: Json) -> OneServer {
    let Json::Object(mut members) = entry else { return OneServer { name: None, entry, inputs: None } };
    let name = member(&members, "name").and_then(Json::text).map(str::to_owned);
    let inputs = member(&members, "inputs").cloned();
    members.retain(|(key, _)| !matches!(key.as_str(), "name" | "inputs"));
    OneServer { name, entry: Json::Object(members), inputs }
}

/// Reads the query of a link for Goose, which has a member of the entry in each pair.
fn of_goose(url: &Url) -> Result<OneServer, String> {
    let (mut members, mut args, mut env, mut name) = (Members::new(), Vec::new(), Members::new(), None);
    for (key, value) in url.query_pairs() {
        let value = value.into_owned();
        match key.as_ref() {
            "id" => name = Some(value),
            "name" => name = name.or(Some(value)),
            "arg" => args.push(Json::Text(value)),
            // The value is a description; the person sets the variable.
            "env" => {
                let variable = value.split('=').next().unwrap_or_default();
                env.push((variable.to_owned(), Json::Text(format!("${{{variable}}}"))));
            }
            "cmd" | "url" | "timeout" => members.push((key.into_owned(), Json::Text(value))),
            _ => {}
        }
    }
    if members.is_empty() {
        return Err("the link has neither `cmd` nor `url`".to_owned());
    }
    members.extend((!args.is_empty()).then_some(("args".to_owned(), Json::List(args))));
    members.extend((!env.is_empty()).then_some(("env".to_owned(), Json::Object(env))));
    Ok(OneServer { name, entry: Json::Object(members), inputs: None })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn of(link: &str) -> (Option<String>, Json) {
        let linked = read(link).unwrap_or_else(|| panic!("{link} is a link")).expect("usable");
        (linked.name, linked.entry)
    }

    #[test]
    fn links_of_every_client_have_the_same_server() {
        let config = r#"{"command":"npx","args":["-y","@scope/a>>>???"]}"#;
        let expected = (Some("a".to_owned()), json::read(config).expect("JSON"));
        let with_name = config.replacen('{', r#"{"name":"a","#, 1);
        let encode = |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let percent = |text: &str| encode(text).replace('+', "%20");
        let base64 = STANDARD.encode(config);
        assert!(base64.contains(['+', '/']), "{base64}");
        let install = format!("vscode:mcp/install?{}", percent(&with_name));
        for link in [
            install.clone(),
            format!("https://insiders.vscode.dev/redirect?url={}", encode(&install)),
            format!("https://vscode.dev/redirect/mcp/install?name=a&config={}", encode(config)),
            format!("cursor://anysphere.cursor-deeplink/mcp/install?name=a&config={}", encode(&base64)),
            format!("cursor://anysphere.cursor-deeplink/mcp/install?name=a&config={base64}"),
            format!("https://cursor.com/en/install-mcp?name=a&config={}", base64.trim_end_matches('=')),
            format!("lmstudio://add_mcp?name=a&config={base64}"),
            format!("[![Install](https://a.example/b.svg)](cursor://x/mcp/install?name=a&config={base64})"),
        ] {
            assert_eq!(of(&link), expected, "{link}");
        }
        let goose = "goose://extension?cmd=npx&arg=-y&arg=%40scope%2Fa%3E%3E%3E%3F%3F%3F&id=a&name=The%20A";
        let (name, entry) = of(goose);
        let spelled = json::read(&config.replace("command", "cmd")).expect("JSON");
        assert_eq!((name, entry), (expected.0, spelled));
    }

    #[test]
    fn the_url_of_a_server_is_no_link() {
        for text in
            ["https://server.example/mcp?config=e30", "npx -y a", "https://cursor.com/mcp", "a: b", ""]
        {
            assert_eq!(read(text), None, "{text}");
        }
        let broken = read("cursor://a/mcp/install?name=a&config=%00").expect("a link");
        assert!(broken.is_err(), "{broken:?}");
    }
}
