//! The real binary, command by command: stdout, stderr and exit code, whole.

mod basics;
mod harness;
