//! Changes of the configuration file that clients of the running gateway ask for over REST.
//!
//! Invariants: a client adds servers at URLs only, so it can make the gateway start no program and read no file. Each of its
//! texts is written so that it stands for itself: a variable of the gateway and a secret of the vault reach no server that a
//! client named. If others can reach the gateway, such a server is dialed at public addresses only, whatever its name leads to
//! later. A secret that the file has goes to no other URL.
//!
//! Not here: who may do this, and the reload after it (`admin`).

use std::env::VarError;
use std::path::PathBuf;

use admin::{EditedEntry, EntryChange, EntrySettings, NotEdited};
use settings::one_line;
use upstream::config::server_name;
use url::{Host, Url};

use super::own_file::{self, ServersChange};
use super::{Error, Offer, file};
use crate::config::Config;
use crate::config::import::json::{Json, Members, member};

/// The setting that keeps a server to public addresses.
const PUBLIC_ONLY: &str = "public_only";

/// The configuration file of a running gateway.
#[derive(Debug, Clone)]
pub(crate) struct ServedFile {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Looks up the variables of its references.
    pub(crate) environment: fn(&str) -> Result<String, VarError>,
}

impl ServedFile {
    /// Changes the entry of the server `name`, or only plans that. `is_local`: only this machine reaches the gateway.
    pub(crate) fn edit(
        &self,
        name: &str,
        change: &EntryChange,
        is_local: bool,
        dry_run: bool,
    ) -> Result<EditedEntry, NotEdited> {
        let (path, environment) = (&self.path, &self.environment);
        let planned = match change {
            EntryChange::Add(settings) => {
                if server_name(name) != name {
                    let text = "the name of a server has 1 to 64 letters, digits, `.`, `_` and `-`";
                    return Err(NotEdited::Invalid(text.to_owned()));
                }
                let entry = added(settings, is_local).map_err(NotEdited::Invalid)?;
                own_file::add(path, &[Offer::own("the request", name, entry)], environment)
            }
            EntryChange::Edit(settings) => {
                own_file::edit(path, name, |entry| edited(entry, settings, is_local), environment)
            }
            EntryChange::Remove => own_file::remove(path, &[name.to_owned()], environment),
        };
        let ServersChange { change, refused, mut notes } = planned.map_err(of_file)?;
        if let Some((_, reason)) = refused.into_iter().next() {
            return Err(NotEdited::Conflict(format!("{}: {reason}", one_line(name))));
        }
        let [before, after] = [&change.before, &change.after].map(|text| Config::shown_server(text, name));
        let has_hidden =
            |entry: &Option<json::Raw>| entry.as_ref().is_some_and(|entry| entry.as_str().contains("***"));
        if before.is_some() && after.is_some() && has_hidden(&after) {
            notes.push("a value that may be secret is `***`, also where it changes".to_owned());
        }
        let written = !dry_run && !change.is_empty();
        let backup = if written { change.write_own().map_err(of_file)? } else { None };
        let backup = backup.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(EditedEntry { before, after, notes, written, backup })
    }
}

/// Says why the file is not changed, without its path.
fn of_file(error: Error) -> NotEdited {
    match error {
        Error::Refused(error) => NotEdited::Invalid(format!("the entry is not valid: {error}")),
        Error::Entry(reason) => NotEdited::Invalid(reason),
        Error::NoServer { reason, .. } => NotEdited::Unknown(reason),
        Error::Unchanged { reason, .. } => NotEdited::Conflict(format!("{reason}; nothing was changed")),
        Error::File { reason: file::Error::Changed, .. } => NotEdited::Conflict(
            "another program changed the configuration file meanwhile: look at the change again".into(),
        ),
        Error::File { reason, .. } => NotEdited::Conflict(format!("the configuration file: {reason}")),
        error => NotEdited::Conflict(error.to_string()),
    }
}

/// The entry of a new server.
fn added(settings: &EntrySettings, is_local: bool) -> Result<Members, String> {
    let url = settings.url.as_deref().ok_or("a server needs a `url`")?;
    let mut entry = Members::new();
    put_url(&mut entry, url, is_local)?;
    rest(&mut entry, settings)?;
    Ok(entry)
}

