"""The tables of results: every figure with its interval, the paper's beside them and marked as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from p3iv.report.cells import DASH, figure, interval_strip, percent, signed
from p3iv.report.inputs import Leaf, RunRecord, Scores
from p3iv.report.markup import Markup, join, tag
from p3iv.report.published import FEATURES, PAPER, PROTOCOLS, PublishedRow, published_row
from p3iv.report.svg import nice_ticks

SCORES = {"success_rate": "success rate", "mean_accuracy": "mean accuracy", "mean_iou": "mean IoU"}
RELEASED = {
    "success_rate": "success rate",
    "macro_precision": "macro precision (“mAcc” of the paper)",
    "bitwise_iou": "bitwise IoU (“mIoU” of the paper)",
    "batch_iou": "batch IoU (“MIoU1” of PDPP)",
}
DECODERS = {
    "own": "its own choice",
    "viterbi": "Viterbi, soft marginals",
    "viterbi_paper": "Viterbi as in the paper",
    "mode": "most frequent sample",
    "argmax": "likeliest step by step",
}
ABLATIONS = {
    "viterbi_paper_uniform_emissions": "uniform emissions",
    "viterbi_paper_uniform_transitions": "uniform transitions",
}
BASELINES = {"random": "random steps", "retrieval": "nearest training window"}
_SAME = {"success_rate": "success_rate", "mean_accuracy": "macro_precision", "mean_iou": "bitwise_iou"}

Rows = Mapping[str, Scores]  # label -> figures


def score_table(run: RunRecord) -> Markup | None:
    """Success rate, accuracy and IoU of every decoder and baseline, with what is possible and what was published."""
    evaluation = run.evaluation
    decoders, ablations = _parted(evaluation.decoders, ABLATIONS)
    groups: dict[str, Rows] = {
        "this planner, decoded by": _named(decoders, DECODERS),
        "baselines": _named(evaluation.baselines, BASELINES),
        "knowing the true distribution": {"its likeliest plan": evaluation.ceiling} if evaluation.ceiling else {},
        "Viterbi as in the paper, but with": _named(ablations, ABLATIONS),
    }
    every = [scores for rows in groups.values() for scores in rows.values()]
    columns = [name for name in SCORES if any(name in scores for scores in every)]
    if not columns:
        return None
    tops = _tops(columns, every, published_for(run))
    ours, *others = (_group(title, rows, tops) for title, rows in groups.items())
    published = _published_group(published_for(run), {name: _SAME[name] for name in columns}, tops)
    return results_table(
        [SCORES[name] for name in columns],
        [ours, published, *others, _differences(evaluation.differences, columns)],
    )


def released_table(run: RunRecord) -> Markup | None:
    """The same plans scored as released code scores them, where the paper's row can be read down a column."""
    evaluation = run.evaluation
    rows: Rows = {
        label: {**_only(evaluation.decoders.get(name), "success_rate"), **evaluation.published[name]}
        for name, label in DECODERS.items()
        if name in evaluation.published
    }
    columns = [name for name in RELEASED if any(name in scores for scores in rows.values())]
    if not columns:
        return None
    tops = _tops(columns, list(rows.values()), published_for(run))
    published = _published_group(published_for(run), {name: name for name in columns}, tops)
    ours = _group("this planner, decoded by", rows, tops)
    return results_table([RELEASED[name] for name in columns], [ours, published])


def published_for(run: RunRecord) -> PublishedRow | None:
    """The paper's row for this dataset, horizon and protocol."""
    horizon, protocol = run.setting("data.horizon", run.evaluation.horizon), run.setting("data.protocol", 1)
    return published_row(run.evaluation.dataset_name, horizon, protocol)


def published_note(run: RunRecord) -> str | None:
    """What the published row was measured on, and how this run differs from it; None where there is no row."""
    row = published_for(run)
    if row is None:
        return None
    usual = {"window": "inclusive", "split": "video"}
    found = {name: run.setting(f"data.{name}", value) for name, value in usual.items()}
    differs = [f"{name} “{found[name]}”" for name in usual if found[name] != usual[name]]
    if run.evaluation.is_simulated:
        differs.insert(0, "SIMULATED features")
    ours = f" This run has {', '.join(differs)}." if differs else ""
    return (
        f"Published: {PAPER}, {row.source}; {row.dataset}, T = {row.horizon}, {PROTOCOLS[row.protocol]}, {FEATURES}, "
        f"no interval given.{ours}"
    )


