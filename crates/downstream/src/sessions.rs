//! Sessions of the legacy era: owners, lifetimes, running requests and slots for clients.
//!
//! Invariants: there are at most `max_sessions`, and no principal can keep the others from opening some (`table`).
//! A session belongs to one principal and one endpoint; for all others its id is unknown. [`Sessions::sweep`]
//! removes idle sessions and sessions whose last used credential was revoked. If all slots are taken, an unused session gives up
//! its slot. A refused client costs no more than an accepted one.
//!
//! Not here: HTTP. The pipe of `switchyard stdio` is one session of its own.

mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::MessageRefusal;
use super::questions::Questions;
use super::replay::{Log, Replay, RetainedBytes};
use crate::admission::{Full, Slot, Slots};
use auth::Principal;
use gateway::manager::Scope;
use gateway::{Caller, era};
use protocol::{ErrorCode, Notification, RequestId, method};
use runtime::telemetry::limit::Limit;
use table::{Returned, SessionTable};
use upstream::{ClientSession, ForwardedHeaders};

/// Limit of concurrent requests of one session.
const MAX_RUNNING: usize = 256;
/// Longest interval between two sweeps.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// One client's session.
pub struct Session {
    /// The client: its principal, capabilities and visible servers.
    pub caller: Arc<Caller>,
    /// Server requests that the client has not answered yet.
    pub questions: Arc<Questions>,
    /// Recorded events of its streams.
    pub(super) replay: Replay,
    /// The stream of messages that belong to no request.
    own_stream: OnceLock<Arc<Log>>,
    /// Whether one channel carries the whole session, so that `/mcp` cannot find it.
    is_channel: bool,
    id: Arc<str>,
    state: Mutex<State>,
    returned: Returned,
    ended: CancellationToken,
}

struct State {
    /// The principal that used the session last: the owner, perhaps with another credential.
    holder: Principal,
    last_used: Instant,
    /// Open streams and running requests. A session that has any is not idle.
    open: usize,
    /// Whether the table counts this session as in use and must be notified when it no longer is.
    is_set_aside: bool,
    running: HashMap<RequestId, CancellationToken>,
    /// The client slot of the session, held until the session ends; none for a pipe.
    place: Option<Slot>,
}

impl Session {
    /// Returns the client, for a request whose calls carry `forwarded` on.
    pub(crate) fn caller_of(&self, forwarded: Option<ForwardedHeaders>) -> Arc<Caller> {
        match forwarded {
            None => Arc::clone(&self.caller),
            forwarded => Arc::new(Caller::clone(&self.caller).forwarding(forwarded)),
        }
    }

    fn new(caller: Caller, (retained, returned): (RetainedBytes, Returned), is_channel: bool) -> Self {
        let questions = Arc::<Questions>::default();
        let (holder, last_used) = (caller.principal.clone(), Instant::now());
        let replay = Replay::new(Arc::clone(&questions), retained, holder.id());
        let running = HashMap::new();
        let state = State { holder, last_used, open: 0, is_set_aside: false, running, place: None };
        Self {
            caller: Arc::new(caller),
            replay,
            questions,
            own_stream: OnceLock::new(),
            is_channel,
            id: Uuid::new_v4().simple().to_string().into(),
            state: Mutex::new(state),
            returned,
            ended: CancellationToken::new(),
        }
    }

    /// A session outside any table, for a pipe.
    pub(crate) fn alone(caller: Caller) -> Arc<Self> {
        let session = Arc::new(Self::new(caller, (RetainedBytes::default(), Returned::default()), true));
        session.caller.affinity.belongs_to(&session);
        session
    }

    /// The session id, 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Registers the request `id`. Fails if this id is already running, if too many requests run, or if the
    /// session has ended.
    pub fn begin(self: &Arc<Self>, id: &RequestId) -> Result<SessionRequest, MessageRefusal> {
        if self.ended.is_cancelled() {
            return Err(MessageRefusal::unknown_session());
        }
        let cancel = self.ended.child_token();
        let mut state = self.state();
        if state.running.contains_key(id) {
            let text = "a request with this id is already running";
            return Err(MessageRefusal::new(ErrorCode::IdInUse, text));
        }
        if state.running.len() >= MAX_RUNNING {
            return Err(Limit::SessionRequests.met(MessageRefusal::too_many_requests()));
        }
        state.running.insert(id.clone(), cancel.clone());
        state.open += 1;
        drop(state);
        Ok(SessionRequest { session: self.clone(), id: id.clone(), cancel })
    }

    /// Stops the request `id`, if it is running.
    pub fn cancel(&self, id: &RequestId) {
        if let Some(cancel) = self.state().running.get(id) {
            cancel.cancel();
        }
    }

    /// Applies a notification of the client to its session.
    pub fn record(&self, notice: &Notification) {
        if notice.method == method::CANCELLED {
            let id = notice.params.as_ref().and_then(|params| params.get("requestId"));
            if let Some(id) = id.and_then(RequestId::from_raw) {
                self.cancel(&id);
            }
        } else if notice.method == method::ROOTS_LIST_CHANGED {
            self.caller.affinity.roots_changed();
        }
    }

