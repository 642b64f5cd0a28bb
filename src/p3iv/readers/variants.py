"""The steps.csv that people write: encodings, separators, headers, times and names, and what is understood of them.

What can be meant in one way only is understood, with a note. What could mean two things raises UnusableError, which
says what to write instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.readers.files import UnusableError
from p3iv.readers.rows import NUMBER, csv_rows
from p3iv.types import counted
from p3iv.validation import ProblemLog, cut, shown

COLUMNS = ("video", "task", "step", "start_s", "end_s")

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

SAVE_AS_UTF8 = 'save it as UTF-8 (in Excel: Save As, "CSV UTF-8")'

MAX_NOTES = 50

# Names of columns in small letters, without blanks, signs and units.
OTHER_NAMES = {
    "video": ("videoid", "videoname", "videofile", "file", "filename", "clip"),
    "task": ("taskname", "procedure", "recipe", "activity"),
    "step": ("stepname", "steplabel", "action", "label"),
    "start_s": ("start", "starts", "begin", "from", "startsec", "startseconds", "starttime"),
    "end_s": ("end", "stop", "to", "until", "endsec", "endseconds", "endtime", "stoptime"),
    "text": (),
}

_UNIT = re.compile(r"[\[(]\s*(s|sec|secs|seconds?)\s*[\])]\s*$", re.IGNORECASE)

_SEPARATOR_LINE = re.compile(r"\A\"?sep=([,;\t])\"?[ ,;\t]*(?=\r|\n|\Z)", re.IGNORECASE)  # Excel reads and writes it

_CLOCK = re.compile(r"(?:(\d{1,3}):(?=\d\d:))?(\d{1,4}):([0-5]\d)(?:[.,](\d{1,9}))?", re.ASCII)

_DECIMAL_COMMA = re.compile(r"(\d{1,9}),(\d{1,9})", re.ASCII)

_SECONDS_UNIT = re.compile(r"\s*(s|sec|secs|seconds?)\.?", re.IGNORECASE)

EXPECTED_TIME = "expected seconds from 0, such as 65.5, or minutes and seconds, such as 1:05.5"


@dataclass
class NoteLog:
    """Collects notes on what was understood: one for each kind, with the first place and the number of others."""

    _first: dict[str, str] = field(default_factory=dict)
    _others: Counter[str] = field(default_factory=Counter)

    def add(self, where: str, what: str, kind: str | None = None) -> None:
        """Add a note; of several of one kind, the first is kept."""
        kind = kind or what
        if kind in self._first:
            self._others[kind] += 1
        else:
            self._first[kind] = f"{where}: {what}"

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each kind, in the order in which they were found."""
        others = {kind: f" (and {number} more)" for kind, number in self._others.items()}
        notes = [f"{note}{others.get(kind, '')}" for kind, note in self._first.items()]
        more = [f"{len(notes) - MAX_NOTES} more kinds of notes"] if len(notes) > MAX_NOTES else []
        return (*notes[:MAX_NOTES], *more)


