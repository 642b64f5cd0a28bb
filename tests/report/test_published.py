from __future__ import annotations

from p3iv.report.published import DISTRIBUTIONS, ROWS, published_distribution, published_row


def test_rows_are_found_by_dataset_horizon_and_protocol() -> None:
    row = published_row("CrossTask", 3, 1)
    assert row is not None
    assert row.scores == {"success_rate": 0.2334, "macro_precision": 0.4996, "bitwise_iou": 0.7389}
    other = published_row("crosstask", 3, 2)
    assert other is not None
    assert other.scores == {"success_rate": 0.244}
    assert published_row("crosstask", 7, 1) is None
    assert published_row("niv", 3, 2) is None
    assert published_row("tabletop", 3, 1) is None


def test_distributions_belong_to_one_kind_of_planner_and_to_protocol_1() -> None:
    found = published_distribution("crosstask", 4, 1, is_deterministic=False)
    assert found is not None
    assert found.scores == {
        "kl": 3.50,
        "nll": 5.48,
        "mode_precision": 0.1855,
        "mode_recall": 0.4656,
        "cosine_distance": 0.302,
    }
    assert published_distribution("crosstask", 4, 2, is_deterministic=False) is None
    without = published_distribution("niv", 6, 1, is_deterministic=True)
    assert without is not None
    assert without.scores == {"kl": 8.23, "nll": 9.17}


def test_no_figure_stands_twice_and_all_are_shares_or_nats() -> None:
    assert len({(row.dataset, row.horizon, row.protocol) for row in ROWS}) == len(ROWS) == 12
    assert all(0 < value < 1 for row in ROWS for value in row.scores.values())
    assert len(DISTRIBUTIONS) == 24
    assert all(0 < value < 10 for row in DISTRIBUTIONS for value in row.scores.values())
