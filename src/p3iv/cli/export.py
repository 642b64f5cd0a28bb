"""`p3iv export RUN` writes a planner, and the encoder of its features, as ONNX files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from p3iv.catalogue import ENCODER_FORMS
from p3iv.cli.console import out, print_json, print_next, print_note
from p3iv.cli.options import AnyPlanner, AsJson, Overwrite, choice, file_option, weights_option

if TYPE_CHECKING:
    from p3iv.api.exporting import EncoderForm
    from p3iv.export.encoder import EncoderReport
    from p3iv.export.planner import ExportReport
    from p3iv.onnx_model import Port

EXAMPLE = "Example: p3iv export runs/mine --out planner.onnx --encoder-precision int8"


def export_command(
    planner: AnyPlanner,
    target: Annotated[
        Path | None,
        file_option("--out", "The .onnx file to write; without it, planner.onnx in the run folder, or NAME.onnx here."),
    ] = None,
    form: Annotated[str, choice("--format", ("onnx",), help="The file format.")] = "onnx",
    encoder: Annotated[
        str,
        choice(
            "--encoder-precision",
            ENCODER_FORMS,
            help="The image encoder to write beside it, as FILE.encoder.onnx, so that videos and pictures can be "
            "planned from: as it is, in int8 (smaller and faster, features slightly different), or none.",
        ),
    ] = "float32",
    weights: Annotated[str | None, weights_option(", if not the packaged ones.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a planner as an ONNX file, which plans without torch.

    The file describes itself: actions, horizon, scaling of the features, transitions, encoder and version are in its
    metadata. Its scores are compared with those of torch before it is kept. Planners that can be exported: p3iv, and
    p3iv-plus for one or several lengths.
    """
    from p3iv.api.exporting import export_planner

    done = export_planner(
        planner,
        target,
        encoder_precision=cast("EncoderForm", encoder),
        weights=weights,
        overwrite=overwrite,
        on_note=print_note,
    )
    if as_json:
        print_json({**asdict(done.planner), "format": form, "encoder": asdict(done.encoder) if done.encoder else None})
    else:
        _show(done.planner, done.encoder)
        print_next("info", done.planner.path)


def _show(report: ExportReport, encoder: EncoderReport | None) -> None:
    lengths = f"{report.horizons[0]} to {report.horizon}" if len(report.horizons) > 1 else f"{report.horizon}"
    size = f"{lengths} steps of {report.num_actions} actions"
    out.print(f"{report.planner}, {size}, {_megabytes(report.num_bytes)} -> {report.path}")
    for what, ports in (("in", report.inputs), ("out", report.outputs)):
        for name, port in ports.items():
            out.print(f"  {what:<4} {name:<18} {_shape(port)}")
    out.print(f"  scores differ from those of torch by at most {report.max_difference:.1e}")
    if encoder is not None:
        precision = f"{encoder.name} in {encoder.precision}"
        out.print(f"{precision}, {_megabytes(encoder.num_bytes)} -> {encoder.path}")
        out.print(f"  cosine of its features with those of torch: at least {encoder.min_cosine:.4f}")
    start, goal = ("clip.mp4@12.5", "clip.mp4@71") if encoder is not None else ("start.npy", "goal.npy")
    out.print(f"plan with it: p3iv plan {report.path} --start {start} --goal {goal}")


def _shape(port: Port) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in port.shape)
    return f"{port.dtype} ({sizes})"


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
