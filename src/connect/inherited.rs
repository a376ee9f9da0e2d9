//! The variables of this machine that programs of a client had, and that a child of Switchyard gets only if they are named.
//!
//! A client starts a program with its whole environment, and Switchyard with a short list. A server that moves here would
//! lose the certificates, the proxy or the agent that it worked with. So its entry names those that are set here, in
//! `pass_env`. Variables with credentials are not among them: a server that needs one names it in `env`.

use crate::config::import::secrets::sounds_secret;
use settings::expand::Lookup;
use upstream::transport::stdio::CERTIFICATE_VARIABLES;

/// Variables that programs need to find their way. The names have no values that are secret, except that the URL of a proxy
/// or of a registry may have a password.
const NAMES: [&str; 39] = [
    // Certificates, beside `CERTIFICATE_VARIABLES`.
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_USE_SYSTEM_CA",
    "PIP_CERT",
    // Proxies.
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_USE_ENV_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    // Agents, containers and clouds, by their sockets, files and profiles.
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    // The display.
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    // Where runtimes are.
    "BUN_INSTALL",
    "FNM_DIR",
    "JAVA_HOME",
    "NVM_DIR",
    "PIP_INDEX_URL",
    "PNPM_HOME",
    "VOLTA_HOME",
];
/// Beginnings of such variables.
const BEGINNINGS: [&str; 4] = ["NPM_CONFIG_", "UV_", "XDG_", "npm_config_"];
/// Beginnings of variables that npm and uv need to publish, and never to run a program.
const PUBLISHING: [&str; 1] = ["UV_PUBLISH_"];
/// npm sets this variable, and many of its own settings, for each program that it starts. A person did not set those.
const OF_NPM: &str = "npm_execpath";

/// The variables of this process that matter for programs, in order, as far as `environment` has them.
pub(crate) fn here(environment: &Lookup<'_>) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    // A variable without a value does nothing.
    among(names.filter(|name| environment(name).is_ok_and(|value| !value.is_empty())))
}

/// Says which variables programs get.
pub(super) fn note(passed: &[String]) -> String {
    format!(
        "`pass_env`: programs get these variables of this machine, as in a client: {}; remove those that they do not need",
        passed.join(", ")
    )
}

/// The names of `set` that matter for programs, in order.
fn among(set: impl Iterator<Item = String>) -> Vec<String> {
    let mut set: Vec<_> = set.collect();
    if set.iter().any(|name| name == OF_NPM) {
        set.retain(|name| !name.starts_with("npm_config_"));
    }
    set.retain(|name| matters(name));
    set.sort();
    set
}

fn matters(name: &str) -> bool {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    // A name such as `npm_config_//host/:_authToken` is a setting of npm with a credential.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    NAMES.contains(&name)
        || CERTIFICATE_VARIABLES.contains(&name)
        || begins(&BEGINNINGS) && !begins(&PUBLISHING) && is_plain && !sounds_secret(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<String> {
        among(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn variables_that_programs_need_are_found_and_credentials_are_not() {
        let set = [
            "XDG_CONFIG_HOME",
            "SSL_CERT_FILE",
            "UV_CACHE_DIR",
            "npm_config_registry",
            "PATH",
            "HOME",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "UV_PUBLISH_TOKEN",
            "npm_config_//registry.example/:_authToken",
        ];
        let expected = ["SSL_CERT_FILE", "UV_CACHE_DIR", "XDG_CONFIG_HOME", "npm_config_registry"];
        assert_eq!(of(&set), expected);
    }

    #[test]
    fn variables_that_npm_sets_for_its_own_programs_are_not_of_the_machine() {
        let set = ["npm_execpath", "npm_config_cache", "NPM_CONFIG_REGISTRY"];
        assert_eq!(of(&set), ["NPM_CONFIG_REGISTRY"]);
    }
}
