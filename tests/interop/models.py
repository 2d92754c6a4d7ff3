"""Whether what the `cosscom` client parsed is what its classes promise."""

from __future__ import annotations

import typing

import pydantic


def literals(annotation: typing.Any) -> set[str]:
    """The strings an annotation names, at any depth of unions and lists."""
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*map(literals, typing.get_args(annotation)))


def misfits(model: pydantic.BaseModel, at: str, ours: typing.Container[str] = ()) -> typing.Iterator[str]:
    """Where a parsed model isn't what its class promises; fields that are `ours` may be there, too.

    The client's models take unknown fields, and any value where they list the known ones: parsing alone
    proves little.
    """
    for name in model.model_extra or {}:
        if name not in ours:
            yield f"{at}.{name}: not a field of {type(model).__name__}"
    for name, field in type(model).model_fields.items():
        if field.is_required() and name not in model.model_fields_set:
            yield f"{at}.{name}: missing"
            continue
        value, known = getattr(model, name), literals(field.annotation)
        if known and value is not None and value not in known:
            yield f"{at}.{name}: {value!r} is none of {sorted(known)}"
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, pydantic.BaseModel):
                yield from misfits(item, f"{at}.{name}", ours)
