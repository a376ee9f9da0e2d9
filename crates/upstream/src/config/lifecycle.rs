//! When a server runs: its start, its end when nothing needs it, and its health checks.
//!
//! Invariant: a setting that would have no effect on a server is refused in the settings of that server.
//! The defaults for all servers apply to those that they concern.
//!
//! Not here: starting and stopping (`supervise`, `pool`).

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Transport;
use settings::Fields;

/// The range of `idle_timeout` in seconds; 0 means never.
const IDLE_TIMEOUT: RangeInclusive<f64> = 0.0..=86_400.0;
/// The range of `start_timeout` in seconds.
const START_TIMEOUT: RangeInclusive<f64> = 1.0..=3_600.0;

/// The range of `first_list_wait` in seconds.
const FIRST_LIST_WAIT: RangeInclusive<f64> = 0.0..=60.0;

/// When a child process is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// When it is needed, if its offer is remembered; otherwise with the gateway.
    #[default]
    OnDemand,
    /// With the gateway.
    Eager,
}

/// When the health of a server is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HealthCheck {
    /// As long as it is used. A server that nothing needs gets no request, so that it can sleep.
    #[default]
    WhenUsed,
    /// Always.
    Always,
}

/// When a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifecycle {
    /// When a child process is started.
    pub start: Start,
    /// How long the start of a child process may take, from its last output on standard error.
    pub start_timeout: Duration,
    /// How long nothing needs a server before its process or connection ends; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// When the health of the server is checked.
    pub health_check: HealthCheck,
    /// How long a list waits for a program that starts and of which nothing is remembered.
    pub first_list_wait: Duration,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            start: Start::default(),
            start_timeout: Duration::from_mins(2),
            idle_timeout: Some(Duration::from_mins(10)),
            health_check: HealthCheck::default(),
            first_list_wait: Duration::from_secs(5),
        }
    }
}

impl Lifecycle {
    /// A server that is started at once and never rests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_fake() -> Self {
        Self { start: Start::Eager, first_list_wait: Duration::from_millis(300), ..Self::default() }
    }

    /// Reads the defaults for all servers from the root of the file.
    pub(super) fn defaults(fields: &mut Fields<'_>) -> Self {
        let usual = Self::default();
        let idle = fields.seconds("default_idle_timeout", IDLE_TIMEOUT);
        Self {
            start: fields.choice("default_start", &STARTS).unwrap_or(usual.start),
            start_timeout: fields
                .seconds("default_start_timeout", START_TIMEOUT)
                .unwrap_or(usual.start_timeout),
            idle_timeout: idle.map_or(usual.idle_timeout, |time| (!time.is_zero()).then_some(time)),
            health_check: fields.choice("default_health_check", &HEALTH_CHECKS).unwrap_or(usual.health_check),
            first_list_wait: fields
                .seconds("first_list_wait", FIRST_LIST_WAIT)
                .unwrap_or(usual.first_list_wait),
        }
    }

    /// Reads the settings of one server; `usual` are the defaults for all.
    pub(super) fn from_fields(fields: &mut Fields<'_>, transport: Option<&Transport>, usual: Self) -> Self {
        let own =
            ["start", "start_timeout", "idle_timeout", "health_check"].map(|name| (name, fields.take(name)));
        let is_child = matches!(transport, Some(Transport::Stdio(_)));
        for (name, setting) in &own {
            let Some(setting) = setting else { continue };
            let misfit = match (transport, *name) {
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
                setting.key_problem(format!("`{name}` does not go with this server"), Some(hint.into()));
            }
        }
        let [start, start_timeout, idle, health] = own.map(|(_, setting)| setting);
        let start = start.and_then(|setting| setting.choice(&STARTS)).unwrap_or(usual.start);
        if let Some(idle) = idle.as_ref().filter(|_| is_child && start == Start::Eager) {
            let hint = "a process that is started with the gateway is not stopped; remove one of the two";
            idle.key_problem("`idle_timeout` does not go with `start: eager`", Some(hint.into()));
        }
        let idle = idle.and_then(|setting| setting.seconds(IDLE_TIMEOUT));
        let start_timeout = start_timeout.and_then(|setting| setting.seconds(START_TIMEOUT));
        Self {
            start,
            start_timeout: start_timeout.unwrap_or(usual.start_timeout),
            idle_timeout: idle.map_or(usual.idle_timeout, |time| (!time.is_zero()).then_some(time)),
            health_check: health
                .and_then(|setting| setting.choice(&HEALTH_CHECKS))
                .unwrap_or(usual.health_check),
            first_list_wait: usual.first_list_wait,
        }
    }
}

const STARTS: [(&str, Start); 2] = [("on_demand", Start::OnDemand), ("eager", Start::Eager)];
const HEALTH_CHECKS: [(&str, HealthCheck); 2] =
    [("when_used", HealthCheck::WhenUsed), ("always", HealthCheck::Always)];
