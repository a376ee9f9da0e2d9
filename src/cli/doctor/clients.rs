//! The MCP clients of this machine whose entry of Switchyard leads elsewhere.

use url::Url;

use super::super::connect::this_host;
use super::Finding;
use super::subject::Subject;
use crate::connect::clients::Scope;
use crate::connect::{self, ClientFile, Gateway, State};

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let variable = |name: &str| std::env::var(name).ok();
    let path = subject.path();
    let gateway = Gateway {
        url: subject.endpoint(),
        is_url_named: false,
        is_started: false,
        view: None,
        key_variable: None,
        program: std::env::current_exe().unwrap_or_else(|_| "switchyard".into()),
        config: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    };
    // Clients may reach the gateway by its public URL.
    let public = subject.config().and_then(|config| config.server.public_url.as_deref());
    let public = public.and_then(|url| Url::parse(&format!("{url}/mcp")).ok());
    let gateways: Vec<Gateway> =
        public.map(|url| Gateway { url, ..gateway.clone() }).into_iter().chain([gateway.clone()]).collect();
    let elsewhere = |found: &ClientFile| {
        gateways.iter().map(|gateway| found.elsewhere(gateway)).min_by_key(Option::is_some)
    };
    let (mut findings, mut connected) = (Vec::new(), Vec::new());
    for found in connect::installed(&this_host(&variable)) {
        match (&found.state, elsewhere(&found).flatten()) {
            (State::NotConnected, _) => {}
            (State::Connected(_), None) => connected.push(found.client.name),
            (State::Connected(_), Some(place)) => findings.push(to_connect(&found, &place)),
            (State::Unreadable(reason), _) => findings.push(Finding::warning(format!(
                "{}: its file {} cannot be used: {reason}",
                found.client.name,
                found.file.display()
            ))),
        }
    }
    if findings.is_empty() {
        findings.push(match connected.as_slice() {
            [] => Finding::ok("no client is connected: `switchyard connect` lists those of this machine"),
            some => Finding::ok(format!("connected: {}", some.join(", "))),
        });
    }
    findings
}

fn to_connect(found: &ClientFile, place: &str) -> Finding {
    let ClientFile { client, scope, file, .. } = found;
    let option = if *scope == Scope::Project { " --scope project" } else { "" };
    Finding::warning(format!("{}: its file {} leads elsewhere: {place}", client.name, file.display()))
        .fix(format!("`switchyard connect {}{option}`", client.id))
}
