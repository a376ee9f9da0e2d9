//! Reads the transport of one server, and the fields that belong to it.
//!
//! Every field of every transport is known here. A field of another transport is therefore refused with that reason,
//! instead of as an unknown field.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};

use super::builtin::Kinds;
use super::fields::{TransportFields, require};
use super::{Http, Stdio, Transport, builtin};
use crate::credential::TokenSource;
use crate::token_file::TokenFile;
use runtime::secret::{redacted_reference, redacted_url};
use settings::{Fields, Fingerprint, Setting};

const NO_VARIABLE: &str = "this is not the name of an environment variable";
/// Headers that belong to the protocol or to the connection. The configured headers are set beside them.
const RESERVED: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    Http,
    Sse,
    Stdio,
    Builtin,
}

const KINDS: [(&str, TransportKind); 4] = [
    ("http", TransportKind::Http),
    ("sse", TransportKind::Sse),
    ("stdio", TransportKind::Stdio),
    ("builtin", TransportKind::Builtin),
];

/// The words of other programs for a transport, and the text to write instead of them.
const FOREIGN_KINDS: [(&str, &str); 4] = [
    ("streamable-http", "write `http`, which is Streamable HTTP here"),
    ("streamable_http", "write `http`, which is Streamable HTTP here"),
    ("streamableHttp", "write `http`, which is Streamable HTTP here"),
    ("local", "write `stdio`"),
];

impl TransportKind {
    fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| *word)
    }

    fn takes(self, field: &str, builtins: Kinds) -> bool {
        match self {
            Self::Http | Self::Sse => matches!(field, "url" | "headers" | "auth"),
            Self::Stdio => matches!(field, "command" | "args" | "env" | "pass_env" | "cwd"),
            Self::Builtin => builtin::takes(builtins, field),
        }
    }

    fn takers(field: &str, builtins: Kinds) -> String {
        let takers = KINDS.iter().filter(|(_, kind)| kind.takes(field, builtins));
        takers.map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
    }
}

/// The fields of all transports. The built-in servers know their own options.
const FIELDS: [&str; 9] = ["url", "headers", "auth", "command", "args", "env", "pass_env", "cwd", "builtin"];

/// The fingerprint of the settings that decide which server is reached, and with which credential.
pub(super) fn identity(fields: &Fields<'_>) -> Fingerprint {
    let names = FIELDS.into_iter().chain(["transport", "era"]);
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

/// Reads the transport and its target; `None` if the settings are not usable. `builtins` are the built-in servers of the
/// program, relative paths are relative to `folder`, and a child process inherits `pass_env` if its settings name none.
pub(super) fn from_fields(
    fields: &mut Fields<'_>,
    builtins: Kinds,
    folder: &Path,
    pass_env: &[String],
) -> Option<(Transport, String)> {
    let written = fields.take("transport");
    let known = FIELDS.into_iter().chain(builtin::fields(builtins));
    let given = TransportFields(known.filter_map(|name| Some((name, fields.take(name)?))).collect());
    let server = fields.setting();
    let kind = match &written {
        Some(setting) => setting.choice_or(&KINDS, &FOREIGN_KINDS)?,
        None => implied(&given, server)?,
    };
    // A URL has precedence over a command, unless `transport` is set. The fields of the command are then unused.
    let is_unused = |field| {
        written.is_none() && given.get("command").is_some() && TransportKind::Stdio.takes(field, builtins)
    };
    let of_another = |field| !kind.takes(field, builtins) && !is_unused(field);
    for (field, setting) in given.iter().filter(|(field, _)| of_another(field)) {
        let message = format!("`{field}` does not go with transport `{}`", kind.word());
        setting.key_problem(
            message,
            Some(format!("it belongs to transport {}", TransportKind::takers(field, builtins))),
        );
    }
    let transport = match kind {
        TransportKind::Http => Transport::Http(http(&given, server, folder)?),
        TransportKind::Sse => Transport::Sse(http(&given, server, folder)?),
        TransportKind::Stdio => Transport::Stdio(stdio(&given, server, folder, pass_env)?),
        TransportKind::Builtin => Transport::Builtin(builtin::from_fields(&given, server, builtins, folder)?),
    };
    let target = target(&transport, &given);
    Some((transport, target))
}

/// Returns the target of `transport` in the form that operators may see.
fn target(transport: &Transport, given: &TransportFields<'_>) -> String {
    let shown = |field| given.get(field).map_or("", Setting::shown);
    match transport {
        Transport::Http(http) | Transport::Sse(http) => match shown("url") {
            text if text.contains('$') => redacted_reference(text),
            _ => redacted_url(&http.url),
        },
        Transport::Stdio(_) => shown("command").to_owned(),
        Transport::Builtin(_) => shown("builtin").to_owned(),
    }
}

/// Returns `http`, or `stdio` if there is a command and no URL.
fn implied(given: &TransportFields<'_>, server: &Setting<'_>) -> Option<TransportKind> {
    match (given.get("url"), given.get("command"), given.get("builtin")) {
        (Some(_), _, None) => Some(TransportKind::Http),
        (None, Some(_), None) => Some(TransportKind::Stdio),
        (_, None, Some(_)) => {
            server.key_problem("`transport` is missing", Some("add `transport: builtin`".into()));
            None
        }
        (None, None, None) => {
            let hint = "add `url: http://…`, or `command:` for a program that speaks MCP over stdio";
            server.key_problem("neither `url` nor `command` is given", Some(hint.into()));
            None
        }
        _ => {
            let hint = "say which one is meant with `transport: stdio` or `builtin`, and remove the other";
            server.key_problem("`command` and `builtin` are both given", Some(hint.into()));
            None
        }
    }
}

fn http(given: &TransportFields<'_>, server: &Setting<'_>, folder: &Path) -> Option<Http> {
    let mut headers = given.get("headers").and_then(headers).unwrap_or_default();
    let mut token = None;
    if let Some(setting) = given.get("auth")
        && let Some(credential) = auth(setting, folder)
    {
        if headers.iter().any(|(name, _)| *name == header::AUTHORIZATION) {
            setting.key_problem("`headers` sets Authorization already", Some("keep one of the two".into()));
        }
        match credential {
            ConfiguredCredential::Bearer(value) => headers.push((header::AUTHORIZATION, value)),
            ConfiguredCredential::Token(source) => token = Some(source),
        }
    }
    let url = require(given, "url", server, "add `url: http://…`")?.url()?;
    Some(Http { url, headers, token })
}

/// Whether the header `name` (in any case) is set by the protocol, so that it cannot be configured.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || name.starts_with("mcp-")
}

