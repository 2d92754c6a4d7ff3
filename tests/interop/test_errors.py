"""Every error code of the relay, as the `cosscom` client raises it: the class, and the fields in it.

What the client has a method for is provoked by that method. For the codes of our other routes its request is led there on
its way out, so that it reads our answer with the classes it has.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
import typing

import httpx
import pytest
from conftest import ROOT, Relay, serving
from coss import Coss, WebhookListenerAck
from coss.core.api_error import ApiError
from coss.core.pydantic_utilities import parse_obj_as
from coss.errors import (
    BadRequestError,
    ConflictError,
    ContentTooLargeError,
    ForbiddenError,
    InternalServerError,
    NotFoundError,
    ServiceUnavailableError,
    UnauthorizedError,
    UnprocessableEntityError,
    UnsupportedMediaTypeError,
)
from coss.types.error import Error
from models import misfits

# The client has no class for 405: it raises their common one, with the answer as it came.
CLASSES = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: ApiError,
    409: ConflictError,
    413: ContentTooLargeError,
    415: UnsupportedMediaTypeError,
    422: UnprocessableEntityError,
    500: InternalServerError,
    503: ServiceUnavailableError,
}
# A client that stalls within a body, and a relay that other machines reach: seen in process, in tests/relay.
NOT_HERE = {"request_timeout", "unsigned_not_allowed"}

# Each code with its status and type, from the reference.
DOCUMENTED = {
    code: (int(status), kind)
    for code, status, kind in re.findall(
        r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|",
        (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
}


class Detour(httpx.HTTPTransport):
    """Sends every request elsewhere, as a POST with this body."""

    def __init__(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        super().__init__()
        self.path, self.body, self.headers = path, body, headers

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        kept = {name: value for name, value in request.headers.items() if name != "content-length"}
        url = request.url.join(self.path)
        led = httpx.Request("POST", url, headers={**kept, **self.headers}, content=self.body)
        return super().handle_request(led)


class Stage:
    """An environment of its own in a relay whose store is at hand."""

    def __init__(self, relay: Relay, environment: str) -> None:
        self.relay = relay
        self.store = relay.pullhook.project.parent / "relay.db"
        keys = ("keys", "create", "--quiet", "--store", f"sqlite:{self.store}", "--env", environment)
        self.key = relay.pullhook.run(*keys)
        self.client = self.client_with()

    def client_with(self, **settings: typing.Any) -> Coss:
        return self.relay.client(**{"api_key": self.key, "max_retries": 0, **settings})

    def led(self, path: str, body: typing.Any, idempotency_key: str = "its own") -> Coss:
        """A client whose requests become this POST."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        detour = Detour(path, content, {"idempotency-key": idempotency_key})
        return self.client_with(httpx_client=httpx.Client(transport=detour))

    def post(self, path: str, body: typing.Any, **headers: str) -> typing.Any:
        """What the relay answers where the client has no method; it has to take it."""
        headers = {"authorization": f"Bearer {self.key}", **headers}
        answer = httpx.post(f"{self.relay.url}{path}", json=body, headers=headers)
        return answer.raise_for_status().json()

    def alter_store(self, sql: str, *values: typing.Any) -> None:
        store = sqlite3.connect(self.store, timeout=60)
        with store:
            store.execute(sql, values)
        store.close()


class Provoked(typing.NamedTuple):
    by: typing.Callable[[Stage], typing.Any]
    param: str | None
    issues: list[str]


PROVOKED: dict[str, Provoked] = {}


def provokes(
    code: str, param: str | None = None, issues: typing.Sequence[str] = ()
) -> typing.Callable[[typing.Callable[[Stage], typing.Any]], None]:
    def add(by: typing.Callable[[Stage], typing.Any]) -> None:
        PROVOKED[code] = Provoked(by, param, list(issues))

    return add


@provokes(
    "invalid_request",
    param="acks.0.status_code",
    issues=["acks.0.status_code", "acks.0.duration_ms", "limit", "wait_ms"],
)
def several_fields_out_of_bounds(stage: Stage) -> None:
    ack = WebhookListenerAck(delivery_id="whlisdel_1", ack_token="t", status_code=99, duration_ms=-1)
    stage.client.webhook_listeners.poll("whlis_1", acks=[ack], limit=51, wait_ms=-1)


@provokes("invalid_json")
def a_body_that_was_cut(stage: Stage) -> None:
    stage.led("/v1/webhook_listeners", b'{"description":').webhook_listeners.create()


@provokes("invalid_api_version", param="coss-version")
def a_version_that_never_was(stage: Stage) -> None:
    stage.client_with(api_version="2020-02-30").webhook_listeners.create()


@provokes("body_too_large")
def a_description_of_megabytes(stage: Stage) -> None:
    stage.client.webhook_listeners.create(description="x" * 5_000_000)


@provokes("unsupported_media_type")
def a_body_that_says_it_is_text(stage: Stage) -> None:
    as_text = {"additional_headers": {"content-type": "text/plain"}}
    stage.client.webhook_listeners.create(request_options=as_text)


@provokes("method_not_allowed")
def a_path_that_takes_no_post(stage: Stage) -> None:
    stage.led("/v1/environment", {}).webhook_listeners.create()


@provokes("webhook_listener_limit_reached")
def a_sixth_listener(stage: Stage) -> None:
    for _ in range(6):
        stage.client.webhook_listeners.create()


@provokes("backlog_too_large", param="since")
def more_stored_events_than_wanted(stage: Stage) -> None:
    stage.client.webhook_events.test(type="email.sent")
    none = {"additional_body_parameters": {"since": "beginning", "max_backlog": 0}}
    stage.client.webhook_listeners.create(request_options=none)


