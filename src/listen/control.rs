//! How a running `listen` is steered: two steps of stopping, and the keys of a terminal.

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// What may be asked of a running `listen`.
#[derive(Debug)]
pub enum Command {
    /// Claim nothing more until told otherwise, or go on claiming.
    Pause(bool),
    /// The newest event that was handed out, for `replay last`.
    LastEvent(oneshot::Sender<Option<String>>),
}

/// The receiving end, for [`super::run`].
#[derive(Debug)]
pub struct Control {
    /// Stop claiming, drain, ack, close.
    pub(super) soft: CancellationToken,
    /// End at once.
    pub(super) hard: CancellationToken,
    pub(super) commands: mpsc::Receiver<Command>,
}

/// The sending end; dropping it stops nothing.
#[derive(Clone, Debug)]
pub struct Handle {
    soft: CancellationToken,
    hard: CancellationToken,
    commands: mpsc::Sender<Command>,
}

/// Both ends.
pub fn control() -> (Handle, Control) {
    let (to, from) = mpsc::channel(8);
    let handle = Handle { soft: CancellationToken::new(), hard: CancellationToken::new(), commands: to };
    let control = Control { soft: handle.soft.clone(), hard: handle.hard.clone(), commands: from };
    (handle, control)
}

impl Handle {
    /// Stop claiming, finish what is open, ack it, close the listener.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// End now: nothing more is acked, the listener stays open for `--since last`.
    pub fn stop_now(&self) {
        self.hard.cancel();
    }

    /// Pauses or resumes claiming.
    pub async fn pause(&self, paused: bool) {
        let _ended = self.commands.send(Command::Pause(paused)).await;
    }

    /// The newest event that was handed out.
    pub async fn last_event(&self) -> Option<String> {
        let (to, from) = oneshot::channel();
        self.commands.send(Command::LastEvent(to)).await.ok()?;
        from.await.ok().flatten()
    }
}
