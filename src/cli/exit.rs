//! Exit codes: the one table of them, with what each one means.

use std::process::ExitCode;

macro_rules! exits {
    ($($name:ident = $code:literal, $about:literal;)*) => {
        /// How a command ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Exit { $(#[doc = $about] $name,)* }

        impl Exit {
            /// All of them, in the order of the reference page.
            pub const ALL: &[Exit] = &[$(Exit::$name,)*];
            /// The number that the shell sees.
            pub const fn code(self) -> u8 { match self { $(Self::$name => $code,)* } }
            /// What it means.
            pub const fn about(self) -> &'static str { match self { $(Self::$name => $about,)* } }
        }
    };
}

exits! {
    Done = 0, "done; after ^C too, once what was in flight was acked";
    Internal = 1, "internal error";
    Usage = 2, "usage or configuration";
    NotMet = 7, "an expectation or a timeout was not met";
    Unauthorised = 10, "unauthorised: the key is missing, unknown or revoked";
    Forbidden = 11, "forbidden: the key lacks the permission";
    NotFound = 12, "not found: no such object, or nobody listens";
    RateLimited = 14, "rate limited";
    Unreachable = 16, "relay unreachable";
    Refused = 17, "backlog or a further listener refused";
    Failed = 20, "a forward failed, or a receiver did not answer 2xx";
    Forced = 130, "forced by a second ^C";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ascend() {
        assert!(Exit::ALL.is_sorted_by(|a, b| a.code() < b.code()));
    }
}
