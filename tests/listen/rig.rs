//! Runs `listen` and collects what it tells.

use std::sync::Arc;
use std::time::Duration;

use pullhook::listen::{
    self, Checkpoint, Ended, Event, Handle, ListenOptions, SignAs, Summary, Timing, What,
};
use pullhook::secret::Secret;
use pullhook::signature::{Key, Scheme};
use pullhook::system::{SystemClock, SystemDice};
use pullhook::target::Target;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The local secret.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

pub(crate) fn key() -> Key {
    Key::new(Scheme::standard(), &Secret::new(SECRET)).unwrap()
}

/// Options for this relay, signing with [`SECRET`], quick to retry.
pub(crate) fn options(relay: &url::Url, target: Option<&str>) -> ListenOptions {
    let (clock, dice) = (Arc::new(SystemClock), Arc::new(SystemDice));
    let mut options = ListenOptions::new(relay.clone(), Secret::new("key_test"), clock, dice);
    options.sign = SignAs::With(key());
    options.forward_to = target.map(|target| Target::parse(target).unwrap());
    options.timing = Timing {
        backoff_base: Duration::from_millis(20),
        backoff_cap: Duration::from_millis(40),
        probe: Duration::from_millis(10),
        ..Timing::default()
    };
    options
}

/// A running `listen`.
pub(crate) struct Running {
    events: mpsc::Receiver<Event>,
    seen: Vec<What>,
    pub(crate) handle: Handle,
    task: JoinHandle<Summary>,
}

pub(crate) fn start(options: ListenOptions) -> Running {
    let (handle, control) = listen::control();
    let (to, events) = mpsc::channel(1024);
    let task = tokio::spawn(listen::run(options, to, control));
    Running { events, seen: Vec::new(), handle, task }
}

impl Running {
    /// The next thing told that `pick` takes.
    pub(crate) async fn until<T>(&mut self, what: &str, pick: impl Fn(&What) -> Option<T>) -> T {
        let wait = async {
            while let Some(event) = self.events.recv().await {
                self.seen.push(event.what);
                if let Some(found) = self.seen.last().and_then(&pick) {
                    return Some(found);
                }
            }
            None
        };
        match tokio::time::timeout(Duration::from_secs(20), wait).await {
            Ok(Some(found)) => found,
            _ => panic!("never: {what}; {:#?}", self.seen),
        }
    }

    pub(crate) async fn ready(&mut self) -> listen::Ready {
        self.until("ready", |what| match what {
            What::Ready(ready) => Some(ready.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn ended(&mut self) -> Ended {
        self.until("a result", |what| match what {
            What::Ended(ended) => Some(ended.clone()),
            _ => None,
        })
        .await
    }

    /// Stops it; everything it told, and the totals.
    pub(crate) async fn stop(self) -> (Vec<What>, Summary) {
        self.handle.stop();
        self.end().await
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> (Vec<What>, Summary) {
        let wait = async {
            while let Some(event) = self.events.recv().await {
                self.seen.push(event.what);
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!("it never ended; {:#?}", self.seen);
        }
        (self.seen, self.task.await.unwrap())
    }
}

/// The last thing to remember among what was told.
pub(crate) fn checkpoint(told: &[What]) -> Option<Checkpoint> {
    told.iter().rev().find_map(|what| match what {
        What::Checkpoint(checkpoint) => Some(checkpoint.clone()),
        _ => None,
    })
}
