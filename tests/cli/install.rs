//! `install.sh` against a release on loopback: what it installs, what it refuses, what it leaves behind.

#![expect(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test says that it was skipped, and why"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the script needs besides a downloader and a checksum tool.
const TOOLS: &[&str] = &[
    "sh", "cat", "chmod", "cp", "dirname", "grep", "gzip", "mkdir", "mktemp", "mv", "rm", "tail", "tar",
    "tr", "uname",
];

/// One answer: what is sent, and how long it claims to be.
struct Answer {
    bytes: Vec<u8>,
    length: usize,
}

/// A release, served on a free port of loopback for as long as the test process lives.
struct Release {
    url: String,
}

impl Release {
    fn serve(files: BTreeMap<String, Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/releases", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that hangs up early is what some tests are about.
                let _ = answer(stream.unwrap(), &files);
            }
        });
        Self { url }
    }

    /// One whose archive and checksum are these.
    fn of(archive: Vec<u8>, checksum: &str) -> Self {
        let length = archive.len();
        Self::cut(archive, length, checksum)
    }

    /// One that promises `length` bytes of the archive.
    fn cut(archive: Vec<u8>, length: usize, checksum: &str) -> Self {
        let sum = format!("{checksum}  {}.tar.gz\n", name()).into_bytes();
        let path = format!("/releases/v{VERSION}/{}.tar.gz", name());
        Self::serve(BTreeMap::from([
            (format!("{path}.sha256"), Answer { length: sum.len(), bytes: sum }),
            (path, Answer { bytes: archive, length }),
        ]))
    }
}

fn answer(mut stream: TcpStream, files: &BTreeMap<String, Answer>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    match files.get(path) {
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Some(Answer { bytes, length }) => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
            stream.write_all(bytes)
        }
    }
}

/// The archive's name on this machine, without its ending.
fn name() -> String {
    let os = if cfg!(target_os = "macos") { "macos" } else { std::env::consts::OS };
    format!("pullhook-{VERSION}-{os}-{}", std::env::consts::ARCH)
}

/// A home to install into, with a folder for temporary files that has to end up empty.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn installed(&self) -> PathBuf {
        self.path(".local/bin/pullhook")
    }

    fn script(&self, script: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.arg(script).args(args).env_clear().current_dir(self.dir.path());
        command.env("HOME", self.dir.path()).env("TMPDIR", self.path("tmp")).env("PATH", "/usr/bin:/bin");
        command
    }

    /// Runs the script of this clone; whatever it does, it leaves no temporary file.
    fn install(&self, args: &[&str]) -> Seen {
        self.finish(&mut self.script(&manifest().join("install.sh"), args))
    }

    fn finish(&self, command: &mut Command) -> Seen {
        let seen = Seen::of(&command.output().unwrap(), self.dir.path());
        assert_eq!(listing(&self.path("tmp")), Vec::<String>::new(), "temporary files stay: {seen:?}");
        let bin = self.installed().parent().unwrap().to_path_buf();
        assert!(listing(&bin).iter().all(|name| name == "pullhook"), "{:?}", listing(&bin));
        seen
    }

    /// Puts an older version in place.
    fn with_old(self) -> Self {
        fs::create_dir_all(self.installed().parent().unwrap()).unwrap();
        fs::write(self.installed(), "old").unwrap();
        self
    }

    fn assert_old(&self) {
        assert_eq!(fs::read_to_string(self.installed()).unwrap(), "old", "the older version stays untouched");
    }
}

