"""Read the files of a release from a folder or a zip, with limits on sizes: no file is trusted."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from p3iv.errors import P3ivError, SourceError
from p3iv.validation import cut, parse_json

MAX_BYTES = 64 * 2**20  # of one file of a release; COIN.json, the largest, has about 6 MiB

MAX_JSON_PARTS = 2**20  # objects and lists of a JSON file; COIN.json has about 120,000

MAX_XML_PARTS = 2**21  # tags of an XML file; a minute of one track of CVAT has about 5,000

MAX_XML_DEPTH = 50  # ELAN and CVAT need 6

MAX_RATIO = 100  # unpacked to packed size of a zip; text has 3 to 10, and a file that is made to fill the memory 1000

MIN_UNPACKED = 2**20  # bytes that any zip may unpack to

# Errors of zipfile on a damaged archive; RuntimeError includes NotImplementedError.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)


class UnusableError(P3ivError):
    """A file or a row cannot be used; it becomes a Problem, or a SourceError if nothing can be read without it."""


class Files(Protocol):
    """The text files of a release, by paths with forward slashes."""

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder ("" is the top); none if there is no such folder."""

    def read(self, name: str, max_bytes: int = MAX_BYTES) -> str:
        """The text of one file of at most `max_bytes`.

        Raises:
            UnusableError: it is missing, too large or not UTF-8.
        """


class FolderFiles:
    """The files of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        if not is_folder(path):
            return []
        try:
            return sorted(entry.name for entry in path.iterdir())
        except OSError as error:
            raise UnusableError(f"the folder {folder or '.'} cannot be listed ({error.strerror})") from error

    def read(self, name: str, max_bytes: int = MAX_BYTES) -> str:
        return read_text(self._root / name, max_bytes)


class ZipFiles:
    """The members of a zip, unpacked in memory one by one; of two with one name, the first is read.

    `zipfile.Path` would read the last one, and before Python 3.11.10 it never returns on a name such as "//x".
    """

    def __init__(self, archive: zipfile.ZipFile, num_bytes: int) -> None:
        self._archive = archive
        self._bytes_left = max(MIN_UNPACKED, MAX_RATIO * num_bytes)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._names: dict[str, list[str]] = {}
        for info in archive.infolist():
            self._infos.setdefault(info.filename, info)
            folder, _, name = info.filename.rpartition("/")
            self._names.setdefault(folder, []).append(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self._names.get(folder.rstrip("/"), []) if name)

    def read(self, name: str, max_bytes: int = MAX_BYTES) -> str:
        info = self._infos.get(name)
        if info is None:
            raise UnusableError("no such file in the zip")
        _check_member(info, max_bytes)
        self._bytes_left -= info.file_size
        if self._bytes_left < 0:
            raise UnusableError(f"the zip unpacks to more than {MAX_RATIO} times its size")
        try:
            with self._archive.open(info) as member:
                return decode(member.read(info.file_size + 1))  # a bound, so that a false header cannot fill the memory
        except ZIP_ERRORS as error:
            raise UnusableError(f"damaged in the zip ({_reason(error)})") from error


def _check_member(info: zipfile.ZipInfo, max_bytes: int) -> None:
    """Refuse a member that is too large, encrypted or of an unusual compression, before unpacking it."""
    if info.file_size > max_bytes:
        raise UnusableError(f"{info.file_size} bytes when unpacked, at most {max_bytes} are allowed")
    if info.flag_bits & 0x1:
        raise UnusableError("encrypted; unpack the zip with its password and give the folder")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnusableError(f"packed by method {info.compress_type}, expected stored (0) or deflated (8)")


@contextmanager
def required(path: Path, expected: str) -> Iterator[None]:
    """Turn an UnusableError in the block into a SourceError that says which source is expected."""
    try:
        yield
    except UnusableError as error:
        raise SourceError(f"{path}: {error}. Give {expected}.") from error


@contextmanager
def open_release(source: Path, expected: str) -> Iterator[Files]:
    """Open a folder or a zip; an UnusableError that the block does not catch becomes a SourceError."""
    with required(source, expected):
        if is_folder(source):
            yield FolderFiles(source)
        else:
            with _open_zip(source) as archive:
                yield ZipFiles(archive, source.stat().st_size)


def _open_zip(source: Path) -> zipfile.ZipFile:
    _check_is_file(source)
    try:
        return zipfile.ZipFile(source)
    except ZIP_ERRORS as error:
        raise UnusableError(f"neither a folder nor a zip that can be opened ({_reason(error)})") from error


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a regular file of at most `max_bytes`, in UTF-8."""
    return decode(read_bytes(path, max_bytes))


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most `max_bytes`."""
    _check_is_file(path)
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UnusableError(f"it cannot be read ({error.strerror})") from error
    if len(content) > max_bytes:
        raise UnusableError(f"larger than the {max_bytes} bytes that are allowed")
    return content


def decode(content: bytes) -> str:
    """UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableError(f"byte {error.start + 1} is not UTF-8, expected UTF-8 text") from error


