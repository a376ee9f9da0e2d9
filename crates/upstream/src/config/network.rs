//! Reads how a server is reached over the network: `proxy` and `tls`.
//!
//! Invariants: no problem quotes the URL of a proxy, because it may hold a password. Files of `tls` are not read here, so a
//! file can be checked on a machine that does not have them.

use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::Transport;
use net::http::{Network, NoProxy, Proxies, Proxy, TlsFiles, is_public};
use settings::{FromSetting, Setting, settings};
use url::Host;

const FORMS: &str = "write `proxy: http://host:port`, `proxy: environment`, `proxy: none`, or a mapping with `url`, \
                     `username`, `password` and `no_proxy`";
const VERIFY: &str = "certificates are always checked: name the authority in `ca`";

settings! {
    struct ProxySettings {
        /// the proxy
        url: Proxy, required "add `url: http://host:port`", with proxy;
        /// the user at the proxy
        username: Option<SecretString>;
        /// the password of that user
        password: Option<SecretString>;
        /// what is reached without the proxy: hosts, `.domain`, addresses and ranges such as `10.0.0.0/8`, each with or
        /// without `:port`
        no_proxy: NoProxy, with no_proxy;
    }
    check ProxySettings::check;
}

settings! {
    struct TlsSettings {
        /// authorities that are trusted beside those of the system
        ca: Option<PathBuf>;
        /// the certificate that Switchyard shows
        cert: Option<PathBuf>;
        /// its private key
        key: Option<PathBuf>;
    }
    foreign &[
        ("ca_file", "write `ca:`"),
        ("client_cert", "write `cert:`"),
        ("client_key", "write `key:`"),
        ("insecure", VERIFY),
        ("verify", VERIFY),
        ("skip_verify", VERIFY),
    ];
    check names_files;
}

/// Reads `proxy`: of all servers, or of one. The outer `None` means that it is not usable, after reporting a problem.
#[allow(clippy::option_option)] // not usable, and no proxy
pub(super) fn proxies(setting: &Setting<'_>) -> Option<Option<Arc<Proxies>>> {
    if setting.is_word("none") {
        return Some(None);
    }
    if setting.is_word("environment") {
        let proxies = of_environment(setting)?;
        return Some((!proxies.is_empty()).then(|| Arc::new(proxies)));
    }
    let of_url = |setting: &Setting<'_>| Some(Proxies::of(proxy(setting)?, NoProxy::default()));
    setting.text_or(of_url, of_mapping).map(|proxies| Some(Arc::new(proxies)))
}

fn of_environment(setting: &Setting<'_>) -> Option<Proxies> {
    let proxies = Proxies::from_environment(|name| std::env::var(name).ok());
    let hint = "change the variable, or name the proxy here with `proxy: http://host:port`";
    proxies.map_err(|reason| setting.problem(reason, Some(hint.into()))).ok()
}

fn of_mapping(setting: &Setting<'_>) -> Option<Proxies> {
    let ProxySettings { url: proxy, username, password, no_proxy } = ProxySettings::from_setting(setting)?;
    let proxy = match (username, password) {
        (Some(username), Some(password)) => proxy.with_credentials(username.expose_secret(), &password),
        _ => proxy,
    };
    Some(Proxies::of(proxy, no_proxy))
}

impl ProxySettings {
    fn check(&mut self, setting: &Setting<'_>) {
        setting.belong_together(["username", "password"]);
        if let Some(username) = setting.member("username").filter(|_| self.url.has_credentials()) {
            username.key_problem("`url` has a user already", Some("keep one of the two".into()));
        }
    }
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

/// Reports `proxy`, `tls` and `public_only` of a program, which connects by itself.
pub(super) fn refuse_for_programs(transport: Option<&Transport>, server: &Setting<'_>) {
    let hints = [
        ("public_only", "the program connects by itself"),
        ("proxy", "the program connects by itself: give it HTTPS_PROXY under `env` or `pass_env`"),
        ("tls", "the program connects by itself: give it SSL_CERT_FILE or NODE_EXTRA_CA_CERTS under `env`"),
    ];
    for (name, hint) in hints.into_iter().filter(|_| matches!(transport, Some(Transport::Stdio(_)))) {
        server.refuse_member(name, "transport `stdio`", hint);
    }
}

/// Reports `public_only` of a server that could never be reached with it.
pub(super) fn check_public(transport: Option<&Transport>, network: &Network, server: &Setting<'_>) {
    let Some(setting) = server.member("public_only") else { return };
    let url = match transport {
        Some(Transport::Http(http) | Transport::Sse(http)) => &http.url,
        Some(Transport::Builtin(_)) => {
            return server.refuse_member("public_only", "transport `builtin`", "it connects by itself");
        }
        Some(Transport::Stdio(_)) | None => return,
    };
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        Some(Host::Domain(_)) | None => None,
    };
    if address.is_some_and(|address| !is_public(address)) {
        let hint = "remove `public_only` if that address is meant";
        setting.key_problem("the address in `url` is not public", Some(hint.into()));
    }
    if url.scheme() == "http" && network.proxy(url).is_some() {
        let hint = "write `https://`, or `proxy: none`";
        setting.key_problem("the proxy would decide where `http://` leads", Some(hint.into()));
    }
}

fn names_files(_: &mut TlsSettings, setting: &Setting<'_>) {
    setting.belong_together(["cert", "key"]);
    if ["ca", "cert", "key"].iter().all(|name| setting.member(name).is_none()) {
        let hint = "add `ca`, a file with the certificate of an authority in PEM, or `cert` and `key`";
        setting.key_problem("it names no files", Some(hint.into()));
    }
}

/// Reads `tls`.
pub(super) fn files(setting: &Setting<'_>) -> Option<TlsFiles> {
    let TlsSettings { ca, cert, key } = TlsSettings::from_setting(setting)?;
    Some(TlsFiles { ca, identity: cert.zip(key) })
}
