//! Variables of the environment that programs do not inherit: those for a proxy, which Switchyard uses only where the file
//! says so, and those that name further certificate authorities.

use super::Finding;
use super::programs::lacking;
use super::subject::Subject;
use crate::connect::is_loopback;
use upstream::config::Transport;
use upstream::transport::proxy_variable;
use upstream::transport::stdio::CERTIFICATE_VARIABLES;

pub(super) fn check_proxy(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(variable) = proxy_variable() else { return Vec::new() };
    let far = subject.servers().filter(|server| is_far(server)).map(|server| server.name.to_string());
    let far: Vec<String> = far.collect();
    let without = lacking(subject, &[variable]);
    let direct = (!far.is_empty()).then(|| {
        Finding::warning(format!(
            "{variable} is set, and Switchyard connects to servers directly: {}",
            far.join(", ")
        ))
        .fix("`proxy: environment` beside `mcp_servers:`, if a server cannot be reached without the proxy")
    });
    let children = (!without.is_empty()).then(|| {
        Finding::warning(format!(
            "{variable} is set, and these programs do not get it: {}",
            without.join(", ")
        ))
        .fix(format!("`default_pass_env: [{variable}]` beside `mcp_servers:`, if they need the proxy"))
    });
    direct.into_iter().chain(children).collect()
}

/// Whether a server has a URL that leads to another machine, and no proxy.
fn is_far(server: &upstream::Config) -> bool {
    matches!(&server.transport, Transport::Http(http) | Transport::Sse(http)
        if !is_loopback(&http.url) && server.network.proxy(&http.url).is_none())
}

pub(super) fn check_certificates(subject: &Subject<'_>) -> Vec<Finding> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let set: Vec<&str> = CERTIFICATE_VARIABLES.into_iter().filter(is_set).collect();
    let without = lacking(subject, &set);
    if without.is_empty() {
        return Vec::new();
    }
    let names = set.join(", ");
    let found = Finding::warning(format!(
        "certificate authorities of this machine ({names}) do not reach these programs: {}",
        without.join(", ")
    ));
    vec![found.fix(format!(
        "`default_pass_env: [{names}]` beside `mcp_servers:`, or `pass_env` of each program that needs these authorities"
    ))]
}
