//! A provider: knows a source's address and secret, renders an event, signs it as its scheme has it, and POSTs it.

use http::StatusCode;
use serde_json::{Map, Value};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::client::Client;
use crate::clock::{Clock, Dice};
use crate::headers;
use crate::protocol::sources::CreateSource;
use crate::providers::{self, Rendered};
use crate::secret::Secret;
use crate::signature::{self, Key, Request, Scheme, standard};

/// Who sends.
#[derive(Debug)]
pub(super) struct Provider {
    /// The source's name.
    pub name: &'static str,
    /// Where it posts to.
    pub ingress_url: String,
    key: Key,
}

/// What the relay answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The event that was stored, if one was.
    pub event_id: Option<String>,
    /// What the relay said, when it refused.
    pub message: Option<String>,
}

impl Provider {
    /// Makes a source with a secret of its own; the provider learns it, as one does on its settings page.
    pub(super) async fn register(
        context: &Context,
        client: &Client,
        name: &'static str,
        scheme: &str,
    ) -> Result<Self, CliError> {
        let secret = standard::mint(&*context.dice);
        let source = CreateSource {
            name: name.to_owned(),
            scheme: scheme.to_owned(),
            secrets: vec![secret.expose().to_owned()],
            ..CreateSource::default()
        };
        let source = client.create_source(&source).await?;
        Ok(Self { name, ingress_url: source.ingress_url, key: key(scheme, &secret)? })
    }

    /// The same provider, played by somebody who doesn't know the secret.
    pub(super) fn forged(&self, dice: &dyn Dice) -> Result<Self, CliError> {
        let key = key(self.key.scheme().name(), &standard::mint(dice))?;
        Ok(Self { name: self.name, ingress_url: self.ingress_url.clone(), key })
    }

    /// POSTs this event, signed now.
    pub(super) async fn send(
        &self,
        client: &Client,
        event: &Rendered,
        clock: &dyn Clock,
    ) -> Result<Answer, CliError> {
        let scheme = self.key.scheme();
        let request = Request { method: "POST", url: None, headers: &event.headers, body: &event.body };
        let signed = signature::sign(scheme, &self.key, &request, &event.event_id, clock.now());
        let mut all = event.headers.clone();
        signed.iter().for_each(|(name, value)| all.set(name, value));
        let mut sending = client.http().post(&self.ingress_url).body(event.body.clone());
        for (name, value) in all.iter() {
            sending = sending.header(name, headers::from_latin1(value).unwrap_or_default());
        }
        let failed = |error: reqwest::Error| CliError::internal(format!("the relay did not answer: {error}"));
        let response = sending.send().await.map_err(failed)?;
        let status = response.status();
        let answer: Map<String, Value> = response.json().await.map_err(failed)?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Ok(Answer {
            status,
            event_id: text(answer.get("event_id")),
            message: text(answer.get("error").and_then(|error| error.get("message"))),
        })
    }
}

/// A fresh event of this fixture.
pub(super) fn event(context: (&dyn Clock, &dyn Dice), fixture: &str) -> Result<Rendered, CliError> {
    let fixture = providers::find(fixture).map_err(|error| CliError::internal(error.to_string()))?;
    Ok(fixture.render(context.0, context.1))
}

fn key(scheme: &str, secret: &Secret) -> Result<Key, CliError> {
    let scheme = Scheme::parse(scheme).map_err(|error| CliError::internal(error.to_string()))?;
    Key::new(scheme, secret).map_err(|error| CliError::internal(error.to_string()))
}
