//! Who may hold the embedded store: one process, by an operating system lock, which `kill -9` releases too.
//!
//! A second lock, the claim, settles who is next: whoever holds it gets the first one as soon as it is free, before
//! everybody else who waits. `serve` claims, then asks the host to hand over.
//!
//! A third one counts visitors: commands that are about to end hold it together, and a host that ends waits for them,
//! so that none is cut off half-way.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::{files, os};

/// The right to hold the store; ends when dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

/// The right to be the next holder; ends when dropped.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "closing the file releases the claim")] File);

/// A short stay at whoever hosts; ends when dropped.
#[derive(Debug)]
pub struct Visit(#[expect(dead_code, reason = "closing the file ends the visit")] File);

/// The lock files of a state directory.
#[derive(Clone, Debug)]
pub struct Locks {
    lock: PathBuf,
    claim: PathBuf,
    visitors: PathBuf,
}

impl Locks {
    /// The locks beside this store.
    pub fn beside(base: &Path) -> Self {
        Self {
            lock: files::beside(base, "lock"),
            claim: files::beside(base, "claim"),
            visitors: files::beside(base, "visitors"),
        }
    }

    /// The lock, if nobody holds or claims it.
    pub fn try_take(&self) -> io::Result<Option<Lock>> {
        let file = open(&self.lock)?;
        if !locked(file.try_lock())? {
            return Ok(None);
        }
        Ok(if self.is_claimed()? { None } else { Some(Lock(file)) })
    }

    /// The lock, as soon as it is free and nobody claims it. Blocks the thread.
    pub fn wait(&self) -> io::Result<Lock> {
        loop {
            let file = open(&self.lock)?;
            file.lock()?;
            if !self.is_claimed()? {
                return Ok(Lock(file));
            }
            drop(file);
            // Whoever claims goes first; then it is theirs, and waiting begins again.
            open(&self.claim)?.lock_shared()?;
        }
    }

    /// Claims the lock. Blocks the thread while another claims it.
    pub fn claim(&self) -> io::Result<Claim> {
        let file = open(&self.claim)?;
        file.lock()?;
        Ok(Claim(file))
    }

    /// The lock, for the holder of the claim. Blocks the thread.
    pub fn wait_with(&self, _claim: &Claim) -> io::Result<Lock> {
        let file = open(&self.lock)?;
        file.lock()?;
        Ok(Lock(file))
    }

    /// Begins a visit. Blocks the thread while a host ends.
    pub fn visit(&self) -> io::Result<Visit> {
        let file = open(&self.visitors)?;
        file.lock_shared()?;
        Ok(Visit(file))
    }

    /// Returns once all visits have ended; until the returned one is dropped no new one begins. Blocks the thread.
    pub fn after_visits(&self) -> io::Result<Visit> {
        let file = open(&self.visitors)?;
        file.lock()?;
        Ok(Visit(file))
    }

    /// Whether anybody holds the lock.
    pub fn is_held(&self) -> io::Result<bool> {
        Ok(!locked(open(&self.lock)?.try_lock_shared())?)
    }

    fn is_claimed(&self) -> io::Result<bool> {
        Ok(!locked(open(&self.claim)?.try_lock_shared())?)
    }
}

fn locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    os::private_file().read(true).write(true).create(true).truncate(false).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_the_claim_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let locks = Locks::beside(&dir.path().join("relay"));
        assert!(!locks.is_held().unwrap());
        let first = locks.try_take().unwrap().unwrap();
        assert!(locks.is_held().unwrap());
        assert!(locks.try_take().unwrap().is_none());
        let claim = locks.claim().unwrap();
        let (waiting, for_long) = (locks.clone(), std::sync::mpsc::channel());
        let waiter = std::thread::spawn(move || {
            let lock = waiting.wait().unwrap();
            for_long.0.send(()).unwrap();
            drop(lock);
        });
        drop(first);
        let second = locks.wait_with(&claim).unwrap();
        assert!(for_long.1.try_recv().is_err(), "the waiter gave way to the claim");
        drop(claim);
        drop(second);
        for_long.1.recv().unwrap();
        waiter.join().unwrap();
    }

    #[test]
    fn a_host_that_ends_waits_for_visitors() {
        let dir = tempfile::tempdir().unwrap();
        let locks = Locks::beside(&dir.path().join("relay"));
        let (one, two) = (locks.visit().unwrap(), locks.visit().unwrap());
        let (ending, ended) = (locks, std::sync::mpsc::channel());
        let host = std::thread::spawn(move || {
            let alone = ending.after_visits().unwrap();
            ended.0.send(()).unwrap();
            drop(alone);
        });
        drop(one);
        assert!(ended.1.try_recv().is_err());
        drop(two);
        ended.1.recv().unwrap();
        host.join().unwrap();
    }

    #[test]
    fn while_it_is_claimed_nobody_else_takes_it() {
        let dir = tempfile::tempdir().unwrap();
        let locks = Locks::beside(&dir.path().join("relay"));
        let claim = locks.claim().unwrap();
        assert!(locks.try_take().unwrap().is_none());
        drop(claim);
        assert!(locks.try_take().unwrap().is_some());
    }
}
