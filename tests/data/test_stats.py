from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from p3iv.config import CurationSettings
from p3iv.data.folder import open_dataset
from p3iv.data.stats import describe_dataset
from p3iv.errors import SplitError


def test_stats_count_what_a_plain_loop_counts(tabletop: Path) -> None:
    opened = open_dataset(tabletop)
    stats = describe_dataset(opened, CurationSettings(split="release"), horizons=(3,))
    plans = [
        (video.id, tuple(step.action for step in video.steps[first : first + 3]))
        for video in opened.videos
        for first in range(len(video.steps) - 2)
    ]
    pairs = {(plan[0], plan[-1]) for _, plan in plans}
    sharing = {pair: len({plan for _, plan in plans if (plan[0], plan[-1]) == pair}) for pair in pairs}
    of_3 = stats.horizons[3]
    assert stats.windows == {3: len(plans)}
    assert opened.split is not None
    assert of_3.by_side["test"] == sum(video in opened.split.test for video, _ in plans)
    assert sum(of_3.by_side.values()) == len(plans)
    assert of_3.repeated_action_share == sum(len(set(plan)) < 3 for _, plan in plans) / len(plans)
    assert of_3.plans_per_pair == pytest.approx(sum(sharing.values()) / len(pairs))
    assert of_3.plans_per_window == pytest.approx(sum(sharing[plan[0], plan[-1]] for _, plan in plans) / len(plans))


def test_videos_without_features_are_not_counted_as_training_does_not_use_them(tabletop: Path) -> None:
    opened = open_dataset(tabletop)
    assert opened.split is not None
    blind = replace(next(video for video in opened.videos if video.id in opened.split.train), id="blind")
    split = replace(opened.split, train=(*opened.split.train, "blind"))
    settings = CurationSettings(split="release")
    stats, with_blind = (
        describe_dataset(one, settings, horizons=(3,))
        for one in (opened, replace(opened, videos=(*opened.videos, blind), split=split))
    )
    assert with_blind.videos == stats.videos + 1
    assert with_blind.videos_by_side == stats.videos_by_side
    assert with_blind.horizons == stats.horizons
    assert with_blind.notes == ("1 video without features, so not used: blind",)


def test_too_few_videos_still_have_windows_but_a_wrong_split_is_an_error(tmp_path: Path) -> None:
    rows = "".join(f"v,tea,{step},{at},{at + 1}\n" for at, step in enumerate(("boil", "pour", "stir", "drink")))
    (tmp_path / "steps.csv").write_text(f"video,task,step,start_s,end_s\n{rows}")
    dataset = open_dataset(tmp_path)
    stats = describe_dataset(dataset, CurationSettings(protocol=2), horizons=(3, 4))
    assert stats.windows == {3: 1, 4: 1}
    assert (stats.videos_by_side, stats.horizons[3].by_side, stats.horizons[4].num_actions) == ({}, {}, 3)
    assert len(stats.notes) == 1
    with pytest.raises(SplitError, match="has no split"):
        describe_dataset(dataset, CurationSettings(split="release"))
