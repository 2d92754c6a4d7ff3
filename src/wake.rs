//! Tells waiting polls and workers that there is something to look at.
//!
//! Register first, then look: [`Wake::subscribe`] before the query, [`Waiter::changed`] after it. A topic may be told
//! without news; it is never silent after news. Across processes the store carries the topics (PostgreSQL
//! LISTEN/NOTIFY) and tells them here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// What can be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Some stream has an event that isn't dispatched.
    Arrived,
    /// Sources or keys were changed.
    Sources,
    /// Deliveries of this environment's listeners changed.
    Environment(String),
    /// Something of this listener was handed out or given back. Only this process hears of it: who waits for a number
    /// to change is seldom and near, a hand-out is often.
    Listener(String),
}

impl Topic {
    /// The text that travels through a database's notifications.
    pub fn text(&self) -> String {
        match self {
            Self::Arrived => "arrived".to_owned(),
            Self::Sources => "sources".to_owned(),
            Self::Environment(id) => format!("environment:{id}"),
            Self::Listener(id) => format!("listener:{id}"),
        }
    }

    /// Reads [`Topic::text`].
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "arrived" => Some(Self::Arrived),
            "sources" => Some(Self::Sources),
            _ => match text.split_once(':')? {
                ("environment", id) => Some(Self::Environment(id.to_owned())),
                ("listener", id) => Some(Self::Listener(id.to_owned())),
                _ => None,
            },
        }
    }
}

/// The switchboard of one process; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Mutex<HashMap<Topic, watch::Sender<u64>>>>);

impl Wake {
    /// From here on, [`Waiter::changed`] ends for whatever is told about `topic`.
    pub fn subscribe(&self, topic: Topic) -> Waiter {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        topics.retain(|_, sender| sender.receiver_count() > 0);
        Waiter(topics.entry(topic).or_insert_with(|| watch::channel(0).0).subscribe())
    }

    /// Tells everyone who waits for `topic`.
    pub fn tell(&self, topic: &Topic) {
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(topic) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Tells everyone: after a gap in which news may have been missed.
    pub fn tell_all(&self) {
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        topics.values().for_each(|sender| sender.send_modify(|count| *count += 1));
    }
}

/// One who waits for a topic.
#[derive(Debug)]
pub struct Waiter(watch::Receiver<u64>);

impl Waiter {
    /// Ends once the topic was told since the last call (or the subscription).
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The switchboard is gone: nothing will be told any more.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the topic was told since the last call; doesn't wait.
    pub fn take_change(&mut self) -> bool {
        let changed = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_between_registering_and_looking_is_not_missed() {
        let wake = Wake::default();
        let mut waiter = wake.subscribe(Topic::Environment("env_1".into()));
        wake.tell(&Topic::Environment("env_1".into()));
        waiter.changed().await;
        wake.tell(&Topic::Environment("env_2".into()));
        assert!(!waiter.take_change());
        wake.tell_all();
        assert!(waiter.take_change());
    }

    #[test]
    fn topics_travel_as_text() {
        let (environment, listener) = (Topic::Environment("env_1".into()), Topic::Listener("whlis_1".into()));
        for topic in [Topic::Arrived, Topic::Sources, environment, listener] {
            assert_eq!(Topic::parse(&topic.text()), Some(topic));
        }
        assert_eq!(Topic::parse("weather"), None);
        assert_eq!(Topic::parse("weather:sunny"), None);
    }
}
