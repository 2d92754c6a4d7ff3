"""A relay for the whole run, and what else it takes: the binary, in a home of its own.

The binary is `PULLHOOK_BIN`, else the debug build. With `PULLHOOK_API_URL` and `PULLHOOK_API_KEY` set, that relay is
asked instead, by every test that needs none of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import typing
from pathlib import Path

import pytest
from coss import Coss

ROOT = Path(__file__).parents[2]
BINARY = Path(os.environ.get("PULLHOOK_BIN") or ROOT / "target" / "debug" / "pullhook").absolute()
API_VERSION = "2026-10-10"


class Pullhook:
    """The binary, with nothing of the caller's settings."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PULLHOOK_", "XDG_"))}
        self.environment = {**kept, "HOME": str(home)}
        self.project = home / "project"
        self.project.mkdir()

    def start(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        environment = {**self.environment, **variables}
        return subprocess.Popen(
            [BINARY, *args], cwd=self.project, env=environment, stdout=subprocess.PIPE, text=True
        )

    def run(self, *args: str, **variables: str) -> str:
        """What it says on stdout; it has to end well."""
        process = self.start(*args, **variables)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, (args, output)
        return output.strip()


def first_line(process: subprocess.Popen[str]) -> dict[str, typing.Any]:
    """What a process says once it is ready."""
    return json.loads(process.stdout.readline())


def stop(process: subprocess.Popen[str]) -> None:
    """Ends it as ^C does, which is a good end."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0


class Relay(typing.NamedTuple):
    url: str
    key: str
    pullhook: Pullhook

    def client(self, **settings: typing.Any) -> Coss:
        return Coss(**{"base_url": self.url, "api_key": self.key, "api_version": API_VERSION, **settings})

    def start(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        """The binary, against this relay."""
        return self.pullhook.start(*args, "--api-url", self.url, PULLHOOK_API_KEY=self.key, **variables)

    def run(self, *args: str) -> typing.Any:
        """What the binary answers about this relay."""
        answer = self.pullhook.run(*args, "--api-url", self.url, "--output", "json", PULLHOOK_API_KEY=self.key)
        return json.loads(answer)


@contextlib.contextmanager
def serving(home: Path, config: str = "") -> typing.Iterator[Relay]:
    """A relay that is told `config`, with its store at `home/relay.db`."""
    pullhook = Pullhook(home)
    (home / "relay.toml").write_text(config, encoding="utf-8")
    store = ("--store", f"sqlite:{home / 'relay.db'}")
    process = pullhook.start(
        "serve", "--bind", "127.0.0.1:0", *store, "--config", str(home / "relay.toml"), "--output", "json"
    )
    try:
        url = first_line(process)["url"]
        yield Relay(url, pullhook.run("keys", "create", "--quiet", *store), pullhook)
    finally:
        stop(process)


@pytest.fixture(scope="session")
def relay() -> typing.Iterator[Relay]:
    url, key = os.environ.get("PULLHOOK_API_URL", ""), os.environ.get("PULLHOOK_API_KEY", "")
    with tempfile.TemporaryDirectory() as home:
        if url or key:
            assert url and key, "set both PULLHOOK_API_URL and PULLHOOK_API_KEY, or neither"
            yield Relay(url, key, Pullhook(Path(home)))
            return
        with serving(Path(home)) as relay:
            yield relay


@pytest.fixture
def client(relay: Relay) -> Coss:
    return relay.client()


@pytest.fixture
def add_source(relay: Relay) -> typing.Iterator[typing.Callable[..., str]]:
    """Adds a source, by its name, for one test; what it answers is where to post."""
    added = []

    def add(name: str, scheme: str, secret: str = "") -> str:
        arguments = [name, "--scheme", scheme]
        if secret:
            file = relay.pullhook.project / f"{name}-secret"
            file.write_text(secret, encoding="utf-8")
            arguments += ["--secret-file", str(file)]
        source = relay.run("sources", "add", *arguments)
        added.append(source["id"])
        return source["ingress_url"]

    yield add
    for source in added:
        relay.run("sources", "remove", source)
