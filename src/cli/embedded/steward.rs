//! Keeps a relay alive for a running `listen`: takes the lock when the host ends, hands over when a `serve` asks.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::home::Home;
use super::host::Host;
use super::lock::Lock;

/// After a failed try to host: long enough not to spin, short enough not to be missed.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until `stop`; a host that it has then is ended in order.
pub async fn keep(home: Home, who: &'static str, mut host: Option<Host>, stop: CancellationToken) {
    loop {
        host = match host {
            Some(mut hosting) => {
                let asked = hosting.asked_to_hand_over();
                tokio::select! {
                    () = stop.cancelled() => return hosting.end().await,
                    () = asked.cancelled() => {
                        hosting.end().await;
                        home.printer.note("handed the relay over to another pullhook, as it asked");
                    }
                    () = hosting.failed() => home.printer.warn("the relay in this process ended"),
                }
                None
            }
            None => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    lock = next_lock(&home) => take_over(&home, who, lock).await,
                }
            }
        };
    }
}

/// The lock, once its holder ended; a thread waits for it, since the operating system knows no other way. When this
/// future is dropped the thread gives the lock back as soon as it gets it.
async fn next_lock(home: &Home) -> Option<Lock> {
    let (give, take) = oneshot::channel();
    let locks = home.locks().clone();
    let waiting = std::thread::Builder::new().name("relay-lock".to_owned()).spawn(move || {
        if let Ok(lock) = locks.wait() {
            let _nobody_waits = give.send(lock);
        }
    });
    match waiting {
        Ok(_thread) => take.await.ok(),
        Err(_) => None,
    }
}

async fn take_over(home: &Home, who: &'static str, lock: Option<Lock>) -> Option<Host> {
    let started = match lock {
        Some(lock) => Host::start(home, lock, who).await,
        None => Err(crate::cli::error::CliError::internal("can't wait for the relay's lock")),
    };
    match started {
        Ok(host) => {
            home.printer
                .note(&format!("the relay's host ended: this process hosts it now, at {}", host.url()));
            Some(host)
        }
        Err(error) => {
            home.printer.warn(&format!("can't host the relay: {error}"));
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}
