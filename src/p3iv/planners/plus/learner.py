"""How P3IV+ is trained: through the chain that decodes it, with a moving average of the weights and a warm-up."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import get_ema_multi_avg_fn

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, Learner, Sync
from p3iv.planners.layers import mixed_precision
from p3iv.planners.p3iv.losses import action_loss, language_loss
from p3iv.planners.plus.likelihood import chain_scores
from p3iv.planners.plus.network import P3IVPlusNetwork, PlusOutput
from p3iv.planners.plus.second_expert import SecondExpert
from p3iv.plans.transitions import log_transitions
from p3iv.types import hash_number

SECOND_RATE = 3.0  # of the second network, which is shallow, times the learning rate of the rest


@dataclass(frozen=True)
class HeldOutScores:
    """Linear scores and transitions for the training windows, computed without each window's own video."""

    linear: Tensor | None  # (N, T, A): scores of the linear path; None without that path
    transitions: Tensor  # (folds, A, A): log transitions without the videos of each fold
    fold: Tensor  # (N,)

    @classmethod
    def of(cls, planner: P3IVPlusNetwork, data: PlanningData) -> HeldOutScores:
        """Take over the scores that `fit` left in the planner, and count the transitions."""
        linear, planner.held_out = planner.held_out, None
        plus = planner.config.plus
        return cls(linear, *fit_fold_transitions(data, plus.backoff, plus.folds))


def fit_fold_transitions(data: PlanningData, weight: float, num_folds: int) -> tuple[Tensor, Tensor]:
    """Log probabilities without the videos of each fold (folds, A, A), and the fold of every training window (N,).

    The counts include a window's own transitions, and a chain that is trained with them trusts them too much. One fold
    means all videos, with nothing left out.
    """
    names = dict.fromkeys((*data.train_sequence_videos, *(w.video for w in data.train.windows)))
    fold_of = {video: number % num_folds for number, video in enumerate(names)}
    fold = torch.tensor([fold_of[w.video] for w in data.train.windows])
    owned = list(zip(data.train_sequence_videos, data.train_sequences, strict=True))
    kept = (
        [[ids for video, ids in owned if fold_of[video] != number] for number in range(num_folds)]
        if num_folds > 1
        else [data.train_sequences]
    )
    size = len(data.names)
    matrices = [torch.from_numpy(log_transitions(ids, data.val_sequences, size, weight)) for ids in kept]
    return torch.stack(matrices), fold


