//! Programs of stdio servers: found, and new enough.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio as Piped;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::super::remote::block_on;
use super::subject::Subject;
use super::{Finding, counted};
use upstream::config::{Stdio, Transport};
use upstream::transport::stdio::find_program;

/// How long a program has to print its version.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a version that are read.
const MAX_VERSION: u64 = 1_024;

/// A package that brings programs.
struct Package {
    /// Its programs.
    programs: &'static [&'static str],
    /// How it is installed.
    install: &'static str,
    /// The program that prints the version, if an old one is a usual mistake.
    versioned: Option<&'static str>,
    /// The oldest version that the official SDK for it supports.
    least: (u32, u32),
}

const PYTHON: Package = Package {
    programs: &["python3"],
    install: "install Python 3.10 or later: `apt install python3`, `brew install python` or https://www.python.org",
    versioned: Some("python3"),
    least: (3, 10),
};

const PACKAGES: &[Package] = &[
    Package {
        programs: &["npx", "npm", "node"],
        install: "install Node.js 18 or later: `apt install nodejs npm`, `brew install node` or https://nodejs.org",
        versioned: Some("node"),
        least: (18, 0),
    },
    PYTHON,
    Package { programs: &["python"], versioned: Some("python"), ..PYTHON },
    Package {
        programs: &["uvx", "uv"],
        install: "install uv: `pipx install uv`, `brew install uv` or https://docs.astral.sh/uv",
        versioned: None,
        ..PYTHON
    },
    Package {
        programs: &["docker"],
        install: "install Docker: https://docs.docker.com/engine/install",
        versioned: None,
        ..PYTHON
    },
];

impl Package {
    fn of(command: &str) -> Option<&'static Self> {
        PACKAGES.iter().find(|package| package.programs.contains(&command))
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let servers = || subject.servers().filter_map(|server| Some((server, stdio(server)?)));
    let mut findings: Vec<Finding> = servers().filter_map(|(server, stdio)| missing(server, stdio)).collect();
    if !subject.arguments.offline {
        findings.extend(versions(servers().map(|(_, stdio)| stdio)));
    }
    let count = servers().count();
    if findings.is_empty() && count > 0 {
        findings.push(Finding::ok(format!("the programs of {} are there", counted(count, "server"))));
    }
    findings
}

/// The settings of a server that is a child process.
pub(super) fn stdio(server: &upstream::Config) -> Option<&Stdio> {
    match &server.transport {
        Transport::Stdio(stdio) => Some(stdio),
        _ => None,
    }
}

/// The names of the servers whose programs do not get all of `variables`.
pub(super) fn lacking(subject: &Subject<'_>, variables: &[&str]) -> Vec<String> {
    let lacks = |stdio: &Stdio, name: &str| {
        !stdio.env.contains_key(name) && !stdio.pass_env.iter().any(|passed| passed == name)
    };
    let lacks_one = |server: &&upstream::Config| {
        stdio(server).is_some_and(|stdio| variables.iter().any(|&name| lacks(stdio, name)))
    };
    subject.servers().filter(lacks_one).map(|server| server.name.to_string()).collect()
}

fn missing(server: &upstream::Config, stdio: &Stdio) -> Option<Finding> {
    let reason = find_program(stdio).err()?;
    let found = Finding::problem(format!("{}: `{}` cannot be started: {reason}", server.name, server.target));
    // The command may come from a variable, whose value is not shown.
    Some(match Package::of(&server.target) {
        Some(package) => found.fix(package.install),
        None => found,
    })
}

/// Finds packages that are too old, by asking each program once.
fn versions<'s>(programs: impl Iterator<Item = &'s Stdio>) -> Vec<Finding> {
    let mut found: BTreeMap<PathBuf, &'static Package> = BTreeMap::new();
    for stdio in programs {
        let package = Package::of(&stdio.command);
        let Some((package, program)) = package.and_then(|package| Some((package, package.versioned?))) else {
            continue;
        };
        // A program such as `npx` finds its interpreter in the same search path.
        let program = Stdio { command: program.to_owned(), ..stdio.clone() };
        found.extend(find_program(&program).ok().map(|path| (path, package)));
    }
    let all = found.into_iter().map(|(path, package)| async move {
        let version = version(&path).await.filter(|version| *version < package.least)?;
        let found = format!(
            "{} is version {}.{}, which many servers do not support",
            path.display(),
            version.0,
            version.1
        );
        Some(Finding::warning(found).fix(package.install))
    });
    let findings = block_on(async { Ok(join_all(all).await) }).unwrap_or_default();
    findings.into_iter().flatten().collect()
}

/// Returns the first two numbers that a program prints for `--version`.
async fn version(program: &Path) -> Option<(u32, u32)> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Piped::null()).stdout(Piped::piped()).stderr(Piped::null());
    let mut child = command.kill_on_drop(true).spawn().ok()?;
    let (mut text, mut output) = (Vec::new(), child.stdout.take()?.take(MAX_VERSION));
    tokio::time::timeout(OUTPUT_TIMEOUT, output.read_to_end(&mut text)).await.ok()?.ok()?;
    numbers(&String::from_utf8_lossy(&text))
}

/// Reads `v18.20.4` and `Python 3.11.2`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_print_them() {
        for (text, expected) in [
            ("v18.20.4\n", Some((18, 20))),
            ("Python 3.11.2\n", Some((3, 11))),
            ("Python 3.9.0rc1", Some((3, 9))),
            ("unknown", None),
            ("v18", None),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }
}
