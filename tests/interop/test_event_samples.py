"""The sample events of `POST /v1/webhook_events/test`, as the `cosscom` client reads them.

Each is read twice: from the file, in an envelope that is made here, and as the relay answers it. Run
`pytest tests/interop` once `requirements.txt` is installed and the binary is built.
"""

from __future__ import annotations

import copy
import json
import re
import typing
from pathlib import Path

import pytest
from conftest import API_VERSION, Relay
from coss.core.pydantic_utilities import parse_obj_as
from coss.resources.webhook_events.types.create_test_webhook_event_request_type import (
    CreateTestWebhookEventRequestType,
)
from coss.types.webhook_test_event import WebhookTestEvent
from coss.types.webhook_test_event_event import WebhookTestEventEvent
from models import literals, misfits

SAMPLES = json.loads(
    (Path(__file__).parents[2] / "src" / "relay" / "api" / "samples.json").read_text(encoding="utf-8")
)
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


# Which response model each type belongs to. The client may ask for more types than it can read.
MODELS = {
    kind: model
    for model in typing.get_args(WebhookTestEventEvent)
    for kind in literals(model.model_fields["type"].annotation)
}
ASKABLE = literals(CreateTestWebhookEventRequestType)


def from_file(kind: str, data: dict[str, typing.Any] | None = None) -> WebhookTestEvent:
    """The answer a relay would give, made from the sample here."""
    event = {
        "id": "evt_01m4qp7x6es80041ed2nm1hw4p",
        "object": "event",
        "type": kind,
        "api_version": API_VERSION,
        "created_at": "2026-10-12T09:14:03.004Z",
        "data": {**copy.deepcopy(SAMPLES[kind]), **(data or {})},
    }
    answer = {"object": "webhook_test_event", "event": event, "endpoints": 0, "listeners": 1}
    return parse_obj_as(type_=WebhookTestEvent, object_=answer)


Ask = typing.Callable[..., WebhookTestEvent]


@pytest.fixture(params=["file", "relay"])
def ask(request: pytest.FixtureRequest) -> Ask:
    if request.param == "file":
        return from_file
    relay: Relay = request.getfixturevalue("relay")
    client = relay.client()
    return lambda kind, data=None: client.webhook_events.test(type=kind, data=data or {})


def times(value: typing.Any) -> typing.Iterator[str]:
    """Every value under a name that ends in `_at` or `_since`."""
    if isinstance(value, list):
        for item in value:
            yield from times(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name.endswith(("_at", "_since")) and item is not None:
                yield item
            yield from times(item)


def test_every_type_that_can_be_read_has_a_sample() -> None:
    assert set(SAMPLES) == ASKABLE & set(MODELS)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_a_sample_is_read_as_its_own_model(ask: Ask, kind: str) -> None:
    answer = ask(kind)

    assert type(answer.event) is MODELS[kind]
    assert answer.event.type == kind
    assert answer.event.api_version == API_VERSION
    assert list(misfits(answer, "answer")) == []


def test_given_data_is_laid_over_the_sample(ask: Ask) -> None:
    event = ask("email.bounced", {"recipient": "ada@example.com"}).event

    assert event.data.recipient == "ada@example.com"
    assert event.data.subject == SAMPLES["email.bounced"]["subject"]


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_times_are_utc_with_milliseconds(kind: str) -> None:
    assert [time for time in times(SAMPLES[kind]) if not ISO_TIME.fullmatch(time)] == []
