//! Finds entries of Switchyard that lead to another gateway, program or configuration file.

use std::path::Path;

use url::Url;

use super::{ClientFile, Gateway, shown_url, unchanged};
use crate::config::import::json::{Json, member};
use crate::config::import::ownership::{URL_KEYS, is_endpoint_of, is_ours, words};

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
