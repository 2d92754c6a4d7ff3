//! The play: what is done in which order, and what is said about it.

use std::time::Duration;

use super::app::Got;
use super::provider::{self, Answer, Provider};
use super::stage::{Happened, Stage};
use super::voice::{Voice, Who};
use crate::cli::error::CliError;
use crate::cli::output::sanitize;
use crate::client::EventQuery;
use crate::listen::What;
use crate::protocol::events::{Event, ReplayEvents};
use crate::protocol::limits;
use crate::providers::Rendered;

/// How long a person gets to read a step.
const BREATH: Duration = Duration::from_millis(900);
/// How long acks may be on their way.
const ACKS: Duration = Duration::from_secs(10);
/// How often the relay is asked about them.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// All steps, and what they came to.
pub(super) async fn acts(stage: &mut Stage, voice: &mut Voice) -> Result<(), CliError> {
    overture(voice)?;
    parts(stage, voice).await?;
    breathe(voice).await;
    push(stage, voice).await?;
    breathe(voice).await;
    let refused = forgery(stage, voice).await?;
    breathe(voice).await;
    restart(stage, voice).await?;
    breathe(voice).await;
    let failed = bug(stage, voice).await?;
    breathe(voice).await;
    replay(stage, voice, &failed).await?;
    breathe(voice).await;
    curtain(stage, voice, refused).await
}

async fn breathe(voice: &Voice) {
    if voice.is_watched() {
        tokio::time::sleep(BREATH).await;
    }
}

fn overture(voice: &Voice) -> Result<(), CliError> {
    let style = voice.style();
    let name = |text| style.cyan(text);
    voice.tell(&style.bold("How a webhook reaches an app on localhost"))?;
    voice.tell("")?;
    voice.tell(&format!(
        "   {} --POST--> {} <--polls-- {} --POST--> {}",
        name("provider"),
        name("relay"),
        name("listen"),
        name("your app")
    ))?;
    voice.tell("")?;
    voice.tell("All four run in this process now and talk over real sockets. Nothing leaves this machine.")
}

async fn parts(stage: &mut Stage, voice: &mut Voice) -> Result<(), CliError> {
    voice.step("The parts start")?;
    let relay = stage.client.url().as_str().trim_end_matches('/').to_owned();
    voice.says(Who::App, &format!("{}; a sample app that verifies every signature", stage.app.url()))?;
    voice
        .says(Who::Relay, &format!("{relay}; takes webhooks in and keeps them, here in a temporary store"))?;
    stage.until(voice, "the listener", |what| matches!(what, What::Ready(_))).await?;
    let loop_ = format!(
        "polls the relay and POSTs to the app, as `pullhook listen {}/webhooks` does",
        stage.app.port()
    );
    voice.says(Who::Listen, &loop_)?;
    voice.says(Who::Provider, &format!("GitHub knows {}", stage.github.ingress_url))?;
    voice.says(
        Who::Provider,
        &format!("a shop knows {}; each has a secret of its own", stage.shop.ingress_url),
    )
}

async fn push(stage: &mut Stage, voice: &mut Voice) -> Result<(), CliError> {
    voice.step("GitHub sends a push: verified, stored, pulled, forwarded")?;
    let event = fixture(stage, "github.push")?;
    let id = sent(voice, &event, &stage.github.ingress_url, post(stage, &stage.github, &event).await?)?;
    delivered(stage, voice, &id).await
}

async fn forgery(stage: &mut Stage, voice: &mut Voice) -> Result<usize, CliError> {
    voice.step("Somebody forges one: a push like GitHub's, signed with a secret that isn't GitHub's")?;
    let event = fixture(stage, "github.push")?;
    let forger = stage.github.forged(&*stage.dice)?;
    let answer = post(stage, &forger, &event).await?;
    voice.says(Who::Forger, &line(&event, &forger.ingress_url))?;
    if answer.event_id.is_some() {
        return Err(CliError::internal("the relay took a forged webhook"));
    }
    let style = voice.style();
    let refusal = answer.message.unwrap_or_default();
    // The log, which the rest of the sentence is about, is not shown here.
    let refusal = refusal.split(';').next().unwrap_or_default();
    let status = style.red(code(answer.status));
    let rest = "nothing is stored, the app never hears of it";
    voice.says(Who::Relay, &format!("{status} {}; {rest}", sanitize::line(refusal)))?;
    Ok(1)
}

