"""The likelihood of plans under a chain, with gradients: what P3IV+ is trained through.

`p3iv.plans.chain` answers every other question about a chain, in numpy. Shapes: N windows, T positions, A actions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.plans.viterbi import MAX_ELEMENTS


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
        fold: (B,), which of the matrices a window uses.
    """
    fixed = beta.detach()
    log_z = emissions.new_empty(len(emissions))
    expected = emissions.new_zeros(len(emissions))
    for number in fold.unique().tolist():
        rows = (fold == number).nonzero()[:, 0].to(emissions.device)
        own = log_transitions[number]
        log_forward = forward_messages(emissions[rows], fixed * own)
        log_z = log_z.index_copy(0, rows, log_forward[:, -1].logsumexp(dim=1))
        if beta.requires_grad:
            expected[rows] = expected_transitions(emissions[rows], fixed * own, own, log_forward)
    steps = log_transitions[fold[:, None].to(action_ids.device), action_ids[:, :-1], action_ids[:, 1:]].sum(dim=1)
    score = emissions.gather(2, action_ids[:, :, None]).sum(dim=(1, 2)) + beta * steps
    return log_z + (beta - fixed) * expected, score


@torch.no_grad()
def expected_transitions(log_emissions: Tensor, log_transitions: Tensor, values: Tensor, log_forward: Tensor) -> Tensor:
    """The expected sum of values (A, A) of the transitions of a plan: (N,).

    Args:
        log_emissions: (N, T, A).
        log_transitions: (A, A).
        values: (A, A).
        log_forward: the `forward_messages` of the chain.
    """
    log_begin, log_end = log_forward, backward_messages(log_emissions, log_transitions)
    weighted = log_transitions.exp() * values
    log_z = log_begin[:, -1].logsumexp(dim=1)[:, None, None]
    begin = (log_begin[:, :-1] - log_begin[:, :-1].amax(dim=2, keepdim=True)).exp()
    follow = log_end[:, 1:] + log_emissions[:, 1:]
    shift = log_begin[:, :-1].amax(dim=2, keepdim=True) - log_z
    return ((begin @ weighted) * (follow + shift).exp()).sum(dim=(1, 2))


def forward_messages(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """Log of the weight of all beginnings that end in an action: (N, T, A)."""
    steps, transitions = [log_emissions[:, 0]], log_transitions.exp()
    for emission in log_emissions.unbind(dim=1)[1:]:
        steps.append(_log_product(steps[-1], log_transitions, transitions) + emission)
    return torch.stack(steps, dim=1)


def backward_messages(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """Log of the weight of all ends that follow an action: (N, T, A)."""
    steps, transitions = [torch.zeros_like(log_emissions[:, 0])], log_transitions.exp()
    for emission in reversed(log_emissions.unbind(dim=1)[1:]):
        steps.append(_log_product(steps[-1] + emission, log_transitions.T, transitions.T))
    return torch.stack(steps[::-1], dim=1)


def _log_product(log_weights: Tensor, log_matrix: Tensor, matrix: Tensor) -> Tensor:
    """Log of exp(log_weights) @ matrix: (n, A).

    A product of matrices, shifted so that the largest weight is 1. Sums that are so small that some of their terms may
    have become zero are computed again one by one, each shifted by its own largest term.
    """
    number = torch.finfo(log_weights.dtype)
    shift = log_weights.amax(dim=1, keepdim=True).clamp_min(number.min)  # finite where every weight is zero
    product = (log_weights - shift).exp() @ matrix
    limit = number.tiny / number.eps
    if product.detach().amin() >= limit:
        return product.log() + shift
    is_small = product < limit
    row, column = is_small.nonzero(as_tuple=True)
    size = max(1, MAX_ELEMENTS // len(matrix))
    pairs = zip(row.split(size), column.split(size), strict=True)
    exact = torch.cat([(log_weights[i] + log_matrix.T[j]).logsumexp(dim=1) for i, j in pairs])
    return (product.masked_fill(is_small, 1.0).log() + shift).index_put((row, column), exact)
