//! Runs the screen: keys, samples, calls and signals in, lines out.
//!
//! Invariants: everything runs in one task, and its end drops all requests. SIGTERM and SIGHUP end it as `q` does. After
//! calls, the screen is drawn at most ten times a second.
//!
//! Not here: what is shown (`model`, `frame`).

use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, pin_mut};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::channel;
use tokio::time::{Instant, sleep_until};

use super::super::super::remote::{Failed, Remote};
use super::super::screen::Screen;
use super::frame;
use super::model::{Effect, GatewayRequest, Model};
use super::screen::Terminal;
use super::seen::StatusSample;
use super::source::{SourceEvent, act, follow, role, sample, tools_of};

/// News that wait for the screen.
const WAITING: usize = 64;
/// Requests of keys that run at a time.
const MAX_WORK: usize = 8;
/// The least time between two drawings that no key caused.
const PACE: Duration = Duration::from_millis(100);

/// The result of a request that a key caused.
enum Done {
    Tools(String, Result<Vec<(String, String)>, String>),
    /// A text to show, and the sample after the action.
    Acted(String, Result<StatusSample, Failed>),
}

/// Shows the servers until the user quits.
pub(super) async fn run(
    remote: &Remote,
    interval: Duration,
    first: StatusSample,
    screen: &mut Screen<'_>,
) -> Result<(), Failed> {
    let mut model = Model::new(remote.origin(), Terminal::size());
    model.role = role(remote).await;
    model.sampled(first);
    let [terminate, interrupt, hangup] =
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let (mut terminate, mut interrupt, mut hangup) = (terminate?, interrupt?, hangup?);
    let (news, mut told) = channel(WAITING);
    let following = follow(remote, interval, &news);
    pin_mut!(following);
    let mut keys = EventStream::new();
    let mut work = FuturesUnordered::new();
    let has_color = screen.has_color;
    let mut terminal = Terminal::enter(screen.out, has_color)?;
    let mut draw_at = Some(Instant::now());
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            () = sleep_until(draw_at.unwrap_or_else(Instant::now)), if draw_at.is_some() => {
                draw_at = None;
                terminal.show(&frame::lines(&model), model.size.0)?;
            }
            event = keys.next() => {
                draw_at = Some(Instant::now());
                // Without a terminal there is nobody to show anything to.
                let Some(Ok(event)) = event else { return Ok(()) };
                match pressed(&mut model, &event) {
                    Some(Effect::Quit) => return Ok(()),
                    Some(Effect::Ask(_)) if work.len() >= MAX_WORK => {
                        model.message = Some("the gateway has not answered yet".into());
                    }
                    Some(Effect::Ask(request)) => work.push(done(remote, request)),
                    None => {}
                }
            }
            Some(done) = work.next() => {
                draw_at = Some(Instant::now());
                match done {
                    Done::Tools(server, tools) => model.offered(&server, tools),
                    Done::Acted(text, after) => {
                        take(&mut model, SourceEvent::Sample(after))?;
                        model.message = Some(text);
                    }
                }
            }
            Some(news) = told.recv() => {
                draw_at = draw_at.or_else(|| Some(Instant::now() + PACE));
                take(&mut model, news)?;
            }
            () = &mut following => return Ok(()),
        }
    }
}

/// Takes an event of the terminal.
fn pressed(model: &mut Model, event: &Event) -> Option<Effect> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => model.press(*key),
        Event::Resize(columns, lines) => {
            model.size = (usize::from(*columns), usize::from(*lines));
            model.settle();
            None
        }
        _ => None,
    }
}

/// Makes the request of a key.
async fn done(remote: &Remote, request: GatewayRequest) -> Done {
    match request {
        GatewayRequest::Act(action) => {
            let text = act(remote, &action).await;
            Done::Acted(text, sample(remote).await)
        }
        GatewayRequest::Tools(server) => {
            let tools = tools_of(remote, &server).await;
            Done::Tools(server, tools)
        }
    }
}

/// Takes news. A gateway that is away is waited for; one that refuses the credential is not.
fn take(model: &mut Model, news: SourceEvent) -> Result<(), Failed> {
    match news {
        SourceEvent::Sample(Ok(sample)) => model.sampled(sample),
        SourceEvent::Sample(Err(failed @ Failed::Denied(_))) => return Err(failed),
        SourceEvent::Sample(Err(Failed::Unreachable { reason, .. })) => model.lost(&reason),
        SourceEvent::Sample(Err(failed)) => model.lost(&failed.to_string()),
        SourceEvent::Call(call) => model.called(call),
        SourceEvent::Missed(count) => model.missed = model.missed.saturating_add(count),
    }
    Ok(())
}
