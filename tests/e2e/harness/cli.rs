//! The binary, running: what it prints, being told to stop, how it ends.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::home::Home;
use super::log::Log;

/// A command line that has not run yet.
pub struct Cli {
    command: Command,
    shown: String,
}

impl Cli {
    pub(super) fn new(home: &Home, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(home.path("app"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path(""))
            .env("XDG_CONFIG_HOME", home.path("config"))
            .env("XDG_STATE_HOME", home.path("state"))
            .env("TMPDIR", home.path("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command, shown: args.join(" ") }
    }

    /// Through another program that runs it in its own way: `setsid`, `sh -c '... exec "$@"' sh`.
    pub fn through(mut self, program: &str, args: &[&str]) -> Self {
        let mut wrapped = Command::new(program);
        wrapped.args(args).arg(self.command.get_program()).args(self.command.get_args());
        wrapped.current_dir(self.command.get_current_dir().unwrap()).env_clear();
        for (name, value) in self.command.get_envs() {
            if let Some(value) = value {
                wrapped.env(name, value);
            }
        }
        wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command = wrapped;
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Short numbers for the pull loop, as JSON.
    pub fn timing(self, json: &str) -> Self {
        self.env("PULLHOOK_TIMING", json)
    }

    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub fn spawn(mut self) -> Run {
        let mut child = self.command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        let ended = wait(child);
        Run { pid, shown: self.shown, out, err, ended, out_seen: 0, err_seen: 0 }
    }

    /// Runs until this was seen, then asks it to end.
    #[track_caller]
    pub fn run_until(self, seen: impl FnOnce(&mut Run)) -> Finished {
        let mut run = self.spawn();
        seen(&mut run);
        run.stop()
    }

    /// Runs to the end.
    #[track_caller]
    pub fn run(self) -> Finished {
        self.spawn().end()
    }
}

fn lines(from: impl Read + Send + 'static) -> Log<String> {
    let log = Log::new();
    let lines = log.clone();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            lines.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
            line.clear();
        }
        lines.close();
    });
    log
}

fn wait(mut child: Child) -> Log<ExitStatus> {
    let log = Log::new();
    let ended = log.clone();
    std::thread::spawn(move || ended.push(child.wait().unwrap()));
    log
}

/// A running command. It is killed when dropped; what it printed is shown when the test failed.
pub struct Run {
    pub pid: Pid,
    shown: String,
    pub out: Log<String>,
    pub err: Log<String>,
    ended: Log<ExitStatus>,
    out_seen: usize,
    err_seen: usize,
}

impl Run {
    /// The next JSON line of this type after those that were taken; everything on stdout must be JSON.
    #[track_caller]
    pub fn next(&mut self, kind: &str) -> Value {
        self.next_where(kind, |_| true)
    }

    /// The next JSON line of this type that is `wanted`.
    #[track_caller]
    pub fn next_where(&mut self, kind: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let is_it = |line: &String| {
            let value = parse(line);
            value["type"] == kind && wanted(&value)
        };
        let (at, line) = self.out.find(self.out_seen, &format!("a {kind} line"), is_it);
        self.out_seen = at + 1;
        parse(&line)
    }

    /// The next line on stdout that holds this text.
    #[track_caller]
    pub fn line(&mut self, part: &str) -> String {
        let (at, line) = self.out.find(self.out_seen, part, |line| line.contains(part));
        self.out_seen = at + 1;
        line
    }

    /// The next line on stderr that holds this text.
    #[track_caller]
    pub fn says(&mut self, part: &str) -> String {
        let (at, line) = self.err.find(self.err_seen, part, |line| line.contains(part));
        self.err_seen = at + 1;
        line
    }

    /// All JSON lines of this type so far.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        of_kind(&self.out.all(), kind)
    }

    pub fn signal(&self, signal: Signal) {
        if !self.has_ended() {
            kill_process(self.pid, signal).unwrap();
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ended.len() > 0
    }

    /// Waits for the end.
    #[track_caller]
    pub fn end(&mut self) -> Finished {
        let status = self.ended.wait_for(1, "end of the process")[0];
        let (out, err) = (self.out.whole("stdout"), self.err.whole("stderr"));
        Finished { code: status.code().unwrap_or_else(|| -status.signal().unwrap()), out, err }
    }

    /// Asks it to end, and waits for the good end.
    #[track_caller]
    pub fn stop(&mut self) -> Finished {
        self.signal(Signal::INT);
        let finished = self.end();
        finished.expect(0);
        finished
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _gone = kill_process(self.pid, Signal::KILL);
        }
        if std::thread::panicking() {
            let (shown, pid) = (&self.shown, self.pid.as_raw_nonzero());
            eprintln!("---- pullhook {shown} (pid {pid})");
            self.out.all().iter().for_each(|line| eprintln!("stdout| {line}"));
            self.err.all().iter().for_each(|line| eprintln!("stderr| {line}"));
        }
    }
}

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; a signal's number, negative, when that ended it.
    pub code: i32,
    pub out: Vec<String>,
    pub err: Vec<String>,
}

impl Finished {
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// All JSON lines of this type.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        of_kind(&self.out, kind)
    }

    /// The last line of all: the totals.
    #[track_caller]
    pub fn summary(&self) -> Value {
        let last = self.out.last().map(|line| parse(line)).unwrap_or_default();
        assert_eq!(last["type"], "summary", "{self:#?}");
        last
    }

    pub fn stderr(&self) -> String {
        self.err.join("\n")
    }
}

#[track_caller]
fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("stdout holds something that is no JSON: {line}"))
}

fn of_kind(lines: &[String], kind: &str) -> Vec<Value> {
    lines.iter().map(|line| parse(line)).filter(|value| value["type"] == kind).collect()
}
