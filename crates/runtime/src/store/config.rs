//! The settings of the cache: its backend and its size.

use std::time::Duration;

use url::Url;

use super::memory;
use super::redis::{Address, RedisOptions};
use settings::{Fields, Setting};

/// The allowed size of the cache in memory: 1 MiB to 64 GiB.
const BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 30;
/// The limit of one command, in seconds.
const TIMEOUT: std::ops::RangeInclusive<f64> = 0.01..=5.0;
const MAX_PREFIX: usize = 64;

/// The backend of the cache.
#[derive(Debug, Clone)]
pub enum Config {
    /// In memory.
    Memory {
        /// The most bytes of keys and values.
        max_bytes: u64,
    },
    /// In Redis or Valkey.
    Redis(Box<RedisOptions>),
}

impl Default for Config {
    fn default() -> Self {
        Self::Memory { max_bytes: memory::MAX_BYTES }
    }
}

#[derive(Clone, Copy)]
enum Type {
    Memory,
    Redis,
}

impl Config {
    /// Reads `cache:`. Returns `None` for an invalid setting, after reporting it.
    pub fn from_settings(setting: &Setting<'_>) -> Option<Self> {
        let mut fields = setting.fields()?;
        let words = [("memory", Type::Memory), ("redis", Type::Redis)];
        let kind = match fields.take("type") {
            Some(setting) => setting.choice(&words),
            None => Some(Type::Memory),
        };
        let config = match kind {
            Some(Type::Memory) => Some(of_memory(&mut fields)),
            Some(Type::Redis) => of_redis(&mut fields),
            // The type is invalid, but these fields are known, so they are not reported.
            None => {
                for name in ["max_bytes", "url", "prefix", "command_timeout"] {
                    fields.take(name);
                }
                None
            }
        };
        fields.finish();
        config
    }
}

fn of_memory(fields: &mut Fields<'_>) -> Config {
    for name in ["url", "prefix", "command_timeout"] {
        if let Some(setting) = fields.take(name) {
            let message = format!("`{name}` does not go with a cache in memory");
            setting.key_problem(message, Some("add `type: redis`, or remove it".into()));
        }
    }
    Config::Memory { max_bytes: fields.integer("max_bytes", BYTES).unwrap_or(memory::MAX_BYTES) }
}

fn of_redis(fields: &mut Fields<'_>) -> Option<Config> {
    if let Some(setting) = fields.take("max_bytes") {
        let hint = "Redis has a bound of its own, `maxmemory`; remove it here";
        setting.key_problem("`max_bytes` does not go with a cache in Redis", Some(hint.into()));
    }
    let url = fields.require("url", "add the address of Redis, such as `url: redis://localhost:6379`");
    let prefix = fields.parsed("prefix", "1 to 64 letters, digits, `:`, `.`, `_` or `-`", prefix);
    let command_timeout = fields.seconds("command_timeout", TIMEOUT);
    Some(Config::Redis(Box::new(RedisOptions {
        address: address(&url?)?,
        prefix: prefix.unwrap_or_else(|| "switchyard:".into()),
        command_timeout: command_timeout.unwrap_or(Duration::from_millis(100)),
    })))
}

fn address(setting: &Setting<'_>) -> Option<Address> {
    let hint = "write it as `redis://host:6379`, with a password as `redis://:${REDIS_PASSWORD}@host`, with \
                TLS as `rediss://host`, with a database as `redis://host/2`";
    let mut address = None;
    setting.url_that("the URL of a Redis", hint, |url| {
        address = plain(url).then(|| Address::parse(url.as_str())).flatten();
        address.is_some()
    })?;
    address
}

/// Whether no part of the URL weakens what the scheme promises.
fn plain(url: &Url) -> bool {
    matches!(url.scheme(), "redis" | "rediss") && url.query().is_none() && url.fragment().is_none()
}

fn prefix(text: &str) -> Option<String> {
    // None of these characters has a meaning in a pattern of SCAN.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    let good = (1..=MAX_PREFIX).contains(&text.len()) && text.bytes().all(allowed);
    good.then(|| text.to_owned())
}
