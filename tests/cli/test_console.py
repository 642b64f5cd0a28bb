"""What commands share: progress, lists of numbers, and options that take one of several names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from commands import RunP3iv
from p3iv.cli import console
from p3iv.cli.options import parse_numbers, split_at_commas
from p3iv.errors import ConfigError
from p3iv.types import Problem, Progress


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    show = console.plain_progress(every_s=0.0)
    show(Progress("Extracting videos", 1, 3, "20 frames/s"))
    show(Progress("Extracting videos", 2, 3))
    show(Progress("Extracting videos", 3, 3))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Extracting videos: 1 of 3, 20 frames/s", "Extracting videos: 2 of 3"]


def test_progress_on_a_terminal_shows_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(force_terminal=True, width=100, record=True)
    monkeypatch.setattr(console, "err", terminal)
    with console.progress() as show:
        show(Progress("Extracting videos", 1, 3, "20 [frames]/s"))
    shown = terminal.export_text()
    assert "Extracting videos" in shown
    assert "1/3" in shown
    assert "20 [frames]/s" in shown


HOSTILE = "x\x1b[31m\x9b2J\u202ey [/b] [red]z[/red] :smile:"
CLEAN = "x\ufffd[31m\ufffd2J\ufffdy [/b] [red]z[/red] :smile:"


def test_names_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table([HOSTILE, "n"], [[HOSTILE, "1"]], title=HOSTILE)
    console.print_problems([Problem(HOSTILE, HOSTILE, HOSTILE)])
    console.print_note(HOSTILE)
    console.out.print(HOSTILE, style="bold")
    printed = capsys.readouterr()
    assert printed.out.count(CLEAN[:30]) == 4
    assert printed.err.count(CLEAN) == 4
    assert not set("\x1b\x9b\u202e") & set(printed.out + printed.err)


def test_json_for_programs_has_no_control_characters_and_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"name": HOSTILE, "ä": 1})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": HOSTILE, "ä": 1}
    assert not set("\x1b\x9b\u202e") & set(printed)


def test_a_message_about_a_hostile_name_is_clean(p3iv: RunP3iv, tmp_path: Path) -> None:
    done = p3iv("data", "stats", tmp_path / HOSTILE)
    assert done.returncode == 1
    assert CLEAN in done.stderr


def test_lists_are_separated_by_commas() -> None:
    assert split_at_commas(" a, b,,c ") == ["a", "b", "c"]
    assert parse_numbers("--seeds", "0, 1,2") == (0, 1, 2)


@pytest.mark.parametrize("text", ["", ",", "x", "1,x", "-1", "1.5"])
def test_other_words_are_not_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--seeds .* whole numbers separated by commas"):
        parse_numbers("--seeds", text)


def test_an_unknown_choice_is_answered_with_all_of_them(p3iv: RunP3iv) -> None:
    done = p3iv("data", "stats", "nowhere", "--window", "middle")
    assert done.returncode == 2
    assert "middle, but it must be one of inclusive, after-start." in done.stderr


def test_commands_are_listed_in_the_order_of_use(p3iv: RunP3iv) -> None:
    shown = p3iv("--help").stdout
    assert shown.index("  demo ") < shown.index("  data ") < shown.index("  extract ") < shown.index("  train ")
