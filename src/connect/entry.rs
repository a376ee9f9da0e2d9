//! The entry of Switchyard in a client's file, and whether it leads to another gateway, program or configuration file.
//!
//! A client that connects over HTTP gets a URL. Any other client gets this program as its server, with `stdio`. No entry
//! holds a key: it refers to a variable of the environment.

use std::path::{Path, PathBuf};

use url::Url;

use super::clients::{Client, Constant, Constants, Http, Reference};
use super::{ClientFile, Error, shown_url, unchanged};
use crate::config::import::json::{Json, Members, member};
use crate::config::import::ownership::{NAME, URL_KEYS, is_endpoint_of, is_ours, words};

/// The arguments of this program before the configuration file, for a client that starts it.
const ARGUMENTS: [&str; 2] = ["stdio", "--config"];

/// The gateway that clients are connected to.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    /// The URL of its MCP endpoint.
    pub url: Url,
    /// Whether the user named the URL.
    pub is_url_named: bool,
    /// Whether the client starts this program, even if it could use the URL.
    pub is_started: bool,
    /// The only server that the client sees.
    pub view: Option<String>,
    /// The variable of the environment with the key.
    pub key_variable: Option<String>,
    /// This program.
    pub program: PathBuf,
    /// The configuration file, for a client that starts this program.
    pub config: PathBuf,
}

impl Gateway {
    /// Returns the name and the value of the entry for `client`.
    pub(super) fn entry(&self, client: &Client) -> Result<(String, Json), Error> {
        let name = self.name(client)?;
        let entry = match client.http.as_ref().filter(|_| !self.is_started) {
            Some(http) => self.with_url(client, http, &name)?,
            None => self.with_program(client, &name)?,
        };
        Ok((name, Json::Object(entry)))
    }

    fn name(&self, client: &Client) -> Result<String, Error> {
        let Some(view) = &self.view else { return Ok(NAME.to_owned()) };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || client.name_marks.contains(c);
        let view: String = view.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
        let name = format!("{NAME}-{view}");
        if name.len() > client.max_name {
            return Err(Error::LongName { name, client: client.name, max: client.max_name });
        }
        Ok(name)
    }

    fn with_url(&self, client: &Client, http: &Http, name: &str) -> Result<Members, Error> {
        let mut entry = self.constants(http.before, name);
        entry.push((http.url.to_owned(), Json::Text(self.endpoint())));
        match (&self.key_variable, client.reference) {
            (None, _) => {}
            (Some(_), Reference::Unknown) => return Err(Error::NoVariables(client.name)),
            (Some(_), Reference::Members(members)) => entry.extend(self.constants(members, name)),
            (Some(variable), Reference::Between(before, after)) => {
                let bearer = Json::Text(format!("Bearer {before}{variable}{after}"));
                let header = Json::Object(vec![("Authorization".to_owned(), bearer)]);
                let nested = |value, key: &&str| Json::Object(vec![((*key).to_owned(), value)]);
                let Some((first, rest)) = http.headers.split_first() else { return Ok(entry) };
                entry.push(((*first).to_owned(), rest.iter().rev().fold(header, nested)));
            }
        }
        entry.extend(self.constants(http.after, name));
        Ok(entry)
    }

    fn with_program(&self, client: &Client, name: &str) -> Result<Members, Error> {
        if self.view.is_some() || self.is_url_named || self.key_variable.is_some() {
            return Err(Error::OnlyStdio(client.name));
        }
        let mut entry = self.constants(client.stdio.before, name);
        let text =
            |path: &PathBuf| path.to_str().map(|path| Json::Text(path.to_owned())).ok_or(Error::OddPath);
        let program = text(&self.program)?;
        let [stdio, config] = ARGUMENTS.map(|word| Json::Text(word.to_owned()));
        let args = vec![stdio, config, text(&self.config)?];
        let command = client.stdio.command.to_owned();
        if let Some(key) = client.stdio.args {
            entry.extend([(command, program), (key.to_owned(), Json::List(args))]);
        } else {
            entry.push((command, Json::List(std::iter::once(program).chain(args).collect())));
        }
        entry.extend(self.constants(client.stdio.after, name));
        Ok(entry)
    }

    /// The URL for the client: that of all servers or that of one.
    fn endpoint(&self) -> String {
        let url = self.url.as_str().trim_end_matches('/');
        self.view.as_ref().map_or_else(|| url.to_owned(), |view| format!("{url}/{view}"))
    }

    pub(super) fn constants(&self, constants: Constants, name: &str) -> Members {
        let value = |constant: &Constant| match constant {
            Constant::Text(text) => Json::Text((*text).to_owned()),
            Constant::Yes => Json::Bool(true),
            Constant::Number(number) => Json::Number((*number).to_owned()),
            Constant::Everything => Json::List(vec![Json::Text("*".to_owned())]),
            Constant::Name => Json::Text(name.to_owned()),
            Constant::Variable => Json::Text(self.key_variable.clone().unwrap_or_default()),
        };
        constants.iter().map(|(name, constant)| ((*name).to_owned(), value(constant))).collect()
    }

    /// The entry as plain JSON, for a client that is not in the table.
    pub(crate) fn json(&self) -> String {
        let mut entry = if self.is_started {
            let [stdio, config] = ARGUMENTS;
            serde_json::json!({"command": self.program, "args": [stdio, config, self.config]})
        } else {
            serde_json::json!({"type": "http", "url": self.endpoint()})
        };
        if let Some(variable) = &self.key_variable {
            entry["headers"] = serde_json::json!({"Authorization": format!("Bearer ${{{variable}}}")});
        }
        let name = self.view.as_ref().map_or_else(|| NAME.to_owned(), |view| format!("{NAME}-{view}"));
        format!("{:#}", serde_json::json!({"mcpServers": {name: entry}}))
    }
}

impl ClientFile {
    /// Says where its entry of Switchyard leads, if that is not `gateway`.
    pub(crate) fn elsewhere(&self, gateway: &Gateway) -> Option<String> {
        let root = self.client.place().parse(&unchanged(&self.file).ok()?.before).ok()?;
        let entries = self.client.place().entries(&root);
        let (_, entry) = entries.iter().find(|(name, _)| is_ours(name))?;
        let Json::Object(members) = entry else { return None };
        match URL_KEYS.iter().find_map(|key| member(members, key)?.text()) {
            Some(url) => of_url(url, gateway),
            None => of_program(&words(members), gateway),
        }
    }
}

fn of_url(url: &str, gateway: &Gateway) -> Option<String> {
    let is_same = Url::parse(url).is_ok_and(|url| is_endpoint_of(&gateway.url, &url));
    (!is_same).then(|| format!("{}, and this gateway is at {}", shown_url(url), gateway.url))
}

fn of_program(words: &[&str], gateway: &Gateway) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    // A relative path is relative to the folder of the client, which is not known here.
    let absolute = |path: &&Path| path.is_absolute();
    if Some(Path::new(program)).filter(absolute).is_some_and(|path| !path.exists()) {
        return Some(format!("it starts {program}, which does not exist"));
    }
    let config = arguments.windows(2).find(|pair| pair[0] == "--config").map(|pair| Path::new(pair[1]));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let other = config.filter(absolute).filter(|path| real(path) != real(&gateway.config))?;
    Some(format!("it uses {}, and not {}", other.display(), gateway.config.display()))
}
