"""Checking JSON from files, and plain sentences about what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from p3iv.errors import P3ivError

ModelT = TypeVar("ModelT", bound=BaseModel)
_UNION_MEMBERS = ("int", "str", "float")


def read_model(path: Path, model: type[ModelT], *, error: type[P3ivError], advice: str) -> ModelT:
    """Read a JSON file as a pydantic model.

    Args:
        path: the file.
        model: what it must hold.
        error: what to raise where it holds something else, or cannot be read.
        advice: a sentence at the end of the message that says how to make the file again.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as problem:
        raise error(f"{path} cannot be read ({problem.strerror}). {advice}") from problem
    except ValidationError as problem:
        raise error(f"{path}: {explain(problem)}. {advice}") from problem


def explain(error: ValidationError) -> str:
    """The first problem of a pydantic error as a sentence: where it is, what was found, what was expected."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "missing":
        return f"`{_place(first['loc'])}` is missing"
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}"
    if first["type"] == "value_error":
        reason = str(first["ctx"]["error"])
        return f"`{_place(first['loc'])}`: {reason}" if first["loc"] else reason
    place, messages = first["loc"], [first["msg"]]
    if place and place[-1] in _UNION_MEMBERS:  # each member of a union has an entry of its own
        messages = [each["msg"] for each in problems if each["loc"][:-1] == place[:-1]]
        place = place[:-1]
    expected = " or ".join(message.removeprefix("Input should be ") for message in messages)
    expected = f"expected {expected}" if messages[0].startswith("Input should be ") else expected
    found = shown(first["input"])
    return f"`{_place(place)}` is {found}; {expected}" if place else f"{found}; {expected}"


def _place(location: tuple[int | str, ...]) -> str:
    """The place of a value: samples[3][1]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".")


def parse_json(text: str, **hooks: Callable[[Any], Any]) -> object:
    """Parse JSON without trusting it; NaN and Infinity are refused, unless a hook of `json.loads` says otherwise.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        return json.loads(text, **{"parse_constant": _refuse_constant, **hooks})  # type: ignore[arg-type]
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    except ValueError as error:  # a constant, or an integer of thousands of digits
        raise ValueError(f"not JSON: {error}") from error


def shown(value: object) -> str:
    """A value for a message, at most 60 characters of it."""
    if isinstance(value, list | tuple | dict):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
