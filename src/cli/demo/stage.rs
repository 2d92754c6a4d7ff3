//! The parts and their sockets: an isolated relay, the sample app, two providers, and the pull loop between them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::app::{App, Got};
use super::provider::Provider;
use super::voice::Voice;
use crate::cli::context::Context;
use crate::cli::embedded::Home;
use crate::cli::embedded::home::{Attached, Temporary};
use crate::cli::error::CliError;
use crate::client::Client;
use crate::clock::{Clock, Dice};
use crate::listen::{self, Event, Handle, ListenOptions, SignAs, Summary, Timing, What};
use crate::relay::ProjectRef;
use crate::secret::Secret;
use crate::signature::{Key, Scheme, standard};
use crate::target::Target;

/// So long a step may take on the slowest machine before something must be broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that plays.
pub(super) struct Stage {
    /// The sample app.
    pub app: App,
    /// Asks the relay.
    pub client: Client,
    /// The key that it asks with.
    pub key: Secret,
    /// Sends pushes.
    pub github: Provider,
    /// Sends orders and invoices.
    pub shop: Provider,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
    events: mpsc::Receiver<Event>,
    handle: Handle,
    pulling: JoinHandle<Summary>,
    relay: Attached,
    temporary: Temporary,
}

impl Stage {
    /// Starts every part and waits until it is ready.
    pub(super) async fn set(context: &Context, timing: Timing) -> Result<Self, CliError> {
        let secret = standard::mint(&*context.dice);
        let key =
            || Key::new(Scheme::standard(), &secret).map_err(|error| CliError::internal(error.to_string()));
        let app = App::start(key()?, Arc::clone(&context.clock))?;
        let (home, temporary) = Home::isolated(context)?;
        let relay = home.attach("demo").await?;
        let project = ProjectRef { root: "demo".to_owned(), name: "demo".to_owned() };
        let (client, api_key) = relay.local.project(&project).await?;
        let github = Provider::register(context, &client, "github", "github").await?;
        let shop = Provider::register(context, &client, "shop", "standard-webhooks").await?;
        let mut options = ListenOptions::new(
            client.url().clone(),
            api_key.clone(),
            Arc::clone(&context.clock),
            Arc::clone(&context.dice),
        );
        options.timing = timing;
        options.relay_http = home.http_settings();
        options.forward_to =
            Some(Target::parse(&app.url()).map_err(|error| CliError::internal(error.to_string()))?);
        options.sign = SignAs::With(key()?);
        options.description = Some("demo".to_owned());
        let (handle, control) = listen::control();
        let (to, events) = mpsc::channel(256);
        let pulling = tokio::spawn(listen::run(options, to, control));
        let (clock, dice) = (Arc::clone(&context.clock), Arc::clone(&context.dice));
        Ok(Self {
            app,
            client,
            key: api_key,
            github,
            shop,
            clock,
            dice,
            events,
            handle,
            pulling,
            relay,
            temporary,
        })
    }

    /// Waits until the listener did this; what it does before that is told, too.
    pub(super) async fn until(
        &mut self,
        voice: &mut Voice,
        what: &str,
        wanted: impl Fn(&What) -> bool,
    ) -> Result<(), CliError> {
        loop {
            let event = in_time(what, self.events.recv()).await?;
            voice.heard(&event)?;
            match &event.what {
                What::Fatal(fatal) => return Err(CliError::internal(fatal.message.clone())),
                happened if wanted(happened) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Waits for the next request to the app.
    pub(super) async fn app_got(&mut self) -> Result<Got, CliError> {
        in_time("a request to the sample app", self.app.got()).await
    }

    /// The next thing that anybody does; `None` when there is no more.
    pub(super) async fn next(&mut self) -> Option<Happened> {
        tokio::select! {
            event = self.events.recv() => event.map(Happened::Listen),
            got = self.app.got() => got.map(Happened::App),
        }
    }

    /// Stops every part in order; the relay's directory goes.
    pub(super) async fn end(mut self, voice: &mut Voice) {
        self.handle.stop();
        while let Some(event) = self.events.recv().await {
            // With nobody left to read there is nobody to tell.
            let _closed = voice.heard(&event);
        }
        let _summary = self.pulling.await;
        let _gone = self.app.stop().await;
        self.relay.end().await;
        drop(self.temporary);
    }
}

/// What happens when nobody steers.
#[derive(Debug)]
pub(super) enum Happened {
    /// The app answered a request.
    App(Got),
    /// The listener did something.
    Listen(Event),
}

async fn in_time<T>(what: &str, wait: impl Future<Output = Option<T>>) -> Result<T, CliError> {
    let stuck = || CliError::internal(format!("the demo is stuck: {what} did not come"));
    tokio::time::timeout(PATIENCE, wait).await.ok().flatten().ok_or_else(stuck)
}
