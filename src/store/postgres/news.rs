//! News of other relays on the same database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use super::way::Way;
use super::{CHANNEL, StoreError, broken, spawn};
use crate::wake::{Topic, Wake};

/// How long this waits before it looks whether the store was closed, or connects again.
const PAUSE: Duration = Duration::from_secs(1);
/// After so many pauses without news the connection is asked whether it lives, ...
const QUIET_PAUSES: u32 = 5;
/// ... and has so long to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that hears news.
pub(super) fn listen_on(way: &Arc<Way>) -> Result<Client, StoreError> {
    let mut client = way.connect()?;
    client.batch_execute(&format!("LISTEN {CHANNEL}")).map_err(|error| broken(&error))?;
    Ok(client)
}

/// Waits for other relays' news, for as long as the store lives; after a gap it tells everyone to look again.
pub(super) fn listen(mut client: Client, way: &Arc<Way>, wake: &Wake, closed: &AtomicBool) {
    while let Err(error) = pass_on(&mut client, wake, closed) {
        tracing::warn!(%error, "the notification connection is gone; connecting again");
        let fresh = loop {
            match listen_on(way) {
                Ok(fresh) => break fresh,
                Err(_) if closed.load(Ordering::Relaxed) => return,
                Err(_) => thread::sleep(PAUSE),
            }
        };
        // Where it only fell silent, its end would be waited for.
        let dead = std::mem::replace(&mut client, fresh);
        if let Err(error) = spawn("store-close", move || drop(dead)) {
            tracing::warn!(%error, "the dead notification connection was dropped at once");
        }
        wake.tell_all();
    }
}

/// Passes news on until the store is closed or the connection breaks.
fn pass_on(client: &mut Client, wake: &Wake, closed: &AtomicBool) -> Result<(), StoreError> {
    let mut quiet = 0;
    while !closed.load(Ordering::Relaxed) {
        quiet = if hear(client, wake)? { 0 } else { quiet + 1 };
        if quiet == QUIET_PAUSES {
            // A connection that is dead looks like one without news.
            client.is_valid(PATIENCE).map_err(|error| broken(&error))?;
            quiet = 0;
        }
    }
    Ok(())
}

/// Passes on what comes until there is a pause; whether anything came.
fn hear(client: &mut Client, wake: &Wake) -> Result<bool, StoreError> {
    let mut notifications = client.notifications();
    let mut news = notifications.timeout_iter(PAUSE);
    let mut heard = false;
    while let Some(notification) = news.next().map_err(|error| broken(&error))? {
        heard = true;
        if let Some(topic) = Topic::parse(notification.payload()) {
            wake.tell(&topic);
        }
    }
    Ok(heard)
}
