//! The words spoken with Redis: the one place that uses the library.
//!
//! Invariant: each command ends within the link's limit. No text of Redis is logged, only the library's
//! own words and the code of an error; no address, which may hold a password.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, cmd};
use tokio::time::timeout;

/// Least time that a new connection has, with all that belongs to it.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

const UNLINK_UNLESS: &str = "for _, name in ipairs(KEYS) do \
    if redis.call('GETRANGE', name, ARGV[1], ARGV[2]) ~= ARGV[3] then redis.call('UNLINK', name) end end";

/// Where Redis is, and who we are there. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Address(Client);

impl Address {
    /// What `url` says, if it is one that the library understands.
    pub fn parse(url: &str) -> Option<Self> {
        Client::open(url.into_connection_info().ok()?).ok().map(Self)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(…)")
    }
}

/// What went wrong with a command.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    /// Nothing came in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    /// The connection is of no more use, or there is none.
    #[error("{0}")]
    Gone(String),
    /// Redis said no.
    #[error("{0}")]
    Refused(String),
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let mut text = error.category().to_owned();
        // A code is a word in capitals; Redis may be anybody.
        if let Some(code) = error.code().filter(|code| code.len() <= 32)
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            text = format!("{text} ({code})");
        }
        if error.is_unrecoverable_error() { Self::Gone(text) } else { Self::Refused(text) }
    }
}

/// One connection, shared by all who use it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    limit: Duration,
}

impl Link {
    /// Connects, and asks whether anybody is there.
    pub(super) async fn open(address: &Address, limit: Duration) -> Result<Self, Fault> {
        let most = limit.max(CONNECT_LIMIT);
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = address.0.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(most, connecting).await.map_err(|_| Fault::Silent(most))??;
        let link = Self { connection, limit };
        let _: String = link.ask(Pipeline::new().cmd("PING")).await.map(|(pong,)| pong)?;
        Ok(link)
    }

    /// What stands under each of `names`.
    pub(super) async fn get(&self, names: &[String]) -> Result<Vec<Option<Bytes>>, Fault> {
        let (found,) = self.ask(Pipeline::new().add_command(cmd("MGET").arg(names).clone())).await?;
        Ok(found)
    }

    /// Gives each of `names` that has nothing its `value`, for `ttl`; what stands there then.
    pub(super) async fn ensure(
        &self,
        names: &[String],
        value: &[u8],
        ttl: Duration,
    ) -> Result<Vec<Option<Bytes>>, Fault> {
        let mut pipe = Pipeline::new();
        for name in names {
            pipe.cmd("SET").arg(name).arg(value).arg("NX").arg("EX").arg(ttl.as_secs()).ignore();
        }
        let (found,) = self.ask(pipe.add_command(cmd("MGET").arg(names).clone())).await?;
        Ok(found)
    }

    /// Puts `value` under `name` for `ttl`.
    pub(super) async fn set(&self, name: &str, value: &[u8], ttl: Duration) -> Result<(), Fault> {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pipe = Pipeline::new();
        pipe.cmd("SET").arg(name).arg(value).arg("PX").arg(millis).ignore();
        self.ask(&pipe).await
    }

    /// Some of the names that begin with `prefix`, from `cursor` on, about `count` looked at; and where
    /// to go on, 0 at the end.
    pub(super) async fn scan(
        &self,
        cursor: u64,
        prefix: &str,
        count: usize,
    ) -> Result<(u64, Vec<String>), Fault> {
        let mut pipe = Pipeline::new();
        // No character of a prefix means anything in a pattern.
        pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(count);
        let (found,) = self.ask(&pipe).await?;
        Ok(found)
    }

    /// Removes those of `names` whose bytes `from` to `to`, that one included, are not `good`; their space
    /// is freed beside other work. One step for Redis: nothing is put in between.
    pub(super) async fn unlink_unless(
        &self,
        names: &[String],
        (from, to): (usize, usize),
        good: &[u8],
    ) -> Result<(), Fault> {
        let mut pipe = Pipeline::new();
        let script = pipe.cmd("EVAL").arg(UNLINK_UNLESS).arg(names.len()).arg(names);
        script.arg(from).arg(to).arg(good).ignore();
        self.ask(&pipe).await
    }

    async fn ask<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, Fault> {
        let mut connection = self.connection.clone();
        let answer = timeout(self.limit, pipe.query_async(&mut connection)).await;
        Ok(answer.map_err(|_| Fault::Silent(self.limit))??)
    }
}
