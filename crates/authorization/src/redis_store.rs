//! The store in Redis or Valkey, for gateways on several machines.
//!
//! A table is a hash of records by id, so that all of its ids are one answer. Everything of one issuer has one hash tag, and
//! each operation is one script, which is atomic.
//!
//! Invariants: each operation ends within four seconds. While Redis cannot be reached, operations fail at once, and one of
//! them tries to connect each half second. A value that is too long for a record is not read. No record expires in
//! Redis, so that policies that evict only what expires spare them; gateways remove what is over.
//!
//! Not here: the client library (`runtime::redis_link`).

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::redis_link::{Address, CommandError, FromRedisValue, Link};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::store::{self, MAX_ID, MAX_RECORD, Store, StoreError, Table};

/// Time limit of one command.
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// Time limit of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Time limit of one operation with all of its commands.
const LIMIT: Duration = Duration::from_secs(4);
/// The time after a failure in which nobody tries to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Limit of the ids of a table: more than gateways write.
const MAX_IDS: usize = 20_000;

// The last argument of each script is the time in microseconds, by the clock of Redis, after which nobody waits for it.

/// One argument is the limit of the length; the others are ids. A longer record is returned as an empty one.
const GET: &str = r"
local found = {}
for at = 2, #ARGV - 1 do
  if redis.call('HSTRLEN', KEYS[1], ARGV[at]) > tonumber(ARGV[1]) then found[at - 1] = ''
  else found[at - 1] = redis.call('HGET', KEYS[1], ARGV[at]) end
end
return found";

/// The id, the limit of the length, the record before and the record after, and the table; an empty record is none. A record that
/// is there already counts as written, in case its writer did not hear of it. The second name is the number of removed grants.
/// New keys begin it at the time, so it is another one after everything was lost.
///
/// A Redis that was stopped for a while has commands that nobody waits for any more. It would run such a write after the
/// client was refused, and the token with which the client tries again would count as used.
const SWAP: &str = r"
local clock = redis.call('TIME')
local time = clock[1] .. string.format('%06d', clock[2])
if tonumber(time) > tonumber(ARGV[6]) then return redis.error_reply('LATE nobody waits for it any more') end
if redis.call('HSTRLEN', KEYS[1], ARGV[1]) > tonumber(ARGV[2]) then return 0 end
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now == ARGV[4] and now ~= '' then return 1 end
if now ~= ARGV[3] then return 0 end
if ARGV[4] ~= '' then
  if ARGV[5] == 'keys' and now == '' then redis.call('SET', KEYS[2], time) end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
elseif now ~= '' then
  if ARGV[5] == 'grants' then redis.call('INCR', KEYS[2]) end
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1";

