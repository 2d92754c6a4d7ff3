//! A process that runs while the test goes on: its lines as they come, signals, its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// So long a test waits for something that has to come; only a failing one does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running binary; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr, seen: Vec::new() }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of stdout.
    pub(crate) fn line(&mut self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let err: Vec<String> = self.stderr.try_iter().collect();
            panic!("no further line; stdout so far: {:#?}, stderr: {err:#?}", self.seen)
        });
        self.seen.push(line.clone());
        line
    }

    /// The next JSON line of this type; those before it are passed over.
    pub(crate) fn record(&mut self, kind: &str) -> Value {
        loop {
            let record: Value = serde_json::from_str(&self.line()).unwrap();
            if record["type"] == kind {
                return record;
            }
        }
    }

    /// The next line of stderr with this text in it.
    pub(crate) fn said(&mut self, text: &str) -> String {
        let mut passed = Vec::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => passed.push(line),
                Err(_) => panic!("never said {text:?}, but {passed:#?}"),
            }
        }
    }

    /// Sends a signal by its name: INT, TERM, KILL, STOP, CONT.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for its end; what it still said on both streams.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>, Vec<String>) {
        let status = self.child.wait().unwrap();
        let mut stdout = std::mem::take(&mut self.seen);
        stdout.extend(self.stdout.iter());
        let stderr = self.stderr.iter().collect();
        (status, stdout, stderr)
    }

    /// Interrupts it and waits for its end; the exit code.
    pub(crate) fn interrupt(self) -> Option<i32> {
        self.signal("INT");
        self.end().0.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
