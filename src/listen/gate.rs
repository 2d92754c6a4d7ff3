//! One gate per target on this machine: closed while nothing listens there, so that no event is wasted on it.

use std::time::{Duration, Instant};

use crate::http::Endpoint;

/// How long a told count of waiting events stands before a greater one is told.
const TOLD_FOR: Duration = Duration::from_secs(10);

/// The gates of all targets.
#[derive(Debug)]
pub(super) struct Gates {
    gates: Vec<Gate>,
    /// Whether a target has none (it is elsewhere, or `--no-gate`).
    ungated: bool,
}

#[derive(Debug)]
struct Gate {
    endpoint: Endpoint,
    open: bool,
    tried: Vec<String>,
    /// When its closing was told, and with how many that waited.
    told: Option<(Instant, Option<u64>)>,
    probe_at: Option<Instant>,
}

/// A closed port that is to be told of.
#[derive(Debug)]
pub(super) struct Closed {
    /// The target.
    pub endpoint: Endpoint,
    /// The addresses that refused.
    pub tried: Vec<String>,
}

impl Gates {
    /// Gates for these targets, all open.
    pub(super) fn new<'a>(
        targets: impl Iterator<Item = &'a Endpoint>,
        gated: impl Fn(&Endpoint) -> bool,
    ) -> Self {
        let mut gates: Vec<Gate> = Vec::new();
        let mut ungated = false;
        for endpoint in targets {
            if !gated(endpoint) {
                ungated = true;
            } else if !gates.iter().any(|gate| gate.endpoint == *endpoint) {
                let endpoint = endpoint.clone();
                gates.push(Gate { endpoint, open: true, tried: Vec::new(), told: None, probe_at: None });
            }
        }
        Self { gates, ungated }
    }

    /// Every gate with its target.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Endpoint)> {
        self.gates.iter().enumerate().map(|(n, gate)| (n, &gate.endpoint))
    }

    /// The gate of a target; `None` = it has none.
    pub(super) fn of(&self, endpoint: &Endpoint) -> Option<usize> {
        self.gates.iter().position(|gate| gate.endpoint == *endpoint)
    }

    /// Whether POSTs may pass; always where there is no gate.
    pub(super) fn is_open(&self, gate: Option<usize>) -> bool {
        gate.and_then(|n| self.gates.get(n)).is_none_or(|gate| gate.open)
    }

    /// Whether every POST would be refused.
    pub(super) fn all_closed(&self) -> bool {
        !self.ungated && !self.gates.is_empty() && self.gates.iter().all(|gate| !gate.open)
    }

    /// Whether any port is closed.
    pub(super) fn any_closed(&self) -> bool {
        self.gates.iter().any(|gate| !gate.open)
    }

    /// The port refused: no more POSTs until a probe says otherwise.
    pub(super) fn close(&mut self, gate: usize, tried: Vec<String>, probe_at: Instant) {
        let Some(gate) = self.gates.get_mut(gate) else { return };
        gate.open = false;
        gate.tried = tried;
        gate.probe_at = Some(probe_at);
    }

    /// Something listens again. Whether its closing had been told.
    pub(super) fn open(&mut self, gate: usize) -> bool {
        let Some(gate) = self.gates.get_mut(gate) else { return false };
        gate.open = true;
        gate.probe_at = None;
        gate.told.take().is_some()
    }

    /// When the next probe is due.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        self.gates.iter().filter_map(|gate| gate.probe_at).min()
    }

    /// The probes that are due; each is due again only when [`Gates::close`] says so.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(usize, Endpoint)> {
        let due =
            self.gates.iter_mut().enumerate().filter(|(_, gate)| gate.probe_at.is_some_and(|at| at <= now));
        due.map(|(n, gate)| {
            gate.probe_at = None;
            (n, gate.endpoint.clone())
        })
        .collect()
    }

    /// Whether a closing waits to be told.
    pub(super) fn has_news(&self) -> bool {
        self.gates.iter().any(|gate| !gate.open && gate.told.is_none())
    }

    /// The closings that wait to be told. The count is of all targets together: when it has grown, the first closed
    /// port is told of again, not with each poll.
    pub(super) fn take_news(&mut self, waiting: Option<u64>, now: Instant) -> Vec<Closed> {
        let mut closed: Vec<&mut Gate> = self.gates.iter_mut().filter(|gate| !gate.open).collect();
        let grown = |told: &(Instant, Option<u64>)| waiting > told.1 && told.0 + TOLD_FOR <= now;
        if closed.iter().all(|gate| gate.told.is_some())
            && let Some(gate) = closed.first_mut()
        {
            gate.told.take_if(|told| grown(told));
        }
        let news = closed.into_iter().filter(|gate| gate.told.is_none());
        news.map(|gate| {
            gate.told = Some((now, waiting));
            Closed { endpoint: gate.endpoint.clone(), tried: gate.tried.clone() }
        })
        .collect()
    }

    /// The addresses that refused last.
    pub(super) fn tried(&self, gate: usize) -> &[String] {
        self.gates.get(gate).map_or(&[], |gate| &gate.tried)
    }

    /// The name of a gate's target.
    pub(super) fn name(&self, gate: usize) -> String {
        self.gates.get(gate).map_or_else(String::new, |gate| gate.endpoint.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(port: u16) -> Endpoint {
        Endpoint::Tcp { tls: false, host: "localhost".to_owned(), port }
    }

    #[test]
    fn one_gate_per_target_and_one_line_per_closing() {
        let (a, b) = (here(1), here(2));
        let mut gates = Gates::new([&a, &b, &a].into_iter(), |_| true);
        assert_eq!(gates.all().count(), 2);
        let now = Instant::now();
        gates.close(0, vec!["127.0.0.1:1".to_owned()], now);
        gates.close(0, vec!["127.0.0.1:1".to_owned()], now);
        assert!(!gates.is_open(Some(0)) && gates.is_open(Some(1)) && !gates.all_closed());
        assert_eq!(gates.take_news(None, now).len(), 1);
        assert!(!gates.has_news());
        assert_eq!(gates.take_due(now).len(), 1);
        assert_eq!(gates.next_probe(), None, "one probe at a time");
        gates.close(1, Vec::new(), now);
        assert!(gates.all_closed());
        assert!(!gates.open(1), "never told, so its opening isn't either");
        assert!(gates.open(0));
    }

    #[test]
    fn a_growing_count_is_told_again_and_not_with_each_poll() {
        let (a, b) = (here(1), here(2));
        let mut gates = Gates::new([&a, &b].into_iter(), |_| true);
        let start = Instant::now();
        let closed = |gates: &mut Gates| [0, 1].map(|gate| gates.close(gate, Vec::new(), start));
        closed(&mut gates);
        let mut told = |seconds: u64, waiting| {
            closed(&mut gates);
            gates.take_news(waiting, start + Duration::from_secs(seconds)).len()
        };
        assert_eq!(told(0, Some(0)), 2);
        assert_eq!([told(1, Some(1)), told(2, Some(2)), told(9, Some(3))], [0, 0, 0]);
        assert_eq!([told(10, Some(4)), told(11, Some(5))], [1, 0], "the count is of both");
        assert_eq!([told(30, Some(4)), told(40, Some(3))], [0, 0], "it did not grow");
        assert_eq!(told(50, Some(5)), 1);
        assert_eq!(told(90, None), 0, "unknown is not more");
    }

    #[test]
    fn a_target_without_a_gate_is_never_closed() {
        let (a, b) = (here(1), here(2));
        let mut gates = Gates::new([&a, &b].into_iter(), |endpoint| *endpoint == a);
        gates.close(0, Vec::new(), Instant::now());
        assert_eq!(gates.of(&b), None);
        assert!(gates.is_open(None) && !gates.all_closed());
    }
}
