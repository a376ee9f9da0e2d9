//! The keys and their effects.
//!
//! Invariants: an action on a server is an effect only after `y`, and only if the role allows it.
//!
//! Not here: reading keys from the terminal (`live`).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Action, Effect, GatewayRequest, Model, Overlay, ServerCommand, Tools, TopView};

/// The keys with their meaning, for the list of keys.
pub(super) const HELP: [(&str, &str); 11] = [
    ("↑ ↓ j k", "select a server; scroll"),
    ("PgUp PgDn", "a page up or down"),
    ("Home End g G", "the first, the last"),
    ("Enter", "the selected server: its last calls and tools"),
    ("Esc", "back; no filter"),
    ("s", "sort by the next column"),
    ("/", "show the servers with these letters"),
    ("r", "reset the breaker (superuser)"),
    ("c", "connect again (superuser)"),
    ("?", "these keys"),
    ("q Ctrl-C", "quit"),
];

/// The role that may act on servers.
const OPERATOR: &str = "superuser";
/// The most characters of a filter.
const MAX_FILTER: usize = 64;

impl Model {
    /// Takes a key, and returns what has to be done.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Effect::Quit);
        }
        self.message = None;
        let effect = match self.overlay.take() {
            Some(Overlay::Help) => None,
            Some(Overlay::Filter) => self.type_filter(key.code),
            Some(Overlay::Confirm(action)) if key.code == KeyCode::Char('y') => {
                let doing = match action.deed {
                    ServerCommand::ResetBreaker => "resetting the breaker…",
                    ServerCommand::Reconnect => "connecting again…",
                };
                self.message = Some(doing.into());
                Some(Effect::Ask(GatewayRequest::Act(action)))
            }
            Some(Overlay::Confirm(_)) => {
                self.message = Some("nothing was done".into());
                None
            }
            None => self.press_in_view(key.code),
        };
        self.settle();
        effect
    }

    fn press_in_view(&mut self, code: KeyCode) -> Option<Effect> {
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?') => self.overlay = Some(Overlay::Help),
            KeyCode::Char('r') => self.ask(ServerCommand::ResetBreaker),
            KeyCode::Char('c') => self.ask(ServerCommand::Reconnect),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-self.page().cast_signed()),
            KeyCode::PageDown => self.go(self.page().cast_signed()),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            _ if self.view != TopView::List => {
                if matches!(code, KeyCode::Esc | KeyCode::Left | KeyCode::Backspace) {
                    self.view = TopView::List;
                }
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.overlay = Some(Overlay::Filter),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter | KeyCode::Right => return self.open(),
            _ => {}
        }
        None
    }

    /// Shows the selected server.
    fn open(&mut self) -> Option<Effect> {
        let server = self.current()?.seen.name.clone();
        self.is_chosen = true;
        self.tools = Tools::Unknown;
        self.view = TopView::Detail { server: server.clone(), scroll: 0 };
        Some(Effect::Ask(GatewayRequest::Tools(server)))
    }

    /// Asks for a confirmation, if the role may act on servers. If the role is not known, the gateway decides.
    fn ask(&mut self, deed: ServerCommand) {
        let Some(server) = self.current().map(|server| server.seen.name.clone()) else { return };
        match self.role.as_deref() {
            None | Some(OPERATOR) => {
                self.is_chosen = true;
                self.overlay = Some(Overlay::Confirm(Action { deed, server }));
            }
            Some(role) => {
                self.message = Some(format!("that needs the role {OPERATOR}; this credential is a {role}"));
            }
        }
    }

    /// Selects another row, or scrolls. It stops at both ends.
    fn go(&mut self, by: isize) {
        let limit = match &self.view {
            TopView::List => self.rows().len().saturating_sub(1),
            TopView::Detail { .. } => super::detail::lines(self).len().saturating_sub(self.body()),
        };
        match &mut self.view {
            TopView::Detail { scroll, .. } => *scroll = scroll.saturating_add_signed(by).min(limit),
            TopView::List => {
                let rows = self.rows();
                let is_selected = |name: &str| self.selected.as_deref() == Some(name);
                let at = rows.iter().position(|server| is_selected(&server.seen.name)).unwrap_or(0);
                let to = at.saturating_add_signed(by).min(limit);
                self.selected = rows.get(to).map(|server| server.seen.name.clone());
                self.is_chosen = true;
            }
        }
    }

    fn type_filter(&mut self, code: KeyCode) -> Option<Effect> {
        match code {
            KeyCode::Enter => return None,
            KeyCode::Esc => {
                self.filter.clear();
                return None;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER => self.filter.push(c),
            _ => {}
        }
        self.overlay = Some(Overlay::Filter);
        None
    }
}
