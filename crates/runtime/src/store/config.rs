//! The settings of the cache: its backend and its size.

use std::time::Duration;

use super::memory;
use super::redis::RedisOptions;
use crate::redis_link::{Address, read_address};
use settings::{FromSetting, Setting, settings, words};

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

words! {
    #[derive(Clone, Copy, Default, PartialEq)]
    enum Type {
        #[default]
        Memory = "memory",
        Redis = "redis",
    }
}

settings! {
    struct Own {
        /// where: in this process, or in a Redis or Valkey that several gateways share
        kind as "type": Option<Type> => "`memory`";
        /// `memory`: bytes of keys and answers, at most; the least used entries are evicted first
        max_bytes: u64 = memory::MAX_BYTES, in 1 << 20..=64 << 30;
        /// `redis://host:6379`; with a password `redis://:${REDIS_PASSWORD}@host`, with a database
        /// `redis://host/2`; `rediss://` uses TLS with the certificate authorities of the system
        url: Option<Address> => "required for `redis`", with read_address;
        /// `redis`: prefix of each key, of 1 to 64 letters, digits, `:`, `.`, `_`, `-`
        prefix: String = "switchyard:".to_owned() => "`switchyard:`", with prefix;
        /// `redis`: time limit of one command
        command_timeout: Duration = Duration::from_millis(100), in 0.01..=5.0;
    }
    check Own::check;
}

impl Config {
    /// Reads `cache:`. Returns `None` for an invalid setting, after reporting it.
    pub fn from_settings(setting: &Setting<'_>) -> Option<Self> {
        let Own { kind, max_bytes, url, prefix, command_timeout } = Own::from_setting(setting)?;
        if kind.unwrap_or_default() == Type::Memory {
            return Some(Self::Memory { max_bytes });
        }
        Some(Self::Redis(Box::new(RedisOptions { address: url?, prefix, command_timeout })))
    }
}

impl Own {
    fn check(&mut self, setting: &Setting<'_>) {
        let of_redis = ["url", "prefix", "command_timeout"];
        let (misfits, backend, hint): (&[&str], _, _) = match self.kind {
            None if setting.member("type").is_some() => return,
            None | Some(Type::Memory) => (&of_redis, "memory", "add `type: redis`, or remove it"),
            Some(Type::Redis) => {
                (&["max_bytes"], "Redis", "Redis has a bound of its own, `maxmemory`; remove it here")
            }
        };
        for name in misfits {
            setting.refuse_member(name, format_args!("a cache in {backend}"), hint);
        }
        if self.kind == Some(Type::Redis) {
            setting.require("url", "add the address of Redis, such as `url: redis://localhost:6379`");
        }
    }
}

fn prefix(setting: &Setting<'_>) -> Option<String> {
    // None of these characters has a meaning in a pattern of SCAN.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    setting.parsed("1 to 64 letters, digits, `:`, `.`, `_` or `-`", |text| {
        let good = (1..=MAX_PREFIX).contains(&text.len()) && text.bytes().all(allowed);
        good.then(|| text.to_owned())
    })
}
