//! `switchyard why`: why clients get a tool, or do not.

use http::Method;

use super::super::remote::{Remote, RemoteError, RunningGateway, not_a_gateway};
use super::super::{environment, visible};
use super::screen::{OutputFormat, Screen, View};
use super::table::Table;
use crate::config::Config;
use json::Raw;

/// The clients that are meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClientView {
    /// Clients of this view, one of `views` in the configuration file.
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// The holder of this API key, by the name of the key.
    #[arg(id = "as_key", long = "as", value_name = "KEY", conflicts_with = "view")]
    key: Option<String>,
}

impl ClientView {
    /// The view that is named, or the one that the named key is bound to.
    pub(super) fn view(&self, running: &RunningGateway) -> Result<Option<String>, RemoteError> {
        let Some(id) = &self.key else { return Ok(self.view.clone()) };
        let usage = |text: String| RemoteError::Usage(text);
        let path = &running.file.config;
        let keys = Config::load_keys(path, &environment).map_err(|error| usage(error.to_string()))?;
        let keys = keys.unwrap_or_default().all().map_err(|error| usage(error.to_string()))?;
        match keys.into_iter().find(|key| key.id == *id) {
            Some(key) => Ok(key.view.map(|view| view.to_string())),
            None => Err(usage(format!(
                "{}: there is no key `{id}`; `switchyard key list` lists them",
                path.display()
            ))),
        }
    }
}

/// Explains the tool `name` as clients of `view` may have it.
pub(super) async fn explain(
    remote: &Remote,
    name: &str,
    view: Option<&str>,
    screen: &mut Screen<'_>,
) -> Result<(), RemoteError> {
    let query: Vec<(&str, &str)> =
        [("tool", name)].into_iter().chain(view.map(|view| ("view", view))).collect();
    let document = remote.rest(Method::GET, &["why"], &query).await?;
    let tools: Vec<Raw> = document.get("tools").ok_or_else(not_a_gateway)?.elements().collect();
    if screen.format != OutputFormat::Table {
        let names =
            tools.iter().map(|tool| format!("{}/{}", text(tool, "server"), text(tool, "tool"))).collect();
        return Ok(screen.show(&View { document, names, table: Table::new(&[]) })?);
    }
    for (at, tool) in tools.iter().enumerate() {
        if at > 0 {
            screen.lines("")?;
        }
        let server = format!("{}, circuit breaker {}", text(tool, "state"), text(tool, "circuit_breaker"));
        let held = if is(tool, "is_held") { "it is new or changed, and nobody approved it" } else { "" };
        for (label, value) in [
            ("tool", format!("{}/{}", text(tool, "server"), text(tool, "tool"))),
            ("clients", clients(tool)),
            ("rule", rule(tool)),
            ("held", held.to_owned()),
            ("server", server),
            ("to do", text(tool, "advice")),
        ] {
            if !value.is_empty() {
                screen.lines(&format!("{label}: {}", visible::line(&value)))?;
            }
        }
    }
    Ok(())
}

/// Describes the offer to clients.
fn clients(tool: &Raw) -> String {
    match text(tool, "listed_as") {
        name if name.is_empty() => "do not get it".to_owned(),
        name => format!("get it as {name}"),
    }
}

/// The rule that decided, as a place in the configuration file.
fn rule(tool: &Raw) -> String {
    let (setting, rule) = (text(tool, "setting"), text(tool, "rule"));
    let line = tool.get_as::<u32>("line").map(|line| format!(" in line {line}")).unwrap_or_default();
    match (setting.is_empty(), rule.is_empty()) {
        (true, _) => "none hides it".to_owned(),
        (false, true) => format!("{setting} has nothing for it"),
        (false, false) => format!("{setting}: {rule}{line}"),
    }
}

fn text(tool: &Raw, member: &str) -> String {
    tool.text(member).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn is(tool: &Raw, member: &str) -> bool {
    tool.get_as(member).unwrap_or(false)
}
