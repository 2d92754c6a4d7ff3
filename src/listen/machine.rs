//! The state machine: what is known, what is under way, and the loop that starts what can start and takes in what
//! ended. Every step is synchronous; what it has to tell is queued and sent between steps.

mod delivering;
mod ending;
mod opening;
mod polling;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::ack::Acks;
use super::control::{Command, Control};
use super::destination::Destination;
use super::event::{Checkpoint, End, Event, Notice, Summary, What};
use super::flow::{Flow, Load};
use super::forward::{Forwarded, Forwarder};
use super::gate::Gates;
use super::hint::Said;
use super::ledger::{Arrival, Ledger};
use super::link::{Link, LinkError};
use super::options::ListenOptions;
use super::sequence::Sequences;
use super::watch::Watch;
use crate::clock::Timestamp;
use crate::http::ConnectError;
use crate::protocol::limits::MAX_LIMIT;
use crate::protocol::listeners::{Listener, Poll};
use ending::Stopping;
use opening::{Facts, Opening};
use polling::Polls;

/// How long the end waits for its last events to be taken.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The shortest time between two rounds that nothing but time asks for.
const BREATH: Duration = Duration::from_millis(1);

/// Everything about one run.
#[derive(Debug)]
pub(super) struct Machine {
    o: ListenOptions,
    link: Link,
    forwarder: Arc<Forwarder>,
    /// In the order of [`ListenOptions::targets`].
    targets: Vec<Arc<Destination>>,
    tasks: JoinSet<Done>,
    /// The tasks of open POSTs.
    posts: HashMap<Arrival, AbortHandle>,
    out: VecDeque<Event>,
    listener: Option<String>,
    opening: Opening,
    polls: Polls,
    server: Server,
    ledger: Ledger,
    acks: Acks,
    gates: Gates,
    flow: Flow,
    sequences: Sequences,
    watch: Watch,
    paused: bool,
    said: Said,
    last_activity: Instant,
    checkpoint: Checkpoint,
    /// When the newest event arrived at the relay; the start, before there is one.
    newest_at: Timestamp,
    /// The key is refused: nothing more can be acked.
    barred: bool,
    /// Whether the checkpoint changed since it was told.
    unsaved: bool,
    summary: Summary,
    stopping: Option<Stopping>,
}

/// What the server has shown of itself.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Whether it has the fields that are ours; `None` before the first poll.
    ext: Option<bool>,
    /// Whether it takes `limit: 0`.
    idle_polls: bool,
}

/// What a task ended with.
#[derive(Debug)]
enum Done {
    Opened(Result<Listener, LinkError>),
    Polled {
        serial: u64,
        result: Result<Poll, LinkError>,
        facts: Option<Facts>,
    },
    Forwarded {
        arrival: Arrival,
        forwarded: Box<Forwarded>,
    },
    Probed {
        gate: usize,
        result: Result<(), ConnectError>,
    },
    UnknownTypes(Vec<String>),
    /// Whether it is.
    Closed(bool),
}

impl Machine {
    /// Ready to run.
    pub(super) fn new(mut o: ListenOptions, link: Link, forwarder: Forwarder) -> Self {
        o.max_in_flight = o.max_in_flight.clamp(1, MAX_LIMIT as usize);
        let targets: Vec<Arc<Destination>> = o.targets().map(|target| Arc::new(target.into())).collect();
        // Without --allow-remote every address is on this machine, whatever its name.
        let gates = Gates::new(targets.iter().map(|to| &to.endpoint), |endpoint| {
            o.gate && (!o.allow_remote || endpoint.names_loopback())
        });
        let flow = if o.print_only() { Flow::at_once() } else { Flow::new(o.max_in_flight, o.ordered) };
        let watch = Watch::new(o.clock.now(), o.timing.watch, o.timing.jump);
        let checkpoint = o.previous.clone().unwrap_or_default();
        Self {
            link,
            forwarder: Arc::new(forwarder),
            targets,
            tasks: JoinSet::new(),
            posts: HashMap::new(),
            out: VecDeque::new(),
            listener: None,
            opening: Opening::new(&o),
            polls: Polls::new(),
            server: Server { ext: None, idle_polls: true },
            ledger: Ledger::default(),
            acks: Acks::default(),
            gates,
            flow,
            sequences: Sequences::default(),
            watch,
            paused: false,
            said: Said::default(),
            last_activity: Instant::now(),
            checkpoint,
            newest_at: o.clock.now(),
            barred: false,
            unsaved: false,
            summary: Summary {
                received: 0,
                delivered: 0,
                failed: 0,
                skipped: 0,
                fenced: 0,
                end: End::Stopped,
            },
            stopping: None,
            o,
        }
    }

