"""Make `tabletop-demo`, the planner and the clips that come with p3iv.

usage: python tools/make_tabletop_demo.py [--work DIR] [--jobs N] [--only-steps]

Draws 600 tabletop videos (4 CPU minutes), encodes them with the packaged EfficientNet-lite0 (10), trains P3IV+ on 440
of them (2), scores it on 100 others and writes src/p3iv/shipped/tabletop-demo: the planner with 16-bit weights, its
model card, half a minute of two of the 100 videos, clips.json, which describes them, and a picture of every step.
Nothing is downloaded. The same versions on the same machine give the same files, byte for byte. DIR keeps the videos
and the run; what it has already is not made again. With --only-steps, only the pictures of the steps are drawn.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path

import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from p3iv.config import Config, override, preset_config
from p3iv.data.folder import open_dataset
from p3iv.data.windows import draw_order
from p3iv.errors import P3ivError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.evaluation.result import Evaluation
from p3iv.extraction.extract import extract_features
from p3iv.extraction.request import ExtractionRequest
from p3iv.features.thumbnails import as_jpeg
from p3iv.features.video_file import write_video
from p3iv.files import atomic_file, atomic_folder, write_text
from p3iv.metrics.intervals import Interval
from p3iv.planners.header import BEST, Header, read_header
from p3iv.readers.folder import write_split
from p3iv.shipped import CLIPS_FILE, FOLDER, STEPS_FOLDER, ShippedClip, step_picture_name
from p3iv.tabletop.art.brush import Pixels
from p3iv.tabletop.look import make_look
from p3iv.tabletop.make import make_tabletop
from p3iv.tabletop.render import draw_close_up, render_frames
from p3iv.tabletop.world import FRAMES_PER_SECOND, Execution, write_script
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Progress, Split

NAME = "tabletop-demo"
SEED = 2022  # of the videos; those of `p3iv demo` have seed 0, so this planner has seen none of them
NUM_VIDEOS, NUM_VAL, NUM_TEST = 600, 60, 100
MIN_HALVED = 10_000  # tensors with fewer numbers, such as scales and transitions, keep 32 bits
MAX_BYTES = 6 * 10**6

# File, number of the video, and the first of the three steps between the two moments of its example. They were chosen
# by eye among the test videos: short, pretty, and with several likely plans of which the first is right.
CLIPS = (("eggs.mp4", 220, 2), ("repot.mp4", 6, 0))
CLIP_S = 30  # seconds, from the beginning of the video

STEP_SEED = 90  # of the videos that the pictures of steps are from
STEP_LOOK = 5  # the one of these videos with the look that all pictures have: a light table, hands that hide little
STEP_QUALITY = 68
STEP_PHASE = 0.6  # of a step; the hand acts
STEP_PHASES = {  # where another moment shows more, chosen by eye
    "set out a mug": 0.52,
    "put a tea bag in the mug": 0.66,
    "sprinkle cocoa on top": 0.64,
    "set out biscuits": 0.52,
    "set out a plate": 0.52,
    "set out a glass": 0.5,
    "set out a bowl": 0.52,
    "put the pan on the stove": 0.5,
    "melt butter in the pan": 0.5,
    "put the lid on the blender": 0.5,
    "run the blender": 0.74,
    "set out a big pot": 0.52,
    "open the bag of soil": 0.78,
    "take the plant out of its old pot": 0.42,
    "trim the dead leaves": 0.4,
    "clear away the old pot": 0.55,
    "take out a card": 0.5,
    "draw a heart on the card": 0.65,
    "draw a flower on the card": 0.65,
    "take out an envelope": 0.5,
    "write the address on the envelope": 0.55,
    "stick a stamp on the envelope": 0.5,
    "seal the envelope": 0.7,
    "tie a ribbon round the envelope": 0.74,
}


def video_id(number: int) -> str:
    """The name of a video of the dataset."""
    return write_script(SEED, number).id


def split_videos() -> Split:
    """Training, validation and test videos."""
    order = draw_order(map(video_id, range(NUM_VIDEOS)), seed=SEED, purpose=NAME)
    test, val, train_ = order[:NUM_TEST], order[NUM_TEST : NUM_TEST + NUM_VAL], order[NUM_TEST + NUM_VAL :]
    return Split(tuple(sorted(train_)), tuple(sorted(val)), tuple(sorted(test)))


def config_of_demo() -> Config:
    """The settings of the planner: P3IV+ on the split above, without a second network, to keep it small."""
    return override(preset_config("p3iv-plus"), {"planner": "p3iv-plus", "data.split": "release", "plus.second": False})


def make_dataset(folder: Path, jobs: int) -> None:
    """Draw and encode the videos."""
    if not (folder / "dataset.yaml").is_file():
        make_tabletop(folder, num_videos=NUM_VIDEOS, seed=SEED, encoder="none", jobs=jobs, on_progress=show)
    if not (folder / "features").is_dir():
        request = ExtractionRequest(folder, only_needed=True, jobs=jobs, overwrite=True, strict=True)
        extract_features(request, on_progress=show)
    write_split(folder / "split.json", split_videos())


def show(at: Progress) -> None:
    """Print how far the work is, now and then."""
    if at.done % 50 == 0 or at.done == at.total:
        print(f"{at.what}: {at.done:g} of {at.total} {at.about}", flush=True)


def halve_weights(source: Path, target: Path) -> None:
    """Copy a checkpoint with its large tensors as 16-bit numbers; loading it makes 32 bits of them again."""
    with safe_open(source, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        metadata = file.metadata()
    for name, tensor in tensors.items():
        if tensor.dtype == torch.float32 and tensor.numel() >= MIN_HALVED:
            tensors[name] = tensor.half()
    with atomic_file(target) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def describe_clip(file: str, number: int, first: int) -> ShippedClip:
    """The clip of a test video with an example of three steps, in whole seconds: a planner sees seconds as a whole."""
    script = write_script(SEED, number)
    if script.id not in split_videos().test:
        raise P3ivError(f"{script.id} is not a test video, so it cannot be a clip.")
    steps, times = script.execution.steps[first : first + 3], script.times[first : first + 3]
    start_s, goal_s = int(times[0][0]), int(times[-1][1])
    return ShippedClip(NAME, file, CLIP_S, script.execution.procedure, start_s, goal_s, steps)


def make_clips(folder: Path) -> None:
    """Draw the clips and describe them."""
    described = []
    for file, number, first in CLIPS:
        script = write_script(SEED, number)
        frames = render_frames(script.execution, script.times, script.length_s, seed=script.seed)
        write_video(folder / file, islice(frames, CLIP_S * FRAMES_PER_SECOND), fps=FRAMES_PER_SECOND)
        described.append(asdict(describe_clip(file, number, first)))
    content = [{name: value for name, value in clip.items() if name != "planner"} for clip in described]
    write_text(folder / CLIPS_FILE, json.dumps(content, indent=2) + "\n")


def find_step(name: str) -> tuple[Execution, int]:
    """The first video of STEP_SEED that has this step, and the place of the step in it."""
    executions = (write_script(STEP_SEED, number).execution for number in count())
    found = next(execution for execution in executions if name in execution.steps)
    return found, found.steps.index(name)


def draw_step(name: str) -> Pixels:
    """A step from near, while it is being done."""
    look = make_look((STEP_SEED, STEP_LOOK))
    return draw_close_up(*find_step(name), look, phase=STEP_PHASES.get(name, STEP_PHASE))


def make_step_pictures(folder: Path, names: Sequence[str]) -> None:
    """Draw a picture of every step that the planner knows."""
    with atomic_folder(folder / STEPS_FOLDER) as steps:
        for index, name in enumerate(names):
            jpeg = as_jpeg(Image.fromarray(draw_step(name)), STEP_QUALITY, optimize=True)
            (steps / step_picture_name(index)).write_bytes(jpeg)


def write_card(folder: Path, header: Header, scores: Evaluation) -> None:
    """Write the model card."""
    reached, split = scores.decoders[scores.decoder], split_videos()
    ceiling = scores.truth.ceiling["success_rate"].value if scores.truth else float("nan")
    write_text(
        folder / "README.md",
        f"""# {NAME}

