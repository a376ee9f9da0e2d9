//! Ends of grants: a client revokes one of its tokens or sends one that was used before, or another process ended the grant.
//!
//! Invariants: each end that a client causes has an audit line, unless time alone ended the grant. Without room for the line,
//! the grant stays and its client gets nothing. A code or token that was used twice was probably stolen, so its line is a
//! warning and is counted, once for each grant. While principals of grants are here, or several machines share the store, the
//! number of removed grants is read twice a second, and nothing more. Only if it has changed, the keys and the ids of all
//! grants are read, and what runs here with tokens of removed grants ends. A request costs nothing.
//!
//! Not here: ends by people and operators (`administration`), and what ends with a grant (`access`).
//!
//! Source: RFC 7009, section 2; RFC 9700, section 4.14.2.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use crate::error::{Code, Error};
use crate::grant::{Grant, GrantEnd, Presented};
use crate::keys::KeyError;
use crate::records::Stored;
use crate::request_counts::{Answer, CountedEndpoint};
use crate::server::AuthorizationServer;
use crate::store::StoreError;
use crate::token_request::{ClaimedClient, Fields};
use crate::{access_token, seconds};
use runtime::telemetry::audit::{Actor, Full, ReuseAlarm, Subject};
use runtime::telemetry::{RequestId, audit};

/// Seconds after which a request may be repeated if its audit line has no room.
const AUDIT_RETRY: u64 = 1;

impl AuthorizationServer {
    /// Revokes the token in `form`, as the request `id` wants. A token that is not known counts as revoked (RFC 7009,
    /// section 2.2).
    pub async fn revoke(&self, form: &[u8], id: RequestId, now: SystemTime) -> Result<(), Error> {
        let revoked = self.revoke_token(form, id, seconds(now)).await;
        self.count(CountedEndpoint::Revoke, revoked.as_ref().map(|()| Answer::Revoked));
        revoked
    }

    async fn revoke_token(&self, form: &[u8], request: RequestId, now: u64) -> Result<(), Error> {
        let fields = Fields::parse(form)?;
        let (token, claimed) = (fields.require("token")?, ClaimedClient::read(&fields)?);
        let presented = Presented::refresh_token(token);
        let id = match &presented {
            Some(presented) => Some(presented.grant.clone()),
            None => access_token::grant_of(&*self.keys(now).await?, &self.config.issuer, token, now),
        };
        let Some(id) = id else { return Ok(()) };
        let found = self.grants.find(&id).await?;
        let is_own = |stored: &Stored<Grant>| {
            presented.as_ref().is_none_or(|presented| stored.value.has_made(presented))
        };
        let Some(Stored { value: grant, .. }) = found.filter(is_own) else { return Ok(()) };
        self.clients.check(&claimed, &grant, self.audiences(), now).await?;
        let role = grant.access.role.as_str();
        let actor = Actor { principal: &grant.owner, role, request: Some(request) };
        let record = audit::operation(actor, "revoke_token", None).map_err(no_room)?;
        let ended = self.grants.end(&id).await.map(drop).map_err(Error::from);
        if let Some(mut record) = record {
            record.about(subject(&id, &grant));
            record.ended(ended.as_ref().map_or_else(|error| error.code.as_str(), |()| audit::DONE));
        }
        ended
    }

    /// Ends the grant `id`, and returns the error of its client, which sent the request `request`.
    pub(crate) async fn ended(
        &self,
        id: &str,
        grant: &Grant,
        end: GrantEnd,
        request: RequestId,
    ) -> Result<Error, Error> {
        let (reason, theft) = (end.reason(), end.theft());
        let alarm = theft.map(|_| ReuseAlarm::reserve(&grant.owner)).transpose().map_err(no_room)?;
        let is_removed = self.grants.end(id).await?;
        // Another request may have removed it first.
        match theft.zip(alarm) {
            _ if !is_removed => {}
            Some((theft, alarm)) => {
                alarm.ended(&subject(id, grant), theft, request);
                self.counts.reused();
            }
            None => {
                let client = protocol::sanitize::shown(&grant.client);
                tracing::warn!(grant = id, client, reason, "a grant of the authorization server ended");
            }
        }
        Ok(Error::new(Code::InvalidGrant, reason))
    }
}

fn subject(id: &str, grant: &Grant) -> Subject {
    let (grant_id, of) = (Some(id.to_owned()), Some(grant.owner.clone()));
    Subject { grant: grant_id, of, ..Subject::client(&grant.client) }
}

fn no_room(_: Full) -> Error {
    Error::later("the audit log has no room; try again", AUDIT_RETRY)
}

/// The time between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl AuthorizationServer {
    /// Ends what runs here with tokens of grants that other processes ended, and keeps the keys current. Runs as long as the
    /// program.
    pub async fn follow_removals(&self) {
        let (mut before, mut is_logged) = (None, false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Also if no client asks for a token: those of other gateways have to be verified.
            match self.keys.at(seconds(SystemTime::now())).await {
                // The store logs that it cannot be reached.
                Ok(_) | Err(KeyError::Store(_)) => is_logged = false,
                Err(_) if is_logged => {}
                Err(error) => {
                    tracing::error!(%error, "clients get no tokens");
                    is_logged = true;
                }
            }
            // Also without principals, if another machine may have replaced keys that the store has lost.
            if self.keys.are_shared() || self.host.uses_grants() {
                // The requests that need the store log its failures.
                let _ = self.end_removed(&mut before).await;
            }
        }
    }

    /// Ends the grants that are used here and were removed from the store since there were `before` removals.
    pub(crate) async fn end_removed(&self, before: &mut Option<u64>) -> Result<(), StoreError> {
        let removed = self.grants.removed().await?;
        if *before == Some(removed) {
            return Ok(());
        }
        // The number of a store that lost its records, and the keys with them, is another one too.
        self.keys.read_again();
        // Before the ids: each of them was stored at some time, so it was removed if it is not stored now.
        let used = self.host.used_grants();
        if !used.is_empty() {
            let stored: HashSet<String> = self.grants.ids().await?.into_iter().collect();
            for grant in used.iter().filter(|grant| !stored.contains(*grant)) {
                self.host.grant_ended(grant);
            }
        }
        *before = Some(removed);
        Ok(())
    }
}
