//! Connections to the app: reused while that is safe, never a failure when the app closes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::Fake;
use crate::rig::{options, start};

/// An app that closes a connection when it was idle for so long. Its port, and how many connections it took.
async fn closing_after(idle: Duration) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            taken.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer(stream, idle));
        }
    });
    (port, count)
}

async fn answer(mut stream: TcpStream, idle: Duration) {
    let mut request = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match tokio::time::timeout(idle, stream.read(&mut chunk)).await {
            Ok(Ok(read)) if read > 0 => request.extend_from_slice(&chunk[..read]),
            _ => return,
        }
        if request.ends_with(b"\r\n\r\n{}") {
            request.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_app_that_closes_idle_connections_costs_no_event() {
    let (port, _) = closing_after(Duration::from_millis(200)).await;
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), Some(&format!("127.0.0.1:{port}/")));
    options.timing.keep_alive = Duration::from_millis(100);
    let mut running = start(options);
    running.ready().await;
    for n in 0_u64..40 {
        relay.publish("a.b", b"{}");
        assert_eq!(running.ended().await.status, Some(200), "event {n}");
        // Pauses around both limits, the app's and ours.
        tokio::time::sleep(Duration::from_millis((n * 37) % 250)).await;
    }
    let (_, summary) = running.stop().await;
    assert_eq!(summary.failed, 0);
}

#[tokio::test]
async fn connections_are_reused_in_a_burst_and_let_go_after_it() {
    let (port, count) = closing_after(Duration::from_secs(60)).await;
    let relay = Fake::ours().await;
    let mut options = options(&relay.url(), Some(&format!("127.0.0.1:{port}/")));
    options.timing.keep_alive = Duration::from_secs(60);
    let mut running = start(options);
    running.ready().await;
    for _ in 0..100 {
        relay.publish("a.b", b"{}");
    }
    for _ in 0..100 {
        running.ended().await;
    }
    let opened = count.load(Ordering::SeqCst);
    assert!(opened <= 10, "{opened} connections for 100 events, 10 at a time");
    running.stop().await;
}
