"""`p3iv export` as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from p3iv.catalogue import ENCODER_FORMS
from p3iv.errors import ConfigError, one_of, warn_caller
from p3iv.files import exclusive, remove_leftovers
from p3iv.onnx_model import SUFFIX

if TYPE_CHECKING:
    from p3iv.encoders.identity import EncoderIdentity
    from p3iv.export.encoder import EncoderReport
    from p3iv.export.planner import ExportReport

EncoderForm = Literal["float32", "int8", "none"]


@dataclass(frozen=True)
class Exported:
    """What `export_planner` wrote."""

    planner: ExportReport
    encoder: EncoderReport | None  # None: not wanted, or it cannot be exported


def export_planner(
    run: str | Path,
    out: str | Path | None = None,
    *,
    encoder_precision: EncoderForm = "float32",
    weights: str | None = None,
    overwrite: bool = False,
    on_note: Callable[[str], object] = warn_caller,
) -> Exported:
    """Write a planner as an ONNX file that plans without torch, and the encoder of its features beside it.

    The command is `p3iv export`. Planners that can be exported: p3iv, and p3iv-plus for one or several lengths.

    Args:
        run: a run folder, or what else `Planner.from_pretrained` takes.
        out: the .onnx file to write; by default planner.onnx in the run folder, or NAME.onnx here.
        encoder_precision: of the image encoder to write beside it, FILE.encoder.onnx: float32, int8 or none.
        weights: a file of weights of the encoder, if the planner's features are not of the packaged ones.
        overwrite: replace files that are there already.
        on_note: is called if the encoder of the features cannot be exported.

    Raises:
        ConfigError: a planner or encoder that cannot be exported, or a file that is there already.
        CheckpointError: there is no such planner, or the file would give other scores than torch.

    Example:
        >>> written = p3iv.export_planner("runs/first", "first.onnx", encoder_precision="none")
        >>> written.planner.max_difference < 1e-5
        True
        >>> p3iv.Planner.from_pretrained("first.onnx").backend
        'onnx'
    """
    from p3iv.hub import find_planner
    from p3iv.planners.header import planner_file, read_header
    from p3iv.planners.onnx_planner import EXPORTABLE, encoder_beside

    place = planner_file(find_planner(run, on_note=on_note))
    if place.suffix.lower() == SUFFIX:
        raise ConfigError(f"{place} is an exported planner already. Pass its run.")
    path = Path(out) if out is not None else _default_path(Path(run))
    _check_paths(path, encoder_beside(path), overwrite)
    import_module("p3iv.export")  # says what is missing before anything is written
    header = read_header(place)
    if header.config.planner not in EXPORTABLE:
        raise ConfigError(f"planner={header.config.planner} cannot be exported, only {' and '.join(EXPORTABLE)}.")
    from p3iv.export.planner import export_planner as write

    beside = encoder_beside(path)
    with exclusive(path, doing=f"is writing {path}"):
        for file in (path, beside):
            remove_leftovers(file)
        written = _export_encoder(header.encoder, beside, encoder_precision, weights, on_note)
        return Exported(write(place, path), written)


def _default_path(run: Path) -> Path:
    from p3iv.planners.onnx_planner import EXPORTED

    if run.is_dir():
        return run / EXPORTED
    return run.with_suffix(SUFFIX) if run.is_file() else Path(f"{run.name}{SUFFIX}")


def _check_paths(path: Path, beside: Path, overwrite: bool) -> None:
    if path.suffix.lower() != SUFFIX:
        raise ConfigError(f"--out {path}, but it must end in {SUFFIX}.")
    for file in (path, beside):
        if file.exists() and not overwrite:
            raise ConfigError(f"{file} is there already. Pass --overwrite to replace it, or another --out.")


def _export_encoder(
    features: EncoderIdentity | None, path: Path, form: str, weights: str | None, on_note: Callable[[str], object]
) -> EncoderReport | None:
    """Write the encoder beside a planner, if it is wanted and can be exported."""
    from p3iv.encoders.registry import EXPORTABLE_ENCODER

    if form not in ENCODER_FORMS:
        raise ConfigError(f"encoder_precision={form}, but it must be {one_of(form, ENCODER_FORMS)}")
    if form == "none":
        return None
    if features is None or features.name != EXPORTABLE_ENCODER:
        on_note(
            f"the planner's features are of {features or 'an unnamed encoder'}, which cannot be exported: without "
            f"torch it plans from features only. {EXPORTABLE_ENCODER} can be exported"
        )
        return None
    from p3iv.export.encoder import export_encoder

    return export_encoder(features, path, form, weights)