    /// Returns the stream of messages that belong to no request. Only one connection reads it at a time: an
    /// older connection, whose client may be gone without a trace, is ended.
    pub(super) fn own_stream(&self) -> &Arc<Log> {
        self.own_stream.get_or_init(|| self.replay.open())
    }

    /// Keeps the session from becoming idle while a client reads from it.
    pub fn hold(self: &Arc<Self>) -> SessionReader {
        self.state().open += 1;
        SessionReader(self.clone())
    }

    /// The number of running requests.
    pub fn running(&self) -> usize {
        self.state().running.len()
    }

    /// Ends the session and everything that runs in it.
    pub fn end(&self) {
        self.ended.cancel();
        self.questions.close();
        self.replay.close();
        if let Some(mailbox) = &self.caller.mailbox {
            mailbox.close();
        }
        self.caller.affinity.end();
        // Freed now, although streams that have not yet seen the end keep the session for a moment.
        self.state().place = None;
    }

    /// Resolves when the session has ended.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The id of the owner, which does not depend on role or credential.
    fn owner(&self) -> &Arc<str> {
        self.caller.principal.id()
    }

    /// Since when the session is unused; none while it is in use.
    fn unused_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.open == 0).then_some(state.last_used)
    }

    fn is_idle(&self, limit: Duration) -> bool {
        self.unused_since().is_some_and(|since| since.elapsed() >= limit)
    }

    /// Whether the last used credential was revoked.
    fn is_revoked(&self) -> bool {
        self.state().holder.is_revoked()
    }

    fn close_one(&self, id: Option<&RequestId>) {
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        state.last_used = Instant::now();
        if let Some(id) = id {
            state.running.remove(id);
        }
        if state.open == 0 && std::mem::take(&mut state.is_set_aside) {
            self.returned.push(&self.id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state would be consistent even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id works like a credential, so it must not be logged.
        write!(f, "Session({})", self.caller.version)
    }
}

/// A running request of a session. Dropping it unregisters the request.
#[derive(Debug)]
pub struct SessionRequest {
    session: Arc<Session>,
    id: RequestId,
    /// Cancelled by `notifications/cancelled` and by the end of the session.
    pub cancel: CancellationToken,
}

impl SessionRequest {
    /// Server requests that the session's client has not answered yet.
    pub fn questions(&self) -> &Arc<Questions> {
        &self.session.questions
    }
}

impl Drop for SessionRequest {
    fn drop(&mut self) {
        self.session.close_one(Some(&self.id));
    }
}

/// A reader of a session. Dropping it releases the session.
#[derive(Debug)]
pub struct SessionReader(Arc<Session>);

impl SessionReader {
    /// The session it belongs to.
    pub const fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionReader {
    fn drop(&mut self) {
        self.0.close_one(None);
    }
}

/// All sessions of an endpoint.
pub struct Sessions {
    table: RwLock<SessionTable>,
    /// The time of the last sweep.
    swept: Mutex<Option<Instant>>,
    /// Counts the bytes of the ended streams of all sessions.
    retained: RetainedBytes,
    returned: Returned,
    max: usize,
    idle: Duration,
    places: Slots,
}

impl Sessions {
    /// An empty table: at most `max` sessions, each gone after being idle for `idle`.
    pub fn new(max: usize, idle: Duration) -> Self {
        let returned = Returned::default();
        let table = RwLock::new(SessionTable::new(max, returned.clone()));
        let places = Slots::new(usize::MAX);
        Self {
            table,
            swept: Mutex::default(),
            retained: RetainedBytes::default(),
            returned,
            max,
            idle,
            places,
        }
    }

    /// Makes each session take one of `places`, which it shares with requests without a session.
    #[must_use]
    pub fn among(self, places: Slots) -> Self {
        Self { places, ..self }
    }

    /// Opens a session. If all slots are taken, an unused session gives up its slot (`SessionTable::displaced_by`);
    /// the session is refused if all are in use.
    pub fn open(&self, caller: Caller) -> Result<Arc<Session>, MessageRefusal> {
        self.open_as(caller, false)
    }

    /// Opens a session that one channel carries; `find` does not return it.
    pub(crate) fn open_channel(&self, caller: Caller) -> Result<Arc<Session>, MessageRefusal> {
        self.open_as(caller, true)
    }

    fn open_as(&self, caller: Caller, is_channel: bool) -> Result<Arc<Session>, MessageRefusal> {
        let place = self.place_for(caller.principal.id())?;
        let session = Session::new(caller, (self.retained.clone(), self.returned.clone()), is_channel);
        session.state().place = Some(place);
        self.add(session).ok_or_else(|| Limit::Sessions.met(MessageRefusal::too_many_sessions(self.max)))
    }

    /// The session `id`, if it belongs to `principal` and to `scope`.
    pub fn find(&self, id: &str, principal: &Principal, scope: &Scope) -> Option<Arc<Session>> {
        let table = self.read();
        let session = table.get(id).filter(|session| {
            let caller = &session.caller;
            // The role is compared too: a session must not lend the rights of its opener.
            let is_theirs = caller.principal == *principal && caller.scope == *scope;
            is_theirs && !session.is_channel && !session.ended.is_cancelled()
        })?;
        let mut state = session.state();
        if !state.holder.is_copy_of(principal) {
            // `sweep` holds the table's lock too, so no request with a revoked credential can use a session
            // after a sweep.
            // sweep.
            if principal.is_revoked() {
                return None;
            }
            state.holder = principal.clone();
        }
        state.last_used = Instant::now();
        drop(state);
        Some(session.clone())
    }

    /// Ends a session and removes it.
    pub fn close(&self, session: &Session) {
        session.end();
        self.write().remove(&session.id);
    }

    /// Ends every session.
    pub fn close_all(&self) {
        let mut table = self.write();
        let all = std::mem::replace(&mut *table, SessionTable::new(self.max, self.returned.clone()));
        all.iter().for_each(|session| session.end());
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.read().len()
    }

    /// The number of client slots in use, by sessions or by requests.
    pub fn clients(&self) -> usize {
        self.places.taken()
    }

    /// Bytes of recorded events of ended streams.
    pub fn kept_bytes(&self) -> usize {
        self.retained.bytes()
    }

    /// Removes sessions that were idle too long, and those whose credential was revoked.
    pub fn sweep(&self) {
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let mut table = self.write();
        let goes = |session: &Arc<Session>| {
            session.ended.is_cancelled() || session.is_idle(self.idle) || session.is_revoked()
        };
        let (gone, retained): (Vec<_>, Vec<_>) = table.iter().cloned().partition(goes);
        for session in gone {
            session.end();
            table.remove(&session.id);
        }
        drop(table);
        for session in retained {
            session.replay.sweep();
        }
    }

    /// Sweeps periodically, so that idle sessions are removed even if no new ones are opened.
    pub async fn sweep_forever(&self) {
        loop {
            tokio::time::sleep((self.idle / 4).clamp(Duration::from_secs(1), SWEEP_EVERY)).await;
            self.sweep();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, SessionTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SessionTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shortest interval between two sweeps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Sessions {
    /// Takes a slot for a client of the principal `owner`. If all are taken, an unused session gives up its
    /// slot. If only the share of the principal is taken, it has to be a session of its own.
    pub fn place_for(&self, owner: &str) -> Result<Slot, Full> {
        let named = Some(owner).filter(|owner| !Principal::is_anonymous_id(owner) && !owner.is_empty());
        let place = self.places.take(named).or_else(|full| {
            let mut table = self.write();
            let displaced = if full.is_share { table.displaced_of(owner) } else { table.displaced_by(owner) };
            drop(table);
            let place = displaced.and_then(|session| session.give_way());
            place.map(|place| place.moved_to(named)).ok_or(full)
        });
        place.map_err(|full| Limit::Connections.met(full))
    }

    /// Adds a session to the table; none if there is no room.
    fn add(&self, session: Session) -> Option<Arc<Session>> {
        let session = Arc::new(session);
        session.caller.affinity.belongs_to(&session);
        if self.count() >= self.max && self.may_look() {
            self.sweep();
        }
        let mut table = self.write();
        let displaced = if table.is_full() { Some(table.displaced_by(session.owner())?) } else { None };
        table.insert(Arc::clone(&session));
        drop(table);
        if let Some(displaced) = displaced {
            displaced.give_way();
        }
        // A sweep for revoked credentials may have run before the session was added.
        if session.is_revoked() {
            self.close(&session);
        }
        Some(session)
    }

    /// Whether the last sweep was long enough ago.
    fn may_look(&self) -> bool {
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.is_none_or(|swept| swept.elapsed() >= LOOK_EVERY)
    }
}

impl Session {
    /// Ends an unused session and returns its slot for another client.
    fn give_way(&self) -> Option<Slot> {
        tracing::debug!(owner = %self.owner(), "ended the session that was unused for longest: all slots are taken");
        let place = self.state().place.take();
        self.end();
        place
    }

    /// Since when the session is unused, for the table. A session in use notifies the table later.
    fn unused_or_set_aside(&self) -> Option<Instant> {
        let mut state = self.state();
        state.is_set_aside = state.open > 0;
        (state.open == 0).then_some(state.last_used)
    }
}

impl ClientSession for Session {
    fn unused_since(&self) -> Option<Instant> {
        // A channel is in use as long as its session lasts.
        if self.is_channel { None } else { Self::unused_since(self) }
    }

    fn notice(&self, notice: Notification) {
        if let Some(mailbox) = &self.caller.mailbox
            && let Some(notice) = era::notice(&self.caller, notice, None)
        {
            mailbox.put(notice, None);
        }
    }

    fn displace(&self) {
        drop(self.give_way());
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
