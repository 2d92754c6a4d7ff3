"""Three libraries that verify Standard Webhooks, none of them ours, behind one call."""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
import typing
from pathlib import Path

import standardwebhooks
from coss.webhooks import WebhookVerificationError, verify_webhook


class Request(typing.NamedTuple):
    """What an app got, and the secret that it knows."""

    headers: dict[str, str]
    body: bytes
    secret: str


# For each request why it is refused, or nothing.
Verifier = typing.Callable[[list[Request]], list[typing.Optional[str]]]


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def by_cosscom(requests: list[Request]) -> list[str | None]:
    def refusal(request: Request) -> str | None:
        try:
            event = verify_webhook(request.body, request.headers, request.secret)
        except WebhookVerificationError as error:
            # It parses what it has verified: this one is about the body, after the signature was accepted.
            not_json = str(error) == "The webhook body is not valid JSON."
            return None if not_json and not is_json(request.body) else str(error)
        assert event == json.loads(request.body)
        return None

    return list(map(refusal, requests))


def by_pypi(requests: list[Request]) -> list[str | None]:
    def refusal(request: Request) -> str | None:
        webhook = standardwebhooks.Webhook(request.secret)
        try:
            webhook.verify(request.body, request.headers, json_parse=False)
        except standardwebhooks.WebhookVerificationError as error:
            return str(error)
        return None

    return list(map(refusal, requests))


def by_npm(requests: list[Request]) -> list[str | None]:
    script = Path(__file__).with_name("standard_webhooks.mjs")
    asked = [{**request._asdict(), "body": base64.b64encode(request.body).decode()} for request in requests]
    node = subprocess.run(
        ["node", script], input=json.dumps(asked), capture_output=True, text=True, timeout=60, check=False
    )
    assert node.returncode == 0, f"run `npm ci` in tests/interop\n{node.stderr}"
    return json.loads(node.stdout)


# Each with what it says to a signature that is well-formed and wrong.
VERIFIERS: dict[str, tuple[Verifier, str]] = {
    "cosscom": (by_cosscom, "No webhook signature matches."),
    "standardwebhooks (PyPI)": (by_pypi, "No matching signature found"),
    "standardwebhooks (npm)": (by_npm, "WebhookVerificationError: No matching signature found"),
}


def altered(request: Request) -> typing.Iterator[Request]:
    """The request with one thing changed, in each way that a signature has to notice."""
    headers, body, secret = request
    version, _, mac = headers["webhook-signature"].partition(",")
    other_mac = base64.b64encode(flipped(binascii.a2b_base64(mac))).decode()
    other_key = base64.b64encode(flipped(binascii.a2b_base64(secret.removeprefix("whsec_")))).decode()
    changes = {
        "webhook-id": headers["webhook-id"] + "0",
        "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1),
        "webhook-signature": f"{version},{other_mac}",
    }
    for name, value in changes.items():
        yield Request({**headers, name: value}, body, secret)
    yield Request(headers, body, f"whsec_{other_key}")
    bodies = [body + b"\n", b"\0" + body]
    if body:
        bodies += [flipped(body), body[:-1], body[1:], b""]
    if is_json(body):
        # What an app has in hand when its framework parsed the body first.
        bodies.append(json.dumps(json.loads(body)).encode())
    for other in bodies:
        yield Request(headers, other, secret)


def flipped(data: bytes) -> bytes:
    """With one bit of its middle changed."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
