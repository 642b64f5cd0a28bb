"""CPU time of planning: 1500 plans for one pair, and for a whole test side with all metrics, on one thread.

`fast` is the sampler of P3IV. `naive` is `torch.nn.TransformerDecoder` with the same weights on a batch of 1500, with
start, goal and memory expanded to that batch. `products` are the matrix products of the fast sampler alone: same
shapes, operands allocated beforehand, one call each. `plus` is P3IV+, which runs its network once and samples from its
chain. The network has the paper's sizes and random parameters. The test side is sampled and scored as by
`p3iv evaluate`: every decoder, every sampling mode, every metric and interval.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.timing import FEATURE_WIDTH, NUM_ACTIONS, cpu_seconds, crosstask_shape, make_parser
from p3iv.config import ModelConfig, override, preset_config
from p3iv.evaluation.tally import Tally
from p3iv.metrics.intervals import Clusters, mean_intervals
from p3iv.metrics.plans import plan_values
from p3iv.metrics.released import score_released
from p3iv.planners.base import ChainSampler
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.p3iv.sampler import PlanSampler
from p3iv.planners.plus.planner import P3IVPlus
from p3iv.plans.draws import BLOCK, MODES, SampleSettings
from p3iv.plans.transitions import Transitions

NUM_SAMPLES = 1500


def cpu_ms(work: Callable[[], object], repeats: int) -> float:
    """CPU time of the fastest of several calls after a warm-up, in milliseconds."""
    work()
    return 1000 * cpu_seconds(work, repeats)


def make_planner(horizon: int) -> P3IVNetwork:
    torch.manual_seed(0)
    return P3IVNetwork(crosstask_shape(horizon), ModelConfig()).eval()


def make_plus(horizon: int) -> P3IVPlus:
    torch.manual_seed(0)
    config = override(preset_config("p3iv-plus"), {"planner": "p3iv-plus", "data.horizon": horizon})
    return P3IVPlus(crosstask_shape(horizon), config).eval()


def torch_decoder(planner: P3IVNetwork) -> nn.TransformerDecoder:
    """PyTorch's own decoder with the weights of a planner."""
    sizes = planner.sizes
    layer = nn.TransformerDecoderLayer(sizes.width, sizes.heads, sizes.feed_forward, dropout=0.0, batch_first=True)
    decoder = nn.TransformerDecoder(layer, sizes.layers).eval()
    for layer, block in zip(decoder.layers, planner.decoder.stack, strict=True):
        modules = {
            "self_attn.in_proj_": block.self_projection,
            "self_attn.out_proj.": block.self_output,
            "multihead_attn.out_proj.": block.cross_output,
            **{"linear1.": block.expand, "linear2.": block.contract},
            **{"norm1.": block.self_norm, "norm2.": block.cross_norm, "norm3.": block.feed_norm},
        }
        state = {f"{name}{part}": getattr(m, part) for name, m in modules.items() for part in ("weight", "bias")}
        for part in ("weight", "bias"):
            both = getattr(block.cross_query, part), getattr(block.cross_memory, part)
            state[f"multihead_attn.in_proj_{part}"] = torch.cat(both)
        layer.load_state_dict(state)
    return decoder


@torch.inference_mode()
def naive_logits(
    planner: P3IVNetwork, decoder: nn.TransformerDecoder, start: Tensor, goal: Tensor, latents: Tensor
) -> Tensor:
    """The logits of K plans of one pair, (K, T, A), without sharing any computation between them."""
    number, horizon = len(latents), planner.shape.horizon
    both = torch.stack((start.expand(number, -1), goal.expand(number, -1)), dim=1)
    observed = planner.encode_observation(planner.standardise(both))
    queries = planner.queries.expand(number, -1, -1)
    joined = torch.cat((observed[:, :1], queries, observed[:, 1:]), dim=1) + planner.positions
    tokens = planner.join(torch.cat((joined, latents[:, None].expand(-1, horizon + 1, -1)), dim=-1))
    if planner.decoder.memory is None:
        raise AssertionError("the paper's planner has a memory")
    memory = planner.decoder.memory.expand(number, -1, -1)
    return planner.action_head(decoder(tokens, memory)[:, 1:])  # type: ignore[no-any-return]


def check_naive(planner: P3IVNetwork, decoder: nn.TransformerDecoder) -> None:
    """Stop unless the naive way computes what the network computes."""
    start, goal = torch.randn(2, 1, FEATURE_WIDTH)
    latents = torch.randn(9, planner.sizes.noise_width)
    with torch.inference_mode():
        expected = planner(start.expand(9, -1), goal.expand(9, -1), latents).action_logits
    torch.testing.assert_close(naive_logits(planner, decoder, start, goal, latents), expected, atol=1e-4, rtol=1e-4)


