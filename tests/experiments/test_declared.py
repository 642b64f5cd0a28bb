"""The declarations: every printed cell of the paper is there, and every cell asks for something that exists."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest

from experiments.latex_rows import ROWS
from p3iv.config import override, preset_config
from p3iv.errors import ConfigError
from p3iv.experiments.built import published_number
from p3iv.experiments.declared import Ask, Column, Figure, Row, Table, choose, declared, sample_numbers
from p3iv.experiments.listing import list_all, list_together
from p3iv.experiments.measured import METRICS
from p3iv.experiments.runs import refuse_decided
from p3iv.planners.registry import PLANNERS
from p3iv.report.published import published_distribution, published_row

METRIC_CALLED = {
    "SR": "success_rate",
    "mAcc": "mean_accuracy",
    "mAcc.": "mean_accuracy",
    "mIoU": "mean_iou",
    "KL-Div": "kl",
    "NLL": "nll",
    "exact NLL": "exact_nll",
    "ModePrec": "mode_precision",
    "MCPrec": "mode_precision",
    "ModeRec": "mode_recall",
    "MCRec": "mode_recall",
    "CosDist": "cosine_distance",
    "ms per plan": "milliseconds_per_plan",
    "unique plans per pair": "plans_per_pair",
    "the same, mean over windows": "plans_per_window",
}


def table(name: str) -> Table:
    found = declared()[name]
    assert isinstance(found, Table)
    return found


def clean(cell: str) -> str:
    """What LaTeX prints of a cell."""
    cell = cell.replace("\\\\", "").replace("$\\pm$", "±").replace("$<$", "<").replace("$\\sigma = ", "σ = ")  # noqa: RUF001
    cell = re.sub(r"~?\\cite\{.*?\}", "", cell)
    cell = re.sub(r"\\(textcolor|color)\{red\}", "", cell)
    cell = re.sub(r"\\(textbf|textit|text|todo|mathcal|multirow\{\d\}\*)", "", cell)
    return re.sub(r"[{}$]", "", cell).strip()


def printed(name: str) -> list[tuple[str, list[str]]]:
    """The rows of a table in the source: the last label and the cells behind it."""
    width = len(table(name).columns)
    rows = []
    for line in ROWS[name].strip().split("\n"):
        cells = [clean(cell) for cell in line.split("&")]
        count = width + 3 if name == "niv-coin" else width  # both datasets in one line there
        rows.append((cells[-count - 1], cells[-count:]))
    return rows


def same_label(latex: str, label: str) -> bool:
    known = latex.replace("determinstic", "deterministic").replace(" ", "")
    return known == label.replace(" ", "")


@pytest.mark.parametrize("name", [name for name in ROWS if name not in ("losses", "niv-coin", "unique-plans")])
def test_every_cell_is_as_printed(name: str) -> None:
    [dataset] = table(name).datasets
    rows = [row for row in table(name).rows if row.published]
    for row, (label, cells) in zip(rows, printed(name), strict=True):
        assert same_label(label, row.label)
        assert list(row.published[dataset]) == cells


def test_every_cell_of_tables_with_several_datasets_is_as_printed() -> None:
    losses = [row for row in table("losses").rows if row.published]
    blocks = [(name, row) for name in ("crosstask", "coin", "niv") for row in losses]
    for (name, row), (label, cells) in zip(blocks, printed("losses"), strict=True):
        assert same_label(label, row.label)
        assert list(row.published[name]) == cells

    planners = [row for row in table("niv-coin").rows if row.published]
    for row, (label, cells) in zip(planners, printed("niv-coin"), strict=True):
        assert same_label(label, row.label)
        assert list(row.published["niv"]) == cells[:4]
        assert list(row.published["coin"]) == [cells[0], *cells[4:]]

    [plans] = [row for row in table("unique-plans").rows if row.published]
    for name, (label, cells) in zip(("crosstask", "coin", "niv"), printed("unique-plans"), strict=True):
        assert label.casefold() == name
        assert list(plans.published[name]) == cells


def test_the_source_has_as_many_figures_as_the_declarations() -> None:
    """A row that were forgotten on both sides would show here: the number of cells, counted by hand, table by table."""
    cells = {
        entry.name: sum(len(cells) for row in entry.rows for cells in row.published.values())
        for entry in declared().values()
        if isinstance(entry, Table) and entry.place != "ours"
    }
    assert cells == {
        "losses": 36,
        "memory": 12,
        "crosstask": 63,
        "long-horizons": 20,
        "niv-coin": 80,
        "distributions": 16,
        "modes": 20,
        "inference-time": 2,
        "regularisation": 16,
        "viterbi": 9,
        "samples": 32,
        "architecture": 15,
        "uncertainty": 63,
        "distributions-coin": 16,
        "distributions-niv": 16,
        "unique-plans": 12,
    }


def test_what_the_text_says_of_time() -> None:
    said = "we are 4x faster at inference, e.g., 6.75ms (ours) vs. 27.34ms (DDN) on CrossTask for T = 3"
    ours, ddn = (row.published["crosstask"][0] for row in table("inference-time").rows)
    assert (ours, ddn) == tuple(re.findall(r"([\d.]+)ms", said))


def test_the_figure_that_is_printed_in_two_ways_stands_in_both_with_a_note() -> None:
    assert table("crosstask").rows[8].published["crosstask"][2] == "49.96"
    assert table("uncertainty").rows[0].published["crosstask"][1] == "48.96"
    assert "48.96" in table("uncertainty").note


def test_figures_1_to_3_are_drawings_and_the_others_are_made() -> None:
    kinds = {entry.place: entry.kind for entry in declared().values() if isinstance(entry, Figure)}
    assert kinds == {
        **{f"Figure {number}": "drawing" for number in (1, 2, 3)},
        "Figure 4": "diversity",
        **{f"Figure {number}": "gallery" for number in (5, 6, 7, 8)},
    }


def test_every_cell_asks_for_a_planner_a_metric_and_settings_that_exist() -> None:
    for entry in declared().values():
        for ask in entry.asks:
            settings = dict(ask.settings)
            config = override(preset_config("p3iv"), settings)
            assert ask.metric is None or ask.metric in METRICS
            assert not ask.has_run or config.planner in PLANNERS
            assert "data.horizon" in settings


def test_rows_differ_in_what_they_ask_for() -> None:
    for entry in declared().values():
        if isinstance(entry, Table):
            asks = list(entry.asks)
            assert len(set(asks)) == len(asks), entry.name


def cells_of(entry: Table) -> list[tuple[Row, Column, Ask]]:
    return [(row, column, ask) for row in entry.rows for column in entry.columns if (ask := entry.ask(row, column))]


@pytest.mark.parametrize("name", [name for name, entry in declared().items() if isinstance(entry, Table)])
def test_a_cell_asks_for_what_is_written_beside_and_above_it(name: str) -> None:
    for row, column, ask in cells_of(table(name)):
        words, settings = [row.group, row.label, column.group, column.label], dict(ask.settings)
        assert [METRIC_CALLED[word] for word in words if word in METRIC_CALLED] == [ask.metric]
        horizons = [int(word[2:]) for word in words if re.fullmatch(r"T=\d", word)]
        assert settings["data.horizon"] == (horizons[0] if horizons else 3)
        assert len(horizons) <= 1
        is_second = row.label.endswith("(Protocol 2)") or row.label == "PlaTe"
        assert settings.get("data.protocol", 1) == (2 if is_second else 1)
        assert ask.samples == (int(row.label) if name == "samples" else None)
        sigma, p = (re.search(rf"\({letter} = (.*)\)", row.label) for letter in ("σ", "p"))  # noqa: RUF001
        assert (ask.input_noise, ask.dropout) == (float(sigma[1]) if sigma else 0, float(p[1]) if p else 0)
        model = override(preset_config("p3iv"), settings).model
        assert name != "memory" or f"{model.memory_slots}" == row.label
        assert name != "architecture" or f"{model.layers}/{model.heads}" == row.label


def test_what_two_tables_ask_for_is_printed_alike_in_both_but_for_the_one_figure() -> None:
    figures: dict[tuple[str, Ask], set[float]] = defaultdict(set)
    for entry in (entry for entry in declared().values() if isinstance(entry, Table)):
        for row, column, ask in cells_of(entry):
            same = replace(ask, samples=None) if ask.samples == 1500 else ask
            for name, cells in row.published.items():
                figures[name, same].add(published_number(cells[entry.columns.index(column)]))
    assert [found for found in figures.values() if len(found) > 1] == [{49.96, 48.96}]
    for name in ("distributions-coin", "distributions-niv"):  # their figures stand nowhere else
        assert [row.group for row in table(name).rows] == ["NLL", "NLL", "KL-Div", "KL-Div"]


def test_a_table_that_draws_again_and_again_costs_as_much() -> None:
    costs = {entry.name: entry.cpu_s for entry in list_all()}
    runs, seeds, draws = 4, 3, 20 * 2500 / 1500
    assert costs["samples"]["paper"] == pytest.approx(seeds * runs * (4300 + draws * 300))
    assert costs["modes"]["paper"] == pytest.approx(seeds * 2 * runs * (4300 + 300))


def test_tables_share_their_runs() -> None:
    entries = list_all()
    assert list_together().runs_per_seed < 0.6 * sum(entry.runs_per_seed for entry in entries)
    by_name = {entry.name: entry.runs_per_seed for entry in entries}
    assert (by_name["losses"], by_name["memory"], by_name["viterbi"], by_name["figure-1"]) == (3, 4, 1, 0)
    assert sample_numbers() == [150, 500, 1500, 2500]


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no table or figure 'table4'.*long-horizons.*gallery-t6.*decoders"):
        choose(["table4"])
    assert [entry.name for entry in choose(["memory", "losses", "memory"])] == ["memory", "losses"]


@pytest.mark.parametrize("name", ["planner", "data.horizon", "loss.language", "seed", "preset"])
def test_what_tables_decide_cannot_be_set_for_all_of_them(name: str) -> None:
    with pytest.raises(ConfigError, match=f"--set {name}"):
        refuse_decided({name: 3})
    refuse_decided({"optim.max_cpu_s": 600})


def test_printed_cells_as_numbers() -> None:
    assert published_number("<0.01") == 0
    assert published_number("5.03 ± 0.21") == 5.03
    assert published_number("4.290") == 4.29
    for text in ("-", "V", None):
        assert str(published_number(text)) == "nan"


def test_reports_quote_the_same_figures() -> None:
    """`p3iv report` prints the paper's own rows from a list of its own; the two must not drift apart."""
    ours = {row.label: row for row in table("crosstask").rows}["Ours"].published["crosstask"]
    for horizon, cells in ((3, ours[1:4]), (4, ours[4:7])):
        row = published_row("crosstask", horizon, 1)
        assert row is not None
        assert [f"{100 * score:.2f}" for score in row.scores.values()] == list(cells)
    by_label = {(row.group, row.label): row.published["crosstask"] for row in table("distributions").rows}
    for place, horizon in enumerate((3, 4, 5, 6)):
        for is_deterministic, label in ((True, "Ours - deterministic"), (False, "Ours - probabilistic")):
            found = published_distribution("crosstask", horizon, 1, is_deterministic=is_deterministic)
            assert found is not None
            for name, group in (("kl", "KL-Div"), ("nll", "NLL")):
                assert f"{found.scores[name]:.2f}" == by_label[group, label][place]
