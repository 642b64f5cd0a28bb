"""What the exported image encoder costs, end to end: scores of plans, and pictures per CPU second.

usage: python -m benchmarks.exported_encoder [--videos N] [--seed N] [--epochs N]

Draws tabletop videos, trains P3IV+ on features by torch, and evaluates it on features of the same videos by torch, by
the exported encoder in float32 and by the one in int8. Half an hour with 200 videos.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import p3iv
from benchmarks.timing import make_parser
from p3iv.encoders.base import EncoderOptions, VideoEncoder
from p3iv.encoders.registry import DEFAULT_ENCODER, build_encoder
from p3iv.evaluation.predictions import PredictionLine, read_lines
from p3iv.export.encoder import export_encoder

NUM_PICTURES = 100
METRICS = ("success_rate", "mean_accuracy", "mean_iou")


def pictures_per_cpu_s(encoder: VideoEncoder) -> float:
    """The speed of encoding alone, without decoding and scaling."""
    random = np.random.default_rng(0)
    clips = random.integers(0, 256, (NUM_PICTURES, 1, 1, 3, encoder.framing.size, encoder.framing.size), np.uint8)
    encoder.encode(clips[0])
    began = time.process_time()
    for clip in clips:
        encoder.encode(clip)
    return NUM_PICTURES / (time.process_time() - began)


def plans_of(run: Path) -> list[tuple[str, ...]]:
    return [line.plan for _, line in read_lines(run / "predictions.jsonl", PredictionLine[str])]


def measure(root: Path, num_videos: int, seed: int, settings: dict[str, object]) -> dict[str, dict[str, float]]:
    """The scores and the speed with each encoder."""
    torch_data, run = root / "torch", root / "run"
    p3iv.make_tabletop(torch_data, videos=num_videos, seed=seed, skip_features=True)
    p3iv.extract(torch_data, only_needed=True, overwrite=True)
    p3iv.train(torch_data, run, planner="p3iv-plus", split="release", settings=settings, on_note=lambda _: None)
    torch_encoder = build_encoder(DEFAULT_ENCODER)
    found, first = {}, list[tuple[str, ...]]()
    for name in ("torch", "float32", "int8"):
        data, encoder = root / name, torch_encoder
        if name != "torch":
            file = root / f"{name}.encoder.onnx"
            export_encoder(torch_encoder.identity, file, name)
            encoder = build_encoder(DEFAULT_ENCODER, EncoderOptions(str(file)))
            shutil.copytree(torch_data, data)
            p3iv.extract(data, weights=file, only_needed=True, overwrite=True)
        scores = p3iv.evaluate(run, data=data, samples=10, on_note=lambda _: None).plan_scores
        plans = plans_of(run)
        first = first or plans
        same = sum(one == other for one, other in zip(plans, first, strict=True)) / len(plans)
        values = {metric: round(scores[metric].value, 4) for metric in METRICS}
        found[name] = values | {"same_plans": round(same, 4), "pictures_per_cpu_s": round(pictures_per_cpu_s(encoder))}
    return found


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--epochs", type=int, help="of the planner; without it, as many as usual")
    options = parser.parse_args()
    settings: dict[str, object] = {} if options.epochs is None else {"optim.epochs": options.epochs}
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.videos, options.seed, settings)
    for name, values in found.items():
        print(f"{name:8}", "  ".join(f"{key} {value:g}" for key, value in values.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