fn headers(setting: &Setting<'_>) -> Option<Vec<(HeaderName, SecretString)>> {
    let mut headers: Vec<(HeaderName, SecretString)> = Vec::new();
    for (key, value) in setting.entries()? {
        let Ok(name) = HeaderName::from_bytes(key.as_bytes()) else {
            value.key_problem("this is not the name of a header", None);
            continue;
        };
        if is_reserved_header(name.as_str()) {
            value.key_problem("this header is set by the protocol", Some("remove it".into()));
        }
        if headers.iter().any(|(other, _)| *other == name) {
            value.key_problem(
                "this header stands twice",
                Some("case does not matter in names of headers".into()),
            );
        }
        headers.extend(header_value(&value).map(|value| (name, value)));
    }
    Some(headers)
}

/// Reads a secret that is valid as the value of an HTTP header.
pub fn header_value(setting: &Setting<'_>) -> Option<SecretString> {
    let value = setting.secret()?;
    if HeaderValue::from_str(value.expose_secret()).is_err() {
        let hint = "it must be one line of ASCII characters";
        setting.hidden_problem("the value cannot be sent in a header", Some(hint.into()));
        return None;
    }
    Some(value)
}

/// The credential for a server.
enum ConfiguredCredential {
    /// The value of `Authorization`.
    Bearer(SecretString),
    Token(TokenSource),
}

fn auth(setting: &Setting<'_>, folder: &Path) -> Option<ConfiguredCredential> {
    let is_login = setting.shown() == "oauth" || setting.entries()?.iter().any(|(key, _)| *key == "oauth");
    if is_login {
        let settings = oauth::read_settings(setting)?;
        return Some(ConfiguredCredential::Token(TokenSource::OAuth(Arc::new(settings))));
    }
    let mut fields = setting.fields()?;
    let given = ["bearer", "bearer_file"].map(|name| fields.take(name));
    fields.finish();
    match given {
        [None, None] => {
            let hint = "add `bearer: ${NAME}`, `bearer_file: path` or `oauth:`, or remove `auth`";
            setting.key_problem("`bearer` is missing", Some(hint.into()));
            None
        }
        [Some(bearer), None] => bearer_value(&bearer).map(ConfiguredCredential::Bearer),
        [None, Some(file)] => {
            let path = file.file_path(folder)?;
            Some(ConfiguredCredential::Token(TokenSource::File(TokenFile::new(path))))
        }
        [Some(_), Some(file)] => {
            file.key_problem("`bearer` is given already", Some("keep one of the two".into()));
            None
        }
    }
}

fn bearer_value(bearer: &Setting<'_>) -> Option<SecretString> {
    let token = header_value(bearer)?;
    if token.expose_secret().trim().is_empty() {
        bearer.hidden_problem("the token is empty", Some("set the variable, or remove `auth`".into()));
        return None;
    }
    Some(format!("Bearer {}", token.expose_secret()).into())
}

fn stdio(
    given: &TransportFields<'_>,
    server: &Setting<'_>,
    folder: &Path,
    usual: &[String],
) -> Option<Stdio> {
    let args = given.get("args").and_then(args).unwrap_or_default();
    let env = given.get("env").and_then(env).unwrap_or_default();
    let pass_env = given.get("pass_env").and_then(variables);
    let pass_env = pass_env.unwrap_or_else(|| usual.to_vec());
    let cwd = given.get("cwd").and_then(|cwd| cwd.file_path(folder));
    let hint = "add the program to start, such as `command: npx`";
    let command = require(given, "command", server, hint)?.parsed("the name of a program", passable)?;
    Some(Stdio { command, args, env, pass_env, cwd })
}

/// Returns `text` if the system accepts it.
fn passable(text: &str) -> Option<String> {
    (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
}

fn args(setting: &Setting<'_>) -> Option<Vec<String>> {
    let mut args = Vec::new();
    for item in setting.list()? {
        // Arguments may be secrets too.
        args.extend(environment_value(&item).map(|value| value.expose_secret().to_owned()));
    }
    Some(args)
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
    let mut names = Vec::new();
    for item in setting.list()? {
        let Some(name) = item.text() else { continue };
        if !is_variable(name) {
            item.problem(NO_VARIABLE, Some("write the name alone, such as HTTPS_PROXY".into()));
        }
        names.push(name.to_owned());
    }
    Some(names)
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