class ChainLearner(Learner):
    """Trains a copy of a network through its chain; the network itself is the moving average of the copy's weights."""

    def __init__(
        self,
        planner: nn.Module,
        config: Config,
        transitions: Tensor,
        fold: Tensor,
        *,
        steps_per_epoch: int,
        sync: Sync,
    ) -> None:
        """Train with log transitions (folds, A, A), each window (N,) with those of its fold."""
        place = next(planner.parameters())
        self.planner, self._sync, self.fold = planner, sync, fold
        self.trained = copy.deepcopy(planner)
        self.transitions = transitions.to(place)
        self.optimizer = torch.optim.AdamW(
            self.parameter_groups(),
            lr=config.optim.learning_rate,
            eps=config.optim.epsilon,
            weight_decay=0.0,
            fused=place.device.type in ("cpu", "cuda"),
        )
        self.num_steps = config.optim.epochs_over(len(fold)) * steps_per_epoch
        self._autocast = mixed_precision(planner, config)
        self._update_average = get_ema_multi_avg_fn(config.plus.ema_decay)
        super().__init__(
            config,
            modules={"planner": planner, "trained": self.trained},
            optimizers={"optimizer": self.optimizer},
        )

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What is trained; a group may have a `factor` of the learning rate."""
        return [{"params": list(self.trained.parameters())}]

    def start_epoch(self, epoch: int) -> None:
        """Do nothing: the learning rate changes with every step."""

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Update the trained copy once, then the average; returns the weighted terms by name."""
        self.trained.train()
        terms = self.losses(batch)
        total = torch.stack(list(terms.values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.loss_weight).backward()
        self._sync(self.trained)
        nn.utils.clip_grad_norm_(self.trained.parameters(), self.config.plus.max_grad_norm)
        rate = self.config.optim.learning_rate * self._rate_factor()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        self.optimizer.step()
        self._update_average(list(self.planner.parameters()), list(self.trained.parameters()), 0)
        return {name: term.detach() for name, term in {"total": total, **terms}.items()}

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss terms of a batch, already weighted."""

    def chain_terms(self, emissions: Tensor, beta: Tensor, action_ids: Tensor, fold: Tensor) -> dict[str, Tensor]:
        """The terms of plans under a chain of these emissions (B, T, A) and this exponent of the transitions."""
        plus = self.config.plus
        if not plus.chain:
            return {"action": action_loss(emissions, action_ids)}
        log_z, score = chain_scores(emissions, self.transitions, beta, action_ids, fold)
        terms = {"chain": (log_z - score).mean()}
        if plus.spread:
            terms["spread"] = plus.spread * (log_z / emissions.shape[1] - emissions.mean(dim=(1, 2))).mean()
        return terms

    def _rate_factor(self) -> float:
        """The factor of the learning rate at this step: rising over the warm-up, then falling with a cosine.

        The step is the optimiser's own count, so that a resumed run continues where it stopped.
        """
        state = next(iter(self.optimizer.state.values()), None)
        done = 0 if state is None else int(state["step"])
        warm_up = min(self.config.plus.warm_up, self.num_steps)
        if done < warm_up:
            return (done + 1) / warm_up
        left = max(1, self.num_steps - warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warm_up) / left)))


class PlusLearner(ChainLearner):
    """Trains P3IV+."""

    planner: P3IVPlusNetwork
    trained: P3IVPlusNetwork

    def __init__(self, planner: P3IVPlusNetwork, held_out: HeldOutScores, *, sync: Sync) -> None:
        self.held_out = held_out
        steps = -(-len(held_out.fold) // planner.config.optim.batch_size)
        super().__init__(planner, planner.config, held_out.transitions, held_out.fold, steps_per_epoch=steps, sync=sync)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss terms of a batch, already weighted."""
        if batch.rows is None:
            raise AssertionError("the linear scores and the fold of a window are found by its row")
        plus, held_out = self.config.plus, self.held_out
        scores = None if held_out.linear is None else held_out.linear[batch.rows].to(batch.start)
        with self._autocast:  # only the network: the chain needs full precision
            out: PlusOutput = self.trained(batch.start, batch.goal, scores)
        emissions = out.emissions.to(batch.start)
        terms = self.chain_terms(emissions, self.trained.first_beta, batch.action_ids, held_out.fold[batch.rows])
        if self.config.loss.language and out.states is not None:
            weight, temperature = self.config.loss.language, self.config.loss.language_temperature
            terms["language"] = weight * language_loss(out.states, out.descriptions, batch.action_ids, temperature)
        if plus.ends:
            scored = emissions[:, [0, -1]] if out.end_scores is None else out.end_scores
            terms["ends"] = plus.ends * end_loss(scored, batch.action_ids, plus.label_smoothing)
        return terms


class SecondLearner(ChainLearner):
    """Trains the second network, which shares nothing with the first."""

    planner: SecondExpert
    trained: SecondExpert

    def __init__(self, second: SecondExpert, data: PlanningData, config: Config) -> None:
        transitions, fold = fit_fold_transitions(data, config.plus.backoff, config.plus.folds)
        steps = -(-len(fold) // config.optim.batch_size)
        super().__init__(second, config, transitions, fold, steps_per_epoch=steps, sync=lambda _: None)
        self._nearby = data.train.nearby

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All of it, faster than a deep network would learn."""
        return [{"params": list(self.trained.parameters()), "factor": SECOND_RATE}]

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The terms of the chain and of both ends, as for the first network."""
        if batch.rows is None:
            raise AssertionError("the fold of a window is found by its row")
        plus, rows = self.config.plus, batch.rows
        out = self.trained.score_pairs(*see_nearby((batch.start, batch.goal), self._nearby, (rows, rows)))
        terms = self.chain_terms(out.emissions, self.trained.beta, batch.action_ids, self.fold[rows])
        return {**terms, "ends": plus.ends * end_loss(out.end_scores, batch.action_ids, plus.label_smoothing)}


def train_second(second: SecondExpert, data: PlanningData, config: Config) -> None:
    """Train the second network from its first to its last epoch, before the first network.

    Trained in the same epochs, it would be taken from the epoch that is best for the first network, which overfits
    sooner: on CaptainCook4D (four folds of training videos, T = 3) 8.4 / 13.6 / 15.5 instead of 8.6 / 14.1 / 15.7.
    """
    train = data.train
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(hash_number(f"{config.seed}\0second network"))
        learner = SecondLearner(second, data, config)
        for _ in range(config.optim.epochs_over(len(train))):
            for rows in torch.randperm(len(train)).split(config.optim.batch_size):
                learner.train_step(Batch(train.start[rows], train.goal[rows], train.action_ids[rows], rows=rows))


def see_nearby(
    ends: tuple[Tensor, Tensor], nearby: Tensor | None, rows: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Starts and goals (B, F), each seen at its own second or at one nearby, at random.

    Args:
        ends: as seen at their own seconds.
        nearby: starts and goals of N windows at n other seconds, (n, 2, N, F).
        rows: (B,) each, which of the N windows the start and the goal belong to.
    """
    if nearby is None:
        return ends
    chosen = []
    for side, (seen, row) in enumerate(zip(ends, rows, strict=True)):
        shift = torch.randint(-1, len(nearby), (len(row),))  # -1: its own second
        other = nearby[shift.clamp_min(0), side, row].to(seen)
        chosen.append(torch.where((shift >= 0)[:, None].to(seen.device), other, seen))
    return chosen[0], chosen[1]


def end_loss(scores: Tensor, action_ids: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy of the first plus that of the last action: (B, 2, A) and (B, T).

    `scores` are those of the end heads, if there are any. Taken from the emissions, the ends count twice, once here
    and once in the chain: on CaptainCook4D the validation NLL was then 8.62 instead of 8.51, although the recommended
    plans were no worse (T = 3, three seeds).
    """
    return 2 * end_losses(scores, action_ids, smoothing).mean()


def end_losses(scores: Tensor, action_ids: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy of the first and of the last action of every window: (B, 2, A) and (B, T) -> (B, 2)."""
    ends, flat = action_ids[:, [0, -1]], scores.flatten(0, 1)
    each = functional.cross_entropy(flat, ends.flatten(), label_smoothing=smoothing, reduction="none")
    return each.view(ends.shape)
