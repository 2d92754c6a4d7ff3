//! When to colour, and with what.

use std::fmt::Display;

use clap::ValueEnum;

use crate::cli::env::Env;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    /// The flag wins, then `NO_COLOR`, then `CLICOLOR_FORCE`, then whether a terminal is there.
    pub fn style(self, env: &Env, terminal: bool) -> Style {
        let on = match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if env.os("NO_COLOR").is_some() => false,
            Self::Auto if env.os("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            Self::Auto => terminal && env.os("TERM").is_none_or(|term| term != "dumb"),
        };
        Style { on }
    }
}

/// Colours text, or leaves it alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    on: bool,
}

impl Style {
    /// Leaves everything alone.
    pub const PLAIN: Self = Self { on: false };

    /// For what went well.
    pub fn green(self, text: impl Display) -> String {
        self.paint("32", text)
    }

    /// For what may be wrong.
    pub fn yellow(self, text: impl Display) -> String {
        self.paint("33", text)
    }

    /// For what failed.
    pub fn red(self, text: impl Display) -> String {
        self.paint("31", text)
    }

    /// For what helps.
    pub fn cyan(self, text: impl Display) -> String {
        self.paint("36", text)
    }

    /// For what matters less.
    pub fn dim(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    /// For what matters more.
    pub fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(colour: Colour, env: &[(&str, &str)], terminal: bool) -> bool {
        colour.style(&Env::of(env.iter().copied()), terminal).on
    }

    #[test]
    fn flag_then_no_color_then_force_then_terminal() {
        assert!(on(Colour::Always, &[("NO_COLOR", "1")], false));
        assert!(!on(Colour::Never, &[("CLICOLOR_FORCE", "1")], true));
        assert!(!on(Colour::Auto, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(on(Colour::Auto, &[("CLICOLOR_FORCE", "1")], false));
        assert!(!on(Colour::Auto, &[("CLICOLOR_FORCE", "0")], false));
        assert!(on(Colour::Auto, &[("NO_COLOR", "")], true));
        assert!(!on(Colour::Auto, &[("TERM", "dumb")], true));
        assert!(!on(Colour::Auto, &[], false));
    }
}
