//! Reads the transport of one server, and the fields that belong to it.
//!
//! Every field of every transport is known here. A field of another transport is therefore refused with that reason,
//! instead of as an unknown field.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, header};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::builtin::{self, Kinds, given};
use super::headers::{self, ConfiguredHeaders, header_value};
use super::{Http, Stdio, Transport, env_file};
use crate::credential::TokenSource;
use crate::token_file::TokenFile;
use net::http::{Network, NoProxy, Proxies, Proxy, TlsFiles, is_public};
use runtime::secret::{redacted_reference, redacted_url};
use settings::{Fields, Fingerprint, FromSetting, Setting, settings, words};

const NO_VARIABLE: &str = "this is not the name of an environment variable";
words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum TransportKind {
        Http = "http",
        Sse = "sse",
        Stdio = "stdio",
        Builtin = "builtin",
    }
}

/// The words of other programs for a transport, and the text to write instead of them.
const FOREIGN_KINDS: [(&str, &str); 4] = [
    ("streamable-http", "write `http`, which is Streamable HTTP here"),
    ("streamable_http", "write `http`, which is Streamable HTTP here"),
    ("streamableHttp", "write `http`, which is Streamable HTTP here"),
    ("local", "write `stdio`"),
];

impl TransportKind {
    fn takes(self, field: &str, builtins: Kinds) -> bool {
        match self {
            Self::Http | Self::Sse => matches!(field, "url" | "headers" | "forward_headers" | "auth"),
            Self::Stdio => OF_PROGRAMS.contains(&field),
            Self::Builtin => builtin::takes(builtins, field),
        }
    }

    fn takers(field: &str, builtins: Kinds) -> String {
        let takers = Self::WORDS.iter().filter(|(_, kind)| kind.takes(field, builtins));
        takers.map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
    }
}

/// The fields of a program.
const OF_PROGRAMS: [&str; 6] = ["command", "args", "env", "env_file", "pass_env", "cwd"];
/// The fields of all transports. The built-in servers know their own options.
const FIELDS: [&str; 11] = [
    "url",
    "headers",
    "forward_headers",
    "auth",
    "command",
    "args",
    "env",
    "env_file",
    "pass_env",
    "cwd",
    "builtin",
];

/// The fingerprint of the settings that decide which server is reached, and with which credential.
pub(super) fn identity(fields: &Fields<'_>) -> Fingerprint {
    // Headers of clients do not decide what it offers.
    let names = FIELDS.into_iter().filter(|name| *name != "forward_headers").chain(["transport", "era"]);
    names.fold(Fingerprint::ABSENT, |all, name| {
        all.and(&format!("{name}{:?}", fields.fingerprint(name, &[]).bytes()))
    })
}

/// Adds the variables that a child process inherits because its settings name them.
pub(super) fn with_passed(identity: Fingerprint, transport: &Transport) -> Fingerprint {
    let Transport::Stdio(stdio) = transport else { return identity };
    let passed: Vec<_> = stdio.pass_env.iter().map(|name| (name, std::env::var_os(name))).collect();
    identity.and(&format!("{passed:?}"))
}

settings! {
    /// The settings of all transports, as far as they are given.
    pub(super) struct OwnTransport {
        /// `http`: Streamable HTTP, and servers of the older HTTP+SSE are detected; `sse`: HTTP+SSE only; `stdio`: a
        /// program; `builtin`: inside Switchyard
        transport: Option<TransportKind> => "`http`, or `stdio` if only `command` is given", with kind;
        /// the server's MCP endpoint, or the address of the service; `http://` or `https://`. Without a path, and where
        /// a server redirects, see [HTTP servers](servers.md#add-an-http-server-streamable-http)
        url: Option<Url> => "required for `http`, `sse` and the builtins `r2r`, `rag` and `chroma`";
        /// sent with every request; the headers of the protocol itself (`Content-Type`, `Mcp-…`) cannot be set.
        /// `${principal:NAME}` is [a secret of each caller](servers.md#secrets-of-each-caller)
        headers: ConfiguredHeaders, with headers::headers;
        /// names of [headers of clients](servers.md#pass-headers-of-clients-on) that calls to the server carry on, at most
        /// 16; credentials and the headers of the protocol and of the connection cannot be passed on
        forward_headers: Vec<HeaderName>, with headers::forwarded;
        /// `oauth`: the server needs a [login](logins.md#settings); or a mapping
        auth: Option<ConfiguredCredential>, with auth;
        /// the program, looked up in `PATH`; no shell is involved
        command: Option<String> => "required for `stdio`", with program;
        /// its arguments
        args: Vec<String>, with args;
        /// its environment, in addition to a short list of harmless variables of Switchyard and those of `pass_env`
        env: BTreeMap<String, SecretString>, with env;
        /// a file with further variables, one `NAME=value` on each line, read with the configuration; `env` takes
        /// precedence over it. See [variables in a file](servers.md#variables-in-a-file)
        env_file: env_file::Variables => "none", with env_file::read;
        /// variables of Switchyard's own environment that the program also gets, if they are set, such as `HTTPS_PROXY`
        pass_env: Option<Vec<String>> => "`default_pass_env`", with variables;
        /// the folder in which the program runs
        cwd: Option<PathBuf> => "where Switchyard runs";
    }
}

