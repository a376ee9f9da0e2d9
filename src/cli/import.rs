//! `switchyard import`: converts the servers of another client's file to a configuration file.
//!
//! The YAML goes to standard output and notes for the user to standard error, so that the YAML can be redirected to a
//! file. Both name everything that could not be imported. If no server remains, nothing is printed and the exit code
//! is 1.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use url::Url;

use super::{EXIT_USAGE, Import};
use crate::config::import::{self, Folder, Imported};
use crate::connect;

/// Reads the file, or `input` if its name is `-`, for the named folder or the current one, without entries that lead to
/// `gateway`. Programs get the variables `passed`. Writes the result to `out`, notes and errors to `err`.
pub(crate) fn run(
    Import { file, project }: &Import,
    gateway: &Url,
    passed: &[String],
    input: &mut dyn Read,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    let is_input = file.as_os_str() == "-";
    let name = if is_input { "standard input".into() } else { file.display().to_string() };
    let content = if is_input { read(input) } else { File::open(file).and_then(|mut file| read(&mut file)) };
    let path = absolute(project.as_deref().unwrap_or(Path::new(".")));
    let folder = Folder { path: &path, is_asked_for: project.is_some() };
    let written = match content.map(|content| connect::import(&name, &content, folder, gateway, passed)) {
        Ok(Ok(imported)) if imported.servers == 0 => say_none(&name, &imported, err),
        Ok(Ok(imported)) => write(&name, &imported, out, err).map(|()| ExitCode::SUCCESS),
        Ok(Err(error)) => writeln!(err, "{name}:{error}").map(|()| ExitCode::from(EXIT_USAGE)),
        Err(reason) => {
            writeln!(err, "{name}: it cannot be read: {reason}").map(|()| ExitCode::from(EXIT_USAGE))
        }
    };
    written.unwrap_or(ExitCode::FAILURE) // standard output is closed
}

/// Returns `path` as clients write it: absolute and without links. A path that does not exist here may be of another
/// machine and stays unchanged.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn read(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than the limit, so that `import` detects a file that is too large.
    input.take(import::MAX_JSON as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Explains why there is nothing to print.
fn say_none(name: &str, imported: &Imported, err: &mut dyn Write) -> io::Result<ExitCode> {
    for note in &imported.notes {
        writeln!(err, "{name}: {note}")?;
    }
    writeln!(err, "{name}: no server could be imported, so nothing is printed")?;
    Ok(ExitCode::FAILURE)
}

fn write(name: &str, imported: &Imported, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
    for note in &imported.notes {
        writeln!(err, "{name}: {note}")?;
    }
    out.write_all(imported.yaml.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(file: &str, content: &str) -> (ExitCode, String, String) {
        answer_for(None, file, content)
    }

    fn answer_for(project: Option<&Path>, file: &str, content: &str) -> (ExitCode, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let arguments = Import { file: file.into(), project: project.map(Path::to_owned) };
        let gateway = Url::parse("http://127.0.0.1:8080/mcp").expect("a URL");
        let code = run(&arguments, &gateway, &[], &mut content.as_bytes(), &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (code, text(out), text(err))
    }

    #[test]
    fn standard_input_is_read_and_notes_do_not_mix_with_the_file() {
        let (code, out, err) = answer("-", r#"{"mcpServers": {"a b": {"command": "npx", "x": 1}}}"#);
        assert_eq!(code, ExitCode::SUCCESS);
        assert_eq!(
            out,
            "# Made of standard input by `switchyard import`.\nmcp_servers:\n  a-b:\n    # not taken over: `x`\n    command: npx\n"
        );
        assert_eq!(
            err,
            "standard input: a b: it is called `a-b` now\nstandard input: a b: not taken over: `x`\n"
        );
    }

    #[test]
    fn unusable_file_is_refused_with_its_position_and_prints_nothing() {
        let (code, out, err) = answer("-", "{\n  \"mcpServers\": {]\n}");
        assert_eq!((code, out.as_str()), (ExitCode::from(EXIT_USAGE), ""));
        assert_eq!(err, "standard input:2:18: error: this is not valid JSON: unexpected token in object\n");
        let (_, _, err) = answer("-", &" ".repeat(import::MAX_JSON + 1));
        assert!(err.contains("the file is larger than "), "{err}");
        let (code, _, err) = answer("/nowhere/at/all.json", "");
        assert_eq!(code, ExitCode::from(EXIT_USAGE));
        assert!(err.starts_with("/nowhere/at/all.json: it cannot be read: "), "{err}");
    }

    #[test]
    fn servers_of_a_folder_are_those_of_the_current_one_or_of_the_one_that_is_named() {
        let here = std::env::current_dir().expect("a folder").canonicalize().expect("its path");
        let file = serde_json::json!({"projects": {
            here.to_str().expect("UTF-8"): {"mcpServers": {"here": {"command": "npx"}}},
            "/somewhere/else": {"mcpServers": {"there": {"command": "npx"}}},
        }});
        for (project, expected) in
            [(None, "here"), (Some(Path::new(".")), "here"), (Some(Path::new("/somewhere/else/")), "there")]
        {
            let (code, out, err) = answer_for(project, "-", &file.to_string());
            assert_eq!(code, ExitCode::SUCCESS, "{err}");
            assert!(out.ends_with(&format!("mcp_servers:\n  {expected}:\n    command: npx\n")), "{out}");
        }
        let (code, out, err) = answer_for(Some(Path::new("/nowhere")), "-", &file.to_string());
        assert_eq!((code, out.as_str()), (ExitCode::from(EXIT_USAGE), ""));
        assert!(err.contains("`projects` has no `/nowhere`: it has servers for "), "{err}");
    }
}
