//! What is typed after `pullhook listen`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::config::keys::Value;

const EXAMPLES: &str = "\
Examples:
  pullhook listen --forward-to localhost:3000/webhooks
  pullhook listen 3000 --source github --events 'pull_request.*,push'
  pullhook listen --api-url https://relay.example.com -f :3000/hooks";

const TO: &str = "Where events go";
const WHICH: &str = "Which events";
const SECRET: &str = "The local secret";
const PACE: &str = "Pace and end";
const SHOW: &str = "What is shown";

/// `listen`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub struct ListenArgs {
    /// Same as `--forward-to`
    #[arg(conflicts_with = "forward_to")]
    pub target: Option<String>,
    /// Where to POST to. What `--help` says stands below: in a doc comment its brackets would be a link.
    #[arg(short, long, value_name = "TARGET", help_heading = TO, long_help = None,
        help = "3000, :3000/path, host:port/path, a URL, [::1]:3000 or unix:/app.sock:/path; none = print only")]
    pub forward_to: Option<String>,
    /// Send some events elsewhere: source:github=3000/gh, type:invoice.*=:4000/billing; the first match wins
    #[arg(long, value_name = "PATTERN=TARGET", help_heading = TO)]
    pub route: Vec<String>,
    /// Let the target be another machine
    #[arg(long, help_heading = TO)]
    pub allow_remote: bool,
    /// Join the path below the source and its query to the target's
    #[arg(long, help_heading = TO)]
    pub append_path: bool,
    /// Set a header on every forward
    #[arg(short = 'H', long = "header", value_name = "K: V", help_heading = TO)]
    pub headers: Vec<String>,
    /// Take any certificate of the target (the relay's is always verified)
    #[arg(long, alias = "insecure", help_heading = TO)]
    pub skip_verify: bool,
    /// A PEM file with certificates to trust for the target
    #[arg(long, value_name = "FILE", help_heading = TO)]
    pub ca: Option<String>,

    /// Event types to forward; `*` stands for any text
    #[arg(short, long, value_name = "GLOB", help_heading = WHICH)]
    pub events: Vec<String>,
    /// Event types to skip
    #[arg(long, value_name = "GLOB", help_heading = WHICH)]
    pub exclude: Vec<String>,
    /// Sources to listen to
    #[arg(long, value_name = "NAME", help_heading = WHICH)]
    pub source: Vec<String>,
    /// What must hold: body.amount>=100, header.x-shop=acme, query.a=1; all of them
    #[arg(long, value_name = "EXPR", help_heading = WHICH)]
    pub filter: Vec<String>,
    /// Where to begin: now, last, 2h, an RFC 3339 time, an event id or beginning [default: now]
    #[arg(long, value_name = "WHEN", help_heading = WHICH)]
    pub since: Option<String>,
    /// How many stored events --since may bring [default: 1000]
    #[arg(long, value_name = "N", help_heading = WHICH)]
    pub max_backlog: Option<u64>,

    /// Take the local secret from this environment variable
    #[arg(long, value_name = "NAME", conflicts_with = "secret_file", help_heading = SECRET)]
    pub secret_env: Option<String>,
    /// Take the local secret from this file
    #[arg(long, value_name = "FILE", help_heading = SECRET)]
    pub secret_file: Option<PathBuf>,
    /// Print the local secret, and nothing else
    #[arg(long, help_heading = SECRET)]
    pub print_secret: bool,
    /// Write the local secret to this file, where the app reads it, instead of showing it
    #[arg(long, value_name = "FILE", help_heading = SECRET)]
    pub env_file: Option<String>,
    /// Its name in that file
    #[arg(long, value_name = "NAME", help_heading = SECRET)]
    pub env_name: Option<String>,
    /// Sign as this scheme does, instead of adding webhook-* headers; `none` leaves the headers as they came
    #[arg(long, value_name = "SCHEME", help_heading = SECRET)]
    pub sign_as: Option<String>,
    /// The environment variable with the secret for --sign-as
    #[arg(long, value_name = "NAME", requires = "sign_as", help_heading = SECRET)]
    pub sign_secret_env: Option<String>,

    /// How long the app may take; 0 = for ever [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = PACE)]
    pub timeout: Option<String>,
    /// POSTs open at once, at most 50 [default: 10]
    #[arg(long, value_name = "N", help_heading = PACE)]
    pub max_in_flight: Option<u64>,
    /// One POST at a time per source
    #[arg(long, help_heading = PACE)]
    pub ordered: bool,
    /// Fail events while nothing listens on the target, instead of waiting for it
    #[arg(long, alias = "no-healthcheck", help_heading = PACE)]
    pub no_gate: bool,
    /// End after N delivered or failed events
    #[arg(long, value_name = "N", help_heading = PACE)]
    pub until: Option<u64>,
    /// End with code 7 when nothing happened for so long
    #[arg(long, value_name = "TIME", help_heading = PACE)]
    pub idle_timeout: Option<String>,
    /// End with code 20 at the first failed forward
    #[arg(long, help_heading = PACE)]
    pub exit_on_failure: bool,
    /// End with code 16 after N failed tries in a row to reach the relay
    #[arg(long, value_name = "N", help_heading = PACE)]
    pub max_connect_attempts: Option<u64>,
    /// After ^C: how long POSTs in flight may still take [default: 8s]
    #[arg(long, value_name = "TIME", help_heading = PACE)]
    pub drain: Option<String>,
    /// A relay of its own: temporary store, port and sources, gone at exit
    #[arg(long, help_heading = PACE)]
    pub isolated: bool,

    /// Show the body of each event
    #[arg(long, help_heading = SHOW)]
    pub print_body: bool,
    /// Show the headers of each event
    #[arg(long, help_heading = SHOW)]
    pub print_headers: bool,
}

impl ListenArgs {
    /// The flags that are settings too, under the settings' names.
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let list = |list: &Vec<String>| (!list.is_empty()).then(|| Value::List(list.clone()));
        let on = |on: bool| on.then_some(Value::Switch(true));
        let pairs = [
            ("forward_to", text(&self.forward_to).or_else(|| text(&self.target))),
            ("route", list(&self.route)),
            ("allow_remote", on(self.allow_remote)),
            ("append_path", on(self.append_path)),
            ("skip_verify", on(self.skip_verify)),
            ("ca", text(&self.ca)),
            ("events", list(&self.events)),
            ("exclude", list(&self.exclude)),
            ("source", list(&self.source)),
            ("filter", list(&self.filter)),
            ("env_file", text(&self.env_file)),
            ("env_name", text(&self.env_name)),
            ("timeout", text(&self.timeout)),
            ("max_in_flight", self.max_in_flight.map(Value::Number)),
            ("ordered", on(self.ordered)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
