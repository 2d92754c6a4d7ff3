"""Listeners, as the `cosscom` client uses them."""

from __future__ import annotations

import contextlib
import typing
from pathlib import Path

import httpx
import pytest
from conftest import API_VERSION, Relay, serving
from coss import Coss, WebhookListener, WebhookListenerAck, WebhookListenerDelivery, WebhookListenerPoll
from coss.errors import NotFoundError, UnprocessableEntityError
from models import misfits

# What our relay adds to the client's models.
OURS_OF_A_LISTENER = {"sources", "ordered", "backlog", "others_open", "latest_event_id", "last_polled_at"}
OURS_OF_A_DELIVERY = {
    *("headers", "method", "path", "query", "source", "scheme", "body_base64"),
    *("lease_expires_at", "sequence", "occurrence", "replay", "redelivery"),
}
OURS = {*OURS_OF_A_LISTENER, *OURS_OF_A_DELIVERY, "waiting", "stale_acks", "extended"}

Open = typing.Callable[..., WebhookListener]


@pytest.fixture
def open_listener(client: Coss) -> typing.Iterator[Open]:
    """Opens listeners that are closed after the test."""
    opened = []

    def open_one(**choice: typing.Any) -> WebhookListener:
        opened.append(client.webhook_listeners.create(**choice))
        return opened[-1]

    yield open_one
    for listener in opened:
        with contextlib.suppress(NotFoundError):
            client.webhook_listeners.delete(listener.id)


def ack_of(delivery: WebhookListenerDelivery, **outcome: typing.Any) -> WebhookListenerAck:
    return WebhookListenerAck(delivery_id=delivery.id, ack_token=delivery.ack_token, duration_ms=12, **outcome)


def record(client: Coss, listener: WebhookListener, *acks: WebhookListenerAck) -> WebhookListenerPoll:
    """Sends acks and takes nothing on: what is handed out again meanwhile would have a newer token."""
    answer = client.webhook_listeners.poll(listener.id, acks=acks, wait_ms=0, limit=0)
    assert list(misfits(answer, "answer", OURS)) == []
    assert answer.deliveries == []
    return answer


Outcome = tuple[str, int | None, str | None]


def outcomes(relay: Relay, event: str) -> list[Outcome]:
    """What became of an event, as the relay tells."""
    deliveries = relay.run("events", "show", event)["deliveries"]
    return [(delivery["status"], delivery["status_code"], delivery["error"]) for delivery in deliveries]


def test_a_listener_from_open_to_closed(client: Coss) -> None:
    opened = client.webhook_listeners.with_raw_response.create(
        event_types=["email.sent"], description="interop"
    )
    listener = opened.data
    assert list(misfits(listener, "listener", OURS_OF_A_LISTENER)) == []
    assert (listener.event_types, listener.description) == (["email.sent"], "interop")
    assert listener.api_version == opened.headers["coss-version"] == API_VERSION
    client.webhook_events.test(type="email.bounced")
    sent = client.webhook_events.test(type="email.sent")
    assert sent.listeners == 1

    poll = client.webhook_listeners.poll(listener.id, wait_ms=20_000)
    assert list(misfits(poll, "poll", OURS)) == []
    (delivery,) = poll.deliveries
    assert (delivery.event_id, delivery.event_type, delivery.attempt) == (sent.event.id, "email.sent", 1)
    assert type(sent.event).model_validate_json(delivery.body) == sent.event
    assert poll.listener.expires_at >= listener.expires_at

    ack = ack_of(delivery, status_code=200)
    acked = client.webhook_listeners.poll(listener.id, acks=[ack], wait_ms=0)
    assert (acked.acknowledged, acked.deliveries) == (1, [])
    again = client.webhook_listeners.poll(listener.id, acks=[ack], wait_ms=0)
    assert again.acknowledged == 0

    closed = client.webhook_listeners.delete(listener.id)
    assert list(misfits(closed, "closed")) == []
    assert (closed.id, closed.deleted) == (listener.id, True)
    with pytest.raises(NotFoundError):
        client.webhook_listeners.poll(listener.id, wait_ms=0)
    with pytest.raises(NotFoundError):
        client.webhook_listeners.delete(listener.id)


def test_the_environment_of_a_key(client: Coss, relay: Relay) -> None:
    environment = client.environment.get()

    assert list(misfits(environment, "environment")) == []
    assert relay.key.startswith(environment.api_key.start)
    assert environment.organization.api_version == API_VERSION


def test_at_most_the_limit_is_handed_out_oldest_first(client: Coss, open_listener: Open) -> None:
    listener = open_listener()
    sent = [client.webhook_events.test(type="email.sent").event.id for _ in range(3)]

    # A poll answers with what there is: it takes as many as the fan-out takes to get there.
    polls: list[list[str]] = []
    while sum(map(len, polls)) < len(sent):
        polls.append([d.event_id for d in client.webhook_listeners.poll(listener.id, limit=2).deliveries])
    assert max(map(len, polls)) <= 2
    assert sum(polls, []) == sent


@pytest.mark.parametrize(
    ("outcome", "became"),
    [
        ({"status_code": 204}, ("delivered", 204, None)),
        ({}, ("delivered", None, None)),
        ({"status_code": 302}, ("failed", 302, None)),
        ({"status_code": 500, "error": "it said 500"}, ("failed", 500, "it said 500")),
        ({"error": "connection refused"}, ("failed", None, "connection refused")),
    ],
)
def test_an_ack_of_any_outcome_is_final(
    client: Coss,
    relay: Relay,
    open_listener: Open,
    outcome: dict[str, typing.Any],
    became: Outcome,
) -> None:
    listener = open_listener()
    event = client.webhook_events.test(type="email.sent").event.id
    (delivery,) = client.webhook_listeners.poll(listener.id).deliveries

    assert record(client, listener, ack_of(delivery, **outcome)).acknowledged == 1
    assert outcomes(relay, event) == [became]
    assert record(client, listener, ack_of(delivery, status_code=200)).acknowledged == 0
    assert outcomes(relay, event) == [became]


