//! Reads how a server is reached over the network: `proxy` and `tls`.
//!
//! Invariants: no problem quotes the URL of a proxy, because it may hold a password. Files of `tls` are not read here, so a
//! file can be checked on a machine that does not have them.

use std::path::Path;
use std::sync::Arc;

use secrecy::ExposeSecret;

use super::Transport;
use net::http::{Network, NoProxy, Proxies, Proxy, TlsFiles};
use settings::{Fields, Setting};

/// The word for the proxies of the environment.
const ENVIRONMENT: &str = "environment";
/// The word for no proxy.
const NONE: &str = "none";
const FORMS: &str = "write `proxy: http://host:port`, `proxy: environment`, `proxy: none`, or a mapping with `url`, \
                     `username`, `password` and `no_proxy`";

/// Reads `proxy`: of all servers, or of one. The outer `None` means that it is not usable, after reporting a problem.
#[allow(clippy::option_option)] // not usable, and no proxy
pub(super) fn proxies(setting: &Setting<'_>) -> Option<Option<Arc<Proxies>>> {
    match setting.shown() {
        NONE => {
            setting.text()?;
            Some(None)
        }
        ENVIRONMENT => {
            setting.text()?;
            of_environment(setting).map(|proxies| (!proxies.is_empty()).then(|| Arc::new(proxies)))
        }
        "" => of_mapping(setting).map(|proxies| Some(Arc::new(proxies))),
        _ => Some(Some(Arc::new(Proxies::of(proxy(setting)?, NoProxy::default())))),
    }
}

fn of_environment(setting: &Setting<'_>) -> Option<Proxies> {
    let proxies = Proxies::from_environment(|name| std::env::var(name).ok());
    let hint = "change the variable, or name the proxy here with `proxy: http://host:port`";
    proxies.map_err(|reason| setting.problem(reason, Some(hint.into()))).ok()
}

fn of_mapping(setting: &Setting<'_>) -> Option<Proxies> {
    let mut fields = setting.fields()?;
    let url = fields.require("url", "add `url: http://host:port`");
    let username = fields.take("username");
    let password = fields.take("password");
    let no_proxy = fields.part("no_proxy", no_proxy).unwrap_or_default();
    fields.finish();
    let mut proxy = proxy(&url?)?;
    match (&username, &password) {
        (Some(username), Some(password)) => {
            if proxy.has_credentials() {
                let hint = "keep one of the two".to_owned();
                username.key_problem("`url` has a user already", Some(hint));
            }
            proxy = proxy.with_credentials(username.secret()?.expose_secret(), &password.secret()?);
        }
        (Some(one), None) | (None, Some(one)) => {
            one.key_problem("`username` and `password` belong together", Some("add the other one".into()));
        }
        (None, None) => {}
    }
    Some(Proxies::of(proxy, no_proxy))
}

fn proxy(setting: &Setting<'_>) -> Option<Proxy> {
    let text = setting.secret()?;
    let read = Proxy::parse(text.expose_secret(), "proxy");
    read.map_err(|reason| setting.hidden_problem(format!("it {reason}"), Some(FORMS.into()))).ok()
}

fn no_proxy(setting: &Setting<'_>) -> Option<NoProxy> {
    let entries: Vec<_> = setting.one_or_more().iter().filter_map(Setting::text).collect();
    let refuse = |entry: &str| {
        let hint =
            "write a host, `.domain`, an address or a range such as 10.0.0.0/8, with or without `:port`";
        setting.problem(format!("{entry:?} names no hosts"), Some(hint.into()));
    };
    NoProxy::parse(entries).map_err(refuse).ok()
}

/// Reads `proxy` and `tls` of one server. `usual` are the proxies of all servers.
pub(super) fn from_fields(
    fields: &mut Fields<'_>,
    transport: Option<&Transport>,
    (usual, folder): (Option<&Arc<Proxies>>, &Path),
) -> Network {
    let given = ["proxy", "tls"].map(|name| Some((name, fields.take(name)?)));
    if let Some(Transport::Stdio(_)) = transport {
        for (name, setting) in given.iter().flatten() {
            let hint = match *name {
                "proxy" => "the program connects by itself: give it HTTPS_PROXY under `env` or `pass_env`",
                _ => {
                    "the program connects by itself: give it SSL_CERT_FILE or NODE_EXTRA_CA_CERTS under `env`"
                }
            };
            let message = format!("`{name}` does not go with transport `stdio`");
            setting.key_problem(message, Some(hint.into()));
        }
    }
    let [proxy, tls] = given.map(|given| given.map(|(_, setting)| setting));
    let proxies = proxy.and_then(|setting| proxies(&setting)).unwrap_or_else(|| usual.cloned());
    Network::new(proxies, tls.and_then(|setting| files(&setting, folder)))
}

fn files(setting: &Setting<'_>, folder: &Path) -> Option<TlsFiles> {
    let mut fields = setting.fields()?;
    let [ca, cert, key] = ["ca", "cert", "key"].map(|name| fields.take(name));
    fields.refuse_foreign(&[
        ("ca_file", "write `ca:`"),
        ("client_cert", "write `cert:`"),
        ("client_key", "write `key:`"),
        ("insecure", VERIFY),
        ("verify", VERIFY),
        ("skip_verify", VERIFY),
    ]);
    fields.finish();
    let path = |setting: &Setting<'_>| setting.file_path(folder);
    let identity = match (&cert, &key) {
        (Some(cert), Some(key)) => Some((path(cert)?, path(key)?)),
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            one.key_problem("`cert` and `key` belong together", Some("add the other one".into()));
            None
        }
    };
    if ca.is_none() && identity.is_none() {
        let hint = "add `ca`, a file with the certificate of an authority in PEM, or `cert` and `key`";
        setting.key_problem("it names no files", Some(hint.into()));
    }
    Some(TlsFiles { ca: ca.as_ref().and_then(path), identity })
}

const VERIFY: &str = "certificates are always checked: name the authority in `ca`";
