//! Reads one server of the configuration file: everything except its transport (`transport`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::builtin::Kinds;
use super::{
    BreakerConfig, Config, Lifecycle, Limits, OnChange, Retry, Sharing, Tools, Transport, network, transport,
};
use net::http::{Network, Proxies};
use protocol::Era;
use settings::read_sha256;
use settings::{Fields, Fingerprint, Setting};

/// Longest name of a server.
pub const MAX_SERVER_NAME: usize = 64;
/// The fields of older file formats, in which null means absent. In all other fields null is an error: an operator who
/// comments out all lines below `allow:` does not mean to allow everything.
const FIXED: [&str; 10] = [
    "url",
    "transport",
    "timeout",
    "retry_attempts",
    "retry_delay",
    "retry_max_delay",
    "circuit_breaker_threshold",
    "circuit_breaker_timeout",
    "enabled",
    "description",
];
/// Keys of a server in the files of MCP clients, and the text to write instead of each.
const FOREIGN: [(&str, &str); 15] = [
    ("type", "write `transport: http`, `sse` or `stdio`, or leave it out: a `url` means `http`"),
    ("disabled", "write `enabled: false` to disable the server, or remove the line"),
    ("serverUrl", "write `url:`"),
    ("server_url", "write `url:`"),
    ("httpUrl", "write `url:`"),
    ("includeTools", "write `tools: {allow: [NAME]}`"),
    ("excludeTools", "write `tools: {deny: [NAME]}`"),
    ("alwaysAllow", "clients ask their users before a call; remove the line"),
    ("autoApprove", "clients ask their users before a call; remove the line"),
    ("envFile", "name the variables under `env:`, or those of Switchyard under `pass_env:`"),
    ("workingDirectory", "write `cwd:`"),
    ("requests_per_minute", PER_MINUTE),
    ("rate_limit", PER_MINUTE),
    ("rate_limit_per_minute", PER_MINUTE),
    (
        "circuit_breaker",
        "write `circuit_breaker_threshold:`, `circuit_breaker_timeout:` and `circuit_breaker_success_threshold:`",
    ),
];
const PER_MINUTE: &str = "write `limits: {requests_per_minute: 60}`";
/// The fields for all servers in which null means absent.
const FIXED_GLOBALS: [&str; 4] =
    ["default_timeout", "default_retry_attempts", "connection_pool_size", "health_check_interval"];
/// The longest name of a tool that `rename` may set.
const MAX_TOOL_NAME: usize = 128;
/// The range of any time except the deadline of a call, in seconds: a tenth to a day.
const PAUSE: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;
/// The range of the longest time of a call in seconds, whatever its server sends.
const MAX_TIMEOUT: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;
/// The range of the time without a message from the server after which a call times out, in seconds.
const TIMEOUT: std::ops::RangeInclusive<f64> = 1.0..=600.0;
const RETRY_DELAY: std::ops::RangeInclusive<f64> = 0.1..=300.0;
const MAX_RETRIES: u32 = 10;

/// The values for all servers: defaults, and settings that apply to every server.
#[derive(Debug, Clone)]
pub struct Defaults {
    timeout: Duration,
    max_timeout: Duration,
    retry_attempts: u32,
    connections: usize,
    lifecycle: Lifecycle,
    health_check_interval: Duration,
    on_change: OnChange,
    pass_env: Vec<String>,
    proxies: Option<Arc<Proxies>>,
    /// Shows a change of `proxy`, whose text may hold a password.
    proxy: Fingerprint,
    folder: PathBuf,
    kinds: Kinds,
}

impl Defaults {
    /// Reads the global fields from the root of the file. Relative paths of servers are relative to `folder`, and
    /// `kinds` are the built-in servers of the program.
    pub fn from_fields(fields: &mut Fields<'_>, folder: &Path, kinds: Kinds) -> Self {
        let seconds = Duration::from_secs;
        fields.without_nulls(&FIXED_GLOBALS);
        Self {
            timeout: fields.seconds("default_timeout", TIMEOUT).unwrap_or(seconds(30)),
            max_timeout: fields.seconds("default_max_timeout", MAX_TIMEOUT).unwrap_or(seconds(600)),
            retry_attempts: fields.integer("default_retry_attempts", 0..=MAX_RETRIES).unwrap_or(3),
            connections: fields.integer("connection_pool_size", 1..=1_000).unwrap_or(10),
            lifecycle: Lifecycle::defaults(fields),
            health_check_interval: fields.seconds("health_check_interval", PAUSE).unwrap_or(seconds(30)),
            on_change: fields.choice("default_tools_on_change", &on_change_words()).unwrap_or_default(),
            pass_env: fields.part("default_pass_env", transport::variables).unwrap_or_default(),
            proxy: fields.fingerprint("proxy", &[]),
            proxies: fields.part("proxy", network::proxies).flatten(),
            folder: folder.to_owned(),
            kinds,
        }
    }

