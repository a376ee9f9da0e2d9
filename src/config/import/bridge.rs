//! Finds the server behind the bridge `npx mcp-remote URL`.
//!
//! Such a program exists for clients that start programs only. Invariant: a bridge stays a program if it has an option or
//! a variable that a server with a URL cannot express.
//!
//! Source: the options of mcp-remote 0.1, in its README.

use super::json::{Json, Members, member};

/// The note about a bridge that was replaced.
pub(super) const REMARK: &str = "the bridge `mcp-remote` is left out, because Switchyard connects to its URL itself; \
                                 if that asks for a login, set `auth: oauth`";
/// The bridge.
const BRIDGE: &str = "mcp-remote";
/// Programs that start a package, each with the words before its options.
const RUNNERS: [&[&str]; 4] = [&["npx"], &["npx.cmd"], &["bunx"], &["cmd", "/c", "npx"]];

/// Returns the members of the server that the bridge with these `members` leads to, or `None` if there is no bridge, or
/// one that has to stay.
pub(super) fn unwrapped(members: &Members) -> Option<Members> {
    let args = match member(members, "args")? {
        Json::List(items) => items.iter().map(Json::text).collect::<Option<Vec<_>>>()?,
        _ => return None,
    };
    let words: Vec<&str> = std::iter::once(member(members, "command")?.text()?).chain(args).collect();
    let (url, options) = of_bridge(&words)?.split_first()?;
    let env = match member(members, "env") {
        None | Some(Json::Null) => &Members::new(),
        Some(Json::Object(env)) => env,
        Some(_) => return None,
    };
    let (headers, is_sse) = read_options(options, env)?;
    if !url.starts_with("http://") && !url.starts_with("https://") || member(members, "headers").is_some() {
        return None;
    }
    let is_of_program =
        |name: &str| matches!(name, "command" | "args" | "env" | "pass_env" | "type" | "transport" | "url");
    let mut server: Members = members.iter().filter(|(name, _)| !is_of_program(name)).cloned().collect();
    if is_sse {
        server.push(("type".to_owned(), Json::Text("sse".to_owned())));
    }
    server.push(("url".to_owned(), Json::Text((*url).to_owned())));
    if !headers.is_empty() {
        server.push(("headers".to_owned(), Json::Object(headers)));
    }
    Some(server)
}

/// Returns the arguments of the bridge, if these words start it.
fn of_bridge<'w, 'j>(words: &'w [&'j str]) -> Option<&'w [&'j str]> {
    let is_bridge =
        |word: &str| word == BRIDGE || word.strip_prefix(BRIDGE).is_some_and(|end| end.starts_with('@'));
    let runner = RUNNERS.iter().find_map(|runner| words.strip_prefix(*runner));
    let (first, rest) = match runner {
        Some([option, rest @ ..]) if matches!(*option, "-y" | "--yes") => rest.split_first()?,
        Some(rest) => rest.split_first()?,
        None => words.split_first()?,
    };
    is_bridge(first).then_some(rest)
}

/// Returns the headers, with the values of `env`, and whether the server is an SSE server. `None` if there is anything
/// else than headers.
fn read_options(mut options: &[&str], env: &Members) -> Option<(Members, bool)> {
    let (mut headers, mut is_sse, mut used) = (Members::new(), false, Vec::new());
    loop {
        options = match options {
            [] => break,
            ["--allow-http", rest @ ..] | ["--transport", "http-first" | "http-only", rest @ ..] => rest,
            ["--transport", "sse-only", rest @ ..] => {
                is_sse = true;
                rest
            }
            ["--header", header, rest @ ..] => {
                let (name, value) = header.split_once(':')?;
                let value = expanded(value.trim(), env, &mut used)?;
                headers.push((name.trim().to_owned(), Json::Text(value)));
                rest
            }
            _ => return None,
        };
    }
    // Any other variable is for the program.
    env.iter().all(|(name, _)| used.contains(&name.as_str())).then_some((headers, is_sse))
}

/// Returns `text` with the variables of `env` replaced, as the bridge does it.
fn expanded<'e>(text: &str, env: &'e Members, used: &mut Vec<&'e str>) -> Option<String> {
    let mut expanded = text.to_owned();
    for (name, value) in env {
        let reference = format!("${{{name}}}");
        if text.contains(&reference) {
            expanded = expanded.replace(&reference, value.text()?);
            used.push(name);
        }
    }
    Some(expanded)
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn of(text: &str) -> Option<Json> {
        let Ok(Json::Object(members)) = json::read(text) else { panic!("an object") };
        unwrapped(&members).map(Json::Object)
    }

    #[test]
    fn a_bridge_becomes_the_server_behind_it() {
        for (bridge, server) in [
            (r#"{"command": "npx", "args": ["mcp-remote", "https://a/mcp"]}"#, r#"{"url": "https://a/mcp"}"#),
            (
                r#"{"type": "stdio", "command": "npx", "args": ["-y", "mcp-remote@latest", "https://a/sse", "--transport", "sse-only"], "disabled": true}"#,
                r#"{"disabled": true, "type": "sse", "url": "https://a/sse"}"#,
            ),
            (
                r#"{"command": "cmd", "args": ["/c", "npx", "mcp-remote", "http://a/mcp", "--allow-http", "--header", "A:${B}", "--header", "C: ${D}"], "env": {"B": "Bearer ${E}"}}"#,
                r#"{"url": "http://a/mcp", "headers": {"A": "Bearer ${E}", "C": "${D}"}}"#,
            ),
            (r#"{"command": "mcp-remote", "args": ["https://a/mcp"]}"#, r#"{"url": "https://a/mcp"}"#),
        ] {
            assert_eq!(of(bridge), json::read(server).ok(), "{bridge}");
        }
    }

    #[test]
    fn a_bridge_with_anything_else_stays() {
        for args in [
            r#"["mcp-remote"]"#,
            r#"["mcp-remote", "https://a/mcp", "9696"]"#,
            r#"["mcp-remote", "https://a/mcp", "--resource", "x"]"#,
            r#"["mcp-remote", "${URL}"]"#,
            r#"["mcp-remote", "https://a/mcp", "--header"]"#,
            r#"["mcp-remote", "https://a/mcp", 1]"#,
            r#"["mcp-remotely", "https://a/mcp"]"#,
            r#"["-p", "mcp-remote", "mcp-remote-client", "https://a/mcp"]"#,
        ] {
            assert_eq!(of(&format!(r#"{{"command": "npx", "args": {args}}}"#)), None, "{args}");
        }
        let with_env =
            r#"{"command": "npx", "args": ["mcp-remote", "https://a/mcp"], "env": {"HTTPS_PROXY": "x"}}"#;
        assert_eq!(of(with_env), None);
    }
}