@provokes("no_open_listener")
def a_replay_to_nobody(stage: Stage) -> None:
    event = stage.client.webhook_events.test(type="email.sent").event.id
    stage.led("/v1/events/replay", {"event_ids": [event], "to": "listeners"}).webhook_listeners.create()


@provokes("replay_too_large", param="event_ids")
def a_replay_of_more_events_than_its_limit(stage: Stage) -> None:
    ids = [stage.client.webhook_events.test(type="email.sent").event.id for _ in range(2)]
    ask = {"event_ids": ids, "to": "listeners", "limit": 1}
    stage.led("/v1/events/replay", ask).webhook_listeners.create()


@provokes("unknown_scheme", param="scheme")
def a_scheme_of_tomorrow(stage: Stage) -> None:
    stage.led("/v1/sources", {"name": "a", "scheme": "tomorrow"}).webhook_listeners.create()


@provokes("invalid_secret", param="secrets.0")
def a_secret_that_is_no_base64(stage: Stage) -> None:
    source = {"name": "a", "scheme": "standard-webhooks", "secrets": ["whsec_?"]}
    stage.led("/v1/sources", source).webhook_listeners.create()


@provokes("name_taken", param="name")
def a_second_source_of_a_name(stage: Stage) -> None:
    source = {"name": "twice", "scheme": "none"}
    stage.post("/v1/sources", source)
    stage.led("/v1/sources", source).webhook_listeners.create()


@provokes("unauthorized")
def a_key_that_nobody_made(stage: Stage) -> None:
    stage.client_with(api_key="phk_nobody").webhook_listeners.create()


@provokes("invalid_signature")
def a_webhook_that_nobody_signed(stage: Stage) -> None:
    source = {"name": "signed", "scheme": "github", "secrets": ["a secret of the provider's"]}
    stage.led(stage.post("/v1/sources", source)["ingress_url"], {}).webhook_listeners.create()


@provokes("host_not_allowed")
def a_name_that_leads_here_by_dns(stage: Stage) -> None:
    stage.client_with(headers={"host": "rebound.example"}).webhook_listeners.create()


@provokes("forbidden")
def a_key_that_may_only_read(stage: Stage) -> None:
    may_read = "UPDATE api_keys SET access = 'restricted', permissions = 'webhook:read' WHERE start = ?"
    stage.alter_store(may_read, stage.key[:10])
    stage.client.webhook_listeners.create()


@provokes("not_found")
def a_listener_of_another_environment(stage: Stage) -> None:
    theirs = stage.relay.client().webhook_listeners.create()
    try:
        stage.client.webhook_listeners.poll(theirs.id, wait_ms=0)
    finally:
        stage.relay.client().webhook_listeners.delete(theirs.id)


@provokes("idempotency_in_progress", param="idempotency-key")
def a_request_whose_first_try_still_runs(stage: Stage) -> None:
    body = b'{"type":"a.b","data":{}}'
    running = """INSERT INTO idempotency_keys (environment_id, idempotency_key, body_hash, created_at)
        SELECT environment_id, 'mine', ?, ? FROM api_keys WHERE start = ?"""
    stage.alter_store(running, hashlib.sha256(body).digest(), int(time.time() * 1000), stage.key[:10])
    # Of the client's methods, those that send messages know this answer.
    stage.led("/v1/events", body, idempotency_key="mine").sms.send(from_="+1", to="+1", body="")


@provokes("idempotency_mismatch", param="idempotency-key")
def a_key_that_was_used_for_another_body(stage: Stage) -> None:
    stage.post("/v1/events", {"type": "a.b", "data": {}}, **{"idempotency-key": "mine"})
    stage.led("/v1/events", {"type": "a.c", "data": {}}, idempotency_key="mine").webhook_listeners.create()


@provokes("internal_error")
def a_row_that_cannot_be_read(stage: Stage) -> None:
    listener = stage.client.webhook_listeners.create()
    stage.alter_store("UPDATE listeners SET description = x'00' WHERE id = ?", listener.id)
    stage.client.webhook_listeners.poll(listener.id, wait_ms=0)


@provokes("unavailable")
def a_store_that_lost_a_table(stage: Stage) -> None:
    stage.alter_store("ALTER TABLE listeners RENAME TO mislaid")
    try:
        stage.client.webhook_listeners.create()
    finally:
        stage.alter_store("ALTER TABLE mislaid RENAME TO listeners")
        stage.client.webhook_listeners.create()


@pytest.fixture(scope="module")
def own_relay(tmp_path_factory: pytest.TempPathFactory) -> typing.Iterator[Relay]:
    with serving(tmp_path_factory.mktemp("errors")) as relay:
        yield relay


def test_every_documented_code_is_provoked() -> None:
    assert set(DOCUMENTED) == set(PROVOKED) | NOT_HERE


@pytest.mark.parametrize("code", PROVOKED)
def test_a_code_is_raised_as_its_class(own_relay: Relay, code: str) -> None:
    status, kind = DOCUMENTED[code]
    stage = Stage(own_relay, code.replace("_", "-"))
    with pytest.raises(ApiError) as raised:
        PROVOKED[code].by(stage)

    error = raised.value
    assert (type(error), error.status_code) == (CLASSES[status], status)
    body = error.body if isinstance(error.body, Error) else parse_obj_as(type_=Error, object_=error.body)
    assert list(misfits(body, "body", {"hint"})) == []
    assert (body.error.type, body.error.code, body.error.param) == (kind, code, PROVOKED[code].param)
    assert [issue.path for issue in body.error.issues or []] == PROVOKED[code].issues
    assert body.error.message and all(issue.message for issue in body.error.issues or [])
    assert body.error.request_id == error.headers["x-request-id"]
    assert ("retry-after" in error.headers) == (status == 503)
    assert stage.key not in str(error)
