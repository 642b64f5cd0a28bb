from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from p3iv.catalogue import PRESETS
from p3iv.config import (
    Config,
    CurationSettings,
    LossConfig,
    ModelConfig,
    OptimConfig,
    config_from,
    describe_settings,
    override,
    parse_settings,
    preset_config,
    setting_names,
)
from p3iv.errors import ConfigError


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_a_round_trip_through_yaml(name: str) -> None:
    config = preset_config(name)
    assert config_from(yaml.safe_load(config.to_yaml())) == config


def test_the_default_is_the_paper_s() -> None:
    config = preset_config("p3iv")
    assert (config.model.width, config.model.layers, config.model.heads, config.model.memory_slots) == (128, 2, 8, 128)
    assert (config.optim.epochs, config.optim.learning_rate, config.optim.decay, config.optim.decay_every) == (
        200,
        7e-4,
        0.65,
        40,
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.width=-4", "model.width=-4"),
        ("model.heads=7", "a divisor of model.width=128"),
        ("model.width=64.5", "an even whole number from 2"),
        ("model.layers=2.5", "a whole number from 1"),
        ("model.widht=64", "no setting 'model.widht'"),
        ("model=3", "no setting 'model'"),
        ("loss.diversity_form=best", "inverse or paper"),
        ("loss.latents=1", "a whole number from 2"),
        ("loss.action=nan", "finite"),
        ("optim.precision=float16", "float32, float64 or mixed"),
        ("optim.max_cpu_s=0", "above 0"),
        ("optim.patience=0", "a whole number from 1, or null"),
        ("optim.epochs=0", "a whole number from 1, or null"),
        ("baseline.goal_weight=-1", "a finite number from 0, or null"),
        ("data.observation=median", "mean or concat"),
        ("seed=-1", "seed=-1"),
        ("optim.epochs", "key=value"),
        ("optim.epochs=true", "a whole number"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(Config(), parse_settings([setting]))


def test_settings_read_numbers_as_people_write_them() -> None:
    changes = parse_settings(["optim.learning_rate=1e-4", "loss.language=1", "optim.max_cpu_s=null", "optim.epochs=7"])
    config = override(Config(), changes)
    assert (config.optim.learning_rate, config.loss.language, config.optim.max_cpu_s) == (1e-4, 1.0, None)
    assert config.optim.epochs == 7


@pytest.mark.parametrize(("text", "weight"), [("null", None), ("1.0", 1.0), ("30", 30.0)])
def test_a_weight_is_given_or_left_to_be_chosen(text: str, weight: float | None) -> None:
    config = override(Config(), parse_settings([f"baseline.goal_weight={text}"]))
    assert config_from(yaml.safe_load(config.to_yaml())) == config
    assert config.baseline.goal_weight == weight
    assert Config().baseline.goal_weight is None


@given(st.text(max_size=30))
def test_any_setting_gives_a_configuration_or_a_project_error(text: str) -> None:
    for setting in (text, f"optim.epochs={text}", f"{text}=1"):
        with contextlib.suppress(ConfigError):
            override(Config(), parse_settings([setting]))


def test_every_setting_is_described_and_its_default_can_be_set() -> None:
    infos = list(describe_settings())
    assert {"model.width", "loss.diversity_form", "optim.batch_size", "data.horizon", "seed"} <= set(setting_names())
    assert [info.name for info in infos if not info.about or not info.allowed] == []
    assert override(Config(), {info.name: info.default for info in infos}) == Config()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelConfig(width=7), "model.width=7, but it must be an even whole number from 2"),
        (lambda: CurationSettings(window="sliding"), "window='sliding', but it must be inclusive or after-start"),
        (lambda: LossConfig(acton=1.0), "no setting loss.acton"),  # type: ignore[call-arg]
        (lambda: config_from({"model": 3}), "model is 3"),
        (lambda: config_from({"modle": {}}), "no setting modle"),
    ],
)
def test_sections_that_are_built_in_python_explain_themselves_too(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("epochs", "num_windows", "expected"),
    [(7, 1, 7), (None, 1, 240), (None, 284, 48), (None, 710, 20), (None, 1280, 12), (None, 1504, 12), (None, 8722, 12)],
)
def test_few_windows_get_more_epochs_unless_their_number_is_given(
    epochs: int | None, num_windows: int, expected: int
) -> None:
    assert OptimConfig(epochs=epochs, batch_size=64).epochs_over(num_windows) == expected