/// The entry `before` with the settings that change.
fn edited(before: &Members, settings: &EntrySettings, is_local: bool) -> Result<Members, String> {
    let mut entry = before.clone();
    let is_http = member(before, "url").is_some() && member(before, "builtin").is_none();
    if !is_http && (settings.url.is_some() || settings.headers.is_some() || settings.oauth.is_some()) {
        return Err("this server is not one at a URL: change its entry in the configuration file".to_owned());
    }
    let now = member(before, "url").and_then(Json::text);
    if let Some(url) = settings.url.as_deref().filter(|url| now != Some(&literal(url).unwrap_or_default())) {
        // A client cannot send the headers of one URL to another.
        if member(before, "headers").is_some() && settings.headers.is_none() {
            return Err("headers: they are those for the URL before; give them again, or `{}`".to_owned());
        }
        if member(before, "auth").is_some_and(|auth| auth.text() != Some("oauth")) {
            return Err(
                "its credential (`auth`) is for the URL before: change the entry in the configuration file"
                    .to_owned(),
            );
        }
        put_url(&mut entry, url, is_local)?;
    }
    rest(&mut entry, settings)?;
    Ok(entry)
}

/// Sets what an entry has beside its URL.
fn rest(entry: &mut Members, settings: &EntrySettings) -> Result<(), String> {
    let EntrySettings { headers, oauth, description, enabled, .. } = settings;
    match (oauth, member(entry, "auth").map(Json::text)) {
        (None, _) | (Some(true), Some(Some("oauth"))) | (Some(false), None) => {}
        (Some(true), None) => put(entry, "auth", Json::Text("oauth".to_owned())),
        (Some(false), Some(Some("oauth"))) => entry.retain(|(key, _)| key != "auth"),
        (Some(_), Some(_)) => {
            return Err(
                "oauth: the entry has an `auth` of its own: change it in the configuration file".to_owned()
            );
        }
    }
    if let Some(headers) = headers {
        entry.retain(|(key, _)| key != "headers");
        let pairs = headers.iter().map(|(name, value)| {
            let value = literal(value).map_err(|reason| format!("headers.{}: {reason}", one_line(name)))?;
            Ok((name.clone(), Json::Text(value)))
        });
        let pairs = pairs.collect::<Result<Members, String>>()?;
        if !pairs.is_empty() {
            entry.push(("headers".to_owned(), Json::Object(pairs)));
        }
    }
    if let Some(text) = description {
        let text = literal(text).map_err(|reason| format!("description: {reason}"))?;
        put(entry, "description", Json::Text(text));
    }
    if let Some(enabled) = enabled {
        entry.retain(|(key, _)| key != "enabled");
        if !enabled {
            entry.push(("enabled".to_owned(), Json::Bool(false)));
        }
    }
    Ok(())
}

/// Sets the URL of a client, and keeps the server to public addresses if others reach the gateway.
fn put_url(entry: &mut Members, url: &str, is_local: bool) -> Result<(), String> {
    put(entry, "url", Json::Text(url_of_client(url, is_local)?));
    if !is_local {
        put(entry, PUBLIC_ONLY, Json::Bool(true));
    }
    Ok(())
}

fn put(entry: &mut Members, key: &str, value: Json) {
    match entry.iter_mut().find(|(other, _)| other == key) {
        Some((_, there)) => *there = value,
        None => entry.push((key.to_owned(), value)),
    }
}

/// Returns a URL of a client as the file has it.
fn url_of_client(text: &str, is_local: bool) -> Result<String, String> {
    let literal = literal(text).map_err(|reason| format!("url: {reason}"))?;
    let url = Url::parse(text).map_err(|reason| format!("url: this is no URL: {reason}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("url: expected `http://` or `https://`".to_owned());
    }
    let is_own = match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').rsplit('.').next() == Some("localhost"),
        Some(Host::Ipv4(address)) => !net::http::is_public(address.into()),
        Some(Host::Ipv6(address)) => !net::http::is_public(address.into()),
        None => false,
    };
    if is_own && !is_local {
        return Err("url: others can reach this gateway, so its clients add servers at public addresses only; a server at \
                    another address is added in the configuration file"
            .to_owned());
    }
    Ok(literal)
}

/// Returns a text of a client so that it stands for itself in the file. One that would refer to something is refused,
/// because its client means the value.
fn literal(text: &str) -> Result<String, String> {
    if text.contains("${") || text == "~" || text.starts_with("~/") {
        return Err("a client writes no reference to a variable, a secret or a folder of the gateway: write the value, or \
                    edit the configuration file"
            .to_owned());
    }
    Ok(text.replace('$', "$$"))
}

#[cfg(test)]
#[path = "served_tests.rs"]
mod tests;
