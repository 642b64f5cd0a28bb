"""Files of weights: read as torch reads them, and refused when damaged or hostile."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from p3iv.encoders.weight_files import read_state
from p3iv.errors import FeatureError


def some_state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    state = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).state_dict()
    more = {
        "transposed": torch.randn(4, 5).T,
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(3.0),
        "empty": torch.empty(0, 3),
        "half": torch.randn(3).bfloat16(),
        "parameter": nn.Parameter(torch.randn(2)),
    }
    return {**state, **more, "part": more["transposed"][1:, :2]}


def save(path: Path, kind: str) -> Path:
    state = some_state()
    if kind == "safetensors":
        save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, path)
    else:
        content = {"state_dict": state, "epoch": 3} if kind == "wrapped" else state
        torch.save(content, path, _use_new_zipfile_serialization=kind != "legacy")
    return path


KINDS = {"zip": "a.pth", "legacy": "b.pth", "wrapped": "c.pth", "safetensors": "d.safetensors"}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_read_as_torch_reads_them(tmp_path: Path, kind: str) -> None:
    state, expected = read_state(save(tmp_path / KINDS[kind], kind)), some_state()
    assert state.keys() == expected.keys()
    for name, tensor in expected.items():
        assert state[name].dtype == tensor.dtype
        assert torch.equal(state[name], tensor)


@settings(max_examples=150)
@given(kind=st.sampled_from(list(KINDS)), cuts=st.data())
def test_damaged_weights_are_refused_or_read(tmp_path: Path, kind: str, cuts: st.DataObject) -> None:
    content = bytearray(save(tmp_path / KINDS[kind], kind).read_bytes())
    for _ in range(cuts.draw(st.integers(1, 4))):
        place = cuts.draw(st.integers(0, len(content) - 1))
        with_length = cuts.draw(st.integers(0, 9))
        content[place : place + with_length] = cuts.draw(st.binary(max_size=9))
    path = tmp_path / f"damaged{Path(KINDS[kind]).suffix}"
    path.write_bytes(content)
    try:
        read_state(path)
    except FeatureError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)


def zip_of(path: Path, index: bytes, method: int = zipfile.ZIP_STORED, numbers: bytes = b"\0" * 4) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x/data.pkl", index)
        archive.writestr("x/data/0", numbers)
    return path


def index_of(count: int = 1, offset: int = 0, size: tuple[int, ...] = (1,), stride: tuple[int, ...] = (1,)) -> bytes:
    """The pickle of one tensor, written by hand."""
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
    numbers = b"".join(pickle.dumps(value, protocol=2)[2:-1] for value in (offset, size, stride))
    return (
        b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + pickle.dumps(count, protocol=2)[2:-1]
        + b"tQ"
        + numbers
        + b"\x89}tRs."
    )


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (index_of(size=(2**40,), stride=(0,)), "more numbers than the file holds"),
        (index_of(offset=5), "more numbers than the file holds"),
        (index_of(size=(-1,)), "without a valid shape"),
        (index_of(count=10**12), "4000000000000 bytes announced for a, and 4 found"),
        (b"cbuiltins\nbytearray\n(I99999999999\ntR.", "tries to load builtins.bytearray"),
        (b"cos\nsystem\n(Vls\ntR.", r"tries to load os\.system"),
        (b"(" * 10, r"not a file of weights \(\.pth or \.safetensors\), or damaged"),
        (b"\x80\x02N.", "is not a state dict"),
    ],
)
def test_hostile_weights_are_refused(tmp_path: Path, index: bytes, reason: str) -> None:
    with pytest.raises(FeatureError, match=reason):
        read_state(zip_of(tmp_path / "x.pth", index))


@pytest.mark.parametrize("name", ["README.md", "clip.mp4", "x.safetensors"])
def test_other_files_are_not_weights(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"# Read me\nThese are words, not numbers.\n")
    with pytest.raises(FeatureError, match=r": not a file of weights \(\.pth or \.safetensors\)(, or damaged)?$"):
        read_state(tmp_path / name)


def test_small_and_not_finite_weights(tmp_path: Path) -> None:
    assert read_state(zip_of(tmp_path / "x.pth", index_of()))["a"].tolist() == [0.0]
    with pytest.raises(FeatureError, match="the weights a are not finite"):
        read_state(zip_of(tmp_path / "x.pth", index_of(), numbers=b"\0\0\xc0\x7f"))
    save_file({"a": torch.zeros(2).to(torch.float8_e4m3fn)}, tmp_path / "x.safetensors")
    with pytest.raises(FeatureError, match=r"the weights a have the type torch\.float8_e4m3fn, which is not supported"):
        read_state(tmp_path / "x.safetensors")
    with pytest.raises(FeatureError, match="compressed, which PyTorch does not do"):
        read_state(zip_of(tmp_path / "x.pth", index_of(), zipfile.ZIP_DEFLATED))
