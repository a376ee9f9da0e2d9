//! `switchyard doctor`: looks for the usual mistakes, and says what to type.
//!
//! Each mistake belongs to one row of [`CHECKS`], in the order in which they are worth correcting. A check returns a
//! [`Finding`] for each. Invariants: nothing is changed. No result has a secret. Control characters in the texts of servers and
//! other programs are escaped when they are shown. Only `servers`, `programs` and `clock` contact a server or start a program,
//! and not with `--offline`.
//!
//! Exit codes: 0 no problem, 1 a problem, 2 the configuration file cannot be used.
//!
//! Not here: what is wrong with the file (`config`), a server (`upstream`), or the file of a client (`connect`).

mod address;
mod clients;
mod clock;
mod configuration;
mod gateway;
mod permissions;
mod programs;
mod servers;
mod subject;
mod variables;
mod vault;

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use self::subject::Subject;
use super::EXIT_USAGE;
use super::operate::screen::{Screen, View};
use super::operate::table::{Cell, Table};
use json::Raw;
use settings::expand::Lookup;

pub(crate) use self::subject::Doctor;

pub(super) const HELP: &str = "\
Examples:
  switchyard doctor
  switchyard doctor --offline --config mcp_servers.yaml
  switchyard doctor -o json

Exit codes: 0 no problem was found, 1 problems, 2 the configuration file or an argument is not valid";

/// One row of the table of checks.
struct DoctorCheck {
    name: &'static str,
    /// Finds what is wrong. Nothing, if it does not apply here.
    run: fn(&Subject<'_>) -> Vec<Finding>,
}

/// The check whose problems give the exit code of `check`.
const CONFIGURATION: &str = "configuration";

/// All checks, in their order.
const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { name: CONFIGURATION, run: configuration::check },
    DoctorCheck { name: "permissions", run: permissions::check },
    DoctorCheck { name: "vault", run: vault::check },
    DoctorCheck { name: "address", run: address::check },
    DoctorCheck { name: "gateway", run: gateway::check },
    DoctorCheck { name: "programs", run: programs::check },
    DoctorCheck { name: "proxy", run: variables::check_proxy },
    DoctorCheck { name: "certificates", run: variables::check_certificates },
    DoctorCheck { name: "servers", run: servers::check },
    DoctorCheck { name: "clock", run: clock::check },
    DoctorCheck { name: "clients", run: clients::check },
];

/// Runs the command and returns its exit code.
pub(super) fn run(arguments: &Doctor, environment: &Lookup<'_>) -> ExitCode {
    let subject = Subject::new(arguments, environment);
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let mut screen = Screen::of(&arguments.output, &mut out, &mut err);
    let mut all: Vec<(&'static str, Finding)> = Vec::new();
    for check in CHECKS {
        // A failed write of progress is no reason to stop.
        let _ = screen.progress(&format!("{}…", check.name));
        all.extend((check.run)(&subject).into_iter().map(|finding| (check.name, finding)));
    }
    let count = |level| all.iter().filter(|(_, finding)| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    let is_refused =
        all.iter().any(|(check, finding)| *check == CONFIGURATION && finding.level == Level::Problem);
    let shown = screen.end_progress().and_then(|()| show(&all, &mut screen)).and_then(|()| {
        let again = "run `switchyard doctor` again";
        if subject.loaded.is_err() {
            screen.note(&format!("the other checks need a configuration file that can be used: {again}"))?;
        } else if is_refused {
            screen.note(&format!("servers with mistakes were not checked: correct them, and {again}"))?;
        }
        screen.note(&format!("{}, {}", counted(problems, "problem"), counted(warnings, "warning")))
    });
    match shown {
        Err(_) => ExitCode::FAILURE, // standard output is closed
        Ok(()) if is_refused => EXIT_USAGE.into(),
        Ok(()) if problems > 0 => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn show(all: &[(&'static str, Finding)], screen: &mut Screen<'_>) -> io::Result<()> {
    let mut table = Table::new(&["STATE", "CHECK", "FOUND"]);
    for (check, Finding { level, found, fix }) in all {
        table.rows.push(vec![Cell::state(level.as_str()), Cell::new(check), Cell::new(found)]);
        table.rows.extend(
            fix.iter().map(|fix| vec![Cell::new(""), Cell::new(""), Cell::new(&format!("fix: {fix}"))]),
        );
    }
    let findings = all.iter().map(|(check, finding)| {
        let mut finding = json!(finding);
        finding["check"] = json!(check);
        finding
    });
    let document = Raw::of(&json!({"findings": findings.collect::<Vec<_>>()}));
    let faulty = all.iter().filter(|(_, finding)| finding.level != Level::Ok);
    let names = faulty.map(|(check, _)| (*check).to_owned()).collect();
    screen.show(&View { document, names, table: table.folded() })
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// As it should be.
    Ok,
    /// It works, and may surprise.
    Warning,
    /// It does not work.
    Problem,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    #[serde(rename = "state")]
    level: Level,
    /// The mistake and its place.
    found: String,
    /// The command or the line that corrects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(found: impl Into<String>) -> Self {
        Self { level: Level::Ok, found: found.into(), fix: None }
    }

    fn warning(found: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(found) }
    }

    fn problem(found: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(found) }
    }

    /// Adds the text to type.
    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Returns the number with its noun, in the plural unless it is one.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
