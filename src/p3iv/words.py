"""A goal in words, or the name of a procedure: which steps and procedures of a planner it probably means.

A text that is the name of a step or a procedure, but for case, spaces and punctuation, means that. Any other text is
compared with all names by the cosine of minilm embeddings and, for words with typing mistakes, by letters; where minilm
is not installed, by letters alone. The text encoder of the planner's training plays no part, since only texts are
compared with texts: hashed words (tabletop) find less than letters do, S3D needs a file of weights, and CLIP needs the
extra that has minilm.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from p3iv.encoders.registry import build_text_encoder
from p3iv.errors import P3ivError, PlanError, warn_caller
from p3iv.types import Array, listed
from p3iv.validation import check_plain, cut

if TYPE_CHECKING:  # it imports libraries that a text which is a name does not need
    from p3iv.encoders.base import TextEncoder

OnNote = Callable[[str], object]
Kind = Literal["step", "procedure"]

ENCODER: Final = "minilm"
MAX_MATCHES: Final = 5  # of a goal
MAX_SUGGESTIONS: Final = 3  # of an error


@dataclass(frozen=True)
class Scale:
    """What similarities mean, in one way of comparing texts."""

    min_similarity: float  # of the nearest name; below it, the text is refused
    temperature: float  # of the softmax over the names of one kind


# Chosen on 131 paraphrases of steps and procedures of CaptainCook4D and CrossTask and on 52 unrelated texts: the weight
# by top-1 accuracy, the temperatures by likelihood, and the least similarity so that at least 95 % of the unrelated
# texts are refused. tests/test_words.py has paraphrases of tabletop, which only MIN_SPELLING was chosen on too.
ENCODER_WEIGHT: Final = 0.7  # of the embeddings; the rest is for letters
BY_MEANING: Final = Scale(min_similarity=0.33, temperature=0.035)
BY_LETTERS: Final = Scale(min_similarity=0.25, temperature=0.05)
MIN_SPELLING: Final = 0.35  # by letters alone: as near as that, a text with typing mistakes is not refused
KIND_TEMPERATURE: Final = 0.1  # between the nearest step and the nearest procedure
MIN_SHARE: Final = 0.2  # probability that a text is of a kind; below it, it says nothing about that kind

_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER_AT_END: Final = re.compile(r"\s*\[\d+\]$")  # of a step whose text another step has too
_LABEL: Final = re.compile(r"([^\W\d_]+(?: [^\W\d_]+){0,3}) ?- ?(?=\w)")  # "Coat -" of "Coat -Coat the cup"


@dataclass(frozen=True)
class Match:
    """A step or a procedure that a text may mean."""

    kind: Kind
    name: str
    similarity: float  # from 0 to 1; 1 for its name


@dataclass(frozen=True)
class UnderstoodGoal:
    """What a goal in words says to a planner."""

    text: str
    last_step: Array | None  # (A,) probabilities of the last step; None if the text is about no step
    procedure: Array | None  # (P,) probabilities of the procedure; None if the text is about no procedure
    summary: str
    matches: tuple[Match, ...]  # the nearest ones, best first


class WordReader:
    """Finds the steps and procedures that a user means; texts are compared when the first that is not a name comes.

    Args:
        steps: the names of the planner's steps.
        procedures: the names of the procedures that it was trained on.
        on_note: is called with what the user should know.
        by_meaning: False compares texts by letters alone and loads no encoder.

    Example:
        >>> reader = WordReader(["boil water", "pour milk"], ["make tea"])
        >>> reader.read_goal("Pour milk!").summary
        'understood "Pour milk!" as the step "pour milk"'
    """

    def __init__(
        self,
        steps: Sequence[str],
        procedures: Sequence[str] = (),
        on_note: OnNote = warn_caller,
        *,
        by_meaning: bool = True,
    ) -> None:
        self._names: dict[Kind, tuple[str, ...]] = {"step": tuple(steps), "procedure": tuple(procedures)}
        self._texts: dict[Kind, list[str]] = {
            "step": [clean_step(name, self._names["procedure"]) for name in steps],
            "procedure": [clean_step(name) for name in procedures],
        }
        self._on_note, self._by_meaning = on_note, by_meaning

    def prepare(self) -> None:
        """Load the text encoder and embed all names now, so that the first text does not take seconds."""
        _ = self._letters, self._embeddings

    def read_goal(self, text: str) -> UnderstoodGoal:
        """The steps and procedures that a text probably means.

        Raises:
            PlanError: no name is near it; the message has the nearest. Or it cannot be a text.
        """
        _check(text, "goal in words")
        exact = {kind: ids for kind in self._names if (ids := self._ids_of(text, kind))}
        if exact:
            return self._understand_name(text, exact)
        if not _WORD.search(text):
            raise PlanError(f"The goal in words {_quoted(text)} has no words; name a step or a procedure.")
        return self._understand_words(text)

    def read_procedure(self, name: str) -> UnderstoodGoal:
        """The procedure of that name; neither case nor punctuation counts.

        Raises:
            PlanError: there is none; the message has those with similar names.
        """
        _check(name, "name of a procedure")
        known = self._names["procedure"]
        if not known:
            raise PlanError(
                "This planner knows no procedures by name; leave the procedure out, or train it again on a dataset "
                "whose videos have tasks."
            )
        if ids := self._ids_of(name, "procedure"):
            return self._understand_name(name, {"procedure": ids})
        by_letters = _Letters(self._texts["procedure"]).compare(name)
        near = [known[number] for number in np.argsort(-by_letters) if by_letters[number] >= BY_LETTERS.min_similarity]
        advice = f"did you mean {_one_of(near)}?" if near else f"it knows {listed([_quoted(each) for each in known])}."
        raise PlanError(
            f"{_quoted(name)} is not the name of a procedure of this planner: {advice} Other words can be given as the "
            f"goal: --goal-text."
        )

    def _ids_of(self, text: str, kind: Kind) -> list[int]:
        """The steps or procedures with this name; without such a one, those whose name has the same words."""
        names = self._names[kind]
        if text in names:
            return [number for number, name in enumerate(names) if name == text]
        words = _words(text)
        both = enumerate(zip(names, self._texts[kind], strict=True))
        return [number for number, spellings in both if words and words in map(_words, spellings)]

    def _understand_name(self, text: str, found: Mapping[Kind, Sequence[int]]) -> UnderstoodGoal:
        probabilities: dict[Kind, Array] = {}
        for kind, ids in found.items():
            probabilities[kind] = np.zeros(len(self._names[kind]))
            probabilities[kind][list(ids)] = 1 / len(ids)
        matches = [Match(kind, self._names[kind][number], 1.0) for kind, ids in found.items() for number in ids]
        meant = [self._name_meant(kind, ids) for kind, ids in found.items()]
        return _goal(text, probabilities, matches[:MAX_MATCHES], meant)

    def _name_meant(self, kind: Kind, ids: Sequence[int]) -> str:
        more = f" or {len(ids) - 1} more of the same words" if len(ids) > 1 else ""
        return f"the {kind} {_quoted(self._names[kind][ids[0]])}{more}"

    def _understand_words(self, text: str) -> UnderstoodGoal:
        scale = BY_LETTERS if self._embeddings is None else BY_MEANING
        similarity = self._compare(text)
        matches = self._rank(similarity)
        is_near = matches[0].similarity >= scale.min_similarity or self._letters.compare(text).max() >= MIN_SPELLING
        if not is_near:
            raise PlanError(
                f"Nothing that this planner knows is near {_quoted(text)}: did you mean "
                f"{_one_of([match.name for match in matches])}?"
            )
        shares = _share_out({kind: float(values.max()) for kind, values in similarity.items()})
        probabilities = {
            kind: share * _softmax(similarity[kind], scale.temperature) + (1 - share) / len(similarity[kind])
            for kind, share in shares.items()
        }
        best = [next(match for match in matches if match.kind == kind) for kind in shares]
        meant = [f"the {match.kind} {_quoted(match.name)} (similarity {match.similarity:.2f})" for match in best]
        return _goal(text, probabilities, matches[:MAX_MATCHES], meant)

    def _rank(self, similarity: Mapping[Kind, Array]) -> list[Match]:
        """All steps and procedures, the nearest first."""
        matches = [
            Match(kind, name, float(value))
            for kind, values in similarity.items()
            for name, value in zip(self._names[kind], values, strict=True)
        ]
        return sorted(matches, key=lambda match: -match.similarity)

    def _compare(self, text: str) -> dict[Kind, Array]:
        """How similar a text is to every step (A,) and every procedure (P,), from 0 to 1."""
        values = self._letters.compare(text)
        if self._embeddings is not None:
            cosines = self._embeddings @ _embed([text])[0]
            values = ENCODER_WEIGHT * cosines + (1 - ENCODER_WEIGHT) * values
        num_steps = len(self._texts["step"])
        values = np.clip(values, 0.0, 1.0)
        parts: dict[Kind, Array] = {"step": values[:num_steps], "procedure": values[num_steps:]}
        return {kind: part for kind, part in parts.items() if len(part)}

    @cached_property
    def _letters(self) -> _Letters:
        return _Letters([*self._texts["step"], *self._texts["procedure"]])

    @cached_property
    def _embeddings(self) -> Array | None:
        """Of all steps and procedures: (A + P, 384), each of length 1; None without an encoder."""
        if not self._by_meaning:
            return None
        try:
            return _embed([*self._texts["step"], *self._texts["procedure"]])
        except P3ivError as error:
            self._on_note(f"words are compared by their letters only, so synonyms are not found: {error}")
            return None


class _Letters:
    """Compares texts by the groups of three letters in their words; rare groups count more (tf-idf)."""

    def __init__(self, texts: Sequence[str]) -> None:
        groups = [_groups_of_letters(text) for text in texts]
        self._frequency = Counter(group for each in groups for group in each)
        self._num_texts = len(texts)
        self._lengths = np.array([self._length(each) for each in groups])
        self._texts_with: dict[str, list[int]] = {}
        for number, each in enumerate(groups):
            for group in each:
                self._texts_with.setdefault(group, []).append(number)

    def compare(self, text: str) -> Array:
        """The cosine of a text with every text: (N,)."""
        groups = _groups_of_letters(text)
        products = np.zeros(self._num_texts)
        for group in sorted(groups & self._texts_with.keys()):  # in one order, for the same last digit each time
            products[self._texts_with[group]] += self._weight(group) ** 2
        return products / np.maximum(self._lengths * self._length(groups), 1e-9)

    def _weight(self, group: str) -> float:
        return 1.0 + float(np.log((1 + self._num_texts) / (1 + self._frequency[group])))

    def _length(self, groups: set[str]) -> float:
        return float(np.sqrt(sum(self._weight(group) ** 2 for group in sorted(groups))))


def clean_step(name: str, procedures: Sequence[str] = ()) -> str:
    """The name of a step as one would say it: without its procedure, a label that repeats its verb, or underscores.

    >>> clean_step("Coat -Coat a cup with oil"), clean_step("make tea: pour_milk", ["make tea"])
    ('Coat a cup with oil', 'pour milk')
    """
    procedure, colon, step = name.partition(": ")
    text = _NUMBER_AT_END.sub("", step if colon and procedure in procedures else name).replace("_", " ")
    if label := _LABEL.match(text):
        rest = text[label.end() :]
        is_repeated = set(_words(label[1])) <= set(_words(rest))
        text = rest if is_repeated else f"{label[1]} {rest}"
    return " ".join(text.split())


def _check(text: object, what: str) -> None:
    """Refuse what cannot be a line of text that a person typed."""
    if not isinstance(text, str):
        raise PlanError(f"The {what} is {type(text).__name__}, but it must be a text.")
    if not text.strip():
        raise PlanError(f"The {what} is empty.")
    try:
        check_plain(text)
    except ValueError as error:
        raise PlanError(f"The {what}: {error}.") from error


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _groups_of_letters(text: str) -> set[str]:
    words = [f" {word} " for word in _words(text)]
    return {word[first : first + 3] for word in words for first in range(len(word) - 2)}


@cache
def _load_encoder() -> TextEncoder:
    return build_text_encoder(ENCODER)


def _embed(texts: Sequence[str]) -> Array:
    """(N, 384), each of length 1; texts of similar length together, which takes half the time."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    rows = _load_encoder().encode_text([texts[number] for number in order]).numpy()
    embeddings: Array = np.empty_like(rows)
    embeddings[order] = rows
    return embeddings


