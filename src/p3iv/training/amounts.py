"""How much a planner learns from, and where that is too little to expect anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median

from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.intervals import FEW_VIDEOS
from p3iv.types import SIDES, counted, listed

# Measured with P3IV+ on image features of tabletop videos, two random choices of 3 to 90 training videos, T = 3. Steps
# of actions with 1, 2, 3 and 6 to 9 training examples are right in 10, 15, 27 and 45 % of the test windows. With a mean
# of 1.6, 2.4 and 4.6 examples per action the success rate is 2.6, 6.7 and 16 %, that of retrieval 2.2, 3.6 and 4.9 %.
MIN_EXAMPLES = 3
MIN_MEAN_EXAMPLES = 2
MIN_VAL_WINDOWS = 20  # with fewer, one window changes a score by more than 5 points
MIN_VAL_VIDEOS = 3
MIN_TEST_WINDOWS = 20  # as for validation; the number of videos is that of `FEW_VIDEOS`
ADVICE = "with so few videos, use all of them for the test and for the planner: p3iv train DIR --folds 5 --fit-all"


def describe_amounts(data: PlanningData) -> str:
    """One line: videos and windows of each side, and examples per action."""
    parts = [f"{side} {_size(data.side(side))}" for side in SIDES if len(data.side(side))]
    examples = count_examples(data)
    numbers = sorted(examples.values())
    each = (
        f"{numbers[0]} to {numbers[-1]} examples each (median {median(numbers):g})"
        if numbers[0] < numbers[-1]
        else f"{counted(numbers[0], 'example')} each"
    )
    return f"{', '.join(parts)}; {counted(len(numbers), 'action')} in train with {each}"


def warn_of_few(data: PlanningData, *, has_epochs: bool, is_trained: bool = True) -> Iterator[str]:
    """Say in which respect there is too little to learn from.

    Args:
        data: What a planner learns from.
        has_epochs: Whether validation chooses among epochs.
        is_trained: Whether the planner is trained, or only fitted.
    """
    examples = count_examples(data)
    few = sorted(data.names[action] for action, number in examples.items() if number < MIN_EXAMPLES)
    mean = examples.total() / len(examples)
    if mean < MIN_MEAN_EXAMPLES and is_trained:
        amount = "1 example" if round(mean, 1) == 1 else f"{mean:.1f} examples"
        yield (
            f"too little to learn from: {amount} per action. Below {MIN_MEAN_EXAMPLES}, expect plans that "
            f"are no better than copying the most similar training window (--planner retrieval); add videos"
        )
    elif few:
        yield (
            f"{len(few)} of {counted(len(examples), 'action')} have fewer than {MIN_EXAMPLES} examples in train, so "
            f"plans with them are often wrong: {listed(few, 3)}"
        )
    num_videos = len({window.video for window in data.val.windows})
    if has_epochs and (len(data.val) < MIN_VAL_WINDOWS or num_videos < MIN_VAL_VIDEOS):
        yield f"the best epoch is chosen on only {_size(data.val)}, so the choice is little better than chance"


def warn_of_small_test(test: WindowTensors) -> Iterator[str]:
    """Say that scores on the test side will be uncertain; before there are any, so without an interval."""
    num_videos = len({window.video for window in test.windows})
    if 0 < num_videos < FEW_VIDEOS or 0 < len(test) < MIN_TEST_WINDOWS:
        yield f"only {_size(test)} for the test, so its scores will say little about other videos; {ADVICE}"


def advise_small_test(test: WindowTensors) -> Iterator[str]:
    """What to do about a small test side, beside scores whose intervals show it."""
    if len(test) < MIN_TEST_WINDOWS:
        yield f"only {counted(len(test), 'window')}: one of them changes a score by {100 / len(test):.0f} points"
    if len({window.video for window in test.windows}) < FEW_VIDEOS:
        yield ADVICE


def count_examples(data: PlanningData) -> Counter[int]:
    """How often each action occurs in the training videos; a step that several windows contain counts once."""
    windows = data.train.windows
    steps = {(w.video, w.first_step + place): action for w in windows for place, action in enumerate(w.action_ids)}
    return Counter(steps.values())


def _size(side: WindowTensors) -> str:
    videos = counted(len({window.video for window in side.windows}), "video")
    return f"{counted(len(side), 'window')} of {videos}"
