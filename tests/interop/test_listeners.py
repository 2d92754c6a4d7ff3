"""Listeners, as the `cosscom` client uses them, and what `pullhook listen` forwards, as two libraries verify it."""

from __future__ import annotations

import http.server
import queue
import threading
import typing

import pytest
from conftest import Pullhook, Relay, first_line, stop
from coss import Coss, WebhookListenerAck
from coss.errors import NotFoundError, UnauthorizedError, UnprocessableEntityError
from coss.webhooks import WebhookVerificationError, verify_webhook
from standardwebhooks import Webhook

API_VERSION = "2026-10-10"


@pytest.fixture
def client(relay: Relay) -> Coss:
    return Coss(base_url=relay.url, api_key=relay.key, api_version=API_VERSION)


def test_a_listener_from_open_to_closed(client: Coss) -> None:
    listener = client.webhook_listeners.create(event_types=["email.sent"], description="interop")
    assert (listener.event_types, listener.description) == (["email.sent"], "interop")
    client.webhook_events.test(type="email.bounced")
    sent = client.webhook_events.test(type="email.sent")
    assert sent.listeners == 1

    poll = client.webhook_listeners.poll(listener.id, wait_ms=20_000)
    (delivery,) = poll.deliveries
    assert (delivery.event_id, delivery.event_type, delivery.attempt) == (sent.event.id, "email.sent", 1)
    assert type(sent.event).model_validate_json(delivery.body) == sent.event
    assert poll.listener.expires_at >= listener.expires_at

    ack = WebhookListenerAck(
        delivery_id=delivery.id, ack_token=delivery.ack_token, status_code=200, duration_ms=12
    )
    acked = client.webhook_listeners.poll(listener.id, acks=[ack], wait_ms=0)
    assert (acked.acknowledged, acked.deliveries) == (1, [])
    again = client.webhook_listeners.poll(listener.id, acks=[ack], wait_ms=0)
    assert again.acknowledged == 0

    assert client.webhook_listeners.delete(listener.id).deleted
    with pytest.raises(NotFoundError):
        client.webhook_listeners.poll(listener.id, wait_ms=0)


def test_refusals_have_their_own_errors(client: Coss, relay: Relay) -> None:
    listeners = [client.webhook_listeners.create() for _ in range(5)]
    try:
        with pytest.raises(UnprocessableEntityError) as refused:
            client.webhook_listeners.create()
    finally:
        for listener in listeners:
            client.webhook_listeners.delete(listener.id)
    assert refused.value.body.error.code == "webhook_listener_limit_reached"

    stranger = Coss(base_url=relay.url, api_key="phk_nobody", api_version=API_VERSION)
    with pytest.raises(UnauthorizedError):
        stranger.webhook_listeners.create()


class App(http.server.ThreadingHTTPServer):
    """An app on localhost that hands on what it was sent."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    server: App

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
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


def test_what_listen_forwards_verifies(client: Coss, relay: Relay, pullhook: Pullhook, app: App) -> None:
    secret = pullhook.run("listen", "--print-secret")
    pullhook.environment["PULLHOOK_API_KEY"] = relay.key
    listen = pullhook.start("listen", str(app.server_port), "--api-url", relay.url, "--output", "json")
    assert first_line(listen)["type"] == "ready"
    sent = client.webhook_events.test(type="email.delivered")
    headers, body = app.got.get(timeout=60)
    stop(listen)

    assert headers["webhook-id"] == sent.event.id
    assert verify_webhook(body, headers, secret)["type"] == "email.delivered"
    assert Webhook(secret).verify(body, headers)["id"] == sent.event.id
    with pytest.raises(WebhookVerificationError):
        verify_webhook(body + b" ", headers, secret)
