"""What `pullhook listen` forwards: the bytes that came, with a signature that three libraries accept for them only."""

from __future__ import annotations

import base64
import datetime
import http.server
import queue
import secrets
import threading
import typing

import httpx
import pytest
from conftest import Relay, first_line, stop
from standardwebhooks import Webhook
from verifiers import VERIFIERS, Request, altered

# Each with its content type. None of them is what comes out when it is parsed and written again.
BODIES = {
    "json": (b'{ "type":"invoice.paid",\r\n"data":{"n":1.50,"n":2.0e2,"s":"\\u00e9\\/"} }\n', "application/json"),
    "form": (b"a=%7b%22b%22%3A1%7D&name=J+R%26D&x=2&x=1&empty=&flag", "application/x-www-form-urlencoded"),
    "emoji": ('{"text":"🪝 naïve 👩‍👩‍👧 e\u0301 \u2028"}'.encode(), "application/json; charset=utf-8"),
    "empty": (b"", "text/plain"),
    "binary": (bytes(range(256)) * 300 + b"\xff\xfe\r\n\0", "application/octet-stream"),
}
PROVIDER_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class App(http.server.ThreadingHTTPServer):
    """An app on localhost that hands on what it was sent."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[list[tuple[str, str]], bytes]] = queue.Queue()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    server: App

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.put(([(name.lower(), value) for name, value in self.headers.items()], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: typing.Any) -> None:
        pass


@pytest.fixture
def app() -> typing.Iterator[App]:
    with App() as app:
        threading.Thread(target=app.serve_forever, daemon=True).start()
        yield app
        app.shutdown()


Forwarded = tuple[dict[str, str], bytes]
Forward = typing.Callable[..., Forwarded]


@pytest.fixture
def forward(relay: Relay, app: App) -> Forward:
    """Lets `listen` forward what the given call sends in; what the app got."""

    def forward(send: typing.Callable[[], typing.Any], *flags: str, **variables: str) -> Forwarded:
        listen = relay.start("listen", str(app.server_port), "--output", "json", *flags, **variables)
        try:
            assert first_line(listen)["type"] == "ready"
            send()
            headers, body = app.got.get(timeout=60)
        finally:
            stop(listen)
        assert app.got.empty(), "it was forwarded once"
        assert len(headers) == len(dict(headers)), headers
        return dict(headers), body

    return forward


@pytest.fixture
def local_secret(relay: Relay) -> str:
    return relay.pullhook.run("listen", "--print-secret")


def a_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def signed(body: bytes, secret: str) -> dict[str, str]:
    """The headers of a provider that signs with the PyPI library."""
    now = datetime.datetime.now(datetime.timezone.utc)
    signature = Webhook(secret).sign("msg_interop", now, body)
    return dict(zip(PROVIDER_HEADERS, ["msg_interop", str(int(now.timestamp())), signature]))


def post(url: str, body: bytes, headers: dict[str, str]) -> str:
    """Sends a webhook in; the id it is stored under."""
    accepted = httpx.post(url, content=body, headers=headers)
    assert accepted.status_code == 202, accepted.text
    return accepted.json()["event_id"]


def assert_only_this_is_accepted(request: Request) -> None:
    others = list(altered(request))
    for verify, wrong in VERIFIERS.values():
        assert verify([request, *others]) == [None] + [wrong] * len(others)


@pytest.mark.parametrize("name", BODIES)
def test_what_came_unsigned(
    forward: Forward, add_source: typing.Callable[..., str], local_secret: str, name: str
) -> None:
    body, content_type = BODIES[name]
    url = add_source(f"unsigned-{name}", "none")
    stored = []
    headers, got = forward(lambda: stored.append(post(url, body, {"content-type": content_type})))

    assert got == body
    assert headers["content-type"] == content_type
    assert headers["webhook-id"] == stored[0]
    assert_only_this_is_accepted(Request(headers, got, local_secret))


@pytest.mark.parametrize("name", BODIES)
def test_what_a_provider_signed_with_the_same_headers(
    forward: Forward, add_source: typing.Callable[..., str], local_secret: str, name: str
) -> None:
    body, content_type = BODIES[name]
    secret = a_secret()
    url = add_source(f"signed-{name}", "standard-webhooks", secret)
    provider = signed(body, secret)
    headers, got = forward(lambda: post(url, body, {**provider, "content-type": content_type}))

    assert got == body
    assert headers["content-type"] == content_type
    assert headers["webhook-id"] == provider["webhook-id"]
    assert_only_this_is_accepted(Request(headers, got, local_secret))
    originals = {header: headers[f"x-pullhook-original-{header}"] for header in PROVIDER_HEADERS}
    assert originals == provider
    assert_only_this_is_accepted(Request(originals, got, secret))


@pytest.mark.parametrize("name", BODIES)
def test_what_was_altered_on_its_way_to_us_is_refused(
    add_source: typing.Callable[..., str], name: str
) -> None:
    body, _ = BODIES[name]
    secret = a_secret()
    url = add_source(f"altered-{name}", "standard-webhooks", secret)
    request = Request(signed(body, secret), body, secret)

    # Another secret is nothing that a sender could send.
    for other in (other for other in altered(request) if other.secret == secret):
        refused = httpx.post(url, content=other.body, headers=other.headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_signature")
    post(url, body, request.headers)


def test_what_is_signed_again_as_its_provider_does(
    forward: Forward, add_source: typing.Callable[..., str]
) -> None:
    body, _ = BODIES["binary"]
    secret = a_secret()
    url = add_source("signed-again", "none")
    flags = ("--sign-as", "standard-webhooks", "--sign-secret-env", "PROVIDER_SECRET")
    headers, got = forward(lambda: post(url, body, {}), *flags, PROVIDER_SECRET=secret)

    assert got == body
    assert_only_this_is_accepted(Request(headers, got, secret))


def test_what_keeps_its_providers_signature(
    forward: Forward, add_source: typing.Callable[..., str]
) -> None:
    body, _ = BODIES["binary"]
    secret = a_secret()
    url = add_source("signed-once", "standard-webhooks", secret)
    provider = signed(body, secret)
    headers, got = forward(lambda: post(url, body, provider), "--sign-as", "none")

    assert got == body
    assert {header: headers[header] for header in PROVIDER_HEADERS} == provider
    assert_only_this_is_accepted(Request(headers, got, secret))


def test_what_the_relay_made_itself(forward: Forward, relay: Relay, local_secret: str) -> None:
    sent = []
    headers, got = forward(lambda: sent.append(relay.client().webhook_events.test(type="email.delivered")))

    (event,) = [answer.event for answer in sent]
    assert headers["webhook-id"] == event.id
    assert type(event).model_validate_json(got) == event
    assert_only_this_is_accepted(Request(headers, got, local_secret))
