//! What was typed becomes what it means: every value checked, everything that is wrong said at once with its origin.

use std::path::PathBuf;
use std::time::Duration;

use super::args::ListenArgs;
use crate::cli::config::{self, Origin, Setting, Settings};
use crate::cli::context::Context;
use crate::cli::duration;
use crate::cli::error::{CliError, Kind};
use crate::cli::secret::{self, SecretFlags};
use crate::clock::Timestamp;
use crate::filter::Filter;
use crate::id;
use crate::listen::{ListenOptions, SignAs, Since, UserHeader};
use crate::protocol::limits;
use crate::secret::Secret;
use crate::signature::{Key, Scheme};
use crate::target::{Route, Target};

/// What a run of `listen` needs besides the relay.
#[derive(Debug)]
pub(super) struct Plan {
    pub forward_to: Option<Target>,
    pub routes: Vec<Route>,
    pub allow_remote: bool,
    pub append_path: bool,
    pub headers: Vec<UserHeader>,
    pub skip_verify: bool,
    pub ca: Option<PathBuf>,
    pub events: Vec<String>,
    pub exclude: Vec<String>,
    pub sources: Vec<String>,
    pub filters: Vec<Filter>,
    pub since: Since,
    pub max_backlog: u64,
    pub sign: Signing,
    pub timeout: Option<Duration>,
    pub max_in_flight: usize,
    pub ordered: bool,
    pub gate: bool,
    pub until: Option<u64>,
    pub idle_timeout: Option<Duration>,
    pub exit_on_failure: bool,
    pub max_connect_attempts: Option<u32>,
    pub drain: Duration,
}

/// How forwards are signed, and what may be said about it.
#[derive(Debug)]
pub(super) struct Signing {
    pub sign: SignAs,
    /// The local secret, when that is what signs.
    pub local: Option<Setting<Secret>>,
}

impl Plan {
    /// Reads flags and settings.
    pub(super) fn read(context: &Context, settings: &Settings, args: &ListenArgs) -> Result<Self, CliError> {
        let mut read = Reader { settings, problems: Vec::new() };
        let since = read.since(args.since.as_deref(), context.clock.now())?;
        let plan = Self {
            forward_to: read.target(),
            routes: read.routes(),
            allow_remote: settings.switch("allow_remote").value,
            append_path: settings.switch("append_path").value,
            headers: read.headers(&args.headers),
            skip_verify: settings.switch("skip_verify").value,
            ca: read.ca(),
            events: read.globs("events"),
            exclude: read.globs("exclude"),
            sources: read.globs("source"),
            filters: read.filters(),
            since,
            max_backlog: read
                .at_least_one("--max-backlog", args.max_backlog)
                .unwrap_or(limits::DEFAULT_MAX_BACKLOG),
            sign: read.signing(context, args)?,
            timeout: read.timeout(),
            max_in_flight: read.max_in_flight(),
            ordered: settings.switch("ordered").value,
            gate: !args.no_gate,
            until: read.at_least_one("--until", args.until),
            idle_timeout: read.time("--idle-timeout", args.idle_timeout.as_deref(), Duration::from_millis(1)),
            exit_on_failure: args.exit_on_failure,
            max_connect_attempts: read
                .at_least_one("--max-connect-attempts", args.max_connect_attempts)
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            drain: read
                .time("--drain", args.drain.as_deref(), Duration::ZERO)
                .unwrap_or(Duration::from_secs(8)),
        };
        read.contradictions(args, &plan);
        config::all_at_once(&read.problems)?;
        Ok(plan)
    }

    /// Into the options of a run.
    pub(super) fn apply(self, options: &mut ListenOptions) {
        options.forward_to = self.forward_to;
        options.routes = self.routes;
        options.allow_remote = self.allow_remote;
        options.append_path = self.append_path;
        options.headers = self.headers;
        options.skip_verify = self.skip_verify;
        options.ca = self.ca;
        options.events = self.events;
        options.exclude = self.exclude;
        options.sources = self.sources;
        options.filters = self.filters;
        options.since = self.since;
        options.max_backlog = self.max_backlog;
        options.sign = self.sign.sign;
        options.timeout = self.timeout;
        options.max_in_flight = self.max_in_flight;
        options.ordered = self.ordered;
        options.gate = self.gate;
        options.until = self.until;
        options.idle_timeout = self.idle_timeout;
        options.exit_on_failure = self.exit_on_failure;
        options.max_connect_attempts = self.max_connect_attempts;
        options.drain = self.drain;
    }
}

