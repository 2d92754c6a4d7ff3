//! The grammar of the command line: global flags and the list of commands.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::config_command::ConfigArgs;
use crate::cli::demo::DemoArgs;
use crate::cli::events::EventsArgs;
use crate::cli::keys::KeysArgs;
use crate::cli::listen::ListenArgs;
use crate::cli::output::Colour;
use crate::cli::replay::ReplayArgs;
use crate::cli::serve::ServeArgs;
use crate::cli::sources::SourcesArgs;
use crate::cli::trigger::TriggerArgs;

/// `pullhook ...`.
#[derive(Debug, Parser)]
#[command(
    name = "pullhook",
    version,
    about = "Webhooks on localhost, pulled",
    styles = Styles::plain(),
    disable_help_subcommand = true,
    propagate_version = false,
    max_term_width = 100
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// The relay to use (else the environment, a profile, or the embedded relay)
    #[arg(long, value_name = "URL", global = true, help_heading = "Global options")]
    pub api_url: Option<String>,
    /// The profile to use
    #[arg(long, value_name = "NAME", global = true, help_heading = "Global options")]
    pub profile: Option<String>,
    /// The project's folder (else the nearest parent with pullhook.toml, the git root, or this folder)
    #[arg(long, value_name = "DIR", global = true, help_heading = "Global options")]
    pub project: Option<PathBuf>,
    /// How answers look; compact and quiet are for `listen`
    #[arg(long, alias = "format", value_name = "FORMAT", global = true, help_heading = "Global options")]
    pub output: Option<Format>,
    /// Short for `--output json`
    #[arg(short = 'j', global = true, conflicts_with = "output", help_heading = "Global options")]
    pub json: bool,
    /// When to colour
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", help_heading = "Global options")]
    pub color: Colour,
    /// Say nothing on stderr but warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub quiet: bool,
    /// Say more on stderr
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub verbose: bool,
}

impl Globals {
    /// The chosen format.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output.unwrap_or_default() }
    }
}

/// `--output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines for people.
    #[default]
    Human,
    /// One line per event (`listen`).
    Compact,
    /// Failures only (`listen`).
    Quiet,
    /// JSON, one object per line.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward webhooks to an app on this machine
    Listen(Box<ListenArgs>),
    /// Send a provider's event, signed like the real thing
    Trigger(Box<TriggerArgs>),
    /// List, show and follow events
    Events(EventsArgs),
    /// Hand stored events to who listens, once more
    Replay(ReplayArgs),
    /// Add, list, show, remove sources: who may send here
    Sources(SourcesArgs),
    /// Show the relay, its sources and who listens
    Status,
    /// Show all of it in one terminal: an app, a relay, a listener, a few webhooks
    Demo(DemoArgs),
    /// Serve a relay, for a team or for this machine
    Serve(ServeArgs),
    /// Make, list and revoke API keys of the relay on this machine
    Keys(KeysArgs),
    /// Show the settings and where each one came from
    Config(ConfigArgs),
    /// Show the version
    Version,
}