    /// The way to services that belong to no server.
    pub fn network(&self) -> Network {
        Network::new(self.proxies.clone(), None)
    }

    /// Combines the fingerprint of a server's settings with these defaults. The location of the file does not count, so
    /// the same file on several machines gives the same servers.
    fn complete(&self, settings: Fingerprint) -> Fingerprint {
        let Self {
            timeout,
            max_timeout,
            retry_attempts,
            connections,
            lifecycle,
            health_check_interval,
            on_change,
            pass_env,
            proxies: _,
            proxy,
            folder: _,
            kinds: _,
        } = self;
        let times = (timeout, max_timeout, lifecycle, health_check_interval);
        let all = (times, retry_attempts, connections, on_change, pass_env);
        settings.and(&format!("{all:?} {:?}", proxy.bytes()))
    }
}

impl Config {
    /// Reads the server `name`. `None` if it has no usable transport, which was reported.
    pub fn from_settings(setting: &Setting<'_>, name: &str, defaults: &Defaults) -> Option<Self> {
        check_name(name, setting);
        let mut fields = setting.fields()?;
        fields.without_nulls(&FIXED);
        let Defaults { kinds, folder, pass_env, .. } = defaults;
        let identity = transport::identity(&fields);
        let transport = transport::from_fields(&mut fields, kinds, folder, pass_env);
        let network = network::from_fields(
            &mut fields,
            transport.as_ref().map(|(transport, _)| transport),
            (defaults.proxies.as_ref(), folder),
        );
        let enabled = fields.boolean("enabled").unwrap_or(true);
        let description = fields.part("description", |text| text.text().map(|_| text.shown().to_owned()));
        let timeout = fields.seconds("timeout", TIMEOUT).unwrap_or(defaults.timeout);
        let max_timeout = max_timeout(&mut fields, timeout, defaults);
        let of_transport = transport.as_ref().map(|(transport, _)| transport);
        let lifecycle = Lifecycle::from_fields(&mut fields, of_transport, defaults.lifecycle);
        let retry = retry(&mut fields, defaults);
        let breaker = breaker(&mut fields);
        let limits = fields.part("limits", |limits| self::limits(limits, defaults));
        let words =
            [Sharing::Auto, Sharing::Shared, Sharing::PerSession].map(|sharing| (sharing.as_str(), sharing));
        let sharing = fields.choice("sharing", &words).unwrap_or_default();
        let sharing = own_connections(sharing, transport.as_ref().map(|(transport, _)| transport), setting);
        let era = fields.part("era", |word| era(word, transport.as_ref().map(|(transport, _)| transport)));
        let is_builtin = matches!(&transport, Some((Transport::Builtin(_), _)));
        // The tools of a built-in server are part of this program.
        let usual = (!is_builtin).then_some(defaults.on_change);
        let tools = fields.part("tools", |setting| tools(setting, sharing, usual));
        let per_client = match &transport {
            Some((Transport::Builtin(options), _)) => options.per_client_setting(),
            _ => None,
        };
        if let Some(per_client) = per_client
            && tools.as_ref().is_some_and(|tools| tools.cache_ttl.is_some())
        {
            let hint = "an answer belongs to the project of one client; remove one of the two";
            setting.key_problem(format!("`tools.cache` does not go with {per_client}"), Some(hint.into()));
        }
        let usual = || Tools { on_change: usual.unwrap_or(OnChange::Allow), ..Tools::default() };
        fields.refuse_foreign(&FOREIGN);
        fields.finish();
        let (transport, target) = transport?; // last, so that the problems of the other fields are reported too
        Some(Self {
            name: name.into(),
            target,
            enabled,
            description,
            timeout,
            max_timeout,
            lifecycle,
            health_check_interval: defaults.health_check_interval,
            retry,
            breaker,
            limits: limits.unwrap_or_else(|| default_limits(defaults)),
            network,
            sharing,
            era,
            tools: tools.unwrap_or_else(usual),
            secrets: setting.secrets(),
            source: defaults.complete(setting.fingerprint()),
            identity: transport::with_passed(identity, &transport),
            transport,
        })
    }
}

