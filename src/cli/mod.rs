//! The command line: one file per command, each turning what was typed into what it means and running it.
//!
//! | module | owns |
//! | --- | --- |
//! | [`args`] | the grammar: global flags and the list of commands |
//! | [`context`] | what every command gets: settings, printer, project, a client of the right relay |
//! | [`connect`], [`choice`] | the right relay, and on an embedded one the right project |
//! | [`config`] | flag > environment > `pullhook.toml` > profile > default, each value with its origin |
//! | [`mod@env`] | environment variables |
//! | [`exit`], [`error`] | exit codes; what went wrong as text, hints and one of those |
//! | [`output`] | what is printed |
//! | [`secret`], [`project`], [`files`], [`os`] | the local secret, the project root, careful file writes, what differs by system |

pub mod args;
pub mod choice;
pub mod config;
mod config_command;
pub mod connect;
pub mod context;
mod demo;
pub mod duration;
pub mod embedded;
pub mod env;
pub mod error;
mod events;
pub mod exit;
pub mod files;
mod keys;
pub mod listen;
mod logging;
mod moment;
pub mod os;
pub mod output;
pub mod project;
pub mod render;
mod replay;
pub mod secret;
pub mod serve;
pub mod signals;
mod sources;
mod status;
mod store;
mod trigger;
mod usage;
mod version;

use std::ffi::OsString;

use clap::Parser;

use args::{Cli, Command};
use context::Context;
use env::Env;
use error::CliError;
use exit::Exit;
use output::{Colour, Printer};

/// Parses, runs, prints what went wrong, and says how it ended.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let env = Env::real();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error, &Printer::new(&env, Colour::Auto, false, false)),
    };
    let context = Context::new(env, cli.globals);
    match run(&cli.command, &context) {
        Ok(exit) => exit,
        Err(error) => {
            context.printer.error(&error);
            error.exit()
        }
    }
}

fn run(command: &Command, context: &Context) -> Result<Exit, CliError> {
    match command {
        Command::Config(args) => config_command::run(context, args),
        Command::Demo(args) => demo::run(context, args),
        Command::Keys(args) => keys::run(context, args),
        Command::Listen(args) => listen::run(context, args),
        Command::Serve(args) => serve::run(context, args),
        Command::Sources(args) => sources::run(context, args),
        Command::Events(args) => events::run(context, args),
        Command::Replay(args) => replay::run(context, args),
        Command::Trigger(args) => trigger::run(context, args),
        Command::Status => status::run(context),
        Command::Version => version::run(context),
    }
}
