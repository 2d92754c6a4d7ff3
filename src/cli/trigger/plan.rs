//! What was typed becomes what it means, checked before anything is sent.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::TriggerArgs;
use crate::cli::config::{self, Setting, Settings};
use crate::cli::context::Context;
use crate::cli::duration;
use crate::cli::error::CliError;
use crate::cli::secret::{self, SecretFlags};
use crate::providers::{self, Fixture, Override, Rendered};
use crate::secret::Secret;
use crate::signature::{Key, Scheme};
use crate::target::Target;

/// What is sent, how often, and what is wrong with it on purpose.
#[derive(Debug)]
pub(super) struct Plan {
    pub fixture: &'static Fixture,
    overrides: Vec<Override>,
    pub count: u64,
    pub rate: Option<Rate>,
    duplicate: bool,
    pub fault: Option<Fault>,
}

/// A fault that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Fault {
    /// The signature is an hour old.
    Stale,
    /// The signature is another one.
    BadSignature,
}

impl Fault {
    /// The text on the wire.
    pub(in crate::cli) const fn text(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::BadSignature => "bad_signature",
        }
    }
}

/// How many a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(f64);

impl Rate {
    /// When the event with this number is due, from the start.
    pub(super) fn after(self, number: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "nobody waits for the 2^53rd event")]
        let seconds = number as f64 / self.0;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl FromStr for Rate {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix("/s").unwrap_or(text).parse::<f64>();
        let sensible = |rate: &f64| rate.is_finite() && (0.001..=100_000.0).contains(rate);
        number.ok().filter(sensible).map(Self).ok_or("expected how many a second, such as 10 or 0.5")
    }
}

impl Plan {
    /// Reads the flags that hold for both ways.
    pub(super) fn read(context: &Context, args: &TriggerArgs) -> Result<Self, CliError> {
        let Some(name) = &args.event else {
            return Err(CliError::usage("say which event to send").hint(LIST));
        };
        let fixture = providers::find(name).map_err(|error| CliError::usage(error.to_string()).hint(LIST))?;
        let mut problems = contradictions(args, fixture.provider().scheme());
        let mut overrides = Vec::new();
        for text in &args.overrides {
            match Override::parse(text) {
                Ok(change) => overrides.push(change),
                Err(error) => problems.push(format!("{error} (--override)")),
            }
        }
        let fault = match (args.stale, args.bad_signature) {
            (true, _) => Some(Fault::Stale),
            (_, true) => Some(Fault::BadSignature),
            _ => None,
        };
        let (count, rate, duplicate) = (args.count.unwrap_or(1), args.rate, args.duplicate);
        let plan = Self { fixture, overrides, count, rate, duplicate, fault };
        if let Err(error) = plan.event(context) {
            problems.push(error.message().to_owned());
        }
        config::all_at_once(&problems)?;
        Ok(plan)
    }

    /// One event with fresh ids and times.
    pub(super) fn event(&self, context: &Context) -> Result<Rendered, CliError> {
        let event = self.fixture.render(&*context.clock, &*context.dice);
        event.with(&self.overrides).map_err(|error| CliError::usage(format!("{error} (--override)")))
    }

    /// How often the same bytes are sent.
    pub(super) fn copies(&self) -> u64 {
        if self.duplicate { 2 } else { 1 }
    }
}

const LIST: &str = "`pullhook trigger --list` shows the events there are";

fn contradictions(args: &TriggerArgs, scheme: Scheme) -> Vec<String> {
    let mut problems = Vec::new();
    if args.stale && scheme.tolerance_s().is_none() {
        problems.push(format!("scheme {scheme} signs no time, so that nothing can be too old (--stale)"));
    }
    if args.to.is_none() {
        let named =
            [("--secret-env", args.secret_env.is_some()), ("--secret-file", args.secret_file.is_some())];
        for (flag, _) in named.iter().filter(|(_, given)| *given && !args.print_secret) {
            problems.push(format!(
                "{flag} is for --to: into a source the relay signs, with the secret of that source"
            ));
        }
        let tls = [("--skip-verify", args.skip_verify), ("--ca", args.ca.is_some())];
        problems
            .extend(tls.iter().filter(|(_, given)| *given).map(|(flag, _)| format!("{flag} is for --to")));
    }
    problems
}

/// Where `--to` goes, and with which key.
#[derive(Debug)]
pub(super) struct Straight {
    pub target: Target,
    pub key: Option<Key>,
    /// Whether the secret is the local one.
    pub local: bool,
    pub timeout: Option<Duration>,
    pub skip_verify: bool,
    pub ca: Option<PathBuf>,
}

impl Straight {
    /// Reads the flags of this way; `None` when the event goes into a source.
    pub(super) fn read(
        context: &Context,
        settings: &Settings,
        args: &TriggerArgs,
        plan: &Plan,
    ) -> Result<Option<Self>, CliError> {
        let timeout = duration::parse(&args.timeout)
            .map_err(|error| CliError::usage(format!("{:?}: {error} (--timeout)", args.timeout)))?;
        let Some(to) = &args.to else { return Ok(None) };
        let target = Target::parse(to).map_err(|error| CliError::usage(format!("{to:?}: {error} (--to)")))?;
        let scheme = plan.fixture.provider().scheme();
        let secret = local_secret(context, settings, args, scheme)?;
        let key = Key::new(scheme, &secret.value)
            .map_err(|error| CliError::usage(format!("{error} ({})", secret.origin)))?;
        key.warnings().iter().for_each(|warning| context.printer.warn(&warning.to_string()));
        Ok(Some(Self {
            target,
            key: Some(key),
            local: args.secret_env.is_none() && args.secret_file.is_none(),
            timeout: Some(timeout).filter(|timeout| !timeout.is_zero()),
            skip_verify: args.skip_verify,
            ca: args.ca.clone(),
        }))
    }
}

/// The secret with which an event of this scheme is signed when it goes straight to an app.
pub(super) fn local_secret(
    context: &Context,
    settings: &Settings,
    args: &TriggerArgs,
    scheme: Scheme,
) -> Result<Setting<Secret>, CliError> {
    let flags = SecretFlags { variable: args.secret_env.clone(), file: args.secret_file.clone() };
    secret::local_for(context, settings, &flags, scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let due = |text: &str, number| text.parse::<Rate>().unwrap().after(number);
        assert_eq!(due("10", 0), Duration::ZERO);
        assert_eq!(due("10", 5), Duration::from_millis(500));
        assert_eq!(due("0.5/s", 1), Duration::from_secs(2));
        for wrong in ["", "0", "-1", "inf", "NaN", "1e9", "ten", "5/m"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
