"""Reading JSON and YAML without trusting it, and plain sentences about what is wrong with a source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import yaml
from pydantic import AfterValidator, TypeAdapter, ValidationError

from p3iv.errors import P3ivError, SourceError
from p3iv.types import UNFIT, Problem, listed

ModelT = TypeVar("ModelT")
_UNION_MEMBERS = ("int", "str", "float")

MAX_YAML_BYTES = 2**16  # config.yaml, the longest, has about 3 KB; the YAML library needs a second for 100 KB
MAX_YAML_DEPTH = 20

MAX_PROBLEMS = 100_000  # a source with more is another kind of file
MAX_LISTED = 1000  # problems of a source that are kept and printed
MAX_LISTED_PER_FILE = 100  # of them, so that one bad file does not hide the others

MAX_NAME = 500  # characters


def check_plain(text: str, max_length: int = MAX_NAME) -> str:
    """The text, if it can be printed in one line.

    Raises:
        ValueError: it is too long, or has characters that are not printed.
    """
    if len(text) > max_length:
        raise ValueError(f"a text of {len(text)} characters, expected at most {max_length}")
    if UNFIT.search(text):
        raise ValueError(f"{shown(text)}, expected a text without control characters")
    return text


def make_plain(text: str) -> str:
    """The name of a file or folder as a text that `check_plain` accepts: a ? for each character that is not printed."""
    return UNFIT.sub("?", text)[:MAX_NAME]


PlainText = Annotated[str, AfterValidator(check_plain)]  # a name in a pydantic model

Label = Annotated[str, AfterValidator(lambda text: check_plain(text, 4 * MAX_NAME))]  # several names in one text


def read_model(path: Path, model: type[ModelT], *, error: type[P3ivError], advice: str) -> ModelT:
    """Read a JSON file as a pydantic model, a dataclass or another type that pydantic can check.

    Args:
        path: the file.
        model: what it must hold.
        error: what to raise where it holds something else, or cannot be read.
        advice: a sentence at the end of the message that says how to make the file again.
    """
    try:
        return TypeAdapter(model).validate_json(path.read_bytes())
    except OSError as problem:
        raise error(f"{path} cannot be read ({problem.strerror}). {advice}") from problem
    except ValidationError as problem:
        raise error(f"{path}: {explain(problem)}. {advice}") from problem


def explain(error: ValidationError) -> str:
    """The first problem of a pydantic error as a sentence: where it is, what was found, what was expected."""
    return explain_problems(error.errors(include_url=False))


def explain_problems(problems: Sequence[Any]) -> str:
    """The first of the problems that a pydantic error lists, as a sentence."""
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


class _PlainLoader(yaml.SafeLoader):
    """Refuses what lets a short file become a long one (anchors, aliases, merges), deep nesting and repeated keys.

    Dates stay texts, for names such as 2024-05-01.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.peek_event().anchor is not None:  # type: ignore[no-untyped-call]
            raise yaml.YAMLError("an anchor or alias (& or *)")
        self._depth += 1
        if self._depth > MAX_YAML_DEPTH:
            raise yaml.YAMLError(f"nested more than {MAX_YAML_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def flatten_mapping(self, node: Any) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise yaml.YAMLError("a merge (<<)")

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            (key, _), *_ = Counter(key.value for key, _ in node.value).most_common(1)
            raise yaml.YAMLError(f"the key {shown(key)} is there twice")
        return mapping


def parse_yaml(text: str) -> object:
    """Parse YAML without trusting it.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        return yaml.load(text, _PlainLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        if mark and repr("\t") in (error.problem or ""):
            verb = "has" if mark.column else "begins with"
            raise ValueError(f"line {mark.line + 1} {verb} a tab; use spaces") from error
        where = f" in line {mark.line + 1}" if mark else ""
        raise ValueError(f"not YAML: {cut(error.problem or error.context or 'damaged')}{where}") from error
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        raise ValueError(f"not YAML that can be used: {cut(str(error))}") from error  # such as !!int ''


def read_mapping(path: Path, *, error: type[P3ivError], advice: str) -> dict[Any, Any]:
    """Read a YAML file of a few settings; arguments as for `read_model`."""
    if path.exists() and not path.is_file():
        raise error(f"{path} is not a file. {advice}")  # reading a pipe may never end
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES + 1)
        if len(content) > MAX_YAML_BYTES:
            raise error(f"{path} has more than the {MAX_YAML_BYTES} bytes that are allowed. {advice}")
        mapping = parse_yaml(content.decode("utf-8-sig"))
    except OSError as problem:
        raise error(f"{path} cannot be read ({problem.strerror}). {advice}") from problem
    except ValueError as problem:
        raise error(f"{path}: {problem}. {advice}") from problem
    if not isinstance(mapping, dict):
        raise error(f"{path} is {shown(mapping)}, expected lines of KEY: VALUE. {advice}")
    return mapping


def cut(text: str, length: int = 200) -> str:
    """At most that many characters of a text, in one printable line."""
    line = " ".join(text[: 4 * length].split())
    line = UNFIT.sub("?", line)
    return line if len(line) <= length else f"{line[:length]}..."


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


@dataclass
class ProblemLog:
    """Collects problems while a source is read, so that one bad row does not stop the rest.

    All are counted; the first ones of each file are kept.
    """

    total: int = 0
    _kept: list[Problem] = field(default_factory=list)
    _num_in: Counter[str] = field(default_factory=Counter)  # file -> problems
    _unlisted_in: Counter[str] = field(default_factory=Counter)

    def add(self, where: str, what: str, done: str) -> None:
        """Add a problem.

        Raises:
            SourceError: there are so many that the source cannot be what the user took it for.
        """
        self.total += 1
        file = where.partition(":")[0]
        self._num_in[file] += 1
        if self._num_in[file] <= MAX_LISTED_PER_FILE and len(self._kept) < MAX_LISTED:
            self._kept.append(Problem(where, what, done))
            return
        self._unlisted_in[file] += 1
        if self.total > MAX_PROBLEMS:
            raise SourceError(
                f"more than {MAX_PROBLEMS} rows or files cannot be used, so this is not such a source. "
                f"The first: {self._kept[0]}."
            )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that are kept, and one entry for the others."""
        unlisted = self._unlisted_in.total()
        if not unlisted:
            return tuple(self._kept)
        return (*self._kept, Problem(listed(list(self._unlisted_in)), f"{unlisted} more", "not listed", unlisted))
