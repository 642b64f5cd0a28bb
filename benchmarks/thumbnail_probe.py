"""How much of a step does one small tabletop picture reveal? A linear probe on 16 x 16 thumbnails of test windows.

Ridge regression from standardised thumbnails to the first step of a window (T = 3), trained on 70 % of the videos; the
penalty is chosen on these by cross-validation over videos. The thumbnails show the start of the first step and the end
of the last one.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.timing import make_parser
from p3iv.data.windows import split_by_video
from p3iv.tabletop.render import render_frames
from p3iv.tabletop.tasks import RULES
from p3iv.tabletop.world import FRAMES_PER_SECOND, write_script

HORIZON, SIDE, FOLDS = 3, 16, 4
PENALTIES = 10.0 ** np.arange(0, 7)
Array = NDArray[np.float64]


def windows_of(index: int) -> list[tuple[str, int, Array, Array]]:
    """Video, first step, and thumbnails of start and goal for every window of a video."""
    script = write_script(0, index)
    wanted = {round(second * FRAMES_PER_SECOND) for times in script.times for second in times}
    frames = render_frames(script.execution, script.times, script.length_s, seed=script.seed)
    shown = {number: thumbnail(frame) for number, frame in enumerate(frames) if number in wanted}
    steps = list(RULES)
    return [
        (
            script.id,
            steps.index(script.execution.steps[first]),
            shown[round(script.times[first][0] * FRAMES_PER_SECOND)],
            shown[round(script.times[first + HORIZON - 1][1] * FRAMES_PER_SECOND)],
        )
        for first in range(len(script.times) - HORIZON + 1)
    ]


def thumbnail(frame: NDArray[np.uint8]) -> Array:
    small = Image.fromarray(frame).resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float64).ravel() / 255


def predict(inputs: Array, targets: Array, held_out: Array, penalty: float) -> NDArray[np.intp]:
    mean, spread = inputs.mean(0), inputs.std(0) + 1e-6
    inputs, held_out = (inputs - mean) / spread, (held_out - mean) / spread
    weights = np.linalg.solve(inputs @ inputs.T + penalty * np.eye(len(inputs)), targets - targets.mean(0))
    scores: Array = held_out @ inputs.T @ weights + targets.mean(0)
    return np.asarray(np.argmax(scores, axis=1))


def probe(inputs: Array, steps: NDArray[np.intp], is_test: NDArray[np.bool_], fold: NDArray[np.intp]) -> float:
    """Share of test windows whose first step is predicted correctly."""
    targets, train = np.eye(len(RULES))[steps], ~is_test

    def score(penalty: float) -> float:
        rights = []
        for number in range(FOLDS):
            fit, look = train & (fold != number), train & (fold == number)
            rights.append(np.mean(predict(inputs[fit], targets[fit], inputs[look], penalty) == steps[look]))
        return float(np.mean(rights))

    best = max(PENALTIES, key=score)
    return float(np.mean(predict(inputs[train], targets[train], inputs[is_test], best) == steps[is_test]))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=int, default=160)
    args = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        windows = [window for found in pool.map(windows_of, range(args.videos), chunksize=4) for window in found]
    videos, steps = [window[0] for window in windows], np.array([window[1] for window in windows])
    test = set(split_by_video(sorted(set(videos)), seed=0).test)
    is_test = np.array([video in test for video in videos])
    fold = np.array([int(video[-4:]) % FOLDS for video in videos])
    start, goal = np.stack([window[2] for window in windows]), np.stack([window[3] for window in windows])
    common = np.bincount(steps[~is_test]).argmax()
    result = {
        "start": probe(start, steps, is_test, fold),
        "start_and_goal": probe(np.hstack([start, goal]), steps, is_test, fold),
        "majority": float(np.mean(steps[is_test] == common)),
        "train_windows": int((~is_test).sum()),
        "test_windows": int(is_test.sum()),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