A small P3IV+ that comes with p3iv: it plans {header.shape.horizon} of the {header.shape.num_actions} steps of the
tabletop world, nine household procedures drawn as video, from two moments of a video. Made by
`tools/make_tabletop_demo.py`; the clips beside it are test videos, described in `{CLIPS_FILE}`, and
`{STEPS_FOLDER}/` has a picture of every step.

- data: `p3iv data make tabletop --videos {NUM_VIDEOS} --seed {SEED}`; {len(split.train)} videos for training,
  {len(split.val)} for validation, {len(split.test)} for test
- encoder: {header.encoder.long if header.encoder else "not known"}
- step embeddings: {header.text_encoder.long if header.text_encoder else "none"}
- weights: 16-bit; the planner computes with 32 bits
- scores on {scores.num_windows} test windows of {scores.num_videos} videos, with 95 % intervals:
  success rate {percent(reached["success_rate"])}, mean accuracy {percent(reached["mean_accuracy"])},
  mean IoU {percent(reached["mean_iou"])}
- knowing the true distribution of plans would give a success rate of {100 * ceiling:.1f} %: between two moments several
  orders of the steps are possible
- licence: Apache-2.0, as p3iv

It knows this drawn world only. For videos of your own, train a planner: `p3iv train DIR --out RUN --planner p3iv-plus`.
""",
    )


def percent(value: Interval) -> str:
    """A share with its interval, in percent."""
    return f"{100 * value.value:.1f} % [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def make_demo(work: Path, jobs: int) -> Path:
    """Make everything, and replace the folder in the package."""
    data, run = work / "tabletop", work / "run"
    make_dataset(data, jobs)
    if not (run / BEST).is_file():
        request = TrainRequest(open_dataset(data), run, config_of_demo(), on_note=print)
        print(f"trained in {train(request).cpu_s:.0f} CPU seconds", flush=True)
    halved = work / "halved"
    halve_weights(run / BEST, halved / BEST)
    scores = evaluate(EvaluationRequest(halved, data=data, on_note=print))
    with atomic_folder(FOLDER / NAME) as folder:
        shutil.copytree(halved / "checkpoints", folder / "checkpoints")
        make_clips(folder)
        header = read_header(run / BEST)
        make_step_pictures(folder, header.names)
        write_card(folder, header, scores)
    return FOLDER / NAME


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the demo and print its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/tabletop-demo"), help="folder of videos and run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that draw and encode")
    parser.add_argument("--only-steps", action="store_true", help="draw only the pictures of the steps")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.only_steps:
        folder = FOLDER / NAME
        make_step_pictures(folder, read_header(folder / BEST).names)
    else:
        folder = make_demo(options.work, options.jobs)
    sizes = {path: path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    for path, size in sizes.items():
        print(f"{size / 1000:8.0f} kB  {path.relative_to(folder)}")
    print((folder / "README.md").read_text(encoding="utf-8"))
    return int(sum(sizes.values()) > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
