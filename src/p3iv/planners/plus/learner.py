"""How P3IV+ is taught: through the chain that decodes it, as a moving average, with one rate that rises and falls."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, Sync
from p3iv.planners.p3iv.losses import action_loss, language_loss
from p3iv.planners.plus.network import P3IVPlus, PlusOutput
from p3iv.plans.chain import Chain
from p3iv.plans.transitions import fit_fold_transitions


@dataclass(frozen=True)
class Lessons:
    """What the training windows are taught with, which never saw their own videos."""

    linear: Tensor | None  # (N, T, A): scores of the linear path; None where that is switched off
    transitions: Tensor  # (folds, A, A): log transitions without the videos of each fold
    fold: Tensor  # (N,)

    @classmethod
    def of(cls, planner: P3IVPlus, data: PlanningData) -> Lessons:
        """Take the scores that fitting left with a planner, and count the transitions."""
        linear, planner.held_out = planner.held_out, None
        plus = planner.config.plus
        return cls(linear, *fit_fold_transitions(data, plus.backoff, plus.folds))


class PlusLearner:
    """A student that is taught, and the planner, which is the moving average of its weights."""

    def __init__(self, planner: P3IVPlus, lessons: Lessons, config: Config, *, sync: Sync) -> None:
        self.planner, self.config, self._sync = planner, config, sync
        self.student = copy.deepcopy(planner)
        self.lessons = replace(lessons, transitions=lessons.transitions.to(planner.scale))
        rate = config.optim.learning_rate
        fused = planner.scale.device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.AdamW(
            self.student.parameters(), lr=rate, eps=config.optim.epsilon, weight_decay=0.0, fused=fused
        )
        self.rates: Mapping[str, float] = {"optimizer": rate}
        num_windows = len(lessons.fold)
        self.num_steps = config.optim.epochs_over(num_windows) * -(-num_windows // config.optim.batch_size)
        self._cast = torch.autocast(
            planner.scale.device.type, torch.bfloat16, enabled=config.optim.precision == "mixed"
        )

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"planner": self.planner, "student": self.student}

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        return {"optimizer": self.optimizer}

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:  # noqa: ARG002 - the interface
        """Update the student once, then the average; returns named terms."""
        self.student.train()
        terms = self._losses(batch)
        total = torch.stack(list(terms.values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.share).backward()
        self._sync(self.student)
        nn.utils.clip_grad_norm_(self.student.parameters(), self.config.plus.longest_step)
        self.optimizer.param_groups[0]["lr"] = self.config.optim.learning_rate * self._share_of_rate()
        self.optimizer.step()
        self._average()
        return {name: term.detach() for name, term in {"total": total, **terms}.items()}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """The terms, weighted."""
        if batch.rows is None:
            raise AssertionError("the linear scores and the fold of a window are known by its row")
        plus, student = self.config.plus, self.student
        scores = None if self.lessons.linear is None else self.lessons.linear[batch.rows].to(batch.start)
        with self._cast:  # of the network alone: a chain in half precision is none
            out: PlusOutput = student(batch.start, batch.goal, scores)
        emissions = out.emissions.to(batch.start)
        terms = self._chain_terms(emissions, batch.action_ids, self.lessons.fold[batch.rows])
        if self.config.loss.language and out.states is not None:
            weight, temperature = self.config.loss.language, self.config.loss.language_temperature
            terms["language"] = weight * language_loss(out.states, out.descriptions, batch.action_ids, temperature)
        if plus.ends:
            scored = emissions[:, [0, -1]] if out.end_scores is None else out.end_scores
            terms["ends"] = plus.ends * end_loss(scored, batch.action_ids, plus.label_smoothing)
        return terms

    def _chain_terms(self, emissions: Tensor, action_ids: Tensor, fold: Tensor) -> dict[str, Tensor]:
        plus = self.config.plus
        if not plus.chain:
            return {"action": action_loss(emissions, action_ids)}
        log_z, score = chain_scores(emissions, self.lessons.transitions, self.student.beta, action_ids, fold)
        terms = {"chain": (log_z - score).mean()}
        if plus.spread:
            terms["spread"] = plus.spread * (log_z / emissions.shape[1] - emissions.mean(dim=(1, 2))).mean()
        return terms

    def _share_of_rate(self) -> float:
        """Of the full rate at this step: up over the warm-up, then down with a cosine.

        The step is the optimiser's own count, so that a resumed run goes on where it was.
        """
        taught = next(iter(self.optimizer.state.values()), None)
        done = 0 if taught is None else int(taught["step"])
        warm_up = min(self.config.plus.warm_up, self.num_steps)
        if done < warm_up:
            return (done + 1) / warm_up
        left = max(1, self.num_steps - warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warm_up) / left)))

    @torch.no_grad()
    def _average(self) -> None:
        keep = self.config.plus.average
        torch._foreach_lerp_(list(self.planner.parameters()), list(self.student.parameters()), 1 - keep)


def chain_scores(
    emissions: Tensor, log_transitions: Tensor, beta: Tensor, action_ids: Tensor, fold: Tensor
) -> tuple[Tensor, Tensor]:
    """Log Z and the score of the plan of every window, (B,) each; its log probability is the second minus the first.

    The slope of log Z in beta is the expected sum of log transitions. It is computed once, without a graph: a gradient
    for every entry of every fold's matrix, to be added up for one number, would cost more than all the rest of a step.

    Args:
        emissions: (B, T, A).
        log_transitions: (folds, A, A), of exponent 1.
        beta: their exponent, ().
        action_ids: (B, T).
        fold: (B,), whose transitions a window has.
    """
    fixed = beta.detach()
    log_z = emissions.new_empty(len(emissions))
    expected = emissions.new_zeros(len(emissions))
    for number in fold.unique().tolist():
        rows = (fold == number).nonzero()[:, 0].to(emissions.device)
        own = log_transitions[number]
        chain = Chain(emissions[rows], fixed * own)
        log_z = log_z.index_copy(0, rows, chain.log_normaliser())
        if beta.requires_grad:
            expected[rows] = expected_transitions(chain, own)
    steps = log_transitions[fold[:, None].to(action_ids.device), action_ids[:, :-1], action_ids[:, 1:]].sum(dim=1)
    score = emissions.gather(2, action_ids[:, :, None]).sum(dim=(1, 2)) + beta * steps
    return log_z + (beta - fixed) * expected, score


@torch.no_grad()
def expected_transitions(chain: Chain, values: Tensor) -> Tensor:
    """The expected sum of values (A, A) of the transitions of a plan: (N,)."""
    log_begin, log_end = chain.log_messages()  # (N, T, A) each
    weighted = chain.transitions * values
    log_z = chain.log_normaliser()[:, None, None]
    begin = (log_begin[:, :-1] - log_begin[:, :-1].amax(dim=2, keepdim=True)).exp()
    follow = log_end[:, 1:] + chain.log_emissions[:, 1:]
    shift = log_begin[:, :-1].amax(dim=2, keepdim=True) - log_z
    return ((begin @ weighted) * (follow + shift).exp()).sum(dim=(1, 2))


def end_loss(scores: Tensor, action_ids: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy of the first plus that of the last action: (B, 2, A) and (B, T).

    Taken of the end heads by themselves where there are any. Taken of the emissions, it counts the ends twice, once
    here and once in the chain: on CaptainCook4D the validation NLL was then 8.62 in place of 8.51, though the plans to
    follow were no worse (T = 3, three seeds).
    """
    ends = action_ids[:, [0, -1]]
    return 2 * functional.cross_entropy(scores.flatten(0, 1), ends.flatten(), label_smoothing=smoothing)
