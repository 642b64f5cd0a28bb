"""Exported planners: the same scores, plans and samples as torch, and nothing but a sentence for damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from conftest import MakeOnce
from p3iv import Planner
from p3iv.errors import CheckpointError, ConfigError
from p3iv.export.comparison import largest_difference
from p3iv.export.graph import sealed
from p3iv.export.planner import build_model, export_planner
from p3iv.onnx_model import digest_of, find_checksum
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import BEST, read_header
from p3iv.planners.onnx_planner import load_exported
from p3iv.plans.decoding import plan_chain
from p3iv.plans.draws import SampleSettings, normal_blocks
from p3iv.types import Array
from planners.exported import constant, header_with, load, random_planner

RUNS = ("p3iv_run", "plus_run")
SAMPLES = SampleSettings(150)


@pytest.fixture(scope="session")
def exported(make_once: MakeOnce, p3iv_run: Path, plus_run: Path) -> dict[str, Path]:
    """Both runs, exported."""

    def fill(folder: Path) -> None:
        for name, run in zip(RUNS, (p3iv_run, plus_run), strict=True):
            export_planner(run, folder / f"{name}.onnx")

    folder = make_once("exported", fill)
    return {name: folder / f"{name}.onnx" for name in RUNS}


# Runs in a process in which torch cannot be imported: what an exported planner gives for pairs of observations.
CHILD = """
import sys
sys.modules["torch"] = sys.modules["onnx"] = None
from pathlib import Path
import numpy as np
from p3iv.planners.onnx_planner import load_exported
from p3iv.plans.decoding import plan_chain
from p3iv.plans.draws import SampleSettings, normal_blocks

planner, settings = load_exported([Path(sys.argv[1])]), SampleSettings(int(sys.argv[3]))
pairs = np.load(sys.argv[2])
latents = normal_blocks(settings, "latents", planner.header.config.model.noise_width)[0]
is_plus = planner.log_transitions is not None
given = [dict(start=a[None], goal=b[None], **({} if is_plus else {"latents": latents})) for a, b in pairs]
names = ["log_emissions", "log_each"][: 1 + (planner.log_both is not None)] if is_plus else ["action_logits"]
scores = [np.concatenate(parts) for parts in zip(*(planner.scores(*names, **one) for one in given))]
draws = planner.sampler(settings).draw(pairs[:, 0], pairs[:, 1])
plans, logs = plan_chain(draws, planner.transitions).best_plans(2)
samples = [draws.plans(mode, planner.transitions.row) for mode in ("argmax", "categorical", "chain")]
np.savez(sys.argv[4], plans=plans, logs=logs, samples=np.stack(samples), **dict(zip(names, scores)))
"""


def check_parity(run: Path, exported: Path, folder: Path, num_pairs: int) -> None:
    """Compare torch with a process without torch, on random pairs of the training features' mean and spread."""
    trained = load_planner(run / BEST)
    network: Any = getattr(trained.planner, "base", trained.planner)
    noise = np.random.default_rng(1).standard_normal((num_pairs, 2, trained.header.shape.feature_width))
    pairs = (network.feature_mean.numpy() + network.feature_scale.numpy() * noise).astype(np.float32)
    np.save(folder / "pairs.npy", pairs)
    arguments = [str(exported), str(folder / "pairs.npy"), str(SAMPLES.num_samples), str(folder / "found.npz")]
    subprocess.run([sys.executable, "-c", CHILD, *arguments], check=True)
    found = np.load(folder / "found.npz")
    for name, wanted in torch_scores(trained, pairs).items():
        assert np.abs((found[name] - wanted) / np.maximum(1.0, np.abs(wanted))).max() <= 1e-5
    draws = trained.sampler(SAMPLES).draw(pairs[:, 0], pairs[:, 1])
    plans, logs = plan_chain(draws, trained.transitions).best_plans(2)
    is_clear = logs[:, 0] - logs[:, 1] > 1e-5
    assert is_clear.mean() > 0.9
    assert np.array_equal(found["plans"][is_clear, 0], plans[is_clear, 0])
    assert np.allclose(found["logs"], logs, atol=1e-4)
    samples = np.stack([draws.plans(mode, trained.transitions.row) for mode in ("argmax", "categorical", "chain")])
    assert len(np.unique(samples)) > 5
    assert (found["samples"] != samples).any(axis=3).mean() <= 1e-4


