//! The retry table row by row, the pauses, and the budget.

use super::*;
use json::Raw;

const POLICY: config::Retry =
    config::Retry { attempts: 3, delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) };
const SECOND: Duration = Duration::from_secs(1);

fn text() -> String {
    "because".into()
}

fn status(status: u16, retry_after: Option<u64>) -> Error {
    Error::Status { status, retry_after: retry_after.map(Duration::from_secs), detail: String::new() }
}

fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

/// Checks one row: the error, then whether a read, a repeatable and an unsafe call are retried.
fn row(error: &Error, expected: [bool; 3]) {
    let kinds = [RetrySafety::Read, RetrySafety::Repeatable, RetrySafety::Unsafe];
    let decided = kinds.map(|kind| after(error, kind) != Next::Answer);
    assert_eq!(decided, expected, "read, repeatable, unsafe after: {error}");
}

#[test]
fn refused_by_ourselves_is_the_answer() {
    row(&Error::CircuitOpen { retry_in: SECOND }, [false; 3]);
    row(&Error::Overloaded { retry_in: SECOND }, [false; 3]);
    row(&Error::AuthFailed { reason: text() }, [false; 3]);
    row(&Error::Unavailable { state: "disabled" }, [false; 3]);
}

#[test]
fn request_that_was_not_sent_is_sent_again() {
    row(&Error::Connect { reason: text() }, [true; 3]);
    row(&Error::NotSent { reason: text() }, [true; 3]);
}

#[test]
fn unanswered_request_is_repeated_only_if_that_is_harmless() {
    row(&Error::Lost { reason: text() }, [true, true, false]);
}

#[test]
fn a_cut_answer_is_asked_for_again_only_by_reads() {
    row(&Error::Cut { reason: text() }, [true, false, false]);
}

#[test]
fn silence_is_repeated_only_where_that_is_harmless() {
    row(&Error::TimedOut { after: SECOND }, [true, true, false]);
}

#[test]
fn a_server_that_says_when_is_asked_then() {
    for code in [429, 503] {
        row(&status(code, Some(2)), [true; 3]);
        let pace = after(&status(code, Some(2)), RetrySafety::Unsafe);
        assert_eq!(pace, Next::Pace(Duration::from_secs(2)));
    }
    row(&status(429, None), [false; 3]);
    row(&status(502, Some(2)), [true, true, false]);
}

#[test]
fn a_proxy_that_lost_its_server_counts_as_lost() {
    for code in [502, 503, 504] {
        row(&status(code, None), [true, true, false]);
    }
}

#[test]
fn the_service_behind_a_built_in_is_asked_again_where_that_is_harmless() {
    let backend = |status, retry_after: Option<u64>| Error::Backend {
        status,
        detail: text(),
        retry_after: retry_after.map(Duration::from_secs),
        facts: None,
    };
    for code in [429, 503] {
        row(&backend(code, Some(2)), [true; 3]);
        assert_eq!(after(&backend(code, Some(2)), RetrySafety::Unsafe), Next::Pace(Duration::from_secs(2)));
    }
    for code in [429, 500, 502, 503, 504] {
        row(&backend(code, None), [true, true, false]);
    }
    for code in [400, 401, 403, 404, 409, 413, 415, 422, 501] {
        row(&backend(code, None), [false; 3]);
        row(&backend(code, Some(1)), [false; 3]);
    }
}

#[test]
fn answers_are_final() {
    for code in [400, 401, 404, 408, 409, 422, 500, 501, 505] {
        row(&status(code, None), [false; 3]);
        row(&status(code, Some(1)), [false; 3]);
    }
    row(&Error::Malformed { reason: text() }, [false; 3]);
    row(&Error::TooLarge { limit: 1 }, [false; 3]);
}

#[test]
fn only_a_tool_can_be_cut_beyond_repair() {
    let call = |method: &str, effect| Call { effect, ..Call::of_gateway(method, Some(Raw::empty_object())) };
    assert_eq!(RetrySafety::of(&call(method::TOOLS_LIST, Effect::ReadOnly)), RetrySafety::Read);
    assert_eq!(RetrySafety::of(&call(method::TOOLS_CALL, Effect::ReadOnly)), RetrySafety::Repeatable);
    assert_eq!(RetrySafety::of(&call(method::TOOLS_CALL, Effect::Idempotent)), RetrySafety::Repeatable);
    assert_eq!(RetrySafety::of(&call(method::TOOLS_CALL, Effect::Metered)), RetrySafety::Unsafe);
    assert_eq!(RetrySafety::of(&call(method::TOOLS_CALL, Effect::Unsafe)), RetrySafety::Unsafe);
    assert_eq!(RetrySafety::of(&call("vendor/anything", Effect::Unsafe)), RetrySafety::Unsafe);
}