settings! {
    /// `auth` as a mapping.
    struct OwnAuth {
        /// a token, sent as `Authorization: Bearer …`
        bearer: Option<SecretString>, with bearer;
        /// a file that holds the token and is
        /// [rewritten when the token is replaced](security/secrets.md#tokens-that-are-replaced)
        bearer_file: Option<PathBuf>;
        /// the settings of a [login](logins.md#settings)
        oauth: Option<oauth::Settings>;
    }
    check OwnAuth::check;
}

/// Leaves out the settings of a program where a URL has precedence over them: without `transport`, a URL is meant.
pub(super) fn ignore_unused(fields: &mut Fields<'_>) {
    if has_unused_program(fields.setting()) {
        fields.ignore(&OF_PROGRAMS);
    }
}

fn has_unused_program(server: &Setting<'_>) -> bool {
    let [transport, url, command, builtin] =
        ["transport", "url", "command", "builtin"].map(|name| given(server, name));
    url && command && !transport && !builtin
}

impl OwnTransport {
    /// A text that changes with the content of `env_file`.
    pub(super) fn read_from_files(&self) -> Zeroizing<String> {
        env_file::fingerprint_text(&self.env_file)
    }

    /// Returns the transport and its target; `None` if the settings are not usable. `builtins` are the built-in servers
    /// of the program, and a child process inherits `pass_env` if its settings name none.
    pub(super) fn complete(
        self,
        server: &Setting<'_>,
        builtins: Kinds,
        pass_env: &[String],
    ) -> Option<(Transport, String)> {
        let kind = if given(server, "transport") { self.transport? } else { implied(server)? };
        let unused: &[&str] = if has_unused_program(server) { &OF_PROGRAMS } else { &[] };
        let is_misfit = |field: &&'static str| {
            given(server, field) && !kind.takes(field, builtins) && !unused.contains(field)
        };
        for field in FIELDS.into_iter().chain(builtin::fields(builtins)).filter(is_misfit) {
            let hint = format!("it belongs to transport {}", TransportKind::takers(field, builtins));
            server.refuse_member(field, format_args!("transport `{}`", kind.as_str()), hint);
        }
        let transport = match kind {
            TransportKind::Http => Transport::Http(self.http(server)?),
            TransportKind::Sse => Transport::Sse(self.http(server)?),
            TransportKind::Stdio => Transport::Stdio(self.stdio(server, pass_env)?),
            TransportKind::Builtin => Transport::Builtin(builtin::read(server, builtins)?),
        };
        let target = target(&transport, server);
        Some((transport, target))
    }

    fn http(self, server: &Setting<'_>) -> Option<Http> {
        let (mut headers, forward) = (self.headers, self.forward_headers);
        let auth = server.member("auth");
        if auth.is_some() && headers.sets(&header::AUTHORIZATION) {
            let hint = Some("keep one of the two".into());
            auth?.key_problem("`headers` sets Authorization already", hint);
        }
        let token = match self.auth {
            Some(ConfiguredCredential::Bearer(value)) => {
                headers.fixed.push((header::AUTHORIZATION, value));
                None
            }
            Some(ConfiguredCredential::Token(source)) => Some(source),
            None => None,
        };
        if !given(server, "url") {
            server.missing("url", "add `url: http://…`");
        }
        if let Some(name) = forward.iter().find(|name| headers.sets(name)) {
            let message = format!("`headers` sets `{name}` already");
            server.member("forward_headers")?.key_problem(message, Some("keep one of the two".into()));
        }
        let ConfiguredHeaders { fixed: headers, of_principals: principal_headers } = headers;
        Some(Http { url: self.url?, headers, principal_headers, forward, token })
    }

    fn stdio(self, server: &Setting<'_>, usual: &[String]) -> Option<Stdio> {
        let Self { command, args, env: own, env_file: mut env, pass_env, cwd, .. } = self;
        server.require("command", "add the program to start, such as `command: npx`");
        let pass_env = pass_env.unwrap_or_else(|| usual.to_vec());
        env.extend(own);
        Some(Stdio { command: command?, args, env, pass_env, cwd })
    }
}

fn kind(setting: &Setting<'_>) -> Option<TransportKind> {
    setting.choice_or(TransportKind::WORDS, &FOREIGN_KINDS)
}

