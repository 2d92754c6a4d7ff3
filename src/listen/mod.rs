//! The pull loop of `pullhook listen`: open a listener, long-poll it, POST each delivery once, ack the outcome.
//!
//! It tells what happens as typed [`Event`]s, takes its clock, dice and numbers from [`ListenOptions`], and knows
//! nothing of command lines, files or terminals. It speaks the public listener contract and uses what is **ext**
//! only where a server shows that it has it.

mod ack;
mod cause;
mod control;
mod destination;
mod event;
mod flow;
mod forward;
mod gate;
mod hint;
mod lease;
mod ledger;
mod link;
mod machine;
mod options;
mod resign;
mod sequence;
mod timing;
mod watch;

pub use cause::Cause;
pub use control::{Command, Control, Handle, control};
pub use event::{
    Checkpoint, End, Ended, Event, Fatal, FatalKind, Gate, Missed, Notice, Outcome, Ready, Received,
    ReopenedFrom, Sent, Skip, Summary, What,
};
pub use hint::{Hint, Signed};
pub use options::{BadHeader, ListenOptions, Relocate, SignAs, Since, UserHeader};
pub use timing::Timing;

use tokio::sync::mpsc;

use crate::http::{ConnectError, HttpError, Loopback, LoopbackSettings};
use forward::Forwarder;
use link::Link;
use machine::Machine;
use resign::Signer;

/// Listens until it is stopped, has what it was told to wait for, or can't go on. What happens goes to `events`,
/// the totals last; when the other end of `events` is dropped, that is a stop.
pub async fn run(options: ListenOptions, events: mpsc::Sender<Event>, control: Control) -> Summary {
    let loopback = Loopback::new(LoopbackSettings {
        allow_remote: options.allow_remote,
        skip_verify: options.skip_verify,
        ca: options.ca.clone(),
        keep_alive: options.timing.keep_alive,
        connect: options.timing.connect,
    });
    let link = match prepare(&options, &loopback).await {
        Ok(link) => link,
        Err(fatal) => return refuse(&options, &events, fatal).await,
    };
    let forwarder = Forwarder {
        loopback,
        signer: Signer::new(options.sign.clone(), options.headers.clone()),
        clock: options.clock.clone(),
        timeout: options.timeout,
        append_path: options.append_path,
    };
    Machine::new(options, link, forwarder).run(events, control).await
}

/// What can be refused before anything runs: targets that aren't on this machine, settings of the relay leg.
async fn prepare(options: &ListenOptions, loopback: &Loopback) -> Result<Link, Fatal> {
    for target in options.targets() {
        let to = destination::Destination::from(target);
        loopback.check(&to.endpoint).await.map_err(|error| {
            let hint =
                matches!(error, ConnectError::NotLoopback { .. }).then(|| Hint::AllowRemote.to_string());
            Fatal { kind: FatalKind::Target, message: format!("{target}: {error}"), hint }
        })?;
    }
    let link =
        Link::new(&options.relay_url, &options.api_key, &options.relay_http, options.timing.poll_slack);
    link.map_err(|error: HttpError| Fatal {
        kind: FatalKind::Refused,
        message: error.to_string(),
        hint: None,
    })
}

async fn refuse(options: &ListenOptions, events: &mpsc::Sender<Event>, fatal: Fatal) -> Summary {
    let end = End::Fatal(fatal.kind);
    let summary = Summary { received: 0, delivered: 0, failed: 0, skipped: 0, fenced: 0, end };
    for what in [What::Fatal(fatal), What::Summary(summary)] {
        let _nobody = events.send(Event { at: options.clock.now(), what }).await;
    }
    summary
}
