"""The paper's equations, by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from recal3r.model.probe import Stat
from recal3r.rules import Recal3r, Recal3rRelease
from recal3r.rules.memix import Memix, kept
from recal3r.rules.recal3r import min_max, sharpened, token_reliability
from recal3r.rules.recal3r_release import rank
from rules.evidence import N, evidence


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("d", "e", "rho"),
    [
        (0.0, 0.0, 1.0),  # never drifted, looks at one patch
        (1.0, 1.0, 0.0),
        (1.0, 0.0, 0.5),  # 0/0: the signals contradict each other fully
        (0.0, 1.0, 0.5),
        (0.5, 0.5, 0.5),
        (0.25, 0.5, 0.75),  # an undecided signal leaves the other: 1 - d
        (0.5, 0.1, 0.9),
        (0.2, 0.2, 0.64 / 0.68),
    ],
)
def test_reliability(d: float, e: float, rho: float) -> None:
    assert token_reliability(torch.tensor(d), torch.tensor(e)).item() == pytest.approx(rho, abs=1e-6)


@pytest.mark.parametrize(("rho", "trust"), [(0.0, 0.0), (0.25, 0.0625), (0.5, 0.0), (0.75, 0.1875), (1.0, 1.0)])
def test_trust(rho: float, trust: float) -> None:
    assert sharpened(torch.tensor(rho)).item() == pytest.approx(trust)


def test_min_max() -> None:
    found = min_max(torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0]]))
    assert found.tolist() == [[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]]


def one_token_evidence(logit: float, entropy: float, ratio: float, drifts: tuple[float, ...]):
    """Tokens that drifted from S_0 by `drifts`, all with the same logit and entropy."""
    count = len(drifts)
    given = evidence(0, batch=1)
    initial = torch.zeros(1, count, 2)
    return dataclasses.replace(
        given,
        initial_state=initial,
        state=torch.stack((torch.tensor(drifts), torch.zeros(count)), dim=-1)[None],
        candidate=initial,
        stats={
            Stat.MEAN_LOGIT: torch.full((1, count), logit),
            Stat.ENTROPY: torch.full((1, count), entropy),
            Stat.RESIDUAL: torch.tensor([[[ratio, 1.0], [ratio, 1.0]]]),
        },
    )


def test_two_frames_by_hand() -> None:
    rule = Recal3r(epsilon=1e-12)
    memory = rule.start(one_token_evidence(9.0, 0.9, 9.0, (0.0, 0.0, 0.0))).memory
    assert memory.pressure.tolist() == [[0.0, 0.0, 0.0]], "the first frame does not count"

    given = one_token_evidence(logit=1.0, entropy=0.25, ratio=0.7, drifts=(0.0, 1.0, 4.0))
    g, d = sigmoid(1.0), (0.0, 0.25, 1.0)
    h = 0.05 * g
    candidate = sigmoid(0.7 - 0.2) * g * math.exp(-h)
    rho = [0.75 / 0.75, 0.75 * 0.75 / (0.75 * 0.75 + 0.25 * 0.25), 0.0]
    trust = [p * (2 * p - 1) ** 2 for p in rho]
    expected = [(1 - r) * 0.1 + r * candidate for r in trust]
    decision = rule.step(given, memory)
    assert [1 - di for di in d] == pytest.approx((1 - decision.signals["deviation"][0]).tolist())
    assert decision.rate[0, :, 0].tolist() == pytest.approx(expected, rel=1e-5)

    h = 0.95 * h + 0.05 * g
    candidate = sigmoid(0.5) * g * math.exp(-h)
    expected = [(1 - r) * 0.1 + r * candidate for r in trust]
    decision = rule.step(given, decision.memory)
    assert decision.rate[0, :, 0].tolist() == pytest.approx(expected, rel=1e-5)


def test_all_deviations_equal() -> None:
    """Then d = 0 for all, and ρ = 1 however little the attention says."""
    rule = Recal3r()
    given = one_token_evidence(0.0, 0.6, 0.2, (2.0, 2.0, 2.0))
    decision = rule.step(given, rule.start(given).memory)
    assert decision.signals["deviation"].tolist() == [[0.0, 0.0, 0.0]]
    assert decision.signals["reliability"].tolist() == [[1.0, 1.0, 1.0]]
    expected = 0.5 * 0.5 * math.exp(-0.05 * 0.5)  # σ(0) · σ(0) · exp(-h)
    assert decision.rate[0, :, 0].tolist() == pytest.approx([expected] * 3, rel=1e-4)


def test_contradicting_signals_fall_back_to_the_base_rate() -> None:
    """d = 1, e = 0 is 0/0: ρ = ½, R = 0, β = β_base."""
    given = one_token_evidence(3.0, 0.0, 5.0, (0.0, 1.0))
    decision = Recal3r(beta_base=0.07).step(given, Recal3r().start(given).memory)
    assert decision.rate[0, 1, 0].item() == pytest.approx(0.07)


def test_ablations_are_what_they_say() -> None:
    given = evidence(1)
    g = given.stats[Stat.MEAN_LOGIT].sigmoid()
    ratio = (given.stats[Stat.RESIDUAL][..., 0] / (given.stats[Stat.RESIDUAL][..., 1] + 1e-6)).mean(-1, keepdim=True)
    r, fade = (ratio - 0.2).sigmoid(), (-0.05 * g).exp()

    def rate(rule: Recal3r) -> torch.Tensor:
        return rule.step(given, rule.start(evidence(0)).memory).rate[..., 0]

    def signals(rule: Recal3r) -> dict[str, torch.Tensor]:
        return dict(rule.step(given, rule.start(evidence(0)).memory).signals)

    close = torch.testing.assert_close
    close(rate(Recal3r(calibrated=False)), r * g * fade)
    close(rate(Recal3r(calibrated=False, pressure=False)), g * r)
    close(rate(Recal3r(calibrated=False, residual=False)), g * fade)
    close(rate(Recal3r(calibrated=False, residual=False, pressure=False)), g)  # TTT3R
    found = signals(Recal3r(entropy=False))
    close(found["reliability"], 1 - found["deviation"])
    found = signals(Recal3r(deviation=False))
    close(found["reliability"], 1 - given.stats[Stat.ENTROPY])


def test_mean_anchor_is_the_mean_of_all_states_before() -> None:
    rule = Recal3r(mean_anchor=True)
    seen = [evidence(seed) for seed in range(4)]
    memory = rule.start(seen[0]).memory
    for given in seen[1:]:
        decision = rule.step(given, memory)
        memory = decision.memory
    mean = torch.stack([given.state for given in seen]).mean(0)
    torch.testing.assert_close(memory.anchor, mean)
    torch.testing.assert_close(decision.signals["deviation"], min_max((seen[-1].state - mean).norm(dim=-1)))


def test_release_by_hand() -> None:
    """Three tokens; ranks 0, 1, 2 of drift and of entropy."""
    rule = Recal3rRelease()
    given = one_token_evidence(0.5, 0.0, 0.0, (1.0, 2.0, 3.0))
    given.stats[Stat.ENTROPY][:] = torch.tensor([0.3, 0.2, 0.9])
    embedding = given.image_embedding
    given = dataclasses.replace(given, image_readout=embedding * 0.5)  # ‖E - Y‖ / ‖E‖ = ½
    pi, e = [1 - 1 / 3, 1 - 2 / 3, 0.0], [0.5, 0.0, 1.0]
    rho = [p * (1 - q) / (p * (1 - q) + (1 - p) * q + 1e-8) for p, q in zip(pi, e, strict=True)]
    g = sigmoid(0.5)
    candidate = sigmoid(0.5 - 0.2) * g * math.exp(-0.05 * g)
    rate = [(1 - r) * 0.1 + r * candidate for r in (p * (2 * p - 1) ** 2 for p in rho)]
    expected = [0.5 * b + 0.5 * sum(rate) / 3 for b in rate]
    found = rule.step(given, rule.start(given).memory).rate[0, :, 0]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_rank_is_stable() -> None:
    assert rank(torch.tensor([[2.0, 1.0, 2.0, 0.0]])).tolist() == [[2.0, 1.0, 3.0, 0.0]]


def test_memix_writes_the_tokens_that_fit_least() -> None:
    given = evidence(2, batch=1)
    fit = (given.candidate * given.image_embedding.mean(1, keepdim=True)).sum(-1)[0]
    mask = Memix(keep=0.5).start(given).rate[0, :, 0]
    assert mask.sum() == N // 2
    assert fit[mask == 1].max() < fit[mask == 0].min()


@pytest.mark.parametrize(("tokens", "count"), [(768, 708), (48, 44), (64, 59), (1, 0)])
def test_memix_counts(tokens: int, count: int) -> None:
    assert kept(708 / 768, tokens) == count == tokens * 708 // 768
