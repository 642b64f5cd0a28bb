"""Follow a long video: CPU time per second of video, and memory.

usage: OMP_NUM_THREADS=1 python -m benchmarks.following [--hours H] [--actions N] [--height N]

The video is 16:9 H.264, 25 frames per second, a key frame every 10 s: twenty seconds of moving shapes, repeated. The
planner plans 1 to 6 steps of N actions; its parameters are random, which changes what it says, not how long it takes.
Its encoder is the default one. `cpu_over_video` below 1 means faster than the video plays, on one thread. Memory is
that of the process: before, after ten minutes of video (or half, of a shorter one), at the end, and the most.
"""

from __future__ import annotations

import json
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch

from benchmarks.timing import make_parser
from p3iv.config import override, preset_config
from p3iv.encoders.registry import build_encoder
from p3iv.planner import Planner
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.planners.header import Header, PlannerShape, TrainingProgress
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.plans.transitions import Transitions

RATE, LOOP_S, KEY_S, SETTLED_S = 25, 20, 10, 600
NUM_PROCEDURES = 24


def write_loop(path: Path, height: int) -> None:
    """Some seconds of moving shapes on noise."""
    width, random = height * 16 // 9, np.random.default_rng(0)
    ground = random.integers(60, 120, (height, width, 3), dtype=np.uint8)
    with av.open(str(path), "w", format="mp4") as container:
        options = {"preset": "ultrafast", "crf": "23", "g": str(KEY_S * RATE), "threads": "1"}
        stream = container.add_stream("libx264", rate=RATE, options=options)
        stream.pix_fmt, stream.height, stream.width = "yuv420p", height, width
        for number in range(LOOP_S * RATE):
            pixels = ground.copy()
            for shape in range(6):
                left = (number * (3 + shape) + 97 * shape) % (width - height // 6)
                top = (number * 2 + 61 * shape) % (height - height // 6)
                pixels[top : top + height // 6, left : left + height // 6, shape % 3] = 230
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def repeat_video(source: Path, path: Path, times: int) -> None:
    """The same packets again and again, without encoding them anew."""
    with av.open(str(path), "w", format="matroska") as out:
        target, shift = None, 0
        for _ in range(times):
            with av.open(str(source)) as container:
                stream = container.streams.video[0]
                target = target or out.add_stream_from_template(stream)
                step = round(LOOP_S / Fraction(stream.time_base or 1))
                for packet in container.demux(stream):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.dts, packet.pts = packet.dts + shift, packet.pts + shift
                    packet.stream = target
                    out.mux(packet)
            shift += step


def random_planner(num_actions: int) -> Planner:
    """A planner for 1 to 6 steps with random parameters."""
    encoder = build_encoder("efficientnet-lite0")
    settings = {"planner": "p3iv-plus", "data.min_horizon": 1, "data.horizon": 6}
    config = override(preset_config("p3iv-plus-lengths"), settings)
    shape = PlannerShape(
        horizon=6,
        num_actions=num_actions,
        feature_width=encoder.width,
        target_width=384,
        num_procedures=NUM_PROCEDURES,
    )
    torch.manual_seed(0)
    planner = QueryPlanner(shape, config).eval()
    for tensor in planner.state_dict().values():
        if not tensor.any():  # what is fitted
            tensor.copy_(torch.rand(tensor.shape) + 0.5)
    planner.effects.weight.fill_(0.0)
    planner.following.first.copy_(torch.full((num_actions,), 1 / num_actions))
    planner.following.goes_on.fill_(0.9)
    planner.following.settings.copy_(torch.tensor([0.5, 8.0, 0.2, 0.5, 0.5, 0.5]))
    row = np.full((num_actions, num_actions), 1 / num_actions)
    header = Header(
        config=config,
        shape=shape,
        names=tuple(f"step {number}" for number in range(num_actions)),
        procedures=tuple(f"procedure {number}" for number in range(NUM_PROCEDURES)),
        encoder=encoder.identity,
        text_encoder=None,
        feature_fingerprint=None,
        data_label="random",
        data_fingerprint="random",
        progress=TrainingProgress(0, 0, None),
    )
    return Planner(TrainedPlanner(planner, Transitions(row, row, 0.0), header))


def memory_mib() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--actions", type=int, default=350)
    parser.add_argument("--height", type=int, default=720)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        loop, video = Path(folder) / "loop.mp4", Path(folder) / "video.mkv"
        write_loop(loop, asked.height)
        repeat_video(loop, video, max(1, round(asked.hours * 3600 / LOOP_S)))
        planner = random_planner(asked.actions)
        _ = planner.moments.encoder  # loading it is not a matter of the video
        memory, began = [memory_mib()], time.process_time()
        for moment in planner.follow(video, procedure="procedure 3"):
            memory.append(memory_mib())
            if moment.second % 600 == 0:
                print(f"{moment.second} s: {memory[-1]:.0f} MiB", flush=True)
        cpu_s = time.process_time() - began
    seconds = len(memory) - 1
    settled = memory[min(SETTLED_S, seconds // 2)]
    print(
        json.dumps(
            {
                "video_s": seconds,
                "cpu_s": round(cpu_s, 1),
                "cpu_over_video": round(cpu_s / seconds, 3),
                "memory_before_mib": round(memory[0]),
                "memory_settled_mib": round(settled),
                "memory_end_mib": round(memory[-1]),
                "memory_most_mib": round(max(memory)),
            }
        )
    )


if __name__ == "__main__":
    main()