async fn restart(stage: &mut Stage, voice: &mut Voice) -> Result<(), CliError> {
    voice.step("The app is down for a moment, and just then the shop sends an order")?;
    stage.app.stop().await?;
    voice.says(Who::App, &format!("stopped; nothing listens on port {}", stage.app.port()))?;
    let event = fixture(stage, "standard.order.shipped")?;
    let id = sent(voice, &event, &stage.shop.ingress_url, post(stage, &stage.shop, &event).await?)?;
    stage.until(voice, "a closed gate", |what| matches!(what, What::Gate(gate) if !gate.open)).await?;
    stage.app.restart()?;
    voice.says(Who::App, "started again")?;
    stage.until(voice, "an open gate", |what| matches!(what, What::Gate(gate) if gate.open)).await?;
    answered(stage, voice, &id).await
}

async fn bug(stage: &mut Stage, voice: &mut Voice) -> Result<String, CliError> {
    voice.step("The app has a bug: it fails on an invoice")?;
    stage.app.set_broken(true);
    let event = fixture(stage, "standard.invoice.paid")?;
    let id = sent(voice, &event, &stage.shop.ingress_url, post(stage, &stage.shop, &event).await?)?;
    delivered(stage, voice, &id).await?;
    voice.says(Who::Listen, "a failure is final: nothing is retried behind your back while you debug")?;
    // A person would not be faster than the ack.
    settled(stage).await?;
    Ok(id)
}

async fn replay(stage: &mut Stage, voice: &mut Voice, id: &str) -> Result<(), CliError> {
    voice.step("You fix it and replay that event: same id, same bytes, a fresh signature")?;
    stage.app.set_broken(false);
    voice.says(Who::You, &voice.style().bold(format!("pullhook replay {id}")))?;
    let events = ReplayEvents { event_ids: vec![id.to_owned()], ..ReplayEvents::default() };
    let done = stage.client.replay(&events).await?;
    let listeners =
        if done.listeners == 1 { "1 listener".to_owned() } else { format!("{} listeners", done.listeners) };
    voice.says(Who::Relay, &format!("hands it out again, to {listeners}"))?;
    delivered(stage, voice, id).await
}

/// What became of everything, as the relay tells it.
async fn curtain(stage: &Stage, voice: &Voice, refused: usize) -> Result<(), CliError> {
    let events = settled(stage).await?;
    let delivered = events.iter().filter(|event| event.status == "delivered").count();
    let style = voice.style();
    let totals = format!(
        "{} webhooks came in, {delivered} were delivered, {} lost; {refused} forgery was refused",
        events.len(),
        events.len() - delivered
    );
    voice.tell("")?;
    voice.tell(&style.green(totals))
}