def test_what_is_no_ack_of_a_delivery_is_not_counted(client: Coss, relay: Relay, open_listener: Open) -> None:
    listener, other = open_listener(), open_listener()
    event = client.webhook_events.test(type="email.sent").event.id
    (mine,) = client.webhook_listeners.poll(listener.id).deliveries
    (theirs,) = client.webhook_listeners.poll(other.id).deliveries

    invented = [
        mine.model_copy(update={"ack_token": theirs.ack_token}),
        mine.model_copy(update={"id": mine.id[:-1] + ("0" if mine.id[-1] != "0" else "1")}),
        theirs,
    ]
    acks = [ack_of(delivery, status_code=200) for delivery in invented]
    assert record(client, listener, *acks).acknowledged == 0
    assert outcomes(relay, event) == [("leased", None, None)] * 2


@pytest.fixture
def brief(tmp_path: Path) -> typing.Iterator[Relay]:
    """A relay of the shortest leases there are."""
    with serving(tmp_path, 'lease = "1s"') as relay:
        yield relay


def assert_only_the_second_ack_counts(
    relay: Relay,
    listener: WebhookListener,
    first: WebhookListenerDelivery,
    second: WebhookListenerDelivery,
) -> None:
    client = relay.client()
    assert (second.id, second.event_id) == (first.id, first.event_id)
    assert second.ack_token != first.ack_token

    late = record(client, listener, ack_of(first, status_code=500))
    assert (late.acknowledged, late.model_extra["stale_acks"]) == (0, [first.id])
    # The second lease may have run out, too; its token counts all the same.
    assert outcomes(relay, first.event_id) in ([("leased", None, None)], [("waiting", None, None)])

    both = [ack_of(first, status_code=500), ack_of(second, status_code=200)]
    assert record(client, listener, *both).acknowledged == 1
    assert record(client, listener, *both).acknowledged == 0
    assert outcomes(relay, first.event_id) == [("delivered", 200, None)]


def test_an_ack_whose_lease_ran_out_is_stale(brief: Relay) -> None:
    client = brief.client()
    listener = client.webhook_listeners.create()
    client.webhook_events.test(type="email.sent")

    (first,) = client.webhook_listeners.poll(listener.id, wait_ms=20_000).deliveries
    # This one waits for the end of the first one's lease.
    (second,) = client.webhook_listeners.poll(listener.id, wait_ms=20_000).deliveries
    assert (first.attempt, second.attempt) == (1, 2)
    assert_only_the_second_ack_counts(brief, listener, first, second)


def test_an_ack_whose_lease_was_given_back_is_stale(relay: Relay, open_listener: Open) -> None:
    client, listener = relay.client(), open_listener()
    client.webhook_events.test(type="email.sent")

    (first,) = client.webhook_listeners.poll(listener.id, wait_ms=20_000).deliveries
    # As after an answer that never came: this client holds nothing.
    cut = {"additional_body_parameters": {"holding": []}}
    (second,) = client.webhook_listeners.poll(listener.id, wait_ms=20_000, request_options=cut).deliveries
    assert_only_the_second_ack_counts(relay, listener, first, second)


def test_closing_drops_what_was_held(client: Coss, relay: Relay, open_listener: Open) -> None:
    listener = open_listener()
    event = client.webhook_events.test(type="email.sent").event.id
    (delivery,) = client.webhook_listeners.poll(listener.id).deliveries
    client.webhook_listeners.delete(listener.id)

    with pytest.raises(NotFoundError):
        record(client, listener, ack_of(delivery, status_code=200))
    assert outcomes(relay, event) == [("dropped", None, None)]
    assert client.webhook_events.test(type="email.sent").listeners == 0


def test_a_sixth_listener_waits_for_another_to_close(client: Coss, open_listener: Open) -> None:
    listeners = [open_listener() for _ in range(5)]
    with pytest.raises(UnprocessableEntityError) as refused:
        open_listener()
    assert refused.value.body.error.code == "webhook_listener_limit_reached"

    client.webhook_listeners.delete(listeners[2].id)
    open_listener()
    with pytest.raises(UnprocessableEntityError):
        open_listener()
    # The others live on.
    for listener in listeners[:2] + listeners[3:]:
        assert client.webhook_listeners.poll(listener.id, wait_ms=0).deliveries == []


def test_ingested_bodies_are_polled_as_they_came(
    client: Coss, open_listener: Open, add_source: typing.Callable[..., str]
) -> None:
    url, listener = add_source("polled", "none"), open_listener()
    texts = ['{ "a" : 1.0 }', "a=1&b=%F0%9F%AA%9D", "🪝 naïve", ""]
    for body in [*(text.encode() for text in texts), b"\xff\x00\xfe"]:
        assert httpx.post(url, content=body).status_code == 202

    deliveries: list[WebhookListenerDelivery] = []
    while len(deliveries) < 5:
        deliveries += client.webhook_listeners.poll(listener.id).deliveries
    assert [misfit for delivery in deliveries for misfit in misfits(delivery, "d", OURS_OF_A_DELIVERY)] == []
    assert [delivery.body for delivery in deliveries] == [*texts, ""]
    in_base64 = [delivery.model_extra.get("body_base64") for delivery in deliveries]
    assert in_base64 == [None, None, None, None, "/wD+"]
