//! A database that can't be reached, or only seems to be: told at once, and over by itself.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pullhook::protocol::error::Code;
use pullhook::relay::Relay;
use pullhook::store::{Durability, StoreUrl};
use pullhook::wake::Topic;

use crate::harness::{Engine, Peer, TestRelay};

/// Ends the test if it takes longer: far more than any outage here does.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it goes on for ever")
}

/// Another relay on the same store, behind a way that can fail.
async fn behind(relay: &TestRelay) -> (Peer, Network) {
    let address = relay.store.text();
    let (user, rest) = address.rsplit_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let network = Network::to(server.to_owned());
    let url = StoreUrl::parse(&format!("{user}@127.0.0.1:{}/{database}", network.port)).unwrap();
    let behind = Relay::builder(url).clock(Arc::new(relay.clock.clone())).build().await.unwrap();
    (Peer { relay: behind, key: relay.key.clone() }, network)
}

#[tokio::test]
async fn work_on_an_unreachable_database_fails_at_once_until_it_is_back() {
    let Some(relay) = TestRelay::with(Engine::Postgres, Default::default()).await else { return };
    let (peer, network) = behind(&relay).await;
    peer.get("/readyz").await.expect(200);
    network.swallow(true);
    network.cut();
    let write = || peer.relay.store().write(Durability::Promised, |_| Ok(()));
    let known = within(write()).await.unwrap_err().to_string();
    let tried = network.taken();
    for _ in 0..50 {
        assert_eq!(within(write()).await.unwrap_err().to_string(), known);
        assert_eq!(peer.relay.store().read(|_| Ok(())).await.unwrap_err().to_string(), known);
        peer.get("/readyz").await.refused(Code::Unavailable);
        peer.get("/v1/events").await.refused(Code::Unavailable);
    }
    // One tries for all of them.
    assert!(network.taken() - tried < 10, "{} attempts", network.taken() - tried);
    network.swallow(false);
    network.cut();
    within(async { while peer.get("/readyz").await.status != 200 {} }).await;
    peer.get("/v1/events").await.expect(200);
}

#[tokio::test]
async fn a_dead_connection_for_news_is_noticed_although_nobody_ends_it() {
    let Some(relay) = TestRelay::with(Engine::Postgres, Default::default()).await else { return };
    let (peer, network) = behind(&relay).await;
    let topic = Topic::Environment(relay.environment.id.clone());
    let mut waiter = peer.relay.store().wake().subscribe(topic.clone());
    network.silence();
    let tell = || {
        let topic = topic.clone();
        relay.relay.store().write(Durability::Relaxed, move |tx| tx.tell(topic.clone()))
    };
    tell().await.unwrap();
    // It was missed: everybody is told to look.
    within(waiter.changed()).await;
    tell().await.unwrap();
    within(waiter.changed()).await;
}

/// A proxy that can swallow what it is sent without ending anything.
struct Network {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    swallows: bool,
    taken: usize,
    open: Vec<Line>,
}

/// One connection.
#[derive(Clone)]
struct Line {
    ends: Arc<[TcpStream; 2]>,
    is_silent: Arc<AtomicBool>,
}

impl Network {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let mut state = state.lock().unwrap();
                state.taken += 1;
                let is_silent = Arc::new(AtomicBool::new(state.swallows));
                let line = Line { ends: Arc::new([client, server]), is_silent };
                state.open.push(line.clone());
                for from in [0, 1] {
                    let line = line.clone();
                    std::thread::spawn(move || line.pump(from));
                }
            }
        });
        Self { port, shared }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// Connections taken so far.
    fn taken(&self) -> usize {
        self.shared().taken
    }

    /// What is connected from now on is never answered, or answered again.
    fn swallow(&self, swallows: bool) {
        self.shared().swallows = swallows;
    }

    /// What is connected now is never answered again.
    fn silence(&self) {
        self.shared().open.iter().for_each(|line| line.is_silent.store(true, Ordering::SeqCst));
    }

    /// Ends what is connected now.
    fn cut(&self) {
        self.shared().open.drain(..).for_each(|line| line.end());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Line {
    fn pump(&self, from: usize) {
        let (mut source, mut sink) = (&self.ends[from], &self.ends[1 - from]);
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            if !self.is_silent.load(Ordering::SeqCst) && sink.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        self.end();
    }

    fn end(&self) {
        for end in &*self.ends {
            let _gone = end.shutdown(Shutdown::Both);
        }
    }
}
