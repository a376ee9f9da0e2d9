//! The content of any client's file, or of another program's, as a configuration file.
//!
//! Not here: the formats of clients (`reader`), and the conversion (`config::import`).

use std::path::Path;

use url::Url;

use super::clients::Client;
use super::document::Syntax;
use super::link::OneServer;
use super::reader::{self, ReadServers, unknown};
use super::spelling::{Dialect, with_passed};
use super::{inherited, line, link};
use crate::config::import::json::{Json, Members, member};
use crate::config::import::{self, Folder, Imported};

/// Converts `content` to a configuration file, with the servers for `folder`, and without entries that lead to Switchyard at
/// `gateway`. `source` is the path of the file. Programs get the variables `passed`.
pub fn import(
    source: &str,
    content: &[u8],
    folder: Folder<'_>,
    gateway: &Url,
    passed: &[String],
) -> Result<Imported, String> {
    let text = import::text_of(content).map_err(|error| error.to_string())?;
    let name = Path::new(source).file_name().map_or(source.into(), |name| name.to_string_lossy());
    let of_file = |mut root: Members| {
        let is_passed = pass(&mut root, passed);
        let mut imported =
            import::of_file(source, &root, folder, gateway).map_err(|error| error.to_string())?;
        imported.notes.extend((is_passed && imported.servers > 0).then(|| inherited::note(passed)));
        Ok(imported)
    };
    if let Some(one) = link::read(text).or_else(|| line::read(text).filter(has_name)) {
        let OneServer { name: own, entry, inputs } = one?;
        let server = (own.unwrap_or_else(|| name.into_owned()), Dialect::UNKNOWN.common(&entry));
        return of_file(members(vec![server], inputs));
    }
    let (root, format) = reader::parse(text)
        .map_err(|reason| if reason == reader::EMPTY { format!("1:1: error: {reason}") } else { reason })?;
    let client = Client::of_path(Path::new(source));
    let Json::Object(whole) = &root else { return Err(unknown()) };
    match reader::of_root(root.clone(), format, None, client) {
        Some(ReadServers { servers, inputs, is_own: false, others }) => {
            let mut root = members(servers, inputs);
            root.extend(others);
            of_file(root)
        }
        None if format == Syntax::Json && member(whole, reader::PROJECTS).is_some() => {
            of_file(reader::others(whole.clone(), &[]))
        }
        None if format != Syntax::Yaml => Err(format!("1:1: error: {}", unknown())),
        _ => import::of_program(source, whole).map_err(|error| error.to_string()),
    }
}

fn has_name(line: &Result<OneServer, String>) -> bool {
    line.as_ref().map_or(true, |line| line.name.is_some())
}

fn members(servers: Members, inputs: Option<Json>) -> Members {
    let mut root = vec![("mcpServers".to_owned(), Json::Object(servers))];
    root.extend(inputs.map(|inputs| ("inputs".to_owned(), inputs)));
    root
}

/// Adds the variables `passed` to the programs in `root`, and in its folders. Returns whether there is one.
fn pass(root: &mut Members, passed: &[String]) -> bool {
    let mut is_any = false;
    for (name, value) in root {
        match (name.as_str(), value) {
            ("mcpServers", Json::Object(servers)) => {
                for (_, server) in servers {
                    is_any |= with_passed(server, passed);
                }
            }
            (reader::PROJECTS, Json::Object(projects)) => {
                for (_, project) in projects {
                    if let Json::Object(project) = project {
                        pass(project, passed);
                    }
                }
            }
            _ => {}
        }
    }
    is_any
}
