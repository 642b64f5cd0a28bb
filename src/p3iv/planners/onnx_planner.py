"""A planner in a file that `p3iv export` wrote: onnxruntime computes its scores, numpy the rest, without torch.

P3IV's graph gives `action_logits` for the latents of a pair, P3IV+'s the `log_emissions` of pairs and, if its effects
have a weight, `log_each`; that of P3IV+ for several lengths is asked by `onnx_queries`. The matrices are outputs, too,
that do not depend on the inputs. docs/reference/onnx.md describes the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from p3iv.errors import CheckpointError, ConfigError
from p3iv.onnx_model import SUFFIX, OnnxModel, Port, open_model
from p3iv.planners.header import Header, check_ensemble, header_of
from p3iv.planners.onnx_queries import (
    FOLLOW_CONSTANTS,
    LENGTH_CONSTANTS,
    Ports,
    QueryChainSampler,
    QueryScorer,
    query_ports,
)
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.draws import (
    BLOCK,
    Draws,
    EnsembleSampler,
    Sampler,
    SampleSettings,
    chain_uniforms,
    collect_latents,
    draws_of,
    join_answers,
    normal_blocks,
    uniform_blocks,
)
from p3iv.plans.evidence import Answer, Evidence
from p3iv.plans.lengths import LengthWeights
from p3iv.plans.step_filter import FollowNumbers
from p3iv.plans.transitions import Transitions
from p3iv.types import Array
from p3iv.validation import cut, parse_json, shown

EXPORTED: Final = Path(f"planner{SUFFIX}")  # in a run folder
EXPORTABLE: Final = ("p3iv", "p3iv-plus")


@dataclass(frozen=True, eq=False)
class OnnxPlanner:
    """An exported planner with everything that planning needs."""

    path: Path
    header: Header
    transitions: Transitions
    model: OnnxModel
    log_transitions: Array | None  # (A, A) of P3IV+
    log_both: Array | None  # (A, A) of P3IV+ whose effects have a weight
    lengths: LengthWeights | None = None  # of P3IV+ for several lengths
    numbers: FollowNumbers | None = None  # of P3IV+ for several lengths, also if it cannot follow videos
    others: tuple[OnnxPlanner, ...] = ()  # the rest of an ensemble

    name: ClassVar[str] = "onnx"  # as a backend of `p3iv.Planner`
    device: ClassVar[str] = "cpu"

    def to(self, device: str) -> OnnxPlanner:
        """Itself: onnxruntime computes on the CPU here."""
        if device not in ("auto", self.device):
            raise ConfigError(f"device={shown(device)}, but an exported planner runs on the cpu. Use the run itself.")
        return self

    def sampler(self, settings: SampleSettings) -> Sampler:
        """The sampler of this planner, or of the ensemble."""
        if settings.input_noise or settings.dropout:
            raise ConfigError(
                f"input noise {settings.input_noise} and dropout {settings.dropout} replace the latents inside a "
                f"network, but {self.path} is an exported one: leave both at 0, or use the run itself."
            )
        own = self._own_sampler(settings)
        return EnsembleSampler([own, *(other.sampler(settings) for other in self.others)]) if self.others else own

    def answer(self, evidence: Evidence) -> Answer:
        """The chains of one query, averaged over the ensemble."""
        own = self._queries(self.lengths).answer(evidence)
        return join_answers([own, *(other.answer(evidence) for other in self.others)]) if self.others else own

    @property
    def follow_numbers(self) -> FollowNumbers | None:
        """The numbers with which the planner, or the first of an ensemble, follows a video; None if it cannot."""
        return self.numbers if self.numbers is not None and self.numbers.is_fitted else None

    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, by the first planner of an ensemble: (N, A + 1)."""
        return self._queries(self.lengths).score_under_way(evidence)

    def scores(self, *outputs: str, **inputs: Array) -> list[Array]:
        """Some outputs of the graph.

        Raises:
            CheckpointError: they cannot be computed, or have values that are not finite.
        """
        with explained(self.path):
            dtype = self.model.inputs["start"].dtype
            found = self.model.run(outputs, {name: array.astype(dtype) for name, array in inputs.items()})
            if not all(np.isfinite(array).all() for array in found):
                raise ValueError("its scores of these features are not finite")
        return found

    def _own_sampler(self, settings: SampleSettings) -> Sampler:
        if self.lengths is not None:
            return QueryChainSampler(self._queries(self.lengths), settings)
        return LatentSampler(self, settings) if self.log_transitions is None else ChainSampler(self, settings)

    def _queries(self, lengths: LengthWeights | None) -> QueryScorer:
        if lengths is None or self.log_transitions is None:
            raise AssertionError(f"{self.path} plans for one length")
        return QueryScorer(self.scores, self.header, self.log_transitions, self.log_both, lengths)