/// Returns the target of `transport` in the form that operators may see.
fn target(transport: &Transport, server: &Setting<'_>) -> String {
    let shown = |field| server.member(field).map_or("", |setting| setting.shown()).to_owned();
    match transport {
        Transport::Http(http) | Transport::Sse(http) => match shown("url") {
            text if text.contains('$') => redacted_reference(&text),
            _ => redacted_url(&http.url),
        },
        Transport::Stdio(_) => shown("command"),
        Transport::Builtin(_) => shown("builtin"),
    }
}

/// Returns `http`, or `stdio` if there is a command and no URL.
fn implied(server: &Setting<'_>) -> Option<TransportKind> {
    match ["url", "command", "builtin"].map(|name| given(server, name)) {
        [true, _, false] => Some(TransportKind::Http),
        [false, true, false] => Some(TransportKind::Stdio),
        [_, false, true] => {
            server.key_problem("`transport` is missing", Some("add `transport: builtin`".into()));
            None
        }
        [false, false, false] => {
            let hint = "add `url: http://…`, or `command:` for a program that speaks MCP over stdio";
            server.key_problem("neither `url` nor `command` is given", Some(hint.into()));
            None
        }
        [_, true, true] => {
            let hint = "say which one is meant with `transport: stdio` or `builtin`, and remove the other";
            server.key_problem("`command` and `builtin` are both given", Some(hint.into()));
            None
        }
    }
}

/// The credential for a server.
enum ConfiguredCredential {
    /// The value of `Authorization`.
    Bearer(SecretString),
    Token(TokenSource),
}

fn auth(setting: &Setting<'_>) -> Option<ConfiguredCredential> {
    let login = |settings| ConfiguredCredential::Token(TokenSource::OAuth(Arc::new(settings)));
    if setting.is_word("oauth") {
        return Some(login(oauth::Settings::default()));
    }
    let OwnAuth { bearer, bearer_file, oauth } = OwnAuth::from_setting(setting)?;
    let file = bearer_file.map(|path| ConfiguredCredential::Token(TokenSource::File(TokenFile::new(path))));
    oauth.map(login).or(bearer.map(ConfiguredCredential::Bearer)).or(file)
}

impl OwnAuth {
    fn check(_: &mut Self, setting: &Setting<'_>) {
        let names = ["bearer", "bearer_file", "oauth"];
        let mut given = names.iter().filter_map(|name| Some((name, setting.member(name)?)));
        match (given.next(), given.next()) {
            (None, _) => {
                let hint = "add `bearer: ${NAME}`, `bearer_file: path` or `oauth:`, or remove `auth`";
                setting.missing("bearer", hint);
            }
            (Some((first, _)), Some((_, other))) => {
                let hint = Some("keep one of the two".into());
                other.key_problem(format!("`{first}` is given already"), hint);
            }
            _ => {}
        }
    }
}

fn bearer(setting: &Setting<'_>) -> Option<SecretString> {
    let token = header_value(setting)?;
    if token.expose_secret().trim().is_empty() {
        setting.hidden_problem("the token is empty", Some("set the variable, or remove `auth`".into()));
        return None;
    }
    Some(format!("Bearer {}", token.expose_secret()).into())
}

/// Reads the name of a program, if the system accepts it.
fn program(setting: &Setting<'_>) -> Option<String> {
    let passable = |text: &str| (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned());
    setting.parsed("the name of a program", passable)
}

/// Reads the arguments, which may be secrets too.
fn args(setting: &Setting<'_>) -> Option<Vec<String>> {
    let args = setting.list()?;
    Some(args.iter().filter_map(environment_value).map(|value| value.expose_secret().to_owned()).collect())
}

fn env(setting: &Setting<'_>) -> Option<BTreeMap<String, SecretString>> {
    let mut env = BTreeMap::new();
    for (name, value) in setting.entries()? {
        if !is_variable(name) {
            value.key_problem(NO_VARIABLE, None);
        }
        env.extend(environment_value(&value).map(|value| (name.to_owned(), value)));
    }
    Some(env)
}

/// Reads names of variables.
pub(super) fn variables(setting: &Setting<'_>) -> Option<Vec<String>> {
    let read = |item: &Setting<'_>| {
        let name = item.text()?;
        if !is_variable(name) {
            item.problem(NO_VARIABLE, Some("write the name alone, such as HTTPS_PROXY".into()));
        }
        Some(name.to_owned())
    };
    Some(setting.list()?.iter().filter_map(read).collect())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn environment_value(setting: &Setting<'_>) -> Option<SecretString> {
    let value = setting.secret()?;
    if value.expose_secret().contains('\0') {
        setting.hidden_problem("a NUL character cannot be handed to a program", None);
        return None;
    }
    Some(value)
}

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
///
/// Invariants: no problem quotes the URL of a proxy, because it may hold a password. Files of `tls` are not read here,
/// so a file can be checked on a machine that does not have them.
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
