//! The running gateway: its version, and whether it has read the configuration file as it is now.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::error::CommandError;
use super::Finding;
use super::subject::Subject;
use json::Raw;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The gateway tells when it read the file to the second.
const SLACK: Duration = Duration::from_secs(1);

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(running) = subject.gateway() else {
        let url = subject.arguments.running.url.as_ref();
        let absent = url.map(|url| {
            Finding::problem(format!("no Switchyard answers at {}", url.origin().ascii_serialization()))
                .fix("`switchyard` starts a gateway, `--url` names another one")
        });
        return absent.into_iter().collect();
    };
    let other = running.version.as_deref().filter(|version| *version != VERSION).map(|version| {
        Finding::warning(format!("the gateway that runs is version {version}, and this program is {VERSION}"))
            .fix("restart the gateway")
    });
    let file = match &running.configuration {
        Ok(configuration) => file(subject, configuration),
        Err(CommandError::Denied { .. }) => Some(
            Finding::ok("the gateway that runs does not show its configuration without a credential")
                .fix("`export SWITCHYARD_KEY=…`, the key of a superuser"),
        ),
        Err(failed) => {
            Some(Finding::warning(format!("the gateway that runs does not show its configuration: {failed}")))
        }
    };
    other.into_iter().chain(file).collect()
}

/// Compares the configuration of the gateway with the file.
fn file(subject: &Subject<'_>, running: &Raw) -> Option<Finding> {
    let config = subject.config()?;
    let path = subject.path().display();
    let loaded_at = running.text("loaded_at").unwrap_or_default();
    let value = |raw: &Raw| serde_json::from_str::<serde_json::Value>(raw.as_str()).ok();
    let is_equal = running.get("configuration").and_then(|settings| value(&settings)) == value(&config.shown);
    let loaded = OffsetDateTime::parse(&loaded_at, &Rfc3339).ok();
    let changed = subject.path().metadata().and_then(|file| file.modified()).ok().map(OffsetDateTime::from);
    let is_newer = loaded.zip(changed).is_some_and(|(loaded, changed)| changed > loaded + SLACK);
    Some(if is_equal && !(is_newer && subject.note.is_none()) {
        Finding::ok(format!("the gateway that runs has read {path} as it is now"))
    } else {
        Finding::warning(format!(
            "the gateway that runs has other settings than {path}: it read a file at {loaded_at}"
        ))
        .fix("`switchyard reload`, or a restart if `server:` or `cache:` changed")
    })
}
