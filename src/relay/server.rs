//! The accept loop: one task a connection, slow headers cut, shutdown in two steps.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How long a connection may take to send a request's headers.
const HEADER_DEADLINE: Duration = Duration::from_secs(15);
/// How long requests that run may still take once the relay stops.
const DRAIN: Duration = Duration::from_secs(10);
/// After a failed accept (no file descriptors left, say): long enough not to spin, short enough not to matter.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`; then tells `stop`, lets requests end, and returns.
pub(super) async fn serve(
    router: axum::Router,
    listener: TcpListener,
    shutdown: CancellationToken,
    stop: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => spawn(stream, router.clone(), &graceful),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stop.cancel();
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still running when the relay stopped");
    }
}

fn spawn(stream: TcpStream, router: axum::Router, graceful: &GracefulShutdown) {
    // Small answers must not wait for more to come.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_DEADLINE).half_close(false);
    let service = TowerToHyperService::new(router);
    let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}