/// Reads values one by one and gathers what is wrong.
struct Reader<'a> {
    settings: &'a Settings,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, what: &str, why: impl std::fmt::Display, origin: &Origin) {
        self.problems.push(format!("{what}: {why} ({origin})"));
    }

    fn target(&mut self) -> Option<Target> {
        let Setting { value, origin } = self.settings.text("forward_to")?;
        let parsed = Target::parse(&value).map_err(|error| error.to_string());
        self.checked(&value, &origin, parsed, |target| target)
    }

    fn routes(&mut self) -> Vec<Route> {
        let Setting { value, origin } = self.settings.list("route");
        let routes = value.iter().map(|text| {
            let parsed = Route::parse(text).map_err(|error| error.to_string());
            self.checked(text, &origin, parsed, Route::target)
        });
        routes.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// A target that parses, and that a cloned repository may name.
    fn checked<T>(
        &mut self,
        text: &str,
        origin: &Origin,
        parsed: Result<T, String>,
        target: impl Fn(&T) -> &Target,
    ) -> Option<T> {
        match parsed {
            Ok(parsed) if matches!(origin, Origin::Project(_)) && !target(&parsed).is_loopback() => {
                self.wrong(
                    &format!("{text:?}"),
                    "pullhook.toml can only name a target on this machine",
                    origin,
                );
                None
            }
            Ok(parsed) => Some(parsed),
            Err(why) => {
                self.wrong(&format!("{text:?}"), why, origin);
                None
            }
        }
    }

    fn headers(&mut self, texts: &[String]) -> Vec<UserHeader> {
        let mut headers = Vec::new();
        for text in texts {
            match UserHeader::parse(text) {
                Ok(header) => headers.push(header),
                Err(error) => self.problems.push(format!("{error} (--header)")),
            }
        }
        headers
    }

    fn ca(&mut self) -> Option<PathBuf> {
        let Setting { value, origin } = self.settings.text("ca")?;
        let path = PathBuf::from(&value);
        if let Err(error) = std::fs::File::open(&path) {
            self.wrong(&value, format!("can't read it: {error}"), &origin);
        }
        Some(path)
    }

    /// Globs, one by one or separated by commas.
    fn globs(&mut self, name: &str) -> Vec<String> {
        let Setting { value, origin } = self.settings.list(name);
        let mut globs = Vec::new();
        for text in &value {
            for glob in text.split(',').map(str::trim) {
                if glob.is_empty() || glob.contains(|c: char| c.is_whitespace() || c.is_control()) {
                    self.wrong(&format!("{text:?}"), "expected names or globs, separated by commas", &origin);
                } else {
                    globs.push(glob.to_owned());
                }
            }
        }
        globs
    }

    fn filters(&mut self) -> Vec<Filter> {
        let Setting { value, origin } = self.settings.list("filter");
        let mut filters = Vec::new();
        for text in &value {
            match Filter::parse(text) {
                Ok(filter) => filters.push(filter),
                Err(error) => self.problems.push(format!("{error} ({origin})")),
            }
        }
        filters
    }

    fn since(&mut self, text: Option<&str>, now: Timestamp) -> Result<Since, CliError> {
        let Some(text) = text else { return Ok(Since::Now) };
        Ok(match text {
            "now" => Since::Now,
            "last" => Since::Last,
            "beginning" => Since::At(text.to_owned()),
            _ if id::looks_like(id::Kind::Event, text) => Since::At(text.to_owned()),
            _ if text.starts_with(id::Kind::Event.prefix()) => {
                return Err(CliError::new(Kind::NotFound, format!("{text:?} is no event id (--since)")));
            }
            _ => match (Timestamp::parse(text), duration::parse(text)) {
                (Some(at), _) => Since::At(at.to_string()),
                (None, Ok(ago)) => Since::At((now - ago).to_string()),
                (None, Err(_)) => {
                    let why = "expected now, last, beginning, an event id, an RFC 3339 time or a time ago such as 2h";
                    self.problems.push(format!("{text:?}: {why} (--since)"));
                    Since::Now
                }
            },
        })
    }

    fn at_least_one(&mut self, flag: &str, number: Option<u64>) -> Option<u64> {
        if number == Some(0) {
            self.problems.push(format!("0: at least 1 ({flag})"));
        }
        number
    }

    fn time(&mut self, flag: &str, text: Option<&str>, least: Duration) -> Option<Duration> {
        match duration::parse(text?) {
            Ok(time) if time >= least => Some(time),
            Ok(_) => {
                self.problems.push(format!("{:?}: more than 0 ({flag})", text.unwrap_or_default()));
                None
            }
            Err(error) => {
                self.problems.push(format!("{:?}: {error} ({flag})", text.unwrap_or_default()));
                None
            }
        }
    }

    /// `None` = for ever.
    fn timeout(&mut self) -> Option<Duration> {
        let Some(Setting { value, origin }) = self.settings.text("timeout") else {
            return Some(Duration::from_secs(30));
        };
        match duration::parse(&value) {
            Ok(time) => Some(time).filter(|time| !time.is_zero()),
            Err(error) => {
                self.wrong(&format!("{value:?}"), error, &origin);
                None
            }
        }
    }

    fn max_in_flight(&mut self) -> usize {
        let Some(Setting { value, origin }) = self.settings.number("max_in_flight") else { return 10 };
        match usize::try_from(value) {
            Ok(number @ 1..=50) => number,
            _ => {
                self.wrong(&value.to_string(), "1 to 50", &origin);
                10
            }
        }
    }

    fn signing(&mut self, context: &Context, args: &ListenArgs) -> Result<Signing, CliError> {
        let scheme = match args.sign_as.as_deref().map(Scheme::parse) {
            Some(Ok(scheme)) => Some(scheme),
            Some(Err(error)) => {
                self.problems.push(format!("{error} (--sign-as)"));
                None
            }
            None => None,
        };
        match (scheme, args.sign_secret_env.as_deref()) {
            (Some(scheme), _) if !scheme.is_signed() => Ok(Signing { sign: SignAs::None, local: None }),
            (Some(scheme), Some(name)) => {
                let secret = secret::from_variable(context, name)?;
                let origin = Origin::Flag("--sign-secret-env");
                Ok(Signing {
                    sign: self.key(context, scheme, &Setting { value: secret, origin }),
                    local: None,
                })
            }
            (Some(scheme), None) if scheme != Scheme::standard() => {
                self.problems.push(format!("--sign-as {scheme} needs --sign-secret-env NAME"));
                Ok(Signing { sign: SignAs::None, local: None })
            }
            _ => {
                let flags = SecretFlags { variable: args.secret_env.clone(), file: args.secret_file.clone() };
                let local = secret::local(context, self.settings, &flags)?;
                Ok(Signing { sign: self.key(context, Scheme::standard(), &local), local: Some(local) })
            }
        }
    }

    fn key(&mut self, context: &Context, scheme: Scheme, secret: &Setting<Secret>) -> SignAs {
        match Key::new(scheme, &secret.value) {
            Ok(key) => {
                for warning in key.warnings() {
                    context.printer.warn(&format!("{warning} ({})", secret.origin));
                }
                SignAs::With(key)
            }
            Err(error) => {
                self.problems.push(format!("{error} ({})", secret.origin));
                SignAs::None
            }
        }
    }

    fn contradictions(&mut self, args: &ListenArgs, plan: &Plan) {
        let settings = self.settings;
        let with = |name: &str| settings.get(name).map(|setting| setting.origin);
        if let (Some(file), None) = (with("env_file"), with("env_name")) {
            self.wrong("env_file", "it needs env_name: the secret's name in that file", &file);
        }
        if let (None, Some(name)) = (with("env_file"), with("env_name")) {
            self.wrong("env_name", "it needs env_file: where to write the secret", &name);
        }
        if let Some(Setting { value, origin }) = settings.text("env_name")
            && !is_variable_name(&value)
        {
            self.wrong(&format!("{value:?}"), "no name of a variable: letters, digits and _", &origin);
        }
        if let (true, Some(url)) = (args.isolated, settings.text("api_url")) {
            self.wrong(
                "--isolated",
                format!("it has a relay of its own, and {} names another", url.value),
                &url.origin,
            );
        }
        if plan.forward_to.is_none() && plan.routes.is_empty() && plan.append_path && self.problems.is_empty()
        {
            self.wrong(
                "append_path",
                "there is no target to append to",
                &settings.switch("append_path").origin,
            );
        }
        self.remote(plan);
    }

    /// A target that is elsewhere for sure is refused at once; a name that resolves elsewhere, when it is resolved.
    fn remote(&mut self, plan: &Plan) {
        if plan.allow_remote {
            return;
        }
        for target in plan.forward_to.iter().chain(plan.routes.iter().map(Route::target)) {
            if is_elsewhere(target) {
                self.problems
                    .push(format!("{target} is on another machine: --allow-remote lets events go there"));
            }
        }
    }
}

/// Whether the written address alone says that it is another machine.
fn is_elsewhere(target: &Target) -> bool {
    use crate::target::{Host, Place};
    matches!(target.place(), Place::Tcp { host: Host::V4(_) | Host::V6(_), .. }) && !target.is_loopback()
}

fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