/// The beginning of ids, their longest length, and the number after which no more are returned.
const IDS: &str = r"
local found, length = {}, string.len(ARGV[1])
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
  if #found >= tonumber(ARGV[3]) then break end
  if string.len(id) <= tonumber(ARGV[2]) and string.sub(id, 1, length) == ARGV[1] then found[#found + 1] = id end
end
return found";

const REMOVED: &str = "return tonumber(redis.call('GET', KEYS[1]) or 0)";
const TIME: &str = "local clock = redis.call('TIME') return clock[1] .. string.format('%06d', clock[2])";

/// A store in Redis.
#[derive(Debug)]
pub struct RedisStore {
    address: Address,
    /// Begins the names of everything.
    prefix: String,
    connection: Mutex<Connection>,
}

#[derive(Default)]
struct Connection {
    open: Option<OpenLink>,
    /// The number of connections so far.
    links: u64,
    /// When the last answer came.
    heard: Option<Instant>,
    /// The last failure to connect.
    failed: Option<(Instant, CommandError)>,
}

#[derive(Clone)]
struct OpenLink {
    number: u64,
    link: Link,
    /// The clock of Redis in microseconds, as it was when the link was opened.
    clock: u64,
    opened: Instant,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("links", &self.links).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// The store of the server at `issuer` in the Redis at `address`, which other gateways may use too. Nothing is sent yet.
    pub fn of_issuer(address: &Address, issuer: &str) -> Self {
        let prefix = format!("switchyard:{{{}}}:", store::name_of(issuer));
        Self { address: address.clone(), prefix, connection: Mutex::default() }
    }

    fn name(&self, table: Table) -> String {
        format!("{}{}", self.prefix, table.as_str())
    }

    fn removed(&self) -> String {
        format!("{}removed-{}", self.prefix, Table::Grants.as_str())
    }

    async fn run<T: FromRedisValue>(
        &self,
        action: &'static str,
        script: &'static str,
        names: &[String],
        arguments: &[&[u8]],
    ) -> Result<T, StoreError> {
        let until = Instant::now() + LIMIT;
        let answered = async {
            let result = self.run_once(script, names, arguments, until).await;
            if matches!(result, Err(CommandError::Gone(_))) {
                // Redis, or a balancer before it, closes connections that were idle. Or another Redis is the primary by now.
                let again = self.run_once(script, names, arguments, until).await;
                if let Err(error @ CommandError::Gone(_)) = &again {
                    let mut connection = self.connection.lock().await;
                    // A connection for each operation would be too many.
                    connection.failed.get_or_insert_with(|| (Instant::now(), error.clone()));
                }
                return again;
            }
            result
        };
        let result = timeout_at(until, answered).await.unwrap_or(Err(CommandError::Silent(LIMIT)));
        let failed = |error| StoreError { action, source: io::Error::other(format!("Redis: {error}")) };
        result.map_err(failed)
    }

    async fn run_once<T: FromRedisValue>(
        &self,
        script: &'static str,
        names: &[String],
        arguments: &[&[u8]],
        until: Instant,
    ) -> Result<T, CommandError> {
        let OpenLink { number, link, clock, opened } = self.link().await?;
        let latest = until.saturating_duration_since(opened).as_micros() + u128::from(clock);
        let latest = latest.to_string();
        let arguments = [arguments, &[latest.as_bytes()]].concat();
        let result = link.run(script, names, &arguments).await;
        let mut connection = self.connection.lock().await;
        let is_over = match &result {
            Err(CommandError::Gone(_)) => true,
            // If others are answered, this gateway is busy, and not Redis.
            Err(CommandError::Silent(limit)) => connection.heard.is_none_or(|at| at.elapsed() >= *limit),
            Ok(_) | Err(CommandError::Refused(_)) => {
                connection.heard = Some(Instant::now());
                false
            }
        };
        connection.open.take_if(|open| is_over && open.number == number);
        result
    }

    /// Returns the connection. If there is none, one caller connects, and the others wait for the result.
    async fn link(&self) -> Result<OpenLink, CommandError> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = &connection.open {
            return Ok(open.clone());
        }
        let is_recent = |(at, _): &&(Instant, CommandError)| at.elapsed() < CONNECT_PAUSE;
        if let Some((_, error)) = connection.failed.as_ref().filter(is_recent) {
            return Err(error.clone());
        }
        let number = connection.links + 1;
        let opened = timeout(CONNECT_LIMIT, self.open(number)).await;
        match opened.unwrap_or(Err(CommandError::Silent(CONNECT_LIMIT))) {
            Ok(open) => {
                *connection = Connection { open: Some(open.clone()), links: number, ..Connection::default() };
                tracing::info!("the store of the authorization server in Redis is there");
                Ok(open)
            }
            Err(error) => {
                if connection.failed.replace((Instant::now(), error.clone())).is_none() {
                    tracing::warn!(%error, "Redis cannot be reached; until it is back, clients get no tokens, and tokens whose login was seen here are accepted until they expire");
                }
                Err(error)
            }
        }
    }

    async fn open(&self, number: u64) -> Result<OpenLink, CommandError> {
        let link = Link::open(&self.address, COMMAND_LIMIT).await?;
        let (opened, none) = (Instant::now(), &[][..]);
        let clock: u64 = link.run::<u64>(TIME, none, &[""; 0]).await?;
        // Not every Redis lets its users ask.
        if link.evicts_everything().await.is_ok_and(|evicts| evicts) {
            tracing::warn!(
                "Redis evicts logins when its memory is full, so that people have to log in again; set its `maxmemory-policy` to `noeviction`, or to one whose name begins with `volatile`"
            );
        }
        Ok(OpenLink { number, link, clock, opened })
    }
}

impl Store for RedisStore {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        async move {
            let mut found = self.get_all(table, &[id.to_owned()]).await;
            found.pop().unwrap_or(Ok(None))
        }
        .boxed()
    }

    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>> {
        async move {
            let limit = MAX_RECORD.to_string();
            let mut arguments = vec![limit.as_bytes()];
            arguments.extend(ids.iter().map(String::as_bytes));
            let checked = ids.iter().try_for_each(|id| store::check(id, None));
            let found: Result<Vec<Option<Bytes>>, StoreError> = match checked {
                Ok(()) => self.run("read", GET, &[self.name(table)], &arguments).await,
                Err(error) => Err(error),
            };
            let record = |found: Option<Bytes>| match found {
                Some(record) if record.is_empty() => {
                    Err(StoreError::new("read", ErrorKind::FileTooLarge, "a record is larger than 64 KiB"))
                }
                found => Ok(found.map(Vec::from)),
            };
            found.map_or_else(|error| vec![Err(error)], |found| found.into_iter().map(record).collect())
        }
        .boxed()
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            store::check(id, after)?;
            let (limit, none) = (MAX_RECORD.to_string(), &[][..]);
            let (before, after) = (before.unwrap_or(none), after.unwrap_or(none));
            let arguments = [id.as_bytes(), limit.as_bytes(), before, after, table.as_str().as_bytes()];
            let names = [self.name(table), self.removed()];
            let swapped: u8 = self.run("written", SWAP, &names, &arguments).await?;
            Ok(swapped == 1)
        }
        .boxed()
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        async move {
            let [longest, most] = [MAX_ID, MAX_IDS + 1].map(|number| number.to_string());
            let arguments = [prefix.as_bytes(), longest.as_bytes(), most.as_bytes()];
            let found: Vec<Bytes> = self.run("listed", IDS, &[self.name(table)], &arguments).await?;
            if found.len() > MAX_IDS {
                // A part of them would look as if the others had been removed.
                return Err(StoreError::new(
                    "listed",
                    ErrorKind::FileTooLarge,
                    "another program has written to it: a table has more than 20,000 records",
                ));
            }
            let ids = found.into_iter().filter_map(|id| String::from_utf8(id.into()).ok());
            let mut ids: Vec<String> = ids.filter(|id| store::is_id(id)).collect();
            ids.sort_unstable();
            Ok(ids)
        }
        .boxed()
    }

    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        async move { self.run("read", REMOVED, &[self.removed()], &[]).await }.boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }
}