class LatentSampler:
    """Draws plans of P3IV for latents in blocks of one fixed shape, as `planners.p3iv.sampler` does."""

    def __init__(self, planner: OnnxPlanner, settings: SampleSettings) -> None:
        self.planner, self.settings = planner, settings
        horizon, width = planner.header.shape.horizon, planner.header.config.model.noise_width
        self._uniforms = uniform_blocks(settings, "categorical", horizon).reshape(-1, horizon)
        self._chain_uniforms = chain_uniforms(settings, horizon)
        self._latents = normal_blocks(settings, "latents", width) if width else None

    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""
        number = self.settings.num_samples
        pairs = zip(start, goal, strict=True)
        found = [collect_latents(self._logits(*pair), self._uniforms, number) for pair in pairs]
        marginals, argmax, categorical = (np.stack(parts) for parts in zip(*found, strict=True))
        return Draws(marginals, argmax, categorical, self._chain_uniforms)

    def _logits(self, start: Array, goal: Array) -> Iterator[Array]:
        """Blocks (k, T, A) for one pair (F,), (F,)."""
        ends = {"start": start[None], "goal": goal[None]}
        if self._latents is not None:
            for latents in self._latents:
                yield self.planner.scores("action_logits", **ends, latents=latents)[0]
            return
        (logits,) = self.planner.scores("action_logits", **ends)
        for _ in range(0, self.settings.num_samples, BLOCK):
            yield np.broadcast_to(logits, (BLOCK, *logits.shape[1:]))


class ChainSampler:
    """Draws plans of P3IV+ exactly; every pair is computed by itself, so that its neighbours change nothing."""

    def __init__(self, planner: OnnxPlanner, settings: SampleSettings) -> None:
        self.planner = planner
        self._uniforms = chain_uniforms(settings, planner.header.shape.horizon, rescored=True)

    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""
        return draws_of(self.chain(start, goal), self._uniforms)

    def chain(self, start: Array, goal: Array) -> Chain:
        """The chain of every pair."""
        planner = self.planner
        if planner.log_transitions is None:
            raise AssertionError("only P3IV+ has a chain")
        outputs = ["log_emissions"] if planner.log_both is None else ["log_emissions", "log_each"]
        pairs = zip(start[:, None], goal[:, None], strict=True)  # (1, F) each
        found = [planner.scores(*outputs, start=one, goal=other) for one, other in pairs]
        emissions, *each = (np.concatenate(parts).astype(np.float64) for parts in zip(*found, strict=True))
        chain = Chain(emissions, planner.log_transitions)
        return chain if planner.log_both is None else RescoredChain.over(chain, each[0], planner.log_both)


def encoder_beside(planner: Path) -> Path:
    """Where `p3iv export` writes the encoder of a planner: planner.onnx -> planner.encoder.onnx."""
    return planner.with_name(f"{planner.stem}.encoder{SUFFIX}")


EXPORTED_FILES: Final = (EXPORTED.name, encoder_beside(EXPORTED).name)  # that are shared