def matrix_products(planner: P3IVNetwork) -> Callable[[], None]:
    """The matrix products of the fast sampler for one pair."""
    sizes, horizon = planner.sizes, planner.shape.horizon
    width, heads, slots, tokens = sizes.width, sizes.heads, sizes.memory_slots, horizon + 1
    depth, hidden = width // heads, sizes.encoder_hidden
    shapes = [(2, FEATURE_WIDTH, hidden), (2, hidden, width), (tokens, width, width), (tokens, width, 3 * width)]
    blocks: list[tuple[int, ...]] = []
    for layer in range(sizes.layers):
        kept = BLOCK * (horizon if layer == sizes.layers - 1 else tokens)
        if layer == 0:
            blocks += [(heads, BLOCK, depth, tokens), (kept, tokens * heads, width)]
        else:
            blocks += [(BLOCK * tokens, width, 3 * width), (kept, width, width)]
        blocks += [(kept, width, width), (heads, kept, depth, slots), (heads, kept, slots, depth), (kept, width, width)]
        blocks += [(kept, width, sizes.feed_forward), (kept, sizes.feed_forward, width)]
    blocks += [(BLOCK * horizon, width, sizes.head_hidden), (BLOCK * horizon, sizes.head_hidden, NUM_ACTIONS)]
    calls = [_operands(*shape) for shape in (*shapes, *(blocks * -(-NUM_SAMPLES // BLOCK)))]

    def run() -> None:
        for left, right, result in calls:
            torch.matmul(left, right, out=result)

    return run


def _operands(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    *batch, rows, inner, columns = shape
    return torch.randn(*batch, rows, inner), torch.randn(*batch, inner, columns), torch.empty(*batch, rows, columns)


def one_pair(horizon: int, repeats: int) -> dict[str, float]:
    """Milliseconds of the fast sampler, the naive one, the matrix products and P3IV+."""
    planner = make_planner(horizon)
    start, goal = torch.randn(1, FEATURE_WIDTH), torch.randn(1, FEATURE_WIDTH)
    ends = start.numpy(), goal.numpy()
    sampler, decoder = PlanSampler(planner, SampleSettings(NUM_SAMPLES)), torch_decoder(planner)
    plus = ChainSampler(make_plus(horizon), SampleSettings(NUM_SAMPLES))
    check_naive(planner, decoder)
    latents = torch.randn(NUM_SAMPLES, planner.sizes.noise_width)
    times = {
        "fast": cpu_ms(lambda: sampler.draw(*ends), repeats),
        "plus": cpu_ms(lambda: plus.draw(*ends), repeats),
        "naive": cpu_ms(lambda: naive_logits(planner, decoder, start, goal, latents), 2),
        "products": cpu_ms(matrix_products(planner), repeats),
    }
    print(
        f"T={horizon}, one pair, {NUM_SAMPLES} plans: fast {times['fast']:.1f} ms, naive {times['naive']:.0f} ms, "
        f"products {times['products']:.1f} ms; naive / fast {times['naive'] / times['fast']:.1f}, "
        f"fast / products {times['fast'] / times['products']:.2f}; plus {times['plus']:.1f} ms, plus / fast "
        f"{times['plus'] / times['fast']:.3f}",
        flush=True,
    )
    return times


def whole_side(num_windows: int, horizon: int = 3) -> dict[str, float]:
    """CPU seconds of sampling plans for every window of the test side, and of all metrics."""
    planner = make_planner(horizon)
    generator = torch.Generator().manual_seed(1)
    start, goal = (torch.randn(num_windows, FEATURE_WIDTH, generator=generator).numpy() for _ in range(2))
    actions = torch.randint(NUM_ACTIONS, (num_windows, horizon), generator=generator)
    row = torch.rand(NUM_ACTIONS, NUM_ACTIONS, generator=generator).softmax(dim=1).numpy()
    sampler, tally = PlanSampler(planner, SampleSettings(NUM_SAMPLES)), Tally(actions, NUM_ACTIONS)
    transitions, sampling, metrics = Transitions(row, row, 1.0), 0.0, 0.0
    for first in range(0, num_windows, 64):
        began = time.process_time()
        draws = sampler.draw(start[first : first + 64], goal[first : first + 64])
        sampling += (drawn := time.process_time()) - began
        tally.add(draws, transitions)
        metrics += time.process_time() - drawn
    began = time.process_time()
    clusters = Clusters.of([f"video {number // 6}" for number in range(num_windows)])
    for plans in tally.plans().values():
        mean_intervals(plan_values(plans, actions), clusters)
        score_released(plans, actions, clusters)
    for group in (*MODES, "exact", f"marginals {MODES[0]}"):
        mean_intervals(tally.values(group), clusters)
    metrics += time.process_time() - began
    print(
        f"T={horizon}, {num_windows} windows x {NUM_SAMPLES} (all decoders, modes and metrics): "
        f"sampling {sampling:.1f} CPU s, metrics {metrics:.1f} CPU s, ratio {metrics / sampling:.3f}",
        flush=True,
    )
    return {"sampling": sampling, "metrics": metrics}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=4504)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    three, six = one_pair(3, args.repeats), one_pair(6, args.repeats)
    side = whole_side(args.windows)
    found = {
        "t3_ms": three["fast"],
        "t6_ms": six["fast"],
        "naive_over_fast_t3": three["naive"] / three["fast"],
        "t3_over_products": three["fast"] / three["products"],
        "plus_over_fast_t3": three["plus"] / three["fast"],
        "metrics_over_sampling": side["metrics"] / side["sampling"],
    }
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


if __name__ == "__main__":
    main()