/// All events, once the relay knows what became of each: acks are on their way for a moment.
async fn settled(stage: &Stage) -> Result<Vec<Event>, CliError> {
    let query = EventQuery { limit: Some(limits::MAX_PAGE), ..EventQuery::default() };
    let give_up = tokio::time::Instant::now() + ACKS;
    loop {
        let events = stage.client.events(&query).await?.data;
        if events.iter().all(|event| event.status != "pending") || tokio::time::Instant::now() >= give_up {
            return Ok(events);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What to do next, with an app of one's own.
pub(super) fn farewell(voice: &Voice) -> Result<(), CliError> {
    voice.tell("")?;
    voice.tell("Now with your own app, in two terminals:")?;
    commands(voice, &["pullhook listen 3000/webhooks", "pullhook trigger github.push"])
}

/// What to type now, in another terminal.
pub(super) fn invitation(stage: &Stage, voice: &Voice) -> Result<(), CliError> {
    let relay = stage.client.url().as_str().trim_end_matches('/');
    let key = if voice.is_watched() { stage.key.expose().to_owned() } else { stage.key.masked() };
    voice.tell("")?;
    voice.tell("Everything stays up; ^C ends it and leaves nothing behind. Try it from another terminal:")?;
    commands(
        voice,
        &[
            &format!("export PULLHOOK_API_URL={relay} PULLHOOK_API_KEY={key}"),
            "pullhook trigger github.push",
            "pullhook events list",
            "pullhook replay evt_...",
        ],
    )?;
    voice.tell("")
}

fn commands(voice: &Voice, lines: &[&str]) -> Result<(), CliError> {
    lines.iter().try_for_each(|line| voice.tell(&format!("   {}", voice.style().bold(line))))
}

/// Tells whatever happens, until somebody ends it. What comes out of two channels is put in order: the app got an event
/// after the listener said that it has it, and before the listener tells the answer.
pub(super) async fn go_on(stage: &mut Stage, voice: &mut Voice) -> Result<(), CliError> {
    let mut untold = Vec::new();
    loop {
        match stage.next().await {
            Some(Happened::App(got)) if got.forwarded => untold.push(got),
            Some(Happened::App(got)) => app_says(voice, &got)?,
            Some(Happened::Listen(event)) => {
                if let What::Fatal(fatal) = &event.what {
                    return Err(CliError::internal(fatal.message.clone()));
                }
                if let What::Ended(ended) = &event.what {
                    untold.extend(std::iter::from_fn(|| stage.app.try_got()));
                    let this = |got: &Got| {
                        got.event_type == ended.received.event_type && got.replay == ended.received.replay
                    };
                    let any = (!untold.is_empty()).then_some(0);
                    if let Some(at) = untold.iter().position(this).or(any) {
                        app_says(voice, &untold.remove(at))?;
                    }
                }
                voice.heard(&event)?;
            }
            None => return Ok(()),
        }
    }
}

fn fixture(stage: &Stage, name: &str) -> Result<Rendered, CliError> {
    provider::event((&*stage.clock, &*stage.dice), name)
}

async fn post(stage: &Stage, from: &Provider, event: &Rendered) -> Result<Answer, CliError> {
    from.send(&stage.client, event, &*stage.clock).await
}

/// The provider's line and the relay's answer to it; the event's id.
fn sent(voice: &Voice, event: &Rendered, url: &str, answer: Answer) -> Result<String, CliError> {
    voice.says(Who::Provider, &line(event, url))?;
    let id = answer.event_id.ok_or_else(|| {
        CliError::internal(format!(
            "the relay answered {}: {}",
            answer.status,
            answer.message.unwrap_or_default()
        ))
    })?;
    let status = voice.style().green(code(answer.status));
    voice.says(Who::Relay, &format!("{status} signature valid; stored on disk, and only then answered"))?;
    Ok(id)
}

fn line(event: &Rendered, url: &str) -> String {
    let path = url.find("/api/").and_then(|at| url.get(at..)).unwrap_or(url);
    format!("POST {path} ({}, {} bytes, signed as {})", event.event_type, event.body.len(), event.scheme)
}

fn code(status: http::StatusCode) -> String {
    format!("[{}]", status.as_u16())
}

/// The listener takes it, the app gets it, the listener tells the answer.
async fn delivered(stage: &mut Stage, voice: &mut Voice, id: &str) -> Result<(), CliError> {
    let this = |what: &What| matches!(what, What::Received(received) if received.event_id == id);
    stage.until(voice, "the event", this).await?;
    answered(stage, voice, id).await
}

async fn answered(stage: &mut Stage, voice: &mut Voice, id: &str) -> Result<(), CliError> {
    let got = stage.app_got().await?;
    app_says(voice, &got)?;
    let this = |what: &What| matches!(what, What::Ended(ended) if ended.received.event_id == id);
    stage.until(voice, "the answer", this).await
}

fn app_says(voice: &Voice, got: &Got) -> Result<(), CliError> {
    let style = voice.style();
    let verified = match &got.verified {
        Ok(()) => style.green("signature valid"),
        Err(why) => style.red(format!("signature refused, {why}")),
    };
    let replay = if got.replay { " (marked as a replay)" } else { "" };
    let about = if got.status.is_server_error() {
        style.red("then the handler failed")
    } else {
        sanitize::line(&got.about).into_owned()
    };
    voice.says(Who::App, &format!("{}: {verified}, {about}{replay}", sanitize::line(&got.event_type)))
}
