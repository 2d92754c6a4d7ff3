"""A relay for the whole run, and what else it takes: the binary, in a home of its own.

The binary is `PULLHOOK_BIN`, else the debug build. With `PULLHOOK_API_URL` and `PULLHOOK_API_KEY` set, that relay is
asked instead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import typing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BINARY = Path(os.environ.get("PULLHOOK_BIN") or ROOT / "target" / "debug" / "pullhook").absolute()


class Pullhook:
    """The binary, with nothing of the caller's settings."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PULLHOOK_", "XDG_"))}
        self.environment = {**kept, "HOME": str(home)}
        self.project = home / "project"
        self.project.mkdir()

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BINARY, *args], cwd=self.project, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def run(self, *args: str) -> str:
        """What it says on stdout; it has to end well."""
        process = self.start(*args)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, (args, output)
        return output.strip()


def first_line(process: subprocess.Popen[str]) -> dict[str, typing.Any]:
    """What a process says once it is ready."""
    return json.loads(process.stdout.readline())


def stop(process: subprocess.Popen[str]) -> None:
    """Ends it as ^C does, which is a good end."""
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


class Relay(typing.NamedTuple):
    url: str
    key: str


@pytest.fixture(scope="session")
def pullhook() -> typing.Iterator[Pullhook]:
    with tempfile.TemporaryDirectory() as home:
        yield Pullhook(Path(home))


@pytest.fixture(scope="session")
def relay(pullhook: Pullhook) -> typing.Iterator[Relay]:
    url, key = os.environ.get("PULLHOOK_API_URL", ""), os.environ.get("PULLHOOK_API_KEY", "")
    if url or key:
        assert url and key, "set both PULLHOOK_API_URL and PULLHOOK_API_KEY, or neither"
        yield Relay(url, key)
        return
    process = pullhook.start("serve", "--bind", "127.0.0.1:0", "--output", "json")
    url = first_line(process)["url"]
    yield Relay(url, pullhook.run("keys", "create", "--quiet"))
    stop(process)
