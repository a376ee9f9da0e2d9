//! Files and folders of Switchyard: who else can read or write them, and whether Switchyard can.
//!
//! Invariant: nothing is made, changed or opened for writing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::check::{Unwritable, refusal, unwritable_log};
use super::Finding;
use super::subject::Subject;
use crate::config::Config;
use auth::vault::{Error, Vault};

/// Permissions of users other than the owner and its group.
const WRITABLE_BY_ALL: u32 = 0o002;
const READABLE_BY_OTHERS: u32 = 0o004;
/// Stands for a value in the configuration as it is shown.
const HIDDEN: &str = "***";

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(config) = subject.config() else { return Vec::new() };
    let mut findings = Vec::new();
    if subject.note.is_none() {
        findings.extend(file(subject.path(), config));
    }
    findings.extend(state_folder(config));
    findings.extend(log_file(config));
    if findings.is_empty() { vec![Finding::ok("files and folders are as they should be")] } else { findings }
}

/// The configuration file, which names programs to start and may hold secrets.
fn file(path: &Path, config: &Config) -> Option<Finding> {
    let mode = path.metadata().ok()?.permissions().mode() & 0o7777;
    let path = path.display();
    if mode & WRITABLE_BY_ALL != 0 {
        return Some(
            Finding::problem(format!(
                "{path}: every user can write it, and so decide what is started (mode {mode:o})"
            ))
            .fix(format!("`chmod go-w {path}`")),
        );
    }
    let may_have_secrets = config.shown.as_str().contains(HIDDEN);
    (may_have_secrets && mode & READABLE_BY_OTHERS != 0).then(|| {
        Finding::warning(format!(
            "{path}: other users can read it, and it has values that may be secret (mode {mode:o})"
        ))
        .fix(format!(
            "`chmod 600 {path}`, or `switchyard secret set NAME` and `${{secret:NAME}}` in its place"
        ))
    })
}

/// The folder of the vault, and the vault.
fn state_folder(config: &Config) -> Option<Finding> {
    let settings = &config.server.vault;
    let of_vault = match settings.vault() {
        Ok(of_vault) => of_vault,
        Err(error) => {
            return Some(Finding::warning(error.to_string()).fix("`state_dir: FOLDER` under `server:`"));
        }
    };
    let reason = of_vault.path.parent().and_then(|folder| Some((folder.display(), unwritable(folder)?)));
    if let Some((folder, reason)) = reason {
        let found =
            format!("the state folder {folder} cannot be used: {reason}; logins and secrets are not stored");
        let found =
            if settings.state_dir.is_some() { Finding::problem(found) } else { Finding::warning(found) };
        return Some(found.fix("`state_dir: FOLDER` under `server:`, a folder that Switchyard can write"));
    }
    let error = Vault::open(of_vault).err()?;
    let fix = match &error {
        Error::Readable { path, .. } => Some(format!("`chmod 600 {}`", path.display())),
        _ => None,
    };
    Some(Finding { fix, ..Finding::problem(error.to_string()) })
}

fn log_file(config: &Config) -> Option<Finding> {
    let Unwritable { found, fix } = unwritable_log(config)?;
    Some(Finding::problem(found).fix(fix))
}

/// Why `folder`, which may not exist yet, cannot be written.
fn unwritable(folder: &Path) -> Option<String> {
    let existing: PathBuf = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?.to_owned();
    if existing.is_dir() {
        refusal(&existing)
    } else {
        Some(format!("{} is not a folder", existing.display()))
    }
}
