"""Damage to files: bits, blocks, numbers and words; parts of JSON, YAML, zip files and safetensors headers."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import yaml

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53,
    2**63,
    2**64,
    2**70,
)
_WORDS = r"""
nan inf -inf 1e999 -0.0 0x10 1_000 null None true ~ , ; : :: " ' \ [ ] { } ( ) < > & * @ # % $ = + - _ / // .
../ ../../etc/passwd /dev/zero /dev/null file: http://localhost:9/ con NUL \UFFFFFFFF \ud800 &a *a <<: !!python/name:os
[red] [/b] ^^5c \input{x} <script> __metadata__ ftyp moov mdat avc1 RIFF
"""
WORDS = (
    *(str(number).encode() for number in NUMBERS),
    *_WORDS.encode().split(),
    *(b"PK\x01\x02", b"PK\x03\x04", b"\x93NUMPY", b"\x1b[31m", b"\x1b[2J", b"\xe2\x80\xae", b"\xed\xa0\x80"),
    *(b"\n", b"\r", b"\r\n", b"\t", b" ", b"\0", b"\xff", b"\xef\xbb\xbf"),
    *(b"9" * 5000, b"[" * 3000, b'{"a":' * 1500, b"a" * 20000, b"\n" * 5000, b", " * 3000),
)
DEEP = "@deep@"  # replaced by 3,000 or 100,000 brackets: Python's own encoder cannot nest so deeply
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**70, -(2**70), 10**400, 0.5, -1.5, 1e308, 1e-320),
    *(float("nan"), float("inf"), "", " ", "3", "x", "nan", "null", "\x1b[31m", "\n", "\0", "\ud800", "a" * 20000),
    *([], {}, [[]], [None], [1] * 2000, {"a": 1}, ["x"], [[1, 2], [3]], {"": {}}, DEEP),
)

Mutate = Callable[[random.Random, bytes], bytes]


def mutate(rng: random.Random, suffix: str, content: bytes) -> bytes:
    """Damage a file as a stranger's program, a broken disk or a curious user would."""
    change = _STRUCTURED.get(suffix)
    if change is not None and rng.random() < 0.6:
        try:
            return change(rng, content)
        except (ValueError, KeyError, IndexError, zipfile.BadZipFile, RecursionError, struct.error):
            pass
    return mutate_bytes(rng, content)


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """One to four edits."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        content = rng.choice(_EDITS)(rng, content)
    return content


def _place(rng: random.Random, content: bytes) -> int:
    """A place in a file, more often near its start, where headers are."""
    if not content:
        return 0
    return rng.randrange(min(len(content), 512)) if rng.random() < 0.4 else rng.randrange(len(content))


def _flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 8))):
        if changed:
            changed[_place(rng, content)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    put = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
    return content[:at] + put + content[at + size :]


def _cut(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    return content[:at] if rng.random() < 0.4 else content[:at] + content[at + rng.choice((1, 2, 8, 100, 1000)) :]


def _insert(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    put = rng.choice(WORDS) if rng.random() < 0.7 else rng.randbytes(rng.choice((1, 4, 40)))
    return content[:at] + put + content[at + rng.choice((0, 0, len(put))) :]


def _repeat(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    block = content[at : at + rng.choice((1, 10, 100, 1000))]
    to = _place(rng, content)
    return content[:to] + block * rng.choice((1, 1, 3, 50)) + content[to:]


def _swap(rng: random.Random, content: bytes) -> bytes:
    first, second = sorted((_place(rng, content), _place(rng, content)))
    size = min(rng.choice((1, 8, 64)), second - first)
    a, b = content[first : first + size], content[second : second + size]
    return content[:first] + b + content[first + size : second] + a + content[second + size :]


def _replace_number(rng: random.Random, content: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", content[:20000]))
    if not found:
        return _overwrite(rng, content)
    at = rng.choice(found)
    return content[: at.start()] + rng.choice(WORDS[:40]) + content[at.end() :]


_EDITS: tuple[Mutate, ...] = (_flip, _overwrite, _cut, _insert, _repeat, _swap, _replace_number)


def mutate_value(rng: random.Random, content: Any) -> Any:
    """A copy of nested lists and objects with one part replaced, deleted, added or renamed."""
    content = json.loads(json.dumps(content, default=str)) if isinstance(content, dict | list) else content
    places = list(_places(content))
    if not places or rng.random() < 0.03:
        return rng.choice(VALUES)
    owner, key = rng.choice(places)
    action = rng.random()
    if action < 0.65:
        owner[key] = rng.choice(VALUES) if rng.random() < 0.8 else _near(rng, owner[key])
    elif action < 0.8:
        del owner[key]
    elif isinstance(owner, dict):
        owner[rng.choice(("", "x", "name", "format", f"{key}x", key.upper()))] = owner[key]
    else:
        owner += [owner[key]] * rng.choice((1, 500))
    return content


def _near(rng: random.Random, value: Any) -> Any:
    """A value like the old one: twice, its text, in a list."""
    choices: list[Any] = [[value], {"value": value}, str(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        choices += [-value, value + 1, value * 1000, float(value), value / 3]
    if isinstance(value, str):
        choices += [value * 2, value.upper(), value[: len(value) // 2]]
    return rng.choice(choices)


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield content, key
        yield from _places(value)


def _dump(rng: random.Random, value: Any) -> bytes:
    text = json.dumps(value)
    size = rng.choice((3000, 100_000))
    return text.replace(json.dumps(DEEP), "[" * size + "]" * size).encode("utf-8", "surrogatepass")


def mutate_json(rng: random.Random, content: bytes) -> bytes:
    return _dump(rng, mutate_value(rng, json.loads(content)))


def _mutate_lines(rng: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(rng, lines[at]) + b"\n"
    return b"".join(lines)


def _mutate_yaml(rng: random.Random, content: bytes) -> bytes:
    text = yaml.safe_dump(mutate_value(rng, yaml.safe_load(content)), sort_keys=False)
    size = rng.choice((300, 3000))
    return text.replace(DEEP, "[" * size + "]" * size).encode("utf-8", "surrogatepass")


def _mutate_table(rng: random.Random, content: bytes) -> bytes:
    """Change a cell, or the number of cells in a row."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(b",")
    if rng.random() < 0.8:
        cells[rng.randrange(len(cells))] = rng.choice(WORDS)
    else:
        cells = rng.sample(cells, len(cells)) + cells[: rng.randrange(3)]
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


