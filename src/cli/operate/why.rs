//! `switchyard why`: why clients get a tool, or do not.

use http::Method;

use super::super::error::CommandError;
use super::super::remote::{Remote, RunningGateway};
use super::super::{environment, visible};
use super::members::{any_elements, elements, is, text};
use super::screen::{OutputFormat, Screen, View};
use super::table::Table;
use crate::config::Config;
use auth::Principal;
use json::Raw;
use upstream::config::is_match;

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

/// The clients that are meant, as far as they are known.
pub(super) struct NamedClient {
    /// Their view; without one, everything.
    pub(super) view: Option<String>,
    /// The holder of a key.
    holder: Option<Principal>,
}

impl ClientView {
    /// The view that is named, or the holder of the named key and the view that it is bound to.
    pub(super) fn named(&self, running: &RunningGateway) -> Result<NamedClient, CommandError> {
        let Some(id) = &self.key else { return Ok(NamedClient { view: self.view.clone(), holder: None }) };
        let usage = |text: String| CommandError::Usage(text);
        let path = &running.file.config;
        let keys = Config::load_keys(path, &environment)?.unwrap_or_default();
        let keys = keys.all().map_err(|error| usage(error.to_string()))?;
        match keys.into_iter().find(|key| key.id == *id) {
            Some(key) => {
                let holder = Principal::of_key(&key.id, key.role).bound_to(key.view.clone());
                Ok(NamedClient { view: key.view.map(|view| view.to_string()), holder: Some(holder) })
            }
            None => Err(usage(format!(
                "{}: there is no key `{id}`; `switchyard key list` lists them",
                path.display()
            ))),
        }
    }
}

/// Explains the tool `name` as `client` may have it.
pub(super) async fn explain(
    remote: &Remote,
    name: &str,
    client: &NamedClient,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let query: Vec<(&str, &str)> =
        [("tool", name)].into_iter().chain(client.view.as_deref().map(|view| ("view", view))).collect();
    let document = remote.rest(Method::GET, &["why"], &query).await?;
    let tools = elements(&document, "tools")?;
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
            ("name", clash(tool)),
            ("server", server),
            ("limits", limits(tool, client)),
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

/// The limits of callers that count calls of the tool, of those that may be of `client`.
fn limits(tool: &Raw, client: &NamedClient) -> String {
    let is_of = |limit: &Raw| {
        let (principal, role) = (text(limit, "principal"), text(limit, "role"));
        client.holder.as_ref().is_none_or(|holder| {
            (principal.is_empty() || is_match(&principal, holder.id()))
                && (role.is_empty() || role == holder.role().as_str())
        })
    };
    let shown = |limit: Raw| {
        let number = |member, unit| limit.get_as::<u32>(member).map(|most| format!("{most} {unit}"));
        let most = [
            number("requests_per_minute", "requests a minute"),
            number("calls_at_a_time", "calls at a time"),
        ];
        let most = most.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let whom = if is(&limit, "is_shared") { "all callers together" } else { "each caller" };
        let of = [("principal", text(&limit, "principal")), ("role", text(&limit, "role"))];
        let of = of
            .map(|(what, which)| if which.is_empty() { which } else { format!(" with the {what} {which}") });
        format!("{} ({most}, {whom}{})", text(&limit, "name"), of.concat())
    };
    any_elements(tool, "limits").into_iter().filter(is_of).map(shown).collect::<Vec<_>>().join(", ")
}

/// The rule that decided, as a place in the configuration file.
fn rule(tool: &Raw) -> String {
    let (setting, rule) = (text(tool, "setting"), text(tool, "rule"));
    let file = text(tool, "file");
    let place = match tool.get_as::<u32>("line") {
        Some(line) if file.is_empty() => format!(" in line {line}"),
        Some(line) => format!(" in line {line} of {file}"),
        None if file.is_empty() => String::new(),
        None => format!(" in {file}"),
    };
    match (setting.is_empty(), rule.is_empty()) {
        (true, _) => "none hides it".to_owned(),
        (false, true) if setting.ends_with(".read_only") => format!("{setting}{place}"),
        (false, true) => format!("{setting}{place} has nothing for it"),
        (false, false) => format!("{setting}: {rule}{place}"),
    }
}

/// The other tools with the name of this one.
fn clash(tool: &Raw) -> String {
    let Some(clash) = tool.get("name_clash") else { return String::new() };
    let (name, owner) = (text(&clash, "bare_name"), text(&clash, "previous_owner"));
    if !owner.is_empty() {
        return format!("{name} belonged to the server {owner} before");
    }
    let others: Vec<String> = clash.get_as("others").unwrap_or_default();
    format!("other tools are called {name} too: {}", others.join(", "))
}
