//! The vault: logins and secrets of API keys that are gone. They would be those of a later key of the same name.
//!
//! Invariant: they stay, because a key may be missing by mistake. Other principals are not known to Switchyard before they
//! come.

use super::Finding;
use super::subject::Subject;
use auth::Principal;
use auth::vault::Vault;

/// The most principals that are listed.
const MAX_LISTED: usize = 20;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(config) = subject.config() else { return Vec::new() };
    let (auth::Config::ApiKey(keys) | auth::Config::Any(keys, _)) = &config.server.auth else {
        return Vec::new();
    };
    // Faults of the vault and of the file of keys are those of other checks.
    let counts = config.server.vault.vault().ok().and_then(|vault| Vault::open(vault).ok()?.counts().ok());
    let stored = keys.file.as_ref().map_or(Ok(Vec::new()), auth::KeyFile::list);
    let (Some(counts), Ok(stored)) = (counts, stored) else { return Vec::new() };
    let ids = keys.listed.iter().map(|key| &key.id).chain(stored.iter().map(|key| &key.id));
    let there: Vec<String> = ids.map(|id| Principal::id_of_key(id)).collect();
    let of_keys = Principal::id_of_key("");
    let is_gone = |principal: &String| principal.starts_with(&of_keys) && !there.contains(principal);
    let gone = counts.into_iter().filter(|(principal, _)| is_gone(principal));
    let finding = |(principal, counted)| {
        Finding::warning(format!("the vault has {counted} of `{principal}`, and there is no such key"))
            .fix(format!("`switchyard secret remove --for {principal}`, unless the key comes back"))
    };
    gone.take(MAX_LISTED).map(finding).collect()
}