def results_table(headers: Sequence[str], body: Sequence[Markup]) -> Markup:
    """A table whose first column is words and whose others are figures; wider than the page, it scrolls by itself."""
    head = tag("thead", tag("tr", tag("td"), *(tag("th", name, scope="col") for name in headers)))
    return tag("div", tag("table", head, *body, class_=f"results columns{len(headers)}"), class_="scroll")


def group_head(title: str, num_columns: int) -> Markup:
    """The line above some rows that says what they have in common."""
    return tag("tr", tag("th", title, colspan=num_columns + 1, scope="rowgroup"), class_="group")


def _parted(table: Mapping[str, Scores], apart: Mapping[str, str]) -> tuple[dict[str, Scores], dict[str, Scores]]:
    return (
        {name: scores for name, scores in table.items() if name not in apart},
        {name: scores for name, scores in table.items() if name in apart},
    )


def _named(table: Mapping[str, Scores], names: Mapping[str, str]) -> Rows:
    """Rows in the order of the names that are known, then the others under their own."""
    order = [key for key in names if key in table] + [key for key in table if key not in names]
    return {names.get(key, key): table[key] for key in order}


def _only(scores: Scores | None, name: str) -> dict[str, Leaf]:
    return {name: scores[name]} if scores and name in scores else {}


def _group(title: str, rows: Rows, tops: Mapping[str, float]) -> Markup:
    if not rows:
        return join()
    lines = [
        tag(
            "tr",
            tag("th", label, scope="row"),
            *(
                tag("td", figure(scores.get(name), percent), interval_strip(scores.get(name), top))
                for name, top in tops.items()
            ),
        )
        for label, scores in rows.items()
    ]
    return tag("tbody", group_head(title, len(tops)), *lines)


def _differences(table: Mapping[str, Scores], columns: Sequence[str]) -> Markup:
    """The default decoder minus each baseline, in percentage points."""
    rows = _named(table, BASELINES)
    if not rows:
        return join()
    lines = [
        tag(
            "tr",
            tag("th", f"minus {label}", scope="row"),
            *(tag("td", figure(scores.get(name), signed, between=" to ")) for name in columns),
        )
        for label, scores in rows.items()
    ]
    return tag("tbody", group_head("the plan to follow, window by window", len(columns)), *lines)


def _published_group(row: PublishedRow | None, meant: Mapping[str, str], tops: Mapping[str, float]) -> Markup:
    """The paper's row; `meant` says for every column which metric the paper's column of that name holds."""
    if row is None:
        return join()
    cells = []
    for name, metric in meant.items():
        value = row.scores.get(metric)
        if value is None:
            cells.append(tag("td", DASH))
        elif metric != name:
            cells.append(tag("td", f"({percent(value)})", tag("sup", "†"), class_="other"))
        else:
            cells.append(tag("td", percent(value), interval_strip(Leaf(value), tops[name], is_hollow=True)))
    label = tag("th", PAPER, tag("small", f"{row.source}, protocol {row.protocol}"), scope="row")
    return tag("tbody", group_head("published", len(meant)), tag("tr", label, *cells, class_="published"))


def _tops(columns: Sequence[str], rows: Sequence[Scores], published: PublishedRow | None) -> dict[str, float]:
    """Where the scale of each column ends: at the next round figure above all that it shows."""
    tops = {}
    for name in columns:
        leaves = [scores[name] for scores in rows if name in scores]
        ends = [max(leaf.value, leaf.high or 0.0) for leaf in leaves]
        ends += [published.scores[name]] if published and name in published.scores else []
        tops[name] = min(1.0, nice_ticks(0, max(ends), most=5)[-1]) if max(ends) > 0 else 1.0
    return tops
