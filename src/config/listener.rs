//! Where the gateway of a file listens, for commands that ask the running gateway.
//!
//! Invariant: a mistake or an unset variable matters only in `server.listen` itself. The rest of the file may be broken,
//! because the running gateway has read an earlier one.

use std::net::SocketAddr;

use downstream::config::parse_address;
#[cfg(feature = "program")]
use downstream::config::reachable;
use settings::document;
use settings::expand::{self, Lookup, NoSecret, Sources};
use settings::{Node, Problems, Setting, Value};
#[cfg(feature = "program")]
use url::Url;

/// The listener of a gateway, as far as it matters to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub has_tls: bool,
}

impl Listener {
    /// At the address that `SWITCHYARD_LISTEN` names, if it names one, as for `serve`.
    #[cfg(feature = "program")]
    pub(crate) fn or_named(self, environment: &Lookup<'_>) -> Self {
        let named = environment("SWITCHYARD_LISTEN").ok().and_then(|text| parse_address(&text));
        Self { address: named.unwrap_or(self.address), ..self }
    }

    /// The URL of the gateway, from this machine.
    #[cfg(feature = "program")]
    pub(crate) fn url(self) -> Url {
        let address = reachable(self.address);
        let scheme = if self.has_tls { "https" } else { "http" };
        let url = Url::parse(&format!("{scheme}://{address}/"));
        url.unwrap_or_else(|_| unreachable!("an address and a port make a URL"))
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self { address: downstream::Config::default().listen, has_tls: false }
    }
}

/// Reads the listener of the document `root`, which is not expanded. If `text` is not valid YAML, its part `server` is read
/// alone. The error has the problems of the address.
pub(super) fn read(text: &str, root: &Node, environment: &Lookup<'_>) -> Result<Listener, Problems> {
    if !matches!(root.value, Value::Unusable) {
        return of_document(root, environment);
    }
    let problems = Problems::default();
    let part = document::parse(&server_lines(text), &problems);
    if problems.is_empty() { of_document(&part.root, environment) } else { Err(problems) }
}

fn of_document(root: &Node, environment: &Lookup<'_>) -> Result<Listener, Problems> {
    let problems = Problems::default();
    let has_tls = of_server(root, "tls", &problems).is_some();
    let mut part = super::server_part(root, &["listen"]);
    let sources = Sources {
        environment,
        secrets: &|_| Err(NoSecret::Unset),
        without_secrets: &[],
        takes_caller_values: |_| false,
    };
    expand::expand(&mut part, &sources, &problems);
    let Some(listen) = of_server(&part, "listen", &problems) else {
        return Ok(Listener { has_tls, ..Listener::default() });
    };
    let address = listen.parsed("an address and a port, such as 127.0.0.1:8080", parse_address);
    match address {
        Some(address) => Ok(Listener { address, has_tls }),
        None => Err(problems),
    }
}

fn of_server<'a>(root: &'a Node, name: &str, problems: &'a Problems) -> Option<Setting<'a>> {
    Setting::root(root, problems).member("server")?.member(name)
}

/// The lines of the top-level key `server`, in their places.
fn server_lines(text: &str) -> String {
    let mut is_part = false;
    let mut part = String::new();
    for line in text.lines() {
        if !line.starts_with([' ', '\t', '#', '}', ']']) && !line.is_empty() {
            let key = line.split_once(':').map_or("", |(key, _)| key.trim_end().trim_matches(['"', '\'']));
            is_part = key == "server";
        }
        if is_part {
            part.push_str(line);
        }
        part.push('\n');
    }
    part
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    fn listener(text: &str) -> Result<Listener, Vec<String>> {
        let document = document::parse(text, &Problems::default());
        let unset = |_: &str| Err(VarError::NotPresent);
        let read = read(text, &document.root, &unset);
        read.map_err(|problems| problems.sorted().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn address_is_read_beside_mistakes_and_broken_yaml() {
        let at = |port, has_tls| Ok(Listener { address: SocketAddr::from(([127, 0, 0, 1], port)), has_tls });
        for (text, expected) in [
            ("mcp_servers: {}\n", at(8080, false)),
            ("server: {listen: 127.0.0.1:99, workers: 0, nonsense: \"${A}\"}\n", at(99, false)),
            ("server:\n  listen: \"127.0.0.1:99\"\n  tls: {cert: \"${A}\"}\nmcp_servers: [\n", at(99, true)),
            ("mcp_servers: {a: [}\nserver:\n  listen: 127.0.0.1:99\n# end\nother: 1\n", at(99, false)),
            ("mcp_servers: [\n", at(8080, false)),
        ] {
            assert_eq!(listener(text), expected, "{text}");
        }
        let unset = listener("server: {listen: \"${A}\"}\n").expect_err("its address is not known");
        assert!(unset[0].starts_with("server.listen: `${A}` is not set"), "{unset:?}");
        let wrong = listener("server: {listen: here}\n").expect_err("it is no address");
        assert!(wrong[0].starts_with("server.listen: `here` is not an address"), "{wrong:?}");
        assert!(listener("server:\n  listen: [\n").is_err(), "its own part is broken");
    }
}
