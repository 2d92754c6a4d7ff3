//! `pullhook config --list`.

use clap::Args;
use serde_json::json;

use crate::cli::args::Format;
use crate::cli::config::Origin;
use crate::cli::config::keys::{KEYS, Value};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::{sanitize, table};

/// `config`.
#[derive(Args, Debug)]
#[command(
    after_help = "Settings: a flag, else the environment, else pullhook.toml, else the profile, else the default."
)]
pub struct ConfigArgs {
    /// Show every setting with its value and where it came from
    #[arg(long, required = true)]
    list: bool,
}

struct Row {
    name: &'static str,
    value: Option<Value>,
    shown: String,
    origin: Origin,
}

/// Lists the settings.
pub(super) fn run(context: &Context, _args: &ConfigArgs) -> Result<Exit, CliError> {
    let settings = context.settings()?;
    let rows = KEYS.iter().map(|key| {
        let setting = settings.get(key.name);
        let value = setting.as_ref().map(|setting| setting.value.clone());
        let shown = value.as_ref().map_or_else(|| key.default.unwrap_or_default().to_owned(), Value::shown);
        let origin = setting.map_or(Origin::Default, |setting| setting.origin);
        Row { name: key.name, value, shown, origin }
    });
    match context.format()? {
        Format::Json => rows.map(|row| json_line(&row)).try_for_each(|line| context.printer.line(&line))?,
        _ => print_table(context, rows)?,
    }
    for warning in settings.warnings() {
        context.printer.warn(&warning);
    }
    Ok(Exit::Done)
}

fn json_line(row: &Row) -> String {
    let value = match &row.value {
        Some(Value::Text(text)) => json!(text),
        Some(Value::List(texts)) => json!(texts),
        Some(Value::Switch(on)) => json!(on),
        Some(Value::Number(number)) => json!(number),
        Some(Value::Secret(secret)) => json!(secret.masked()),
        None => json!(null),
    };
    json!({"object": "setting", "name": row.name, "value": value, "origin": row.origin.to_string()})
        .to_string()
}

fn print_table(context: &Context, rows: impl Iterator<Item = Row>) -> Result<(), CliError> {
    let cells =
        |row: Row| vec![row.name.to_owned(), sanitize::line(&row.shown).into_owned(), row.origin.to_string()];
    let rows: Vec<_> = rows.map(cells).collect();
    table::lines(&["SETTING", "VALUE", "FROM"], &rows).iter().try_for_each(|line| context.printer.line(line))
}
