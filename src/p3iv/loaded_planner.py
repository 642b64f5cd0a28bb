"""A planner that was loaded: where it comes from, what it knows, where it computes, and how it is shared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from p3iv.answering import Answering
from p3iv.catalogue import BACKENDS
from p3iv.errors import ConfigError, PlanError, warn_caller
from p3iv.hub import find_planner
from p3iv.moments import EncoderChoice, MomentReader, OnNote
from p3iv.onnx_model import SUFFIX
from p3iv.planners.backends import file_of, load_backend
from p3iv.planners.header import Backend, Header
from p3iv.planners.onnx_planner import encoder_beside
from p3iv.queries import QueryReader
from p3iv.types import counted
from p3iv.validation import shown


class LoadedPlanner:
    """What `Planner` is, without what it answers."""

    def __init__(self, backend: Backend, reader: MomentReader | None = None, *, source: Path | None = None) -> None:
        """Use a loaded backend, of the file or folder `source`; `from_pretrained` is the usual way to a planner."""
        self._backend, self._source = backend, source
        self._answering = Answering(backend)
        self._reader = reader or MomentReader(backend.header)
        self._queries = QueryReader(backend.header, self._reader)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        revision: str | None = None,
        device: str = "auto",
        backend: str | None = None,
        ensemble: Sequence[str | Path] = (),
        data: str | Path | None = None,
        encoder: EncoderChoice | None = None,
        on_note: OnNote = warn_caller,
    ) -> Self:
        """Load a planner.

        Args:
            path: a run folder of `p3iv train`, a checkpoint, an exported `.onnx` file, a planner that comes with p3iv
                (`"tabletop-demo"`), or the name of one on the Hugging Face hub (`"owner/name"`). What is on this
                machine is found first, without the network.
            revision: of a planner on the hub: a branch, a tag or a commit.
            device: auto, cpu, cuda or mps.
            backend: torch, or onnx, which needs neither torch nor a GPU; by default as the file is.
            ensemble: more planners, whose probabilities are averaged with those of the first.
            data: the dataset folder, if it has moved since training.
            encoder: the encoder of new videos and pictures, where the planner's own cannot be found.
            on_note: is called with what the user should know, such as that an encoder cannot be checked.

        Raises:
            P3ivError: saying what was not found and what to type.

        Example:
            >>> Planner.from_pretrained("tabletop-demo", device="cpu")
            <Planner tabletop-demo: p3iv-plus, 3 steps of 90 actions, torch on cpu>
        """
        if isinstance(ensemble, str | Path):
            ensemble = (ensemble,)
        if backend is not None and backend not in BACKENDS:
            raise ConfigError(f"backend={shown(backend)}, but it must be {' or '.join(BACKENDS)}.")
        places = [find_planner(one, revision, on_note=on_note) for one in (path, *ensemble)]
        files = [file_of(place, backend) for place in places]
        loaded = load_backend(files, device, backend)
        run = places[0] if places[0].is_dir() else None
        choice = choose_encoder(files[0], encoder)
        reader = MomentReader(loaded.header, choice, on_note, run=run, data=None if data is None else Path(data))
        planner = cls(loaded, reader, source=None if ensemble else places[0])
        planner._queries = QueryReader(loaded.header, reader, on_note)
        return planner

    @property
    def header(self) -> Header:
        """What the planner was trained on, and for what: settings, actions, encoder, fingerprints."""
        return self._backend.header

    @property
    def horizon(self) -> int:
        """The number of steps of a plan; of a planner for several lengths, the largest."""
        return self.header.shape.horizon

    @property
    def horizons(self) -> tuple[int, ...]:
        """All numbers of steps that plans can have.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").horizons
            (3,)
        """
        return self._queries.horizons

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures that a goal can name; none for a planner of one length.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").procedures
            ()
        """
        return self.header.procedures

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that plans are made of."""
        return self.header.names

    @property
    def moments(self) -> MomentReader:
        """Reads moments as the planner needs them; knows the dataset and the encoder."""
        return self._reader

    @property
    def queries(self) -> QueryReader:
        """Reads queries as the planner needs them; knows which evidence it understands."""
        return self._queries

    @property
    def backend(self) -> str:
        """What computes the plans: torch or onnx."""
        return self._backend.name

    @property
    def device(self) -> str:
        """Where the plans are computed, such as cpu."""
        return self._backend.device

    def __repr__(self) -> str:
        """Name, method, size and place of the planner, on one line."""
        name = self._source.name if self._source else "of several files"
        size = f"{counted(self.horizon, 'step')} of {counted(len(self.names), 'action')}"
        return f"<Planner {name}: {self.header.config.planner}, {size}, {self.backend} on {self.device}>"

    def to(self, device: str) -> Self:
        """Move the planner to a device (auto, cpu, cuda or mps); returns itself.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").to("cpu").device
            'cpu'
        """
        self._backend = self._backend.to(device)
        self._answering = Answering(self._backend)
        return self

    @property
    def can_follow(self) -> bool:
        """Whether the planner can follow videos.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").can_follow
            False
        """
        return self._backend.follow_numbers is not None

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write what is needed to use the planner into a folder: the planner, its scores, settings and model card.

        Raises:
            P3ivError: the folder cannot be written, or this planner has no files of its own (an ensemble).

        Example:
            >>> folder = Planner.from_pretrained("tabletop-demo").save_pretrained("shared/kitchen")
            >>> Planner.from_pretrained(folder).horizon
            3
        """
        from p3iv.evaluation.pretrained import save_pretrained

        return save_pretrained(self._own_files(), Path(folder))

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Push the planner with its scores and model card to the Hugging Face hub; returns its address.

        Args:
            repo_id: `"owner/name"`.
            options: private, revision, licence, commit_message, token and create_pr of `p3iv.hub.push_to_hub`.

        Raises:
            HubError: saying why it cannot be pushed, and what to type.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> planner.push_to_hub("owner/kitchen", private=True)  # doctest: +SKIP
        """
        from p3iv.hub import push_to_hub

        return push_to_hub(self._own_files(), repo_id, **options)

    def _own_files(self) -> Path:
        if self._source is None:
            raise PlanError("This planner has no files of its own. Of an ensemble, save the members one by one.")
        if self.backend == "onnx":
            raise PlanError(f"{self._source} is an exported planner: copy the file, or share the run that it is of.")
        return self._source


def choose_encoder(planner: Path, choice: EncoderChoice | None) -> EncoderChoice | None:
    """What the user says about the encoder; of an exported planner, by default the file beside it."""
    beside = encoder_beside(planner)
    if planner.suffix.lower() != SUFFIX or not beside.is_file() or (choice and (choice.name or choice.weights)):
        return choice
    return EncoderChoice(weights=str(beside))
