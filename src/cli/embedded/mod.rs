//! The relay inside: one process on this machine hosts it, the others join.

pub mod lock;
pub mod proof;
pub mod state;
