"""The declarations hold every printed cell of the paper, and every cell needs a planner and a metric that exist."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import pytest

from experiments.latex_rows import ROWS
from p3iv.catalogue import METRICS, MIXES, PICTURES
from p3iv.config import override, preset_config
from p3iv.errors import ConfigError
from p3iv.experiments.declarations import (
    CellSpec,
    Column,
    Figure,
    Row,
    Table,
    declarations,
    published_figures,
    published_number,
    sample_numbers,
    select,
)
from p3iv.experiments.reproduce import list_all, list_together
from p3iv.experiments.runs import refuse_table_settings
from p3iv.planners.base import BasePlanner
from p3iv.planners.registry import class_of

METRIC_OF_LABEL = {
    "SR": "success_rate",
    "mAcc": "mean_accuracy",
    "mAcc.": "mean_accuracy",
    "mIoU": "mean_iou",
    "bitwise mIoU": "bitwise_iou",
    "KL-Div": "kl",
    "NLL": "nll",
    "exact NLL": "exact_nll",
    "edit": "edit_score",
    "length": "length_accuracy",
    "open NLL": "open_nll",
    "CPU s": "training_cpu_s",
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
    found = declarations()[name]
    assert isinstance(found, Table)
    return found


def clean(cell: str) -> str:
    """The text of a cell without its LaTeX commands."""
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
    """The numbers of cells were counted by hand, so a row that is missing on both sides shows here."""
    cells = {
        entry.name: sum(bool(cell) for row in entry.rows for cells in row.published.values() for cell in cells)
        for entry in declarations().values()
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
        "unified": 126,  # seven rows on three datasets, T=3 and T=4
    }


def test_times_are_those_of_the_text() -> None:
    sentence = "we are 4x faster at inference, e.g., 6.75ms (ours) vs. 27.34ms (DDN) on CrossTask for T = 3"
    ours, ddn = (row.published["crosstask"][0] for row in table("inference-time").rows)
    assert (ours, ddn) == tuple(re.findall(r"([\d.]+)ms", sentence))


def test_a_figure_that_the_paper_prints_in_two_ways_has_a_note() -> None:
    assert table("crosstask").rows[8].published["crosstask"][2] == "49.96"
    assert table("uncertainty").rows[0].published["crosstask"][1] == "48.96"
    assert "48.96" in table("uncertainty").note


def test_figures_1_to_3_are_drawings_and_the_others_are_made() -> None:
    kinds = {entry.place: entry.kind for entry in declarations().values() if isinstance(entry, Figure)}
    assert kinds == {
        **{f"Figure {number}": "drawing" for number in (1, 2, 3)},
        "Figure 4": "diversity",
        **{f"Figure {number}": "gallery" for number in (5, 6, 7, 8)},
    }


def test_every_cell_needs_a_planner_a_metric_and_settings_that_exist() -> None:
    for entry in declarations().values():
        for spec in entry.cell_specs:
            for settings in spec.settings_of_runs:
                config = override(preset_config("p3iv"), settings)
                assert spec.metric is None or spec.metric in METRICS
                assert not spec.needs_run or issubclass(class_of(config), BasePlanner)
                assert "data.horizon" in settings
                assert config.data.has_lengths == bool(spec.evidence)
                assert spec.length is None or spec.length in config.data.horizons


def test_no_two_cells_of_a_table_need_the_same() -> None:
    for entry in declarations().values():
        if isinstance(entry, Table):
            specs = list(entry.cell_specs)
            assert len(set(specs)) == len(specs), entry.name


def cells_of(entry: Table) -> list[tuple[Row, Column, CellSpec]]:
    return [
        (row, column, spec) for row in entry.rows for column in entry.columns if (spec := entry.cell_spec(row, column))
    ]


@pytest.mark.parametrize("name", [name for name, entry in declarations().items() if isinstance(entry, Table)])
def test_a_cell_needs_what_its_labels_say(name: str) -> None:
    for row, column, spec in cells_of(table(name)):
        words, settings = [row.group, row.label, column.group, column.label], dict(spec.settings)
        assert [METRIC_OF_LABEL[word] for word in words if word in METRIC_OF_LABEL] == [spec.metric]
        horizons = [int(word[2:]) for word in words if re.fullmatch(r"T=\d", word)]
        unknown = name == "queries-open" or column.group == "unknown"
        assert spec.horizon == (horizons[0] if horizons else None if unknown else 3)
        assert len(horizons) <= 1
        is_second = row.label.endswith("(Protocol 2)") or row.label == "PlaTe"
        assert settings.get("data.protocol", 1) == (2 if is_second else 1)
        assert spec.samples == (int(row.label) if name == "samples" else None)
        sigma, p = (re.search(rf"\({letter} = (.*)\)", row.label) for letter in ("σ", "p"))  # noqa: RUF001
        assert (spec.input_noise, spec.dropout) == (float(sigma[1]) if sigma else 0, float(p[1]) if p else 0)
        model = override(preset_config("p3iv"), settings).model
        assert name != "memory" or f"{model.memory_slots}" == row.label
        assert name != "architecture" or f"{model.layers}/{model.heads}" == row.label


def test_rows_of_queries_are_told_what_they_are_called() -> None:
    for name in ("queries", "queries-open", "queries-evidence"):
        entry = table(name)
        for row, _, spec in cells_of(entry):
            if row.label in MIXES.values():
                assert MIXES[spec.evidence] == row.label
            elif spec.evidence:
                assert spec.evidence == PICTURES
            subtracted = "difference" in f"{row.group} {row.label}"
            assert (spec.minus is not None) == subtracted
            if spec.minus:
                assert spec.minus.metric == spec.metric
                assert (spec.minus.horizon, spec.minus.minus) == (spec.horizon, None)
        shown = {spec.evidence for _, _, spec in cells_of(entry)} - {()}
        assert set(MIXES) - shown == ({("start",)} if name == "queries" else set())


def test_tables_print_the_same_figure_for_the_same_cell_with_one_exception() -> None:
    figures: dict[tuple[str, CellSpec], set[float]] = defaultdict(set)
    for entry in (entry for entry in declarations().values() if isinstance(entry, Table)):
        for row, column, spec in cells_of(entry):
            same = replace(spec, samples=None) if spec.samples == 1500 else spec
            for name, cells in row.published.items():
                figures[name, same].add(published_number(cells[entry.columns.index(column)]))
    assert [found for found in figures.values() if len(found) > 1] == [{49.96, 48.96}]
    for name in ("distributions-coin", "distributions-niv"):  # their figures are printed nowhere else
        assert [row.group for row in table(name).rows] == ["NLL", "NLL", "KL-Div", "KL-Div"]


def test_the_cost_of_a_table_counts_its_draws() -> None:
    costs = {entry.name: entry.cpu_s for entry in list_all()}
    runs, seeds, draws = 4, 3, 20 * 2500 / 1500
    assert costs["samples"]["paper"] == pytest.approx(seeds * runs * (4300 + draws * 300))
    assert costs["modes"]["paper"] == pytest.approx(seeds * 2 * runs * (4300 + 300))


def test_tables_share_their_runs() -> None:
    entries = list_all()
    assert list_together().runs_per_seed < 0.6 * sum(entry.runs_per_seed for entry in entries)
    by_name = {entry.name: entry.runs_per_seed for entry in entries}
    assert (by_name["losses"], by_name["memory"], by_name["viterbi"], by_name["figure-1"]) == (3, 4, 1, 0)
    assert (by_name["queries"], by_name["queries-open"], by_name["queries-evidence"]) == (5, 7, 1)
    assert sample_numbers() == [150, 500, 1500, 2500]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no table or figure 'table4'.*long-horizons.*gallery-t6.*decoders"):
        select(["table4"])
    assert [entry.name for entry in select(["memory", "losses", "memory"])] == ["memory", "losses"]


@pytest.mark.parametrize("name", ["planner", "data.horizon", "loss.language", "seed", "preset"])
def test_a_setting_that_tables_vary_cannot_be_set_for_all_runs(name: str) -> None:
    with pytest.raises(ConfigError, match=f"--set {name}"):
        refuse_table_settings({name: 3})
    refuse_table_settings({"optim.max_cpu_s": 600})


def test_printed_cells_as_numbers() -> None:
    assert published_number("<0.01") == 0
    assert published_number("5.03 ± 0.21") == 5.03
    assert published_number("4.290") == 4.29
    for text in ("-", "V", None):
        assert str(published_number(text)) == "nan"


def test_published_figures_of_the_papers_planner_name_their_table() -> None:
    figures = published_figures("CrossTask", 4)
    values = {name: (round(figure.value, 6), figure.place) for name, figure in figures.items()}
    assert values["success_rate"] == (0.1340, "Table 3")
    assert values["macro_precision"] == (0.4416, "Table 3")
    assert values["bitwise_iou"] == (0.7001, "Table 3")
    assert values["kl"] == (3.50, "Table 6")
    assert values["cosine_distance"] == (0.302, "Table 7")
    assert published_figures("crosstask", 3)["macro_precision"].value == pytest.approx(0.4996)  # not the other one
    assert published_figures("crosstask", 6, protocol=2)["success_rate"].value == pytest.approx(0.083)
    assert set(published_figures("crosstask", 6, protocol=2)) == {"success_rate"}
    assert published_figures("niv", 3)["bitwise_iou"].value == pytest.approx(0.7429)
    single = published_figures("crosstask", 3, method="deterministic")
    assert {name: figure.value for name, figure in single.items()} == pytest.approx(
        {"kl": 2.31, "nll": 5.13, "mode_precision": 0.2761, "mode_recall": 0.5624}
    )
    assert published_figures("tabletop", 3) == published_figures("crosstask", 7) == {}
