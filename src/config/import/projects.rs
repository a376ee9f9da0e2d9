//! The servers that Claude Code stores for one folder: `projects."/the/folder".mcpServers` of `~/.claude.json`,
//! where `claude mcp add` writes if no scope is given.
//!
//! As in Claude Code, a server of a folder takes precedence over one of the same name for all folders. Other folders
//! with servers are listed in a note.

use std::path::Path;

use super::json::{Json, Members, member};
use super::{Error, server};

/// The folder whose servers are imported beside those for all folders.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    /// Its absolute path.
    pub path: &'a Path,
    /// Whether the user named it; then it must be in the file.
    pub is_asked_for: bool,
}

impl Folder<'_> {
    /// No folder: only servers for all folders.
    pub fn none() -> Self {
        Self { path: Path::new(""), is_asked_for: false }
    }
}

/// The servers in a file that belong to folders.
pub(crate) struct Projects<'j> {
    /// The servers of the requested folder, if any.
    pub(crate) selected: Option<&'j Members>,
    /// The paths of other folders with servers.
    pub(crate) others: Vec<&'j str>,
}

impl<'j> Projects<'j> {
    /// Reads `root`; `folder` is the requested one.
    pub(crate) fn of(root: &'j Members, folder: Folder<'_>) -> Result<Self, Error> {
        let mut found = Self { selected: None, others: Vec::new() };
        let Some(Json::Object(projects)) = member(root, "projects") else {
            let found = (!folder.is_asked_for).then_some(found);
            let hint = "only the file `.claude.json` of Claude Code has servers of single folders";
            return found.ok_or_else(|| Error::whole("it has no `projects`", Some(hint)));
        };
        let mut is_there = false;
        for (path, project) in projects {
            let is_selected = Path::new(path) == folder.path;
            is_there |= is_selected;
            match servers_of(project) {
                Some(servers) if is_selected => found.selected = Some(servers),
                Some(_) => found.others.push(path),
                None => {}
            }
        }
        if folder.is_asked_for && !is_there {
            let path = folder.path.display().to_string();
            let message = format!("`projects` has no `{}`", settings::one_line(&path));
            return Err(Error::whole(format!("{message}{}", found.shown(": it has servers for ")), None));
        }
        Ok(found)
    }

    /// Returns the servers for all folders, `common`, replaced by those of the requested folder if the names are
    /// equal.
    pub(super) fn over(
        &self,
        common: Vec<&'j (String, Json)>,
        notes: &mut Vec<String>,
    ) -> Vec<&'j (String, Json)> {
        let Some(selected) = self.selected else { return common };
        let is_replaced = |name: &str| member(selected, name).is_some();
        let replaced: Vec<_> =
            common.iter().map(|(name, _)| name.as_str()).filter(|name| is_replaced(name)).collect();
        if !replaced.is_empty() {
            let names = server::names(replaced.into_iter());
            notes.push(format!("for the folder and for all folders, of which the first counts: {names}"));
        }
        common.into_iter().filter(|(name, _)| !is_replaced(name)).chain(selected).collect()
    }

    /// Whether any folder has servers.
    pub(super) const fn has_any(&self) -> bool {
        self.selected.is_some() || !self.others.is_empty()
    }

    /// Returns `before` and the other folders, or an empty text if there are none.
    pub(super) fn shown(&self, before: &str) -> String {
        if self.others.is_empty() {
            return String::new();
        }
        format!("{before}{}", server::names(self.others.iter().copied()))
    }
}

/// Returns the servers of one folder, if it has any.
fn servers_of(project: &Json) -> Option<&Members> {
    let Json::Object(members) = project else { return None };
    match member(members, "mcpServers") {
        Some(Json::Object(servers)) if !servers.is_empty() => Some(servers),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::connect::import;

    const PATH: &str = "/home/me/shop";

    fn imported(root: &Value, is_asked_for: bool) -> Result<(String, Vec<String>), String> {
        let folder = Folder { path: Path::new(PATH), is_asked_for };
        let gateway = url::Url::parse("http://127.0.0.1:8080/mcp").expect("a URL");
        let found = import("x.json", root.to_string().as_bytes(), folder, &gateway, &[])?;
        let yaml =
            found.yaml.split_once("mcp_servers:\n").expect("servers").1.replace("\n    command: ", " ");
        Ok((yaml, found.notes))
    }

    fn servers(names: &[(&str, &str)]) -> Value {
        let servers = names.iter().map(|(name, command)| ((*name).to_owned(), json!({"command": command})));
        json!({"mcpServers": servers.collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn servers_of_the_folder_stand_before_those_of_all_and_others_are_named() {
        let mut root = servers(&[("a", "all"), ("b", "all")]);
        root["projects"] = json!({
            PATH: servers(&[("b", "own"), ("c", "own")]),
            "/home/me/other\n": servers(&[("d", "other")]),
            "/home/me/empty": {"mcpServers": {}, "allowedTools": []},
        });
        for is_asked_for in [false, true] {
            let (yaml, notes) = imported(&root, is_asked_for).expect("read");
            assert_eq!(yaml, "  a: all\n  b: own\n  c: own\n");
            assert_eq!(
                notes,
                [
                    "servers for other folders, to be had by `--project`: `/home/me/other\\n`",
                    "for the folder and for all folders, of which the first counts: `b`",
                ]
            );
        }
    }

    #[test]
    fn a_folder_without_servers_is_no_failure_and_one_that_is_not_there_is_when_it_was_asked_for() {
        let other = servers(&[("d", "other")]);
        let without = json!({"mcpServers": {"a": {"command": "all"}}, "projects": {PATH: {}}});
        assert_eq!(imported(&without, true).expect("read").0, "  a: all\n");
        let nowhere = json!({"mcpServers": {"a": {"command": "all"}}, "projects": {"/other": other}});
        assert_eq!(imported(&nowhere, false).expect("read").0, "  a: all\n");
        assert_eq!(
            imported(&nowhere, true),
            Err("1:1: error: `projects` has no `/home/me/shop`: it has servers for `/other`".to_owned())
        );
        assert_eq!(
            imported(&json!({"mcpServers": {}}), true),
            Err("1:1: error: it has no `projects`\n    hint: only the file `.claude.json` of Claude Code has servers of single folders".to_owned())
        );
        assert_eq!(
            imported(&json!({"projects": {"/other": other}}), false),
            Err("1:1: error: there are only servers for other folders, to be had by `--project`: `/other`"
                .to_owned())
        );
    }
}