/// Returns how clients share connections. Where each principal has its own token, they share none.
fn own_connections(sharing: Sharing, transport: Option<&Transport>, setting: &Setting<'_>) -> Sharing {
    if !transport.is_some_and(Transport::is_per_principal) {
        return sharing;
    }
    if sharing == Sharing::Shared {
        let hint = "each principal has its own token and so its own connections; remove `sharing`";
        setting.key_problem("`sharing: shared` does not go with `per: principal`", Some(hint.into()));
    }
    Sharing::PerSession
}

/// Returns `wanted`, or a similar name that a server can have.
pub fn server_name(wanted: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String =
        wanted.chars().map(|c| if allowed(c) { c } else { '-' }).take(MAX_SERVER_NAME).collect();
    let name = if plain == wanted { plain.as_str() } else { plain.trim_matches('-') };
    if name.is_empty() { "server".into() } else { name.into() }
}

fn check_name(name: &str, setting: &Setting<'_>) {
    if server_name(name) != name {
        let message = format!("a server's name has 1 to {MAX_SERVER_NAME} letters, digits, `.`, `_` or `-`");
        setting.key_problem(message, None);
    }
}

/// Reads `era`; `None` means `auto`.
fn era(setting: &Setting<'_>, transport: Option<&Transport>) -> Option<Era> {
    let words = [("auto", None), ("legacy", Some(Era::Legacy)), ("modern", Some(Era::Modern))];
    let era = setting.choice(&words).flatten();
    let refuse = |message: &str, hint: &str| setting.key_problem(message, Some(hint.into()));
    match transport {
        Some(Transport::Sse(_)) if era == Some(Era::Modern) => refuse(
            "`era: modern` does not go with transport `sse`",
            "2026-07-28 has no HTTP+SSE; write `transport: http`, or remove `era`",
        ),
        Some(Transport::Builtin(_)) => {
            refuse("`era` does not go with a built-in server", "it is part of this program; remove `era`");
        }
        _ => {}
    }
    era
}

/// Reads `max_timeout`. The default for all servers is raised to the `timeout` of a server.
fn max_timeout(fields: &mut Fields<'_>, timeout: Duration, defaults: &Defaults) -> Duration {
    let own = fields.take("max_timeout").and_then(|own| {
        let time = own.seconds(MAX_TIMEOUT)?;
        if time < timeout {
            let hint = format!("`timeout` is {} s: raise one or lower the other", timeout.as_secs_f64());
            own.problem("`max_timeout` must not be less than `timeout`", Some(hint));
        }
        Some(time)
    });
    own.unwrap_or(defaults.max_timeout.max(timeout))
}

fn retry(fields: &mut Fields<'_>, defaults: &Defaults) -> Retry {
    let attempts = fields.integer("retry_attempts", 0..=MAX_RETRIES).unwrap_or(defaults.retry_attempts);
    let delay = fields.seconds("retry_delay", RETRY_DELAY).unwrap_or(Duration::from_secs(1));
    // A first pause above the default maximum raises the maximum too. A maximum that is written limits the first pause.
    let max_delay = fields.seconds("retry_max_delay", PAUSE).unwrap_or(Duration::from_secs(30).max(delay));
    Retry { attempts, delay: delay.min(max_delay), max_delay }
}

fn breaker(fields: &mut Fields<'_>) -> BreakerConfig {
    BreakerConfig {
        threshold: fields.integer("circuit_breaker_threshold", 1..=10_000).unwrap_or(5),
        successes: successes(fields),
        timeout: fields.seconds("circuit_breaker_timeout", PAUSE).unwrap_or(Duration::from_secs(30)),
    }
}

/// Reads `circuit_breaker_success_threshold`. Files of other gateways call it `success_threshold`.
fn successes(fields: &mut Fields<'_>) -> u32 {
    let own = fields.integer("circuit_breaker_success_threshold", 1..=100);
    let short = fields.take("success_threshold");
    if let (Some(_), Some(short)) = (own, &short) {
        let hint = "remove `success_threshold`";
        short.key_problem("`circuit_breaker_success_threshold` says the same", Some(hint.into()));
    }
    own.or_else(|| short?.integer(1..=100)).unwrap_or(1)
}

fn default_limits(defaults: &Defaults) -> Limits {
    Limits {
        connections: defaults.connections,
        concurrent_calls: 64,
        waiting_calls: 256,
        message_bytes: 16 << 20,
        requests_per_minute: None,
    }
}

