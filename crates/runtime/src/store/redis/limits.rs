//! Limits of callers, counted in Redis for all gateways that use it.
//!
//! Requests in a minute are one time for each caller: when its whole minute is free again (the generic cell rate algorithm).
//! Calls at a time are a hash for each caller, with the number of calls at each gateway and the time until which that number
//! holds. A gateway writes its own number with each call, after calls ended, and again while calls run. The numbers of a
//! gateway that died therefore end by themselves.
//!
//! Invariants: a request costs one command, which takes of all its limits or of none. The clock is that of Redis. No caller
//! waits for the report of an ended call. The names of callers are not in Redis, only a hash of each.
//!
//! Source of the algorithm: ITU-T I.371, section 6.2, virtual scheduling.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::interval;
use uuid::Uuid;

use super::Redis;
use crate::redis_link::CommandError;
use crate::store::cache::SharedDecision;
use crate::store::{Key, LimitKind, PERIOD, SharedLimitReached, SharedTake};

/// How long the number of running calls of a gateway holds.
const LEASE: Duration = Duration::from_secs(6);
/// How often a gateway writes the numbers of its calls again.
const RENEWAL: Duration = Duration::from_secs(2);
/// The most callers in one report.
const STEP: usize = 500;

/// For each name three arguments: `r`, the microseconds of one request and those of the period; or `c`, the most calls and
/// those of this gateway. Returns the number of the first limit that is reached and the microseconds until there is room, or 0.
const TAKE: &str = r"
local time = redis.call('TIME')
local now, own, lease = time[1] * 1000000 + time[2], ARGV[1], tonumber(ARGV[2])
local free = {}
for at, name in ipairs(KEYS) do
  local a, b = tonumber(ARGV[3 * at + 1]), tonumber(ARGV[3 * at + 2])
  if ARGV[3 * at] == 'r' then
    local last = tonumber(redis.call('GET', name) or 0)
    free[at] = math.min(math.max(last, now), now + b) + a
    if free[at] > now + b then return {at, free[at] - now - b} end
  else
    local sum, fields = b, redis.call('HGETALL', name)
    for i = 1, #fields, 2 do
      local count, till = string.match(fields[i + 1], '^(%d+):(%d+)$')
      if not till or tonumber(till) <= now then redis.call('HDEL', name, fields[i])
      elseif fields[i] ~= own then sum = sum + tonumber(count) end
    end
    if sum > a then return {at, 0} end
  end
end
for at, name in ipairs(KEYS) do
  if free[at] then
    redis.call('SET', name, string.format('%.0f', free[at]), 'PX', math.ceil((free[at] - now) / 1000))
  else
    redis.call('HSET', name, own, string.format('%s:%.0f', ARGV[3 * at + 2], now + lease))
    redis.call('PEXPIRE', name, math.ceil(lease / 1000))
  end
end
return {0, 0}";

/// One argument for each name: the calls of this gateway.
const REPORT: &str = r"
local time = redis.call('TIME')
local now, own, lease = time[1] * 1000000 + time[2], ARGV[1], tonumber(ARGV[2])
for at, name in ipairs(KEYS) do
  if ARGV[at + 2] == '0' then redis.call('HDEL', name, own)
  else
    redis.call('HSET', name, own, string.format('%s:%.0f', ARGV[at + 2], now + lease))
    redis.call('PEXPIRE', name, math.ceil(lease / 1000))
  end
end
return 0";

/// The running calls of this gateway, by caller.
pub(super) struct OwnCalls {
    /// The name of this gateway in Redis.
    gateway: String,
    by_key: Mutex<HashMap<String, Count>>,
    /// Wakes the report.
    changed: Notify,
}

/// The running calls of one caller.
struct Count {
    calls: u32,
    is_reported: bool,
}

impl OwnCalls {
    pub(super) fn new() -> Self {
        Self { gateway: Uuid::new_v4().to_string(), by_key: Mutex::default(), changed: Notify::new() }
    }

    /// The script that takes a call writes its number too. Without Redis, it is reported with all others.
    pub(super) fn started(&self, key: &Key, calls: u32) {
        self.lock().insert(key.as_str().to_owned(), Count { calls, is_reported: true });
    }

    pub(super) fn ended(&self, key: &Key, calls: u32) {
        self.lock().insert(key.as_str().to_owned(), Count { calls, is_reported: false });
        self.changed.notify_one();
    }

    /// The numbers to report: all of them, or those that changed.
    fn to_report(&self, all: bool) -> Vec<(String, u32)> {
        let mut by_key = self.lock();
        let numbers = by_key.iter_mut().filter(|(_, count)| all || !count.is_reported);
        let numbers = numbers.map(|(key, count)| {
            count.is_reported = true;
            (key.clone(), count.calls)
        });
        let numbers = numbers.collect();
        by_key.retain(|_, count| count.calls > 0);
        numbers
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redis {
    pub(super) async fn take_of(&self, limits: &[SharedTake]) -> SharedDecision {
        let Some((id, link)) = self.link() else { return SharedDecision::None };
        let mut kinds = Vec::new();
        let (mut names, mut arguments) = (Vec::new(), self.gateway_arguments());
        for (index, limit) in limits.iter().enumerate() {
            if let Some(most) = limit.requests_per_minute {
                kinds.push((index, LimitKind::Requests));
                names.push(self.limit_name("r", limit.key.as_str()));
                let period = PERIOD.as_micros();
                arguments.extend([
                    "r".to_owned(),
                    (period / u128::from(most)).to_string(),
                    period.to_string(),
                ]);
            }
            if let Some(calls) = limit.calls {
                kinds.push((index, LimitKind::Calls));
                names.push(self.limit_name("c", limit.key.as_str()));
                arguments.extend(["c".to_owned(), calls.most.to_string(), calls.own.to_string()]);
            }
        }
        let taken: Result<(usize, u64), CommandError> = link.run(TAKE, &names, &arguments).await;
        let Some((at, micros)) = self.heard(id, taken) else { return SharedDecision::Failed };
        let reached =
            at.checked_sub(1).and_then(|at| kinds.get(at)).map(|(index, kind)| SharedLimitReached {
                index: *index,
                kind: *kind,
                retry_in: (*kind == LimitKind::Requests).then(|| Duration::from_micros(micros)),
            });
        SharedDecision::Made(reached.map_or(Ok(()), Err))
    }

    /// Writes the numbers of running calls: soon after some ended, and of all of them from time to time.
    pub(super) async fn report_calls_forever(&self) {
        let mut renewal = interval(RENEWAL);
        loop {
            let is_renewal = tokio::select! {
                () = self.calls.changed.notified() => false,
                _ = renewal.tick() => true,
            };
            let numbers = self.calls.to_report(is_renewal);
            // Without Redis they are reported when it is back, as far as they run then.
            let Some((id, link)) = self.link() else { continue };
            for numbers in numbers.chunks(STEP) {
                let names: Vec<String> = numbers.iter().map(|(key, _)| self.limit_name("c", key)).collect();
                let mut arguments = self.gateway_arguments();
                arguments.extend(numbers.iter().map(|(_, calls)| calls.to_string()));
                let reported: Result<u64, CommandError> = link.run(REPORT, &names, &arguments).await;
                if self.heard(id, reported).is_none() {
                    break;
                }
            }
        }
    }

    fn gateway_arguments(&self) -> Vec<String> {
        vec![self.calls.gateway.clone(), LEASE.as_micros().to_string()]
    }

    fn limit_name(&self, kind: &str, key: &str) -> String {
        format!("{}{kind}:{key}", self.options.prefix)
    }
}
