//! When a server runs: its start, its end when nothing needs it, and its health checks.
//!
//! Invariant: a setting that would have no effect on a server is refused in the settings of that server.
//! The defaults for all servers apply to those that they concern.
//!
//! Not here: starting and stopping (`supervise`, `pool`).

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Transport;
use settings::{Setting, settings, words};

/// The range of `idle_timeout` in seconds; 0 means never.
const IDLE_TIMEOUT: RangeInclusive<f64> = 0.0..=86_400.0;
/// The range of `start_timeout` in seconds.
const START_TIMEOUT: RangeInclusive<f64> = 1.0..=3_600.0;

words! {
    /// When a child process is started.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Start {
        /// When it is needed, if its offer is remembered; otherwise with the gateway.
        #[default]
        OnDemand = "on_demand",
        /// With the gateway.
        Eager = "eager",
    }
}

words! {
    /// When the health of a server is checked.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum HealthCheck {
        /// As long as it is used. A server that nothing needs gets no request, so that it can sleep.
        #[default]
        WhenUsed = "when_used",
        /// Always.
        Always = "always",
    }
}

settings! {
    /// When a server runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Lifecycle {
        /// `start` of programs that name none
        pub start as "default_start": Start;
        /// `start_timeout` of programs that name none
        pub start_timeout as "default_start_timeout": Duration = Duration::from_mins(2), in START_TIMEOUT;
        /// `idle_timeout` of servers that name none; 0 means never
        pub idle_timeout as "default_idle_timeout": Option<Duration> = Some(Duration::from_mins(10)), in IDLE_TIMEOUT;
        /// `health_check` of servers that name none
        pub health_check as "default_health_check": HealthCheck;
        /// how long after its start lists wait for a program of which nothing is remembered; they wait 300 ms for a
        /// server over HTTP
        pub first_list_wait: Duration = Duration::from_secs(5), in 0.0..=60.0;
    }
}

settings! {
    /// The settings of one server in place of those for all.
    #[derive(Clone, Copy)]
    pub(super) struct OwnLifecycle {
        /// when a program is started: when it is needed, if its offer is
        /// [remembered](servers.md#what-is-remembered), or with the gateway
        start: Option<Start> => "`default_start`";
        /// how long the start of a program may take, from its last output on standard error, and at most `max_timeout`
        start_timeout: Option<Duration> => "`default_start_timeout`", in START_TIMEOUT;
        /// how long nothing needs a server before its program is stopped or its connection closed; 0 means never. It
        /// does not go with `start: eager`
        idle_timeout: Option<Duration> => "`default_idle_timeout`", in IDLE_TIMEOUT;
        /// whether the health of a server over HTTP is checked after `idle_timeout` too, which keeps it awake
        health_check: Option<HealthCheck> => "`default_health_check`";
    }
}

impl Lifecycle {
    /// A server that is started at once and never rests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_fake() -> Self {
        Self { start: Start::Eager, first_list_wait: Duration::from_millis(300), ..Self::default() }
    }

    /// Returns how a server runs that has `own` settings, in place of those for all.
    pub(super) fn with(self, own: OwnLifecycle) -> Self {
        let idle_timeout = own.idle_timeout.or(self.idle_timeout);
        Self {
            start: own.start.unwrap_or(self.start),
            start_timeout: own.start_timeout.unwrap_or(self.start_timeout),
            idle_timeout: idle_timeout.filter(|time| !time.is_zero()),
            health_check: own.health_check.unwrap_or(self.health_check),
            first_list_wait: self.first_list_wait,
        }
    }

    /// Reports settings of `server` that have no effect with its transport.
    pub(super) fn check(self, server: &Setting<'_>, transport: Option<&Transport>) {
        let is_child = matches!(transport, Some(Transport::Stdio(_)));
        for name in ["start", "start_timeout", "idle_timeout", "health_check"] {
            let misfit = match (transport, name) {
                (Some(Transport::Builtin(_)), _) => Some("it is part of this program; remove it"),
                (Some(_), "start" | "start_timeout") if !is_child => {
                    Some("it is for programs that Switchyard starts (`command`); remove it")
                }
                (Some(_), "health_check") if is_child => {
                    Some("a child process is checked while it runs; use `idle_timeout` or `start`")
                }
                _ => None,
            };
            if let Some(hint) = misfit {
                server.refuse_member(name, "this server", hint);
            }
        }
        if is_child && self.start == Start::Eager {
            let hint = "a process that is started with the gateway is not stopped; remove one of the two";
            server.refuse_member("idle_timeout", "`start: eager`", hint);
        }
    }
}