@torch.inference_mode()
def torch_scores(trained: TrainedPlanner, pairs: Array) -> dict[str, Array]:
    planner: Any = trained.planner
    start, goal = torch.from_numpy(pairs).unbind(dim=1)
    if trained.header.config.planner == "p3iv-plus":
        scores = {"log_emissions": (planner.emissions(start, goal) / planner.temperature).numpy()}
        weight = float(planner.effects.weight)
        return scores | ({"log_each": weight * planner.effects.terms(start, goal)[0]} if weight else {})
    latents = torch.from_numpy(normal_blocks(SAMPLES, "latents", planner.sizes.noise_width)[0])
    hidden = [
        planner.decode(planner.tokens(one[None], other[None]), latents[None])[0]
        for one, other in zip(start, goal, strict=True)
    ]
    return {"action_logits": planner.action_head(torch.cat(hidden)).numpy()}


@pytest.mark.parametrize("name", RUNS)
def test_scores_plans_and_samples_are_those_of_torch(
    request: pytest.FixtureRequest, exported: dict[str, Path], tmp_path: Path, name: str
) -> None:
    check_parity(request.getfixturevalue(name), exported[name], tmp_path, 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_scores_plans_and_samples_are_those_of_torch_on_a_thousand_pairs(
    request: pytest.FixtureRequest, exported: dict[str, Path], tmp_path: Path, name: str
) -> None:
    check_parity(request.getfixturevalue(name), exported[name], tmp_path, 1000)


VARIANTS: list[dict[str, Any]] = [
    {"planner": "p3iv", "model.noise_width": 0, "loss.adversarial": 0.0, "loss.diversity": 0.0},
    {"planner": "p3iv", "model.memory_slots": 0, "model.layers": 1},
    {"planner": "p3iv", "model.layers": 3, "model.heads": 1, "optim.precision": "float64"},
    {"planner": "p3iv", "data.horizon": 1},
    {"planner": "p3iv-plus", "plus.decoder": False, "plus.end_heads": False},
    {"planner": "p3iv-plus", "plus.linear": False, "data.horizon": 5},
    {"planner": "p3iv-plus", "data.horizon": 1},
    {"planner": "p3iv-plus", "optim.precision": "float64", "model.noise_width": 0},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_planners_of_all_settings_are_exported(
    plus_run: Path, p3iv_run: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    run = plus_run if settings["planner"] == "p3iv-plus" else p3iv_run
    trained = random_planner(run, {key: value for key, value in settings.items() if key != "planner"})
    path = tmp_path / "x.onnx"
    path.write_bytes(sealed(build_model(trained)))
    found = load_exported([path])
    assert largest_difference(trained, found) <= 1e-5
    pairs = np.random.default_rng(0).standard_normal((2, 3, trained.header.shape.feature_width))
    ours, theirs = (one.sampler(SampleSettings(160)).draw(*pairs) for one in (found, trained))
    assert ours.marginals == pytest.approx(theirs.marginals, abs=1e-5)
    assert (ours.categorical != theirs.categorical).mean() <= 0.001


@given(data=st.data())
def test_a_changed_byte_is_found(
    exported: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    content = bytearray(exported["plus_run"].read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CheckpointError):
        load(tmp_path_factory.mktemp("changed"), bytes(content))


@given(data=st.data())
def test_a_part_of_a_file_is_refused(
    exported: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    content = exported["p3iv_run"].read_bytes()
    with pytest.raises(CheckpointError):
        load(tmp_path_factory.mktemp("part"), content[: data.draw(st.integers(0, len(content) - 1))])


def with_nan(model: onnx.ModelProto) -> None:
    tensor = constant(model, "transitions_row")
    array = numpy_helper.to_array(tensor).copy()
    array[0, 0] = np.nan
    tensor.CopyFrom(numpy_helper.from_array(array, "transitions_row"))


def with_loop(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["loop"], body=body))


def with_other_file(model: onnx.ModelProto) -> None:
    tensor = constant(model, "transitions_row")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def with_own_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.example"


def with_other_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "RandomNormal"


def with_function(model: onnx.ModelProto) -> None:
    model.functions.append(helper.make_function("d", "f", [], [], [], [helper.make_opsetid("", 17)]))


def with_other_width(model: onnx.ModelProto) -> None:
    shape = {"horizon": 3, "num_actions": 90, "feature_width": 64, "target_width": 128}
    header_with(model, shape=shape)


def with_missing_node(model: onnx.ModelProto) -> None:
    del model.graph.node[3]


def with_many_actions(model: onnx.ModelProto) -> None:
    names = [str(number) for number in range(100_000)]
    shape = {"horizon": 3, "num_actions": len(names), "feature_width": 128, "target_width": 1}
    header_with(model, names=names, shape=shape)


HOSTILE: dict[str, Callable[[onnx.ModelProto], None]] = {
    "not finite": with_nan,
    "the operator 'Loop'": with_loop,
    "data in other files": with_other_file,
    "not ONNX's own": with_own_operator,
    "the operator 'RandomNormal'": with_other_operator,
    "functions of its own": with_function,
    "input start is float32 .any, 128., expected float32 .any, 64.": with_other_width,
    "onnxruntime cannot load it": with_missing_node,
    "much larger planner": with_many_actions,
    "its header|names for": lambda model: header_with(model, names=["one"]),
    "checkpoint format 99": lambda model: header_with(model, format=99),
    "planner 'ddn'|cannot be exported": lambda model: header_with(
        model,
        config={
            **json.loads(next(e.value for e in model.metadata_props if e.key == "p3iv"))["config"],
            "planner": "ddn",
        },
    ),
    "no header": lambda model: helper.set_model_props(model, {}),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_files_with_a_right_checksum_are_not_trusted_either(
    exported: dict[str, Path], tmp_path: Path, reason: str
) -> None:
    model = onnx.load(exported["plus_run"])
    HOSTILE[reason](model)
    with pytest.raises(CheckpointError, match=reason) as error:
        load(tmp_path, sealed(model))
    assert "\n" not in str(error.value)


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number % 128 + 128)
        number //= 128
    return bytes([*parts, number])


@pytest.mark.parametrize("tag", [(7 << 3 | 2) + 2**32, 99 << 3 | 2, 2, (7 << 3 | 2) + 2**40])
def test_a_field_that_only_onnxruntime_would_read_is_refused(
    exported: dict[str, Path], tmp_path: Path, tag: int
) -> None:
    """A tag of more than 32 bits, of which other readers take the last 32: another graph, hidden from the check."""
    model = onnx.load(exported["plus_run"])
    hidden = onnx.helper.make_graph([helper.make_node("Sin", ["start"], ["log_emissions"])], "hidden", [], [])
    content = hidden.SerializeToString()
    whole = sealed(model) + varint(tag) + varint(len(content)) + content
    checksum = find_checksum(whole)
    signed = whole[: checksum.begin] + digest_of(whole, checksum).encode() + whole[checksum.end :]
    with pytest.raises(CheckpointError, match=r"not an ONNX file, or damaged|which p3iv does not write"):
        load(tmp_path, signed)


def test_scores_that_are_not_finite_are_an_error(exported: dict[str, Path]) -> None:
    planner = load_exported([exported["plus_run"]])
    width = planner.header.shape.feature_width
    with pytest.raises(CheckpointError, match="not finite"):
        planner.scores("log_emissions", start=np.full((1, width), 3e38), goal=np.zeros((1, width)))


def test_a_planner_of_a_file_plans_as_the_run_does(exported: dict[str, Path], plus_run: Path, p3iv_run: Path) -> None:
    ours, theirs = Planner.from_pretrained(exported["plus_run"]), Planner.from_pretrained(plus_run)
    start, goal = np.random.default_rng(2).standard_normal((2, ours.header.shape.feature_width)).astype(np.float32)
    assert (ours.backend, ours.device) == ("onnx", "cpu")
    assert ours.header == theirs.header == read_header(exported["plus_run"])
    assert ours.to("cpu") is ours
    one, other = (planner.plan(start, goal, num_samples=20) for planner in (ours, theirs))
    assert one.plan == other.plan
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)
    with pytest.raises(ConfigError, match="cpu"):
        ours.to("cuda")
    with pytest.raises(ConfigError, match="backend"):
        Planner.from_pretrained(exported["plus_run"], backend="torch")
    with pytest.raises(CheckpointError, match="`p3iv export` writes such a file"):
        Planner.from_pretrained(p3iv_run, backend="onnx")
    with pytest.raises(CheckpointError, match="given twice"):
        Planner.from_pretrained(exported["plus_run"], ensemble=[exported["plus_run"]])


def test_noise_inside_the_network_needs_the_run(exported: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="use the run itself"):
        load_exported([exported["p3iv_run"]]).sampler(SampleSettings(10, input_noise=0.1))