def is_there(path: Path) -> bool:
    """Whether anything has that name, also a broken link."""
    try:
        return path.is_symlink() or path.exists()
    except OSError:
        return True


def is_folder(path: Path) -> bool:
    """Whether it is a folder that can be read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _check_is_file(path: Path) -> None:
    """Accept regular files and links to them only: reading a pipe or a device may never end."""
    if not is_there(path):
        raise UnusableError("there is no such file")
    try:
        is_file = path.is_file()
    except OSError as error:
        raise UnusableError(f"it cannot be read ({error.strerror})") from error
    if not is_file:
        raise UnusableError(f"{'a folder' if is_folder(path) else 'not a regular file'}, expected a file")


class JsonObject(dict[str, object]):
    """A JSON object that keeps the first of two equal keys and lists the repeated ones."""

    repeated: tuple[str, ...] = ()


def parse_object(text: str) -> JsonObject:
    """Parse a JSON object; numbers that are too long, NaN and Infinity are left to the checks of each row."""
    content = parse_value(text)
    if not isinstance(content, JsonObject):
        raise UnusableError("JSON, but not an object")
    return content


def parse_value(text: str) -> object:
    """Parse any JSON value, as `parse_object` does."""
    if text.count("{") + text.count("[") > MAX_JSON_PARTS:
        raise UnusableError(f"JSON of more than {MAX_JSON_PARTS} objects and lists")
    try:
        return parse_json(text, object_pairs_hook=_keep_first, parse_int=_parse_int, parse_constant=float)
    except ValueError as error:
        raise UnusableError(str(error)) from error


def _keep_first(pairs: list[tuple[str, object]]) -> JsonObject:
    first, repeated = JsonObject(), []
    for key, value in pairs:
        if key in first:
            repeated.append(key)
        else:
            first[key] = value
    first.repeated = tuple(repeated)
    return first


def _parse_int(digits: str) -> int | float:
    """Python refuses to parse integers of thousands of digits; as floats they are infinite."""
    return int(digits) if len(digits) <= 18 else float(digits)


class _PlainTree(TreeBuilder):
    """Builds the elements of an XML file; a DTD and deep nesting are refused before anything is made of them."""

    _depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise UnusableError(f"XML that is nested more than {MAX_XML_DEPTH} levels deep")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)

    def doctype(self, *_: object) -> None:
        raise UnusableError("XML with a document type (<!DOCTYPE ...>), which may define entities; delete that part")


def parse_xml(text: str) -> Element:
    """Parse XML without trusting it: no document type, so no entities, neither within the file nor outside."""
    if text.count("<") > MAX_XML_PARTS:
        raise UnusableError(f"XML of more than {MAX_XML_PARTS} tags")
    parser = XMLParser(target=_PlainTree())  # noqa: S314 - it refuses what makes XML unsafe
    try:
        parser.feed(text)
        root: Element = parser.close()
    except (ParseError, ValueError) as error:  # ValueError: surrogates, or an encoding that does not exist
        raise UnusableError(f"not XML: {cut(str(error))}") from error
    return root


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
