"""How the sampled plans, and the chain that they come from, match the plans that occur."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from p3iv.report.cells import DASH, figure, nats, percent
from p3iv.report.inputs import Evaluation, RunRecord, Scores
from p3iv.report.markup import Markup, join, tag
from p3iv.report.published import PublishedDistribution, published_distribution
from p3iv.report.results import group_head, results_table

MODES = {
    "argmax": "argmax per latent, as in the paper",
    "categorical": "draws per latent",
    "chain": "draws from the chain",
}
ONE_MODE = "samples (this planner has one way to draw them)"
EXACT = "the chain itself, exactly"
METRICS: dict[str, tuple[str, Callable[[float], str]]] = {
    "kl": ("KL divergence, nats", nats),
    "nll": ("neg. log-likelihood, nats", nats),
    "mode_precision": ("mode precision, %", percent),
    "mode_recall": ("mode recall, %", percent),
    "cosine_distance": ("cosine distance", "{:.3f}".format),
    "distinct_plans": ("distinct plans", "{:.1f}".format),
}


def distribution_table(run: RunRecord) -> Markup | None:
    """A column per way to sample, one for the exact probabilities, one for the paper's figures where it has some."""
    evaluation = run.evaluation
    against_test = _columns(evaluation, evaluation.distribution, evaluation.modes)
    against_truth = _columns(evaluation, evaluation.truth, evaluation.truth_modes)
    headers = list(dict.fromkeys([*against_test, *against_truth]))
    if not headers:
        return None
    published = published_distribution(
        evaluation.dataset_name,
        run.setting("data.horizon", evaluation.horizon),
        run.setting("data.protocol", 1),
        is_deterministic=run.setting("model.noise_width", 1) == 0,
    )
    body = [
        _group("against the test windows that share first and last step", headers, against_test, published),
        _group("against the true distribution", headers, against_truth, None, blank=published is not None),
    ]
    names = [f"published, {published.source}"] if published else []
    return results_table([*headers, *names], body)


def _columns(evaluation: Evaluation, chosen: Scores, modes: Mapping[str, Scores]) -> dict[str, Scores]:
    """Column -> figures; the exact ones of the chain stand in a column of their own under the same names."""
    exact = {name.removeprefix("exact_"): leaf for name, leaf in chosen.items() if name.startswith("exact_")}
    sampled = {name: leaf for name, leaf in chosen.items() if name in METRICS}
    mode = evaluation.sample_mode or "samples"
    table = dict(modes) or ({mode: sampled} if sampled else {})
    if evaluation.has_one_mode and mode in table:
        columns = {ONE_MODE: table[mode]}
    else:
        columns = {MODES.get(name, name): table[name] for name in sorted(table, key=_mode_order)}
    return columns | ({EXACT: exact} if exact else {})


def _mode_order(name: str) -> tuple[int, str]:
    return (list(MODES).index(name) if name in MODES else len(MODES), name)


def _group(
    title: str,
    headers: list[str],
    columns: Mapping[str, Scores],
    published: PublishedDistribution | None,
    *,
    blank: bool = False,
) -> Markup:
    rows = []
    for name, (label, show) in METRICS.items():
        leaves = [columns.get(header, {}).get(name) for header in headers]
        if not any(leaves):
            continue
        cells = [tag("td", figure(leaf, show)) for leaf in leaves]
        if published:
            value = published.scores.get(name)
            cells.append(tag("td", DASH if value is None else show(value), class_="published"))
        elif blank:
            cells.append(tag("td", DASH))
        rows.append(tag("tr", tag("th", label, scope="row"), *cells))
    if not rows:
        return join()
    return tag("tbody", group_head(title, len(headers) + (published is not None or blank)), *rows)