def _softmax(values: Array, temperature: float) -> Array:
    weights = np.exp((values - values.max()) / temperature)
    shares: Array = weights / weights.sum()
    return shares


def _share_out(best: Mapping[Kind, float]) -> dict[Kind, float]:
    """The probability that a text is about a step or about a procedure; a kind that it hardly is about is left out."""
    values = _softmax(np.array(list(best.values())), KIND_TEMPERATURE)
    shares = {kind: float(value) for kind, value in zip(best, values, strict=True) if value >= MIN_SHARE}
    ranked = sorted(shares, key=lambda kind: -shares[kind])
    return {kind: shares[kind] if len(shares) > 1 else 1.0 for kind in ranked}


def _goal(text: str, probabilities: Mapping[Kind, Array], matches: Sequence[Match], meant: list[str]) -> UnderstoodGoal:
    summary = f"understood {_quoted(text)} as {' or '.join(meant)}"
    return UnderstoodGoal(text, probabilities.get("step"), probabilities.get("procedure"), summary, tuple(matches))


def _quoted(text: str) -> str:
    return f'"{cut(text, 80)}"'


def _one_of(names: Sequence[str]) -> str:
    """The first of these names: "a", "b" or "c"."""
    first = [_quoted(name) for name in dict.fromkeys(names)][:MAX_SUGGESTIONS]
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} or {first[-1]}"
