"""The figures of the paper that show plans: all plans of one start and goal, and galleries of right and wrong plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from markupsafe import Markup

from p3iv.drawing.graph import Plan, merge_plans
from p3iv.drawing.graph_drawing import HORIZONTAL, draw_graph
from p3iv.drawing.html import document, join, notices, standalone_svg, tag
from p3iv.evaluation.evaluate import evaluation_files
from p3iv.evaluation.predictions import PREDICTIONS_FILE, NamedLine, read_lines, read_lines_at
from p3iv.experiments.declarations import Figure
from p3iv.experiments.identity import Source
from p3iv.experiments.pages import Section, origin_note
from p3iv.experiments.provenance import Provenance
from p3iv.experiments.runs import Outcome, Run
from p3iv.files import write_text
from p3iv.plans.draws import SampleSettings
from p3iv.report.gallery import Candidate, FrameSource, choose_cases, graph_legend, scan_predictions, show_case
from p3iv.types import counted

NUM_RIGHT, NUM_WRONG = 2, 1  # of a gallery, as in the paper


@dataclass(frozen=True)
class Drawn:
    """A figure on one dataset."""

    figure: Figure
    source: Source
    path: Path | None  # of its page; None if there is nothing to show
    about: str  # what it shows, or why it shows nothing
    provenance: Provenance
    content: Markup = field(default_factory=Markup)

    @property
    def anchor(self) -> str:
        """Its place in the index."""
        return self.figure.name if self.figure.kind == "drawing" else f"{self.figure.name}-{self.source.slug}"


def has_plans(run: Path) -> bool:
    """Whether a run was evaluated, so that figures can show its plans."""
    return evaluation_files(run, "test", SampleSettings()).exist()


def draw_figure(
    out: Path,
    figure: Figure,
    source: Source,
    run: Run | None,
    *,
    outcomes: Mapping[str, Outcome],
    provenance: Provenance,
) -> Drawn:
    """Write OUT/figures/NAME-DATA.html and an .svg per window shown."""
    if figure.kind == "drawing":
        return Drawn(figure, source, None, "a drawing of the method: nothing to regenerate", provenance)
    if run is None:
        return Drawn(figure, source, None, "not asked for", provenance)
    if not has_plans(run.folder(out)):
        outcome = outcomes.get(run.key)
        why = f"{outcome.status}: {outcome.about}" if outcome else "not run yet"
        return Drawn(figure, source, None, why, provenance)
    predictions = run.folder(out) / PREDICTIONS_FILE
    windows, about = _most_diverse(predictions) if figure.kind == "diversity" else _gallery(predictions)
    if not windows:
        return Drawn(figure, source, None, about, provenance)
    frames = FrameSource(source.folder)
    drawn = Drawn(
        figure,
        source,
        out / "figures" / f"{figure.name}-{source.slug}.html",
        f"{about} Run: {run}, runs/{run.key}.",
        provenance,
        join(graph_legend(), *(show_case(window, frames) for window in windows)),
    )
    _write(drawn, windows, caption=f"{provenance.short}; runs/{run.key}")
    return drawn


def _write(drawn: Drawn, windows: Sequence[NamedLine], *, caption: str) -> None:
    """Write the page of a figure, and a picture of every window."""
    figure, path, title = drawn.figure, drawn.path, f"{drawn.figure.title}, on {drawn.source.label}"
    if path is None:
        return
    heading = tag("h1", f"{figure.place}: {figure.title}", tag("small", drawn.source.label))
    page = document(
        title,
        tag("header", heading, notices(drawn.source.label)),
        drawn.content,
        tag("p", drawn.about, class_="footnote"),
        origin_note(drawn.provenance),
    )
    write_text(path, page)
    about = f"{drawn.about} {drawn.provenance.sentence}."
    for number, window in enumerate(windows, start=1):
        graph = merge_plans(window.plan, window.ranked_samples, window.reference)
        picture = draw_graph(graph, HORIZONTAL, caption=caption)
        write_text(path.with_name(f"{path.stem}-{number}.svg"), standalone_svg(picture, title=title, about=about))


def figure_section(drawn: Drawn) -> Section:
    """A figure as the index shows it."""
    link = tag("a", drawn.figure.title, href=f"#{drawn.anchor}") if drawn.path else drawn.figure.title
    about = drawn.about if not drawn.path else drawn.source.label
    row = tag("tr", tag("td", drawn.figure.place), tag("td", link), tag("td", about, colspan=4))
    body = _figure_body(drawn) if drawn.path else join()
    return Section(drawn.figure.name, drawn.anchor, row, body, True, asdict(drawn.provenance))


def _gallery(predictions: Path) -> tuple[list[NamedLine], str]:
    """Up to two right plans and a wrong one, at even distances in the order of confidence."""
    candidates = scan_predictions(predictions).candidates
    chosen = _pick(candidates, is_right=True, number=NUM_RIGHT) + _pick(candidates, is_right=False, number=NUM_WRONG)
    windows = read_lines_at(predictions, [case.offset for case in chosen], NamedLine)
    num_right = sum(candidate.is_right for candidate in candidates)
    about = (
        f"{num_right} of {counted(len(candidates), 'test window')} have the reference as their plan. "
        f"The windows shown are taken at even distances in the order of confidence, not chosen by hand."
    )
    return windows, about


def _pick(candidates: Sequence[Candidate], *, is_right: bool, number: int) -> list[Candidate]:
    return choose_cases([candidate for candidate in candidates if candidate.is_right is is_right], number)


def _most_diverse(predictions: Path) -> tuple[list[NamedLine], str]:
    """The window with the most sampled plans that occur in the test set between its first and last action."""
    occurring: dict[tuple[str, str], set[Plan]] = {}
    for _, window in read_lines(predictions, NamedLine):
        occurring.setdefault(_ends(window.reference), set()).add(window.reference)
    best: tuple[int, float, int] | None = None
    for place, window in read_lines(predictions, NamedLine):
        right = occurring[_ends(window.reference)]
        drawn = [count for plan, count in window.ranked_samples if plan in right]
        rank = (len(drawn), sum(drawn) / max(window.num_samples, 1), -place.offset)
        best = max(best, rank) if best else rank
    if best is None:
        return [], "no test window"
    [window] = read_lines_at(predictions, [-best[2]], NamedLine)
    right = occurring[_ends(window.reference)]
    about = (
        f"Of {counted(len(right), 'plan')} that occur in the test set between this first and last step, {best[0]} "
        f"were sampled; {100 * best[1]:.1f} % of all samples are one of them. No other test window has more."
    )
    return [window], about


def _ends(plan: Plan) -> tuple[str, str]:
    return plan[0], plan[-1]


def _figure_body(drawn: Drawn) -> Markup:
    title = tag("h2", f"{drawn.figure.place}: {drawn.figure.title}", id=drawn.anchor)
    return tag("section", title, drawn.content, tag("p", drawn.about, class_="footnote"), origin_note(drawn.provenance))
