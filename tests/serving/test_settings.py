"""Limits by name, and which addresses are public."""

from __future__ import annotations

import pickle

import pytest

from p3iv.errors import ConfigError
from p3iv.serving.settings import Limits, ServiceSettings, change_limits, describe_limits


def test_a_limit_is_changed_by_its_name() -> None:
    assert change_limits(["keep_s=60", "waiting=0"]) == Limits(keep_s=60, waiting=0)
    assert change_limits([]) == Limits()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("keep=60", "must be one of upload_mib, .*Did you mean keep_s?"),
        ("keep_s", "give a whole number from 1, as in keep_s=100"),
        ("keep_s=0", "whole number from 1"),
        ("keep_s=1.5", "whole number"),
        ("keep_s=-1", "whole number"),
        ("keep_s=\u0661", "whole number"),
        ("keep_s=9999999999999", "whole number"),
    ],
)
def test_another_limit_is_refused(change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        change_limits([change])


def test_every_limit_says_what_it_means() -> None:
    assert all(about and default >= 0 for _, default, about in describe_limits())


@pytest.mark.parametrize(("host", "is_public"), [
    ("127.0.0.1", False), ("localhost", False), ("::1", False), ("127.8.8.8", False),
    ("0.0.0.0", True),  # noqa: S104
    ("192.168.1.5", True), ("::", True), ("kitchen.example", True),
])  # fmt: skip
def test_only_loopback_addresses_are_private(host: str, is_public: bool) -> None:
    assert ServiceSettings("tabletop-demo", host=host).is_public is is_public


def test_settings_can_be_sent_to_another_process() -> None:
    settings = ServiceSettings("tabletop-demo", token="secret")  # noqa: S106
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301