def _mutate_zip(rng: random.Random, content: bytes) -> bytes:
    """Damage a member, so that the archive's checksums are right; or drop, rename or repeat one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, inner = members[at]
    action = rng.random()
    if action < 0.8:
        members[at] = (name, mutate(rng, f".{name.rsplit('.')[-1]}", inner))
    elif action < 0.9:
        del members[at]
    else:
        members.append((rng.choice(("../x", "/x", "a/../../x", f"{name}.npy", "x" * 300)), inner))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, inner in members:
            archive.writestr(name, inner)
    return written.getvalue()


def _mutate_header(rng: random.Random, content: bytes) -> bytes:
    """Change the JSON header of a .safetensors file, or the JSON in its metadata."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    own = header.get("__metadata__", {}).get("p3iv")
    if own is not None and rng.random() < 0.85:
        header["__metadata__"]["p3iv"] = mutate_json(rng, own.encode()).decode("utf-8", "replace")
        text = json.dumps(header).encode()
    else:
        text = mutate_json(rng, content[8 : 8 + size])
    return struct.pack("<Q", len(text)) + text + content[8 + size :]


def _mutate_words(rng: random.Random, content: bytes) -> bytes:
    """Replace, drop or repeat a word between spaces."""
    words = content.split(b" ")
    at = rng.randrange(len(words))
    words[at : at + 1] = rng.choice(([], words[at : at + 1] * 2, [rng.choice(WORDS)], [rng.choice(words)]))
    return b" ".join(words)


_STRUCTURED: dict[str, Mutate] = {
    ".json": mutate_json,
    ".jsonl": _mutate_lines,
    ".yaml": _mutate_yaml,
    ".csv": _mutate_table,
    ".txt": _mutate_table,
    **dict.fromkeys((".words", ".xml", ".eaf", ".vtt", ".srt"), _mutate_words),
    ".zip": _mutate_zip,
    ".npz": _mutate_zip,
    ".pth": _mutate_zip,
    ".safetensors": _mutate_header,
}
