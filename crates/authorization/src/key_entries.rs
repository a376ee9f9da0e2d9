//! Where the keys are, and how they are changed: in the vault, or in the store that several machines share.
//!
//! Invariants: an entry changes by one process at a time. In the store it is sealed by the key of the vault, which the
//! gateways share, and for its issuer. An entry that does not open, or cannot be read, is never replaced.

use std::io;
use std::sync::Arc;

use auth::vault::{self, Entry, EntryKind, Vault};
use secrecy::zeroize::Zeroizing;

use crate::store::{Store, StoreError, Table};

/// The id of the entry in the store.
const ID: &str = "keys";
/// How often a change is repeated because other processes changed the keys meanwhile.
const MAX_TURNS: usize = 8;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The vault cannot be used.
    #[error("the keys of the authorization server: {0}")]
    Vault(#[from] vault::Error),
    /// The store cannot be used.
    #[error("the keys of the authorization server: {0}")]
    Store(#[from] StoreError),
    /// The gateways do not share a key.
    #[error("the authorization server needs `vault_key`, which all gateways share that use its store")]
    NotShared,
    /// Another gateway has another key.
    #[error(
        "the keys of the authorization server in Redis were sealed with another `vault_key`: give all gateways that \
         use this Redis for one `public_url` the same one"
    )]
    Foreign,
    /// The entry has another form than it should have.
    #[error("the keys of the authorization server cannot be read; another version may have written them")]
    Form,
    /// No key could be made.
    #[error("the system could not make a key for the authorization server")]
    Generation,
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error,
            error => Self { action: "opened", source: io::Error::other(error) },
        }
    }
}

/// What an edit makes of the entry, or none if nothing has to change.
pub(crate) type Edited = Result<Option<Zeroizing<Vec<u8>>>, KeyError>;

/// Where the keys are.
pub(crate) struct KeyEntries {
    vault: Arc<Vault>,
    /// The store, if they are in it, and what the keys are sealed for.
    shared: Option<(Arc<dyn Store>, Vec<u8>)>,
}

impl KeyEntries {
    /// The keys of `issuer`.
    pub(crate) fn new(vault: Arc<Vault>, store: &Arc<dyn Store>, issuer: &str) -> Self {
        let shared = || (Arc::clone(store), format!("keys of {issuer}").into_bytes());
        Self { vault, shared: store.is_shared().then(shared) }
    }

    /// Whether they are in the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the entry, changed as `edit` says.
    pub(crate) async fn changed(
        &self,
        edit: impl Fn(Option<&[u8]>) -> Edited + Send + 'static,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        if let Some((store, context)) = &self.shared {
            return self.changed_in_store(&**store, context, edit).await;
        }
        let entry = Entry { kind: EntryKind::Authorization, name: ID.to_owned(), principal: None };
        let stored = self.vault.get(&entry)?;
        if edit(stored.as_ref().map(|value| value.as_slice()))?.is_some() {
            self.vault.update(&entry, move |before| edit(before).ok().flatten()).await?;
            return self.vault.get(&entry)?.ok_or(KeyError::Generation);
        }
        stored.ok_or(KeyError::Generation)
    }

    async fn changed_in_store(
        &self,
        store: &dyn Store,
        context: &[u8],
        edit: impl Fn(Option<&[u8]>) -> Edited,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let keys = self.vault.configured_keys();
        let first = keys.first().ok_or(KeyError::NotShared)?;
        for _ in 0..MAX_TURNS {
            let sealed = store.get(Table::Keys, ID).await?;
            let text =
                sealed.as_deref().map(|sealed| std::str::from_utf8(sealed).map_err(|_| KeyError::Foreign));
            let text = text.transpose()?;
            let opened = text.map(|text| {
                let mut opened =
                    keys.iter().enumerate().filter_map(|(at, key)| Some((at, key.open(context, text)?)));
                opened.next().ok_or(KeyError::Foreign)
            });
            let opened = opened.transpose()?;
            let edited = edit(opened.as_ref().map(|(_, plain)| plain.as_slice()))?;
            let next = match (edited, opened) {
                (Some(next), _) => next,
                (None, Some((0, plain))) => return Ok(plain),
                // Sealed again, so that the key of the vault that opened it can go.
                (None, Some((_, plain))) => plain,
                (None, None) => return Err(KeyError::Generation),
            };
            let failed = |source| StoreError { action: "sealed", source };
            let resealed = first.seal(context, &next).map_err(failed)?;
            if store.swap(Table::Keys, ID, sealed.as_deref(), Some(resealed.as_bytes())).await? {
                return Ok(next);
            }
        }
        Err(KeyError::Generation)
    }
}
