//! Being asked to end: the first time in order, the second time at once.

use tokio::sync::mpsc;

use crate::cli::error::CliError;
use crate::cli::os;

/// Signals that ask the process to end, one by one.
#[derive(Debug)]
pub struct Signals(mpsc::Receiver<()>);

/// From now on these signals no longer end the process by themselves. Must run inside the runtime.
pub fn listen() -> Result<Signals, CliError> {
    let (to, from) = mpsc::channel(8);
    let ask = move || {
        // A full queue has been asked often enough.
        let _full = to.try_send(());
    };
    os::on_end_signal(ask)
        .map_err(|error| CliError::internal(format!("can't listen for signals: {error}")))?;
    Ok(Signals(from))
}

impl Signals {
    /// The first one.
    pub async fn first(&mut self) {
        self.next().await;
    }

    /// The next one.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}
