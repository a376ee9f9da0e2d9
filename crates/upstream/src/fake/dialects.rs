//! Connecting to the fake server in memory, and its dialects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{BoxFuture, pending};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Dial, Fake, FakeConnection};
use crate::connection::{Connection, Connector, Dialect, Events};
use crate::error::Error;
use protocol::{Abilities, Era, Version};

impl Connector for Fake {
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        self.0.connects.fetch_add(1, Ordering::SeqCst);
        let (server, dial) = (self.clone(), self.lock().dial);
        Box::pin(async move {
            match dial {
                Dial::Accept => {}
                Dial::AcceptAfter(pause) => sleep(pause).await,
                Dial::Refuse => return Err(Error::Connect { reason: "connection refused".into() }),
                Dial::Hang => pending().await,
            }
            server.accept(events, &dialect)
        })
    }

    fn stderr(&self) -> Option<Vec<String>> {
        Some(vec!["it is ready".to_owned()])
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        self.lock().eras.speaks(era)
    }

    fn declares(&self, abilities: Abilities) -> Abilities {
        if self.lock().is_exact { abilities } else { Abilities::WITHOUT_ROOTS }
    }

    fn is_a_process(&self) -> bool {
        self.lock().is_process
    }

    fn requests_per_connection(&self) -> usize {
        self.0.capacity.load(Ordering::SeqCst)
    }
}

impl Fake {
    fn accept(&self, events: Events, dialect: &Dialect) -> Result<Arc<dyn Connection>, Error> {
        let (end, ended) = watch::channel(None);
        let mut state = self.lock();
        let mut peer = state.peer.clone();
        if let Some(legacy) = state.also {
            if dialect.era == Era::Legacy && !legacy.is_modern() {
                peer.version = legacy;
            }
        } else if dialect.era != peer.era() && state.eras.speaks(peer.era()) == Some(true) {
            state.eras.record(dialect.era, false);
            return Err(Error::Connect { reason: "initialize was refused".into() });
        }
        state.eras.record(peer.era(), true);
        if peer.era() != dialect.era {
            state.eras.record(dialect.era, false);
        }
        state.dialects.push(Dialect { era: peer.era(), ..dialect.clone() });
        state.events = Some(events);
        state.live.push(end.clone());
        Ok(Arc::new(FakeConnection { server: self.clone(), peer, end, ended }))
    }

    /// Makes it speak this revision too.
    pub fn also(&self, version: Version) {
        self.lock().also = Some(version);
    }

    /// Makes legacy connections declare exactly what their callers can do.
    pub fn declares_exactly(&self) {
        self.lock().is_exact = true;
    }

    /// Makes each of its connections a process.
    pub fn is_a_process(&self) {
        self.lock().is_process = true;
    }

    /// Returns the dialects in which it was connected to, in their order.
    pub fn dialects(&self) -> Vec<(Era, String)> {
        let shown = |dialect: &Dialect| (dialect.era, dialect.capabilities.as_str().to_owned());
        self.lock().dialects.iter().map(shown).collect()
    }

    /// Closes its connections of one era from its side.
    pub fn die_in(&self, era: Era, reason: &str) {
        let mut state = self.lock();
        let eras: Vec<Era> = state.dialects.iter().map(|dialect| dialect.era).collect();
        for (connection, _) in state.live.iter_mut().zip(eras).filter(|(_, other)| *other == era) {
            connection.send_if_modified(|end| end.replace(reason.to_owned()).is_none());
        }
    }
}
