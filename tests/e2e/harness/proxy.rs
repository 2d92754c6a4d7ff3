//! A network: a TCP proxy whose connections can be cut and stalled, by hand or each by its own fate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::log::Log;

/// What becomes of one direction of a connection, after so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends.
    Cut(usize),
    /// Nothing more comes; the connection stays.
    Stall(usize),
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// What is asked.
    pub up: Option<Fault>,
    /// What is answered.
    pub down: Option<Fault>,
}

type Script = Box<dyn Fn(u64) -> Fate + Send>;

/// The proxy.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
    /// Connections taken so far.
    pub accepted: Log<Fate>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    script: Script,
    stalled: bool,
    open: Vec<(TcpStream, TcpStream)>,
}

impl Proxy {
    /// In front of a port of 127.0.0.1.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { script: Box::new(|_| Fate::default()), stalled: false, open: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepted = Log::new();
        let proxy = Self { port, shared: Arc::clone(&shared), accepted: accepted.clone() };
        std::thread::spawn(move || {
            for (number, client) in (1..).zip(listener.incoming()) {
                let Ok(client) = client else { return };
                // Nobody there: to the client that is a connection which ends at once.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { continue };
                let fate = (shared.lock().script)(number);
                accepted.push(fate);
                shared.connect(client, server, fate);
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Each connection's fate, by its number from 1.
    pub fn fates(self, script: impl Fn(u64) -> Fate + Send + 'static) -> Self {
        self.shared.lock().script = Box::new(script);
        self
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.shared.lock().open.drain(..).for_each(|(client, server)| close(&client, &server));
    }

    /// Holds back every byte from now on, or lets them flow again.
    pub fn stall(&self, stalled: bool) {
        self.shared.lock().stalled = stalled;
        self.shared.changed.notify_all();
    }
}

fn close(one: &TcpStream, other: &TcpStream) {
    let _gone = (one.shutdown(Shutdown::Both), other.shutdown(Shutdown::Both));
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, client: TcpStream, server: TcpStream, fate: Fate) {
        let _both_ways = (client.set_nodelay(true), server.set_nodelay(true));
        let clone = |stream: &TcpStream| stream.try_clone().unwrap();
        self.lock().open.push((clone(&client), clone(&server)));
        for (from, to, fault) in [(clone(&client), clone(&server), fate.up), (server, client, fate.down)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.pump(from, to, fault));
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, fault: Option<Fault>) {
        let mut buffer = [0; 16 << 10];
        let mut passed = 0;
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                break;
            }
            let most = match fault {
                Some(Fault::Cut(after) | Fault::Stall(after)) => read.min(after - passed),
                None => read,
            };
            self.wait_while_stalled();
            if to.write_all(&buffer[..most]).is_err() {
                break;
            }
            passed += most;
            match fault {
                Some(Fault::Cut(after)) if passed == after => break,
                Some(Fault::Stall(after)) if passed == after => {
                    // Whoever waits for more has to give up by itself.
                    while from.read(&mut buffer).is_ok_and(|read| read > 0) {}
                    break;
                }
                _ => {}
            }
        }
        close(&from, &to);
    }

    fn wait_while_stalled(&self) {
        let guard = self.changed.wait_while(self.lock(), |state| state.stalled);
        drop(guard.unwrap_or_else(PoisonError::into_inner));
    }
}
