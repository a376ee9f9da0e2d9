//! The configuration file: readable, valid, every variable set, and what is unusual in it.

use super::super::check::read_files;
use super::subject::Subject;
use super::{Finding, Level, counted};
use crate::config::{Config, Error};
use gateway::manager::NotConfigured;
use settings::Problem;

/// The most problems of a file that are listed.
const MAX_PROBLEMS: usize = 50;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    match &subject.loaded {
        Ok(config) => valid(subject, config),
        Err(error) => invalid(subject, error),
    }
}

fn invalid(subject: &Subject<'_>, error: &Error) -> Vec<Finding> {
    let path = subject.path().display();
    match error {
        Error::Unreadable { file, reason } => {
            let looked = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let found = Finding::problem(format!("{}: it cannot be read: {reason}", looked.display()));
            vec![match reason.kind() {
                std::io::ErrorKind::NotFound => found.fix(
                    "`switchyard init` writes a first one, `--config FILE` or SWITCHYARD_CONFIG names another",
                ),
                std::io::ErrorKind::PermissionDenied => found.fix(format!("`ls -l {path}`, then `chmod u+r {path}` as its owner, or run this as that user")),
                _ => found,
            }]
        }
        Error::Invalid(report) => {
            report.problems.iter().take(MAX_PROBLEMS).map(|problem| mistake(subject, problem)).collect()
        }
    }
}

fn mistake(subject: &Subject<'_>, problem: &Problem) -> Finding {
    let place = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
    let path = subject.path().display();
    let found = Finding::problem(format!("{path}:{}: {place}{}", problem.mark, problem.message));
    match &problem.hint {
        Some(hint) => found.fix(hint),
        None => found,
    }
}

fn valid(subject: &Subject<'_>, config: &Config) -> Vec<Finding> {
    let path = subject.path().display();
    let wrong = config.manager.not_configured.iter().filter(|wrong| wrong.is_mistake());
    let mistakes = wrong.flat_map(|wrong| &wrong.problems).take(MAX_PROBLEMS);
    let mut findings: Vec<Finding> = mistakes.map(|problem| mistake(subject, problem)).collect();
    if let Err(error) = read_files(&config.server) {
        findings.push(Finding::problem(format!("{path}: server: {error}")));
    }
    if let Some(listen) = subject.arguments.listen
        && let Err(exposed) = config.server.clone().listening_on(listen)
    {
        findings.push(Finding::problem(format!("{listen}: {exposed}")));
    }
    findings.extend(config.server.auth.warning().map(Finding::warning));
    findings.extend(config.server.unknown_clients().map(Finding::warning));
    findings.extend(config.server.without_view(&config.views()).into_iter().map(Finding::warning));
    findings.extend(config.limits_without_effect().into_iter().map(Finding::warning));
    findings.extend(config.manager.warning().map(Finding::warning));
    findings.extend(config.server.exceptions().into_iter().map(Finding::warning));
    findings.extend(config.server.remark_on_hosts().map(Finding::ok));
    for server in &config.manager.servers {
        if let Some(warning) = server.warning() {
            findings.push(Finding::warning(format!("{}: {warning}", server.name)));
        }
    }
    findings.extend(config.manager.entries().into_iter().filter_map(disabled));
    if findings.iter().all(|finding| finding.level == Level::Ok) {
        findings.insert(0, summary(subject, config));
    }
    findings
}

fn disabled(entry: Result<&upstream::Config, &NotConfigured>) -> Option<Finding> {
    let (name, missing) = match entry {
        Ok(server) if !server.enabled => (&server.name, String::new()),
        Err(wrong) if !wrong.is_mistake() => {
            (&wrong.name, format!(" after this is corrected: {}", wrong.reason()))
        }
        _ => return None,
    };
    let found = Finding::ok(format!("{name}: it is disabled"));
    Some(found.fix(format!("`enabled: true` below `{name}:` enables it{missing}")))
}

fn summary(subject: &Subject<'_>, config: &Config) -> Finding {
    let path = subject.path().display();
    let servers = config.manager.entries().len();
    match &subject.note {
        Some(_) => Finding::warning(format!(
            "there is no {path} in this folder, so Switchyard serves its own documentation"
        ))
        .fix("`switchyard init` writes a first one, `switchyard add NAME URL` adds a server"),
        None if servers == 0 => Finding::warning(format!("{path}: valid, and it has no server"))
            .fix("`switchyard add NAME URL`, or `switchyard add NAME -- COMMAND`"),
        None => Finding::ok(format!("{path}: valid, {}", counted(servers, "server"))),
    }
}