def decode_sheet(name: str, content: bytes, notes: NoteLog) -> str:
    """The text of a CSV file in UTF-8, UTF-16 with a byte order mark, or Windows-1252 (with it, Latin-1)."""
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise UnusableError('an Excel workbook, expected text; in Excel, choose Save As, "CSV UTF-8"')
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_utf16(name, content, notes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _decode_windows(name, content, error.start, notes)


def _decode_utf16(name: str, content: bytes, notes: NoteLog) -> str:
    try:
        text = content.decode("utf-16")
    except UnicodeDecodeError as error:
        raise UnusableError(f"it begins as UTF-16, but byte {error.start + 1} is not; {SAVE_AS_UTF8}") from error
    notes.add(name, "is in UTF-16, not in UTF-8, and was understood")
    return text


def _decode_windows(name: str, content: bytes, first_bad: int, notes: NoteLog) -> str:
    """Windows-1252, unless other letters of the file are UTF-8: then it is damaged or has two encodings."""
    line = content.count(b"\n", 0, first_bad) + 1
    valid = content.decode("utf-8", errors="ignore")
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if not text or not valid.isascii():
        other = "while other letters are" if not valid.isascii() else "nor Windows-1252"
        raise UnusableError(f"byte {first_bad + 1} (line {line}) is not UTF-8, {other}; {SAVE_AS_UTF8}")
    begin = max(text.rfind(sign, 0, first_bad) for sign in (*SEPARATORS, "\n")) + 1
    word = cut(re.split(r"[,;\t\r\n]", text[begin : begin + 200], maxsplit=1)[0])
    wrong = f"if that is wrong, {SAVE_AS_UTF8}"
    notes.add(f"{name}:{line}", f"not UTF-8, read as Windows-1252, for example {shown(word)}; {wrong}")
    return text


@dataclass(frozen=True)
class Header:
    """The columns of a steps.csv."""

    columns: tuple[str, ...]  # "" for a column without a usable name
    separator: str
    line: str  # where it is, such as steps.csv:1
    text: str  # the file without a `sep=` line


def find_header(name: str, text: str, notes: NoteLog) -> Header:
    """Find the separator and the columns in the first line: the separator with which most columns are known.

    Raises:
        UnusableError: a column is missing, or two columns may be the same.
    """
    if declared := _SEPARATOR_LINE.match(text):
        text = text[declared.end() :]  # the rest of that line is blank, so that the numbers of lines stay
    found = {separator: _first_row(name, text, separator) for separator in SEPARATORS}
    known = {separator: _read_columns(cells) for separator, (_, cells) in found.items()}
    separator = max(SEPARATORS, key=lambda each: (sum(name in COLUMNS for name in known[each]), len(known[each])))
    (where, cells), columns = found[separator], known[separator]
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise UnusableError(_what_is_missing(missing, where, cells, separator))
    if separator != ",":
        notes.add(where, f"the columns are separated by {SEPARATORS[separator]}, not by commas")
    renamed = [(cell, column) for cell, column in zip(cells, columns, strict=True) if column and cell.strip() != column]
    if renamed:
        others = ", ".join(f"{cut(cell.strip(), 40)} as {column}" for cell, column in renamed)
        notes.add(where, f"columns by other names were understood: {others}")
    return Header(columns, separator, where, text)


def _first_row(name: str, text: str, separator: str) -> tuple[str, list[str]]:
    return next(csv_rows(name, text[: 2**16], ProblemLog(), separator), (f"{name}:1", []))


def _read_columns(cells: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns: p3iv's names for those that are meant, the written ones for all others.

    The exact name counts first, then the same name in other letters, then the other names of a column.
    """
    columns = [cell.strip() for cell in cells]
    for column, others in OTHER_NAMES.items():
        if column in columns:
            continue
        for spellings in ((_letters(column),), others):
            meant = [place for place, cell in enumerate(cells) if _letters(cell) in spellings]
            if len(meant) > 1:
                both = " and ".join(shown(cells[place].strip()) for place in meant[:2])
                raise UnusableError(f"the columns {both} may both be {column}; call one of them {column}")
            if meant:
                columns[meant[0]] = column
                break
    return tuple(columns)


def _letters(cell: str) -> str:
    return "".join(letter for letter in _UNIT.sub("", cell).casefold() if letter.isalnum())


def _what_is_missing(missing: list[str], where: str, cells: list[str], separator: str) -> str:
    header = separator.join(COLUMNS)
    line = where.rpartition(":")[2]
    if len(missing) == len(COLUMNS) and sum(_is_time(cell) for cell in cells) >= 2:
        row = shown(separator.join(cells))
        return f"line {line} is {row}, not a header. Write the names of the columns above it, such as {header}"
    got = f" ({shown(separator.join(cells))})" if cells else ""
    return f"no column {', '.join(missing)} in its header{got}, expected {header}[{separator}text] in line {line}"


def _is_time(cell: str) -> bool:
    try:
        parse_seconds(cell, "time", ",")
    except UnusableError:
        return False
    return True


def parse_seconds(cell: str, what: str, separator: str) -> tuple[float, str | None]:
    """Parse a time; returns it with the way in which it was written, if it is not a number of seconds."""
    text = cell.strip()
    bare = _SECONDS_UNIT.fullmatch(text.lstrip("0123456789.,"))
    text = text[: len(text) - len(bare[0])] if bare else text
    unit = "a unit" if bare else None
    if NUMBER.fullmatch(text):
        return float(text), unit
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds, fraction = clock.groups()
        if hours is None or int(minutes) < 60:
            whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
            return float(f"{whole}.{fraction or 0}"), "hours, minutes and seconds" if hours else "minutes and seconds"
    if comma := _DECIMAL_COMMA.fullmatch(text):
        if separator != ";" and len(comma[2]) == 3 and not comma[1].startswith("0") and len(comma[1]) <= 3:
            point, thousands = f"{comma[1]}.{comma[2]}", f"{comma[1]}{comma[2]}"
            raise UnusableError(
                f"the {what} is {shown(cell)}, which may be {point} or {thousands} seconds; write one of the two"
            )
        return float(f"{comma[1]}.{comma[2]}"), "a decimal comma"
    raise UnusableError(f"the {what} is {shown(cell)}, {EXPECTED_TIME}")


def without_ending(video: str) -> str:
    """The name of a video without the ending of a video file: day.mp4 -> day."""
    stem, dot, ending = video.rpartition(".")
    return stem.rstrip() if stem.strip() and f"{dot}{ending}".lower() in VIDEO_SUFFIXES else video


def spelling_key(name: str) -> str:
    """What two spellings of one name have in common: its letters, in small letters, with single blanks."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def join_spellings(names: Iterable[str], kept_apart: Iterable[str] = ()) -> dict[str, str]:
    """Names that differ in capitals and blanks only -> the spelling that is the most frequent, or comes first.

    Args:
        names: every name as often as it occurs.
        kept_apart: names that stay as they are.
    """
    counts, apart = Counter(names), set(kept_apart)
    best: dict[str, str] = {}
    for name in counts:
        key = spelling_key(name)
        if name not in apart and (key not in best or counts[name] > counts[best[key]]):
            best[key] = name
    return {name: best[spelling_key(name)] for name in counts if name not in apart and best[spelling_key(name)] != name}


def note_joined(notes: NoteLog, where: str, what: str, name: str, joined: str) -> None:
    """Note that a name was read as another spelling of it."""
    notes.add(
        where,
        f"{what} {shown(name)} is read as {shown(joined)}: they differ in capitals or blanks only",
        f"{what}:{name}",
    )


def note_time(notes: NoteLog, where: str, cell: str, seconds: float, how: str) -> None:
    """Note a time that was not written as a number of seconds."""
    notes.add(where, f"times with {how} were understood: {shown(cell.strip())} is {seconds:g} s", how)


def near_names(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names that are probably one name with a slip: equal without signs, or one word differs by a letter."""
    first_of: dict[str, str] = {}
    pairs = []
    by_gap: dict[tuple[str, int, str], list[tuple[str, str]]] = {}
    for name in names:
        words = spelling_key(name).split()
        twin = first_of.setdefault("".join(letter for word in words for letter in word if letter.isalnum()), name)
        if twin != name:
            pairs.append((twin, name))
        for place, word in enumerate(words):
            same = by_gap.setdefault((" ".join(words[:place]), place, " ".join(words[place + 1 :])), [])
            pairs += [(other, name) for other, its_word in same[:100] if _is_slip(its_word, word)]
            same.append((name, word))
    return list(dict.fromkeys(pairs))


def _is_slip(one: str, two: str) -> bool:
    """Whether two words of four letters or more differ by one letter, or by two if they are long."""
    short = min(len(one), len(two))
    if one == two or short < 4 or not (one + two).isalpha() or max(len(one), len(two)) > 40:
        return False
    return edit_distance(one, two) <= (2 if short >= 8 else 1)


def edit_distance(one: str, two: str) -> int:
    """The number of letters to insert, delete, replace, or swap with the next one."""
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, letter in enumerate(one, start=1):
        new = [i]
        for j, other in enumerate(two, start=1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == two[j - 2] and one[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]


def describe_near(pairs: Sequence[tuple[str, str]], max_pairs: int = 5) -> str:
    """Some of the pairs for a message."""
    some = "; ".join(f"{shown(one)} and {shown(two)}" for one, two in pairs[:max_pairs])
    more = f" and {counted(len(pairs) - max_pairs, 'more pair')}" if len(pairs) > max_pairs else ""
    return f"{some}{more}"
