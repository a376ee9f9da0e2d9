//! The commands to Redis or Valkey: the only module that uses the client library.
//!
//! Invariant: each command ends within the time limit of the link. Text from Redis is not logged, only the library's
//! own texts and the code of an error. The address is not logged, because it may contain a password.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
pub use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Pipeline, RedisError, ToRedisArgs, cmd};
use settings::Setting;
use tokio::time::timeout;
use url::Url;

/// The code of the error of a script whose deadline has passed by the clock of Redis. The deadline is computed from that clock,
/// which is read when the link is opened.
const LATE: &str = "LATE";
/// The shortest time limit of connecting, handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// The address of Redis with its credentials. `Debug` shows none of it.
#[derive(Clone)]
pub struct Address(Client);

impl Address {
    /// Parses `url`; `None` if the library does not accept it.
    pub fn parse(url: &str) -> Option<Self> {
        Client::open(url.into_connection_info().ok()?).ok().map(Self)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(…)")
    }
}

/// Reads the URL of a Redis. Returns `None` after reporting an invalid one.
pub fn read_address(setting: &Setting<'_>) -> Option<Address> {
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

/// The failure of a command.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommandError {
    /// There was no answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    /// The connection is broken, or there is none.
    #[error("{0}")]
    Gone(String),
    /// Redis returned an error.
    #[error("{0}")]
    Refused(String),
}

impl From<RedisError> for CommandError {
    fn from(error: RedisError) -> Self {
        let mut text = error.category().to_owned();
        // A code is a word of letters and digits. Other text is not trusted, because any server may answer.
        if let Some(code) = error.code().filter(|code| code.len() <= 32)
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            text = format!("{text} ({code})");
        }
        let is_gone = error.is_unrecoverable_error() || is_of_another(error);
        if is_gone { Self::Gone(text) } else { Self::Refused(text) }
    }
}

/// Whether a new connection is needed: Redis is a replica since a failover, or its clock is another one ([`LATE`]).
fn is_of_another(error: RedisError) -> bool {
    let errors = error.into_server_errors();
    errors.iter().flat_map(|errors| errors.iter()).any(|(_, error)| {
        // Redis 6 wraps the error of a command in one of the script.
        matches!(error.code(), "READONLY" | "MASTERDOWN" | LATE)
            || error.details().is_some_and(|text| text.contains("-READONLY"))
    })
}

/// One connection that all callers share. Cheap to clone.
#[derive(Clone)]
pub struct Link {
    connection: MultiplexedConnection,
    limit: Duration,
}

impl Link {
    /// Connects, and sends a `PING`.
    pub async fn open(address: &Address, limit: Duration) -> Result<Self, CommandError> {
        let most = limit.max(CONNECT_LIMIT);
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = address.0.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(most, connecting).await.map_err(|_| CommandError::Silent(most))??;
        let link = Self { connection, limit };
        let _: String = link.ask(Pipeline::new().cmd("PING")).await.map(|(pong,)| pong)?;
        Ok(link)
    }

    /// Returns the value of each of `names`.
    pub async fn get(&self, names: &[String]) -> Result<Vec<Option<Bytes>>, CommandError> {
        let (found,) = self.ask(Pipeline::new().add_command(cmd("MGET").arg(names).clone())).await?;
        Ok(found)
    }

    /// Sets each of `names` that has no value to `value`, for `ttl`. Returns the values of all names.
    pub async fn ensure(
        &self,
        names: &[String],
        value: &[u8],
        ttl: Duration,
    ) -> Result<Vec<Option<Bytes>>, CommandError> {
        let mut pipeline = Pipeline::new();
        for name in names {
            pipeline.cmd("SET").arg(name).arg(value).arg("NX").arg("EX").arg(ttl.as_secs()).ignore();
        }
        let (found,) = self.ask(pipeline.add_command(cmd("MGET").arg(names).clone())).await?;
        Ok(found)
    }

    /// Sets `name` to `value` for `ttl`.
    pub async fn set(&self, name: &str, value: &[u8], ttl: Duration) -> Result<(), CommandError> {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(name).arg(value).arg("PX").arg(millis).ignore();
        self.ask(&pipeline).await
    }

    /// Runs `script`, which is atomic. Returns its result.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &'static str,
        names: &[String],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T, CommandError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("EVAL").arg(script).arg(names.len()).arg(names).arg(arguments);
        let (result,) = self.ask(&pipeline).await?;
        Ok(result)
    }

    /// Whether Redis removes any value when its memory is full, also one that does not expire.
    pub async fn evicts_everything(&self) -> Result<bool, CommandError> {
        let (text,): (String,) = self.ask(Pipeline::new().cmd("INFO").arg("memory")).await?;
        Ok(text.contains("maxmemory_policy:allkeys"))
    }

    async fn ask<T: FromRedisValue>(&self, pipeline: &Pipeline) -> Result<T, CommandError> {
        let mut connection = self.connection.clone();
        let answer = timeout(self.limit, pipeline.query_async(&mut connection)).await;
        Ok(answer.map_err(|_| CommandError::Silent(self.limit))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_to_a_primary_that_became_a_replica_counts_as_gone() {
        for (answer, is_gone) in [
            ("READONLY You can't write against a read only replica.", true),
            ("MASTERDOWN Link with MASTER is down", true),
            ("ERR Error running script: @user_script: 1: -READONLY You can't write", true),
            ("LATE nobody waits for it any more", true),
            ("ERR unknown command", false),
            ("WRONGTYPE Operation against a key", false),
        ] {
            let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).expect("a value");
            let error = CommandError::from(value.extract_error().expect_err("an error"));
            assert_eq!(matches!(error, CommandError::Gone(_)), is_gone, "{answer}");
        }
    }
}
