//! `listen` on a terminal: keys, colour, the whole secret, and a terminal that is left as it was.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::app::App;
use crate::harness::Cli;
use crate::relay;

/// A terminal with a process on it.
pub(crate) struct Terminal {
    master: File,
    slave: File,
    child: Child,
    output: Receiver<String>,
    seen: String,
}

impl Terminal {
    /// Starts the binary on it.
    pub(crate) fn start(cli: &Cli, args: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let binary = cli.command(args);
        // A session of its own, with this as its controlling terminal.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(binary.get_program()).args(binary.get_args());
        command.current_dir(cli.project()).env_clear().env("TERM", "xterm");
        command.envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let master = File::from(master);
        let output = texts(master.try_clone().unwrap());
        Self { master, slave, child, output, seen: String::new() }
    }

    /// Waits until this was shown, and forgets what came before it.
    pub(crate) fn shows(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.output.recv_timeout(Duration::from_secs(60)) {
                Ok(more) => self.seen.push_str(&more),
                Err(_) => panic!("never showed {text:?}, but {:?}", self.seen),
            }
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: u8) {
        self.master.write_all(&[key]).unwrap();
    }

    /// Waits for the process's end; its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn reads_lines(&self) -> bool {
        tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn texts(mut from: File) -> Receiver<String> {
    let (to, texts) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if to.send(String::from_utf8_lossy(&bytes[..read]).into_owned()).is_err() {
                break;
            }
        }
    });
    texts
}

#[test]
fn keys_replay_pause_and_copy() {
    let (cli, app) = (Cli::new(), App::start());
    let secret = String::from_utf8(cli.run(&["listen", "--print-secret"]).stdout).unwrap();
    let mut terminal = Terminal::start(&cli, &["listen", &app.port().to_string()]);
    let ready = terminal.shows("(^C to quit)");
    assert!(ready.contains("\u{1b}[1m> Ready!") && ready.contains(secret.trim()), "{ready:?}");
    terminal.shows("keys: r replay last");
    relay::of(&cli).event("a.b");
    terminal.shows("[200]");
    assert_eq!(app.next().header("webhook-replay"), None);
    assert!(!terminal.reads_lines());

    terminal.press(b'r');
    terminal.shows("(replay)");
    assert_eq!(app.next().header("webhook-replay"), Some("1"));
    terminal.press(b'p');
    terminal.shows("paused");
    terminal.press(b'p');
    terminal.shows("going on");
    terminal.press(b'c');
    terminal.shows("curl -X 'POST'");
    terminal.shows("\u{1b}]52;c;");
    terminal.press(b'?');
    terminal.shows("^C quit");
    terminal.press(3);
    terminal.shows("2 events received: 2 delivered, 0 failed, 0 skipped");
    assert_eq!(terminal.end(), Some(0));
    assert!(terminal.reads_lines(), "the terminal is as it was");
}

#[test]
fn replay_asks_about_many() {
    let (cli, app) = (Cli::new(), App::start());
    let mut listen = cli.start(&["listen", "-j", &app.port().to_string()]);
    listen.record("ready");
    let relay = relay::of(&cli);
    for _ in 0..101 {
        relay.event("a.b");
    }
    (0..101).for_each(|_| drop(app.next()));
    for (key, answer, code) in
        [(b'n', "nothing was replayed", 2), (b'y', "replayed 101 events to 1 listener", 0)]
    {
        let mut terminal = Terminal::start(&cli, &["replay", "--from", "2h", "--quiet"]);
        terminal.shows("replay 101 events? [y/N]");
        terminal.press(key);
        terminal.press(b'\r');
        terminal.shows(answer);
        assert_eq!(terminal.child.wait().unwrap().code(), Some(code));
    }
    (0..101).for_each(|_| drop(app.next()));
    assert_eq!(listen.interrupt(), Some(0));
    assert_eq!(app.others().len(), 0);
}
