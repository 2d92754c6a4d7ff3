//! `pullhook demo`: the main job, shown on a relay of its own: a sample app, a listener, and providers whose webhooks
//! go in through the front door; over real sockets, each step explained as it happens.

mod app;
mod play;
mod provider;
mod stage;
mod voice;

use clap::Args;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::{logging, signals};
use stage::Stage;
use voice::Voice;

/// `demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// End by itself after the last step, instead of staying up to be played with
    #[arg(long)]
    once: bool,
}

/// Plays, stays up until ^C unless told otherwise, and leaves nothing behind.
pub(super) fn run(context: &Context, args: &DemoArgs) -> Result<Exit, CliError> {
    let format = context.format()?;
    refuse_a_relay(context)?;
    let timing = context.env.timing()?;
    // That a forgery is refused is part of the story, and told there.
    logging::start_with(context, "error")?;
    context.block_on(async {
        let mut signals = signals::listen()?;
        let mut voice = Voice::new(context.printer, format);
        let mut stage = tokio::select! {
            stage = Stage::set(context, timing) => stage?,
            () = signals.next() => return Ok(Exit::Done),
        };
        let played = tokio::select! {
            played = perform(&mut stage, &mut voice, args.once) => played,
            () = signals.next() => Ok(()),
        };
        tokio::select! {
            () = stage.end(&mut voice) => {}
            // Asked twice: at once.
            () = signals.next() => return Ok(Exit::Forced),
        }
        played.map(|()| Exit::Done)
    })
}

async fn perform(stage: &mut Stage, voice: &mut Voice, once: bool) -> Result<(), CliError> {
    play::acts(stage, voice).await?;
    if once {
        return play::farewell(voice);
    }
    play::invitation(stage, voice)?;
    play::go_on(stage, voice).await
}

/// The demo shows a relay; which one is no choice.
fn refuse_a_relay(context: &Context) -> Result<(), CliError> {
    let named =
        [("--api-url", context.globals.api_url.is_some()), ("--profile", context.globals.profile.is_some())];
    match named.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(CliError::usage(format!("demo has a relay of its own, and {flag} names another")))
        }
        None => Ok(()),
    }
}