fn limits(setting: &Setting<'_>, defaults: &Defaults) -> Option<Limits> {
    let mut fields = setting.fields()?;
    let usual = default_limits(defaults);
    let limits = Limits {
        concurrent_calls: fields.integer("concurrent_calls", 1..=10_000).unwrap_or(usual.concurrent_calls),
        waiting_calls: fields.integer("waiting_calls", 0..=100_000).unwrap_or(usual.waiting_calls),
        message_bytes: fields.integer("message_bytes", 1 << 10..=1 << 30).unwrap_or(usual.message_bytes),
        requests_per_minute: fields.integer("requests_per_minute", 1..=60_000),
        ..usual
    };
    let own = "write `requests_per_minute`";
    fields.refuse_foreign(&[("rate_limit", own), ("rate_limit_per_minute", own), ("rpm", own)]);
    fields.finish();
    Some(limits)
}

/// Reads `tools`. `usual` is the default of `on_change`; `None` for a built-in server.
fn tools(setting: &Setting<'_>, sharing: Sharing, usual: Option<OnChange>) -> Option<Tools> {
    let mut fields = setting.fields()?;
    let allow = fields.list_of_text("allow");
    let deny = fields.part("deny", |deny| denied(deny, allow.as_deref())).unwrap_or_default();
    let rename = fields.take("rename");
    let cache_ttl = fields.part("cache", |cache| cache_ttl(cache, sharing));
    let on_change = fields.part("on_change", |word| on_change(word, usual.is_none()));
    let trusted = fields.take("trusted");
    fields.finish();
    let on_change = on_change.or(usual).unwrap_or(OnChange::Allow);
    let trusted = trusted.and_then(|setting| self::trusted(&setting, on_change)).unwrap_or_default();
    let mut tools = Tools { allow, deny, cache_ttl, on_change, trusted, ..Tools::default() };
    let Some(rename) = rename else { return Some(tools) };
    for (from, setting) in rename.entries()? {
        let Some(to) = setting.parsed("a name for a tool", tool_name) else { continue };
        if let Some((other, _)) = tools.rename.iter().find(|(_, taken)| **taken == to) {
            setting.problem(format!("{} is what `{}` is renamed to already", setting.quoted(), other), None);
        }
        tools.rename.insert(from.to_owned(), to);
    }
    Some(tools)
}

fn on_change(setting: &Setting<'_>, is_builtin: bool) -> Option<OnChange> {
    if is_builtin {
        let hint = "its tools are part of this program and change with it; remove it";
        setting.key_problem("`on_change` does not go with a built-in server", Some(hint.into()));
    }
    setting.choice(&on_change_words())
}

fn on_change_words() -> [(&'static str, OnChange); 3] {
    OnChange::ALL.map(|choice| (choice.as_str(), choice))
}

/// Reads the definitions in `trusted`.
fn trusted(setting: &Setting<'_>, on_change: OnChange) -> Option<BTreeMap<String, [u8; 32]>> {
    if on_change == OnChange::Allow {
        let hint = "with `on_change: allow` nothing is compared with it; remove one of the two";
        setting.key_problem("`trusted` is of no use here", Some(hint.into()));
    }
    let expected = "`sha256:` and 64 hexadecimal digits, as GET /api/v1/mcp/servers/{name}/tools shows them";
    let hash = |(name, setting): &(&str, Setting<'_>)| {
        Some(((*name).to_owned(), setting.parsed(expected, read_sha256)?))
    };
    Some(setting.entries()?.iter().filter_map(hash).collect())
}

fn cache_ttl(setting: &Setting<'_>, sharing: Sharing) -> Option<Duration> {
    if sharing == Sharing::PerSession {
        let hint = "what a server answers there belongs to one session; remove one of the two";
        setting.key_problem("`cache` does not go with `sharing: per_session`", Some(hint.into()));
    }
    let mut fields = setting.fields()?;
    let ttl = fields.require("ttl", "add how many seconds, such as `ttl: 60`");
    fields.finish();
    ttl?.seconds(PAUSE)
}

/// Reads the names in `deny`. A name that is also allowed is an error.
fn denied(setting: &Setting<'_>, allow: Option<&[String]>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in setting.list()? {
        let Some(name) = item.text() else { continue };
        if allow.is_some_and(|allow| allow.iter().any(|allowed| allowed == name)) {
            item.problem(format!("{} is both allowed and denied", item.quoted()), None);
        }
        names.push(name.to_owned());
    }
    Some(names)
}

fn tool_name(name: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let good = !name.is_empty() && name.len() <= MAX_TOOL_NAME && name.bytes().all(allowed);
    good.then(|| name.to_owned())
}
