//! The benchmark server over standard input and output: one blocking thread, with one read and one
//! write for all messages that have arrived.

use std::io::{Read as _, Write as _};

use super::ServerOptions;
use super::answers::{Answer, Reaction};

/// Serves until standard input ends.
pub fn serve(options: ServerOptions) -> anyhow::Result<()> {
    let character = options.character(None);
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut waiting = Vec::new();
    let mut answers = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        waiting.extend_from_slice(&buffer[..read]);
        let whole = memchr::memrchr(b'\n', &waiting).map_or(0, |at| at + 1);
        for line in waiting[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match character.react(line) {
                Some(Reaction::Answer(answer) | Reaction::Open(answer)) => put(&answer, &mut answers),
                Some(Reaction::Listen(_) | Reaction::Accept) | None => {}
            }
        }
        waiting.drain(..whole);
        output.write_all(&answers)?;
        output.flush()?;
        answers.clear();
    }
}

fn put(answer: &Answer, answers: &mut Vec<u8>) {
    answers.reserve(answer.length() + 1);
    for part in [&answer.head, &answer.middle, &answer.tail] {
        answers.extend_from_slice(part);
    }
    answers.push(b'\n');
}