    /// Runs to the end.
    pub(super) async fn run(mut self, events: mpsc::Sender<Event>, mut control: Control) -> Summary {
        self.look_at_gates().await;
        loop {
            self.advance(Instant::now());
            tokio::select! {
                () = self.flush(&events) => {}
                () = control.hard.cancelled() => {}
            }
            if control.hard.is_cancelled() {
                self.force();
            }
            if self.is_over() {
                break;
            }
            let due = self.next_due().max(Instant::now() + BREATH).into();
            tokio::select! {
                () = control.hard.cancelled() => {}
                () = control.soft.cancelled(), if self.stopping.is_none() => self.stop(End::Stopped),
                Some(command) = control.commands.recv() => self.command(command),
                Some(done) = self.tasks.join_next_with_id() => {
                    self.take(done);
                    while let Some(done) = self.tasks.try_join_next_with_id() {
                        self.take(done);
                    }
                }
                () = tokio::time::sleep_until(due) => {}
            }
        }
        self.tasks.shutdown().await;
        // The end must come, even when nobody takes what is told.
        let _stuck = tokio::time::timeout(LAST_WORDS, self.flush(&events)).await;
        self.summary
    }

    /// Starts whatever can start now.
    fn advance(&mut self, now: Instant) {
        self.watch_clocks(now);
        self.give_up_kept(now);
        self.probe_gates(now);
        self.start_forwards(now);
        self.start_opening(now);
        self.start_polls(now);
        self.advance_stop(now);
        if self.o.idle_timeout.is_some_and(|limit| self.is_idle() && self.last_activity + limit <= now) {
            self.stop(End::Idle);
        }
    }

    /// When [`Machine::advance`] has something to do by itself.
    fn next_due(&self) -> Instant {
        let idle = self.o.idle_timeout.filter(|_| self.is_idle()).map(|limit| self.last_activity + limit);
        let dues = [
            Some(self.watch.due()),
            idle,
            self.gates.next_probe(),
            self.opening_due(),
            self.polls_due(),
            self.kept_due(),
            self.stop_due(),
        ];
        dues.into_iter().flatten().min().unwrap_or_else(|| self.watch.due())
    }

    fn is_idle(&self) -> bool {
        self.stopping.is_none() && self.ledger.open() == 0
    }

    fn take(&mut self, done: Result<(Id, Done), JoinError>) {
        let now = Instant::now();
        match done {
            Ok((_, Done::Opened(result))) => self.opened(result, now),
            Ok((_, Done::Polled { serial, result, facts })) => self.polled(serial, result, facts, now),
            Ok((_, Done::Forwarded { arrival, forwarded })) => self.forwarded(arrival, *forwarded, now),
            Ok((_, Done::Probed { gate, result })) => self.probed(gate, result, now),
            Ok((_, Done::UnknownTypes(patterns))) => {
                patterns.into_iter().for_each(|pattern| self.notice(Notice::UnknownType(pattern)));
            }
            Ok((_, Done::Closed(closed))) => self.closed(closed),
            Err(error) if error.is_cancelled() => {}
            Err(error) => self.panicked(&error, now),
        }
    }

    /// A task of ours failed in a way it can't: its delivery must not hang for ever.
    fn panicked(&mut self, error: &JoinError, now: Instant) {
        let post =
            self.posts.iter().find(|(_, handle)| handle.id() == error.id()).map(|(arrival, _)| *arrival);
        match post {
            Some(arrival) => self.fail(arrival, "internal error".to_owned(), Duration::ZERO, now),
            None => self.internal_error(error.to_string()),
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Pause(paused) => {
                if self.paused != paused {
                    self.paused = paused;
                    self.notice(Notice::Paused(paused));
                }
            }
            Command::LastEvent(to) => {
                let _gone = to.send(self.checkpoint.last_event_id.clone());
            }
        }
    }

    /// Compares the clocks: after a sleep no connection is trusted, and the relay is asked at once.
    fn watch_clocks(&mut self, now: Instant) {
        if self.watch.due() > now {
            return;
        }
        if let Some(away) = self.watch.look(self.o.clock.now()) {
            self.slept(away, now);
        }
        self.tell_checkpoint(false);
    }

    fn tell_checkpoint(&mut self, closed: bool) {
        if self.unsaved || closed {
            self.unsaved = false;
            self.checkpoint.closed = closed;
            self.tell(What::Checkpoint(self.checkpoint.clone()));
        }
    }

    /// How much may be claimed.
    fn room(&self, now: Instant) -> u32 {
        if self.paused || self.stopping.is_some() || self.gates.all_closed() {
            return 0;
        }
        let done = self.summary.delivered + self.summary.failed;
        self.flow.room(Load {
            held: self.ledger.held(),
            parked: self.parked(),
            oldest: self
                .ledger
                .oldest_open()
                .map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            left: self.o.until.map(|until| until.saturating_sub(done)),
        })
    }

    /// Deliveries kept for a target whose port is closed.
    fn parked(&self) -> usize {
        match self.gates.any_closed() {
            true => self.ledger.waiting(|work| !self.gates.is_open(work.gate)),
            false => 0,
        }
    }

    fn tell(&mut self, what: What) {
        self.out.push_back(Event { at: self.o.clock.now(), what });
    }

    fn notice(&mut self, notice: Notice) {
        self.tell(What::Notice(notice));
    }

    /// Sends what was told. When nobody listens any more that is a stop.
    async fn flush(&mut self, events: &mpsc::Sender<Event>) {
        while let Some(event) = self.out.pop_front() {
            if events.send(event).await.is_err() {
                self.out.clear();
                self.stop(End::Stopped);
                return;
            }
        }
    }
}