#[tokio::test(start_paused = true)]
async fn pauses_are_spread_below_a_doubling_ceiling() {
    let error = Error::NotSent { reason: text() };
    let mut longest = [Duration::ZERO; 3];
    for _ in 0..400 {
        let retries = Retries::new(POLICY);
        let mut attempts = retries.begin(RetrySafety::Unsafe);
        for (index, longest) in longest.iter_mut().enumerate() {
            let pause = attempts.pause_after(&error, in_an_hour(), None).expect("three extra attempts");
            assert!(pause <= SECOND * (1 << index), "{pause:?} before extra attempt {index}");
            *longest = pause.max(*longest);
        }
        assert_eq!(attempts.pause_after(&error, in_an_hour(), None), None, "and not a fourth");
        assert_eq!(attempts.number(), 4);
    }
    for (index, longest) in longest.into_iter().enumerate() {
        assert!(longest > SECOND * (1 << index) * 9 / 10, "the whole range is used, not {longest:?}");
    }
    assert_eq!(ceiling(SECOND, POLICY.max_delay, 4), Duration::from_secs(16));
    assert_eq!(ceiling(SECOND, POLICY.max_delay, 5), POLICY.max_delay);
    assert_eq!(ceiling(SECOND, POLICY.max_delay, 4_000_000), POLICY.max_delay);
}

#[tokio::test(start_paused = true)]
async fn no_pause_reaches_the_deadline() {
    let retries = Retries::new(POLICY);
    let mut attempts = retries.begin(RetrySafety::Read);
    let now = Instant::now();
    assert_eq!(attempts.pause_after(&status(503, Some(5)), now + Duration::from_secs(5), None), None);
    assert!(attempts.pause_after(&status(503, Some(5)), now + Duration::from_secs(6), None).is_some());
    assert_eq!(attempts.pause_after(&Error::Connect { reason: text() }, now, None), None);
}

// RULES R32
#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_half_a_minute() {
    for requested in [0, 1, 30] {
        let retries = Retries::new(POLICY);
        let pause =
            retries.begin(RetrySafety::Unsafe).pause_after(&status(429, Some(requested)), in_an_hour(), None);
        let (pause, requested) = (pause.expect("paced"), Duration::from_secs(requested));
        assert!(pause >= requested && pause <= requested * 11 / 10, "{pause:?} for {requested:?}");
    }
    let retries = Retries::new(POLICY);
    let mut attempts = retries.begin(RetrySafety::Read);
    assert_eq!(attempts.pause_after(&status(503, Some(31)), in_an_hour(), None), None);
    assert_eq!(attempts.pause_after(&status(503, Some(u64::MAX / 2)), in_an_hour(), None), None);
}

#[tokio::test(start_paused = true)]
async fn retry_does_not_wait_for_a_breaker_that_will_refuse() {
    let retries = Retries::new(POLICY);
    let mut attempts = retries.begin(RetrySafety::Read);
    let error = Error::Connect { reason: text() };
    assert_eq!(attempts.pause_after(&error, in_an_hour(), Some(Duration::from_secs(30))), None);
    assert!(attempts.pause_after(&error, in_an_hour(), Some(Duration::ZERO)).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_a_fifth_and_three_a_second() {
    let retries = Retries::new(config::Retry { attempts: 10, ..POLICY });
    let error = Error::NotSent { reason: text() };
    let mut granted = 0_u32;
    let (requests_a_second, seconds) = (50, 20);
    for _ in 0..seconds {
        for _ in 0..requests_a_second {
            let mut attempts = retries.begin(RetrySafety::Read);
            while attempts.pause_after(&error, in_an_hour(), None).is_some() {
                granted += 1;
            }
            tokio::time::advance(SECOND / requests_a_second).await;
        }
    }
    let most = requests_a_second * seconds / 5 + 3 * seconds;
    assert!(granted <= most, "{granted} retries, allowed are {most}");
    assert!(granted * 10 >= most * 8, "{granted} of {most}: the budget is there to be used");
}

#[tokio::test(start_paused = true)]
async fn no_configured_attempts_means_none() {
    let retries = Retries::new(config::Retry { attempts: 0, ..POLICY });
    let pause =
        retries.begin(RetrySafety::Read).pause_after(&Error::Connect { reason: text() }, in_an_hour(), None);
    assert_eq!(pause, None);
}
