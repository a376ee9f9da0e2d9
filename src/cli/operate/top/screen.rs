//! The terminal while `top` has it.
//!
//! Invariants: the terminal is as before when this is dropped, and before the text of a panic is written.
//!
//! Not here: what the lines say (`frame`).

use std::io::{self, Write};
use std::{panic, thread};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::terminal::{
    BeginSynchronizedUpdate, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};

use super::line::Line;

/// The terminal in raw mode, with its second screen.
pub(super) struct Terminal<'o> {
    out: &'o mut dyn Write,
    has_color: bool,
}

impl<'o> Terminal<'o> {
    /// Takes the terminal.
    pub(super) fn enter(out: &'o mut dyn Write, has_color: bool) -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on, an error drops it.
        let terminal = Self { out, has_color };
        let mut begin = Vec::new();
        queue!(begin, EnterAlternateScreen, Hide, DisableLineWrap)?;
        terminal.out.write_all(&begin)?;
        let (report, ours) = (panic::take_hook(), thread::current().id());
        panic::set_hook(Box::new(move |about| {
            if thread::current().id() == ours {
                restore(&mut io::stdout());
            }
            report(about);
        }));
        Ok(terminal)
    }

    /// Returns the columns and lines; those of an old terminal if it does not say.
    pub(super) fn size() -> (usize, usize) {
        let (columns, lines) = size().unwrap_or((80, 24));
        (columns.into(), lines.into())
    }

    /// Shows these lines, at once where the terminal can.
    pub(super) fn show(&mut self, lines: &[Line], width: usize) -> io::Result<()> {
        let mut frame = Vec::new();
        queue!(frame, BeginSynchronizedUpdate)?;
        for (row, line) in (0..).zip(lines) {
            queue!(frame, MoveTo(0, row))?;
            frame.extend_from_slice(line.written(width, self.has_color).as_bytes());
        }
        queue!(frame, EndSynchronizedUpdate)?;
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // After a panic it is restored already. A second time would move the cursor onto the text of the panic.
        if !thread::panicking() {
            drop(panic::take_hook());
            restore(self.out);
        }
    }
}

/// Gives the terminal back. If it is gone, there is nothing to restore.
fn restore(out: &mut dyn Write) {
    let mut end = Vec::new();
    let _ = queue!(end, EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = out.write_all(&end).and_then(|()| out.flush());
    let _ = disable_raw_mode();
}