/// How the script ended and what it said, the home's path as `~`.
#[derive(Debug)]
struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Seen {
    fn of(output: &Output, home: &Path) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).replace(&home.display().to_string(), "~");
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn assert_refused(&self, code: i32, why: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(why), "{why:?} is not in {self:?}");
    }
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn listing(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A release archive whose pullhook is this script.
fn archive(script: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join(name());
    fs::create_dir(&inside).unwrap();
    executable(&inside.join("pullhook"), script);
    fs::write(inside.join("README.md"), "read me").unwrap();
    let output = Command::new("tar").arg("-czf").arg("-").arg(name()).current_dir(&dir).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn good() -> Vec<u8> {
    archive(&format!("#!/bin/sh\necho pullhook {VERSION}\n"))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_good_release_is_installed_and_says_where() {
    // Once: an archive holds the time at which it was made.
    let bytes = good();
    let release = Release::of(bytes.clone(), &sha256(&bytes));
    let home = Home::new().with_old();
    let seen = home.install(&["--base-url", &release.url]);
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
    assert!(
        seen.out.contains(&format!("installed pullhook {VERSION} as ~/.local/bin/pullhook\n")),
        "{seen:?}"
    );
    assert!(seen.out.contains("~/.local/bin is not on your PATH"), "{seen:?}");
    let mode = fs::metadata(home.installed()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(listing(home.dir.path()).len(), 2, "only tmp and .local: no start-up file was written");
}

#[test]
fn another_folder_another_spelling_and_a_path_that_has_it() {
    let bytes = good();
    let release = Release::of(bytes.clone(), &sha256(&bytes).to_uppercase());
    let home = Home::new();
    let to = home.path("my bin");
    let args =
        [&format!("--base-url={}/", release.url), "--version", &format!("v{VERSION}"), "--to", "my bin"];
    let mut command = home.script(&manifest().join("install.sh"), &args);
    let seen = home.finish(command.env("PATH", format!("{}:/usr/bin:/bin", to.display())));
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
    assert!(to.join("pullhook").is_file());
    assert!(!seen.out.contains("PATH"), "{seen:?}");
}

#[test]
fn every_downloader_and_checksum_tool_will_do() {
    let bytes = good();
    let release = Release::of(bytes.clone(), &sha256(&bytes));
    for choice in [["curl", "shasum"], ["wget", "sha256sum"]] {
        let home = Home::new();
        let bin = home.path("tools");
        fs::create_dir(&bin).unwrap();
        let wanted: Vec<_> = TOOLS.iter().chain(&choice).collect();
        let found: Vec<_> = wanted.iter().filter_map(|tool| which(tool)).collect();
        if found.len() < wanted.len() {
            assert!(
                std::env::var_os("PULLHOOK_TEST_REQUIRE_SERVICES").is_none(),
                "{choice:?} or one of {TOOLS:?} is missing here"
            );
            eprintln!("skipped: {choice:?} or one of {TOOLS:?} is missing here");
            continue;
        }
        for tool in found {
            symlink(&tool, bin.join(tool.file_name().unwrap())).unwrap();
        }
        let mut command = home.script(&manifest().join("install.sh"), &["--base-url", &release.url]);
        let seen = home.finish(command.env("PATH", &bin));
        assert_eq!(seen.code, Some(0), "{choice:?}: {seen:?}");
        fs::remove_file(bin.join(choice[1])).unwrap();
        let mut command = home.script(&manifest().join("install.sh"), &["--base-url", &release.url]);
        let seen = home.finish(command.env("PATH", &bin));
        seen.assert_refused(1, "neither sha256sum nor shasum is installed");
    }
}

fn which(tool: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(tool))
        .find(|path| path.exists())
}

#[test]
fn a_wrong_checksum_changes_nothing() {
    let bytes = good();
    for (checksum, why) in [
        (sha256(b"something else"), "checksum mismatch"),
        (String::new(), "holds no SHA-256"),
        (sha256(&bytes)[..63].to_owned(), "holds no SHA-256"),
        ("<html>".to_owned(), "holds no SHA-256"),
    ] {
        let home = Home::new().with_old();
        let release = Release::of(bytes.clone(), &checksum);
        home.install(&["--base-url", &release.url]).assert_refused(1, why);
        home.assert_old();
    }
}

#[test]
fn a_truncated_archive_changes_nothing() {
    let whole = good();
    let half = whole[..whole.len() / 2].to_vec();
    let cut_on_its_way = Release::cut(half.clone(), whole.len(), &sha256(&whole));
    let cut_where_it_lies = Release::of(half.clone(), &sha256(&whole));
    let cut_before_its_checksum = Release::of(half.clone(), &sha256(&half));
    for (release, why) in [
        (cut_on_its_way, "could not fetch"),
        (cut_where_it_lies, "checksum mismatch"),
        (cut_before_its_checksum, "is damaged, though its checksum is right"),
    ] {
        let home = Home::new().with_old();
        home.install(&["--base-url", &release.url]).assert_refused(1, why);
        home.assert_old();
    }
}

#[test]
fn a_binary_that_does_not_start_is_not_installed() {
    let bytes = archive("#!/bin/sh\necho GLIBC_9.99 not found >&2\nexit 1\n");
    let release = Release::of(bytes.clone(), &sha256(&bytes));
    let home = Home::new().with_old();
    let seen = home.install(&["--base-url", &release.url]);
    seen.assert_refused(1, "does not start here (GLIBC_9.99 not found): try --from-source");
    home.assert_old();
}

#[test]
fn a_version_that_is_not_there_is_named() {
    let release = Release::serve(BTreeMap::new());
    let home = Home::new().with_old();
    let seen = home.install(&["--base-url", &release.url, "--version", "9.9.9"]);
    seen.assert_refused(1, "is there a release 9.9.9 for");
    home.assert_old();
}

#[test]
fn a_dry_run_fetches_and_writes_nothing() {
    let home = Home::new();
    // Nobody listens there: the port was free a moment ago.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let seen = home.install(&["--base-url", &url, "--dry-run"]);
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.out.contains(&format!("pullhook {VERSION} for")), "{seen:?}");
    assert!(seen.out.contains("dry run: nothing was fetched, built or written"), "{seen:?}");
    assert_eq!(listing(home.dir.path()), ["tmp"]);
}

#[test]
fn a_folder_that_can_not_be_used_is_known_before_anything_is_fetched() {
    let home = Home::new();
    fs::write(home.path("file"), "").unwrap();
    fs::create_dir_all(home.path("taken/pullhook")).unwrap();
    let args = |to| ["--base-url", "http://127.0.0.1:9", "--to", to];
    home.install(&args("file/bin")).assert_refused(1, "can't create ~/file/bin");
    home.install(&args("taken")).assert_refused(1, "~/taken/pullhook is a folder");
    fs::create_dir(home.path("locked")).unwrap();
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::File::create(home.path("locked/probe")).is_ok();
    if !is_root {
        home.install(&args("locked")).assert_refused(1, "can't write to ~/locked");
    }
}

#[test]
fn wrong_usage_is_exit_2_and_says_what_to_do() {
    let home = Home::new();
    for (args, why) in [
        (["", ""], "unknown argument"),
        (["--frm-source", ""], "unknown argument --frm-source"),
        (["--to", ""], "--to needs a value"),
        (["--base-url=", "x"], "--base-url needs a value"),
        (["--base-url", "http://releases.example.com"], "must start with https://"),
        (["--base-url", "http://127.0.0.1.example.com/"], "must start with https://"),
        (["--base-url", "http://localhost:x@example.com/"], "user name"),
        (["--base-url", "ftp://127.0.0.1/"], "must start with https://"),
        (["--base-url=https://example.com", "--version=../1"], "not a version: ../1"),
    ] {
        home.install(&args).assert_refused(2, why);
    }
    home.install(&[]).assert_refused(2, "say where releases are");
    assert_eq!(listing(home.dir.path()), ["tmp"]);
    let help = home.install(&["--help"]);
    assert!(help.code == Some(0) && help.out.contains("--from-source"), "{help:?}");
}

/// A clone whose `cargo` notes how it was called and builds a script.
fn clone(home: &Home, build: &str) -> PathBuf {
    let clone = home.path("clone");
    fs::create_dir(&clone).unwrap();
    fs::write(clone.join("Cargo.toml"), "[package]\nname = \"pullhook\"\n").unwrap();
    fs::copy(manifest().join("install.sh"), clone.join("install.sh")).unwrap();
    fs::create_dir(home.path("cargo")).unwrap();
    executable(
        &home.path("cargo/cargo"),
        &format!("#!/bin/sh\nset -e\npwd > called\necho \"$@\" >> called\n{build}"),
    );
    clone
}

#[test]
fn from_source_builds_the_clone_with_its_lock_file() {
    let home = Home::new();
    let build = "mkdir -p target/release\nprintf '#!/bin/sh\\necho pullhook built\\n' > target/release/pullhook\n\
        chmod 755 target/release/pullhook\n";
    let clone = clone(&home, build);
    let path = format!("{}:/usr/bin:/bin", home.path("cargo").display());
    let seen = home.finish(home.script(&clone.join("install.sh"), &["--from-source"]).env("PATH", &path));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.out.contains("installed pullhook built as ~/.local/bin/pullhook"), "{seen:?}");
    let called = fs::read_to_string(clone.join("called")).unwrap();
    let clone = clone.display();
    assert_eq!(
        called,
        format!("{clone}\nbuild --release --locked --bin pullhook --target-dir {clone}/target\n")
    );
}

#[test]
fn from_source_says_what_is_missing() {
    let home = Home::new().with_old();
    let clone = clone(&home, "exit 101\n");
    let script = clone.join("install.sh");
    home.finish(&mut home.script(&script, &["--from-source"])).assert_refused(1, "cargo is not installed");
    let path = format!("{}:/usr/bin:/bin", home.path("cargo").display());
    home.finish(home.script(&script, &["--from-source"]).env("PATH", path))
        .assert_refused(1, "the build failed");
    fs::remove_file(clone.join("Cargo.toml")).unwrap();
    home.finish(&mut home.script(&script, &["--from-source"]))
        .assert_refused(2, "works in a clone of pullhook");
    home.assert_old();
}

#[test]
fn an_interrupted_install_leaves_nothing_behind() {
    let home = Home::new().with_old();
    let clone = clone(&home, "kill -INT $PPID\nkill -INT $PPID\nexit 0\n");
    let path = format!("{}:/usr/bin:/bin", home.path("cargo").display());
    let seen = home.finish(home.script(&clone.join("install.sh"), &["--from-source"]).env("PATH", path));
    assert_ne!(seen.code, Some(0), "{seen:?}");
    home.assert_old();
}

#[test]
fn it_is_plain_sh_and_installs_its_own_version() {
    let script = manifest().join("install.sh");
    for shell in ["sh", "dash", "bash"].iter().filter_map(|shell| which(shell)) {
        assert!(Command::new(shell).arg("-n").arg(&script).status().unwrap().success());
    }
    let text = fs::read_to_string(script).unwrap();
    assert!(
        text.contains(&format!("\nversion={VERSION}\n")),
        "install.sh names another version than Cargo.toml"
    );
    for forbidden in ["sudo ", "read -p", ".bashrc", ".profile", "[[ ", "eval "] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
}