def load_exported(paths: Sequence[Path]) -> OnnxPlanner:
    """The planner of one file, or the ensemble of several.

    Raises:
        CheckpointError: a file is missing, damaged or not an exported planner, or does not fit the first.
        MissingExtraError: onnxruntime is not installed.
    """
    first, *others = planners = [_load(path) for path in paths]
    check_ensemble(paths, [planner.header for planner in planners])
    return replace(first, others=tuple(others))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Every fault of a file is a CheckpointError that names it."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror}). `p3iv export` writes such a file; then pass the file itself."
        ) from error
    except (ValueError, TypeError, KeyError, MemoryError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a planner that `p3iv export` wrote: {cut(str(error))}.") from error


def _load(path: Path) -> OnnxPlanner:
    with explained(path):
        model = open_model(path, "Planning with an .onnx file")
        header = header_of(model.metadata, path)
        _check_size(header, model)
        is_rescored = "log_each" in model.outputs
        inputs, scores, constants = ports_of(header, is_rescored=is_rescored)
        model.require(inputs, {**scores, **constants})
        any_pair = {name: np.zeros([size or 1 for size in port.shape], port.dtype) for name, port in inputs.items()}
        found = dict(zip(constants, model.run(list(constants), any_pair), strict=True))
        _check_matrices(found)
        transitions = Transitions(found["transitions_row"], found["transitions_paper"], _smoothing(model.metadata))
    own = {name: array.astype(np.float64) for name, array in found.items()}
    matrices = own.get("log_transitions"), own.get("log_both")
    if not header.config.data.has_lengths:
        return OnnxPlanner(path, header, transitions, model, *matrices)
    lengths = LengthWeights(*(own[name] for name in LENGTH_CONSTANTS))
    numbers = FollowNumbers(*(own[name] for name in (*FOLLOW_CONSTANTS, "log_transitions")))
    return OnnxPlanner(path, header, transitions, model, *matrices, lengths, numbers)


def ports_of(header: Header, *, is_rescored: bool) -> tuple[Ports, Ports, Ports]:
    """The inputs of the graph of a planner, its scores, and its constants."""
    name, has_lengths = header.config.planner, header.config.data.has_lengths
    if name not in EXPORTABLE or (has_lengths and name != "p3iv-plus"):
        raise ValueError(
            f"it is a planner {shown(name)}{' for several lengths' * has_lengths}, which cannot be exported"
        )
    is_plus, num_actions = name == "p3iv-plus", header.shape.num_actions
    dtype = "float64" if header.config.optim.precision == "float64" else "float32"
    inputs, scores, constants = query_ports(header, dtype) if has_lengths else _pair_ports(header, dtype)
    matrices = ["transitions_row", "transitions_paper"] + ["log_transitions"] * is_plus
    constants |= {matrix: Port(dtype, (num_actions, num_actions)) for matrix in matrices}
    if is_plus and is_rescored:
        scores["log_each"] = Port("float64", (None, num_actions))
        constants["log_both"] = Port("float64", (num_actions, num_actions))
    return inputs, scores, constants


def _pair_ports(header: Header, dtype: str) -> tuple[Ports, Ports, Ports]:
    """The inputs and scores of a planner for one length, which sees pairs of observations; it has no more constants."""
    is_plus, shape = header.config.planner == "p3iv-plus", header.shape
    latents = 0 if is_plus else header.config.model.noise_width
    pair = Port(dtype, (None if is_plus else 1, shape.feature_width))
    inputs = {"start": pair, "goal": pair} | ({"latents": Port(dtype, (None, latents))} if latents else {})
    plans = Port(dtype, (None if is_plus or latents else 1, shape.horizon, shape.num_actions))
    return inputs, {"log_emissions" if is_plus else "action_logits": plans}, {}


def _check_size(header: Header, model: OnnxModel) -> None:
    """Refuse a header of sizes for which the file has no numbers, before arrays of these sizes are made."""
    shape, numbers = header.shape, model.num_bytes // 4
    needed = (2 * shape.num_actions**2, shape.feature_width, shape.num_procedures)
    if max(needed) > numbers or len(header.config.data.horizons) > len(model.outputs):
        raise ValueError("its header describes a much larger planner than it holds")


def _check_matrices(found: dict[str, Array]) -> None:
    for name, matrix in found.items():
        if not np.isfinite(matrix).all() or (name.startswith("transitions") and bool((matrix < 0).any())):
            raise ValueError(f"its {name} are not finite, or negative")


def _smoothing(metadata: Mapping[str, str]) -> float:
    content = parse_json(metadata.get("transitions", "null"))
    smoothing = content.get("smoothing") if isinstance(content, dict) else None
    if not isinstance(smoothing, int | float) or not smoothing >= 0:
        raise ValueError(f"the smoothing of its transitions is {shown(smoothing)}")
    return float(smoothing)
