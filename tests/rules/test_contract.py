"""What every rule promises. A newly registered rule is tested without an edit here."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import recal3r
from data.seeded import seeded_frames
from networks import seeded_network
from recal3r.engine.session import flatten, unflatten
from recal3r.rules import UpdateRule, available, describe, get_rule
from recal3r.rules.base import Evidence
from rules.evidence import B, N, evidence, permuted, sample, tensors_of

VARIANTS = [
    "recal3r(residual=false, pressure=false)",
    "recal3r(calibrated=false)",
    "recal3r(entropy=false)",
    "recal3r(deviation=false)",
    "recal3r(mean_anchor=true)",
    "recal3r(pressure=false)",
    "recal3r(residual=false)",
    *(f"recal3r(beta_base={value})" for value in (0, 0.01, 0.05, 0.2)),
    "memix(recal3r)",
    "memix(ttsa3r, keep=0.5)",
    "constant(rate=1)",
]
EVERY_RULE = pytest.mark.parametrize("name", [*available(), *VARIANTS])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def rates(rule: UpdateRule[Any], stream: list[Evidence]) -> torch.Tensor:
    """β of each frame: [T, B, N]."""
    decision = rule.start(stream[0])
    decisions = [decision]
    for frame in stream[1:]:
        decision = rule.step(frame, decision.memory)
        decisions.append(decision)
    return torch.stack([decision.rate[..., 0] for decision in decisions])


def stream(dtype: torch.dtype = torch.float32) -> list[Evidence]:
    """Six frames; the third and fourth have another size."""
    grids = [(3, 5), (3, 5), (4, 3), (4, 3), (3, 5), (3, 5)]
    return [evidence(seed, grid, dtype=dtype) for seed, grid in enumerate(grids)]


@DTYPES
@EVERY_RULE
def test_rate_has_its_shape_and_range(name: str, dtype: torch.dtype) -> None:
    found = rates(get_rule(name), stream(dtype))
    assert found.shape == (6, B, N)
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    assert found.min() >= 0
    assert found.max() <= 1


@EVERY_RULE
def test_degenerate_evidence_gives_a_rate_too(name: str) -> None:
    """Nothing moved, nothing drifted, nothing to see, extreme logits."""
    flat = evidence(0)
    flat = dataclasses.replace(
        flat,
        state=flat.initial_state,
        candidate=flat.initial_state,
        image_tokens=torch.zeros_like(flat.image_tokens),
        image_embedding=torch.zeros_like(flat.image_embedding),
        image_readout=torch.zeros_like(flat.image_readout),
    )
    for extreme in (0.0, 1.0, 1e4, -1e4):
        stats = {stat: torch.full_like(value, extreme) for stat, value in flat.stats.items()}
        stats = {
            stat: value.clamp(0, 1) if stat.name in ("ENTROPY", "RESIDUAL") else value for stat, value in stats.items()
        }
        found = rates(get_rule(name), [dataclasses.replace(flat, stats=stats)] * 4)
        assert torch.isfinite(found).all()
        assert found.min() >= 0
        assert found.max() <= 1


@EVERY_RULE
def test_first_frame_is_written_fully(name: str) -> None:
    first = rates(get_rule(name), stream())[0]
    written = (
        first == 1 if not name.startswith("memix") else (first == 1) | (first == 0)
    )  # MeMix's mask holds there too
    assert written.all()


@EVERY_RULE
def test_a_batch_equals_its_samples_alone(name: str) -> None:
    together = rates(get_rule(name), stream())
    for at in range(B):
        alone = rates(get_rule(name), [sample(frame, at) for frame in stream()])
        torch.testing.assert_close(together[:, at : at + 1], alone, atol=1e-6, rtol=0)


@EVERY_RULE
def test_permuting_tokens_permutes_rates(name: str) -> None:
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    there = rates(get_rule(name), [permuted(frame, order) for frame in stream(torch.float64)])
    torch.testing.assert_close(there, rates(get_rule(name), stream(torch.float64))[..., order], atol=1e-12, rtol=0)


@EVERY_RULE
def test_evidence_and_memory_are_left_alone(name: str) -> None:
    rule = get_rule(name)
    given = stream()
    before = [[tensor.clone() for tensor in tensors_of(frame)] for frame in given]
    memory = rule.start(given[0]).memory
    memory_before = {key: tensor.clone() for key, tensor in flatten(memory, "").items()}
    rule.step(given[1], memory)
    for frame, copies in zip(given, before, strict=True):
        assert all(map(torch.equal, tensors_of(frame), copies))
    assert all(torch.equal(tensor, memory_before[key]) for key, tensor in flatten(memory, "").items())


@EVERY_RULE
def test_asks_for_no_more_than_it_uses(name: str) -> None:
    """Without the statistics it did not ask for it gives the same rates; without one that it asked for it cannot."""
    rule = get_rule(name)
    full = rates(rule, stream())

    def with_only(needed: set[Any]) -> list[Evidence]:
        return [dataclasses.replace(frame, stats={stat: frame.stats[stat] for stat in needed}) for frame in stream()]

    assert torch.equal(rates(rule, with_only(set(rule.needs))), full)
    for stat in rule.needs:
        with pytest.raises(KeyError):
            rates(rule, with_only(set(rule.needs) - {stat}))


@EVERY_RULE
def test_memory_is_tensors_of_one_row_a_stream(name: str) -> None:
    rule = get_rule(name)
    memory = rule.start(evidence(0)).memory
    flat = flatten(memory, "rule")
    assert all(tensor.shape[0] == B for tensor in flat.values())
    again = unflatten(rule.memory_type, flat, "rule")
    assert type(again) is type(memory)
    assert flatten(again, "rule").keys() == flat.keys()


@EVERY_RULE
def test_written_as_text_and_read_back_it_is_equal(name: str) -> None:
    rule = get_rule(name)
    assert get_rule(describe(rule)) == rule
    assert hash(rule) == hash(get_rule(name))


@EVERY_RULE
def test_saved_and_loaded_in_mid_stream(name: str, tmp_path: Path, mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    recon = recal3r.Reconstructor(mini, name, size=None)
    for frame in frames[:4]:
        recon.push(frame)
    recon.save(tmp_path / "session.safetensors")
    again = recal3r.Reconstructor.load(tmp_path / "session.safetensors", mini)
    for frame in frames[4:8]:
        one, other = recon.push(frame), again.push(frame)
        assert np.array_equal(one.points_world, other.points_world)
        assert np.array_equal(one.learning_rate, other.learning_rate)
        assert np.array_equal(one.T_world_camera, other.T_world_camera)
        assert one.index == other.index


@EVERY_RULE
def test_bfloat16_stays_near_float32(name: str, mini: recal3r.Cut3r) -> None:
    """On one frame after the first, from the same state: rates differ by what bfloat16's 8 bits allow."""
    exact, rounded = recal3r.Reconstructor(mini, name, size=None), None
    frames = seeded_frames(12, 48, 64)
    low = seeded_network("mini-linear", torch.bfloat16)
    rounded = recal3r.Reconstructor(low, name, size=None)
    for frame in frames[:2]:
        one, other = exact.push(frame), rounded.push(frame)
    assert other.learning_rate.dtype == np.float32
    assert rounded.session.state.dtype == torch.float32, "a bfloat16 state would lose small updates"
    assert np.isfinite(other.learning_rate).all()
    # Ranks and masks jump by one place where two tokens change order; on average they agree.
    assert np.abs(one.learning_rate - other.learning_rate).mean() < 0.05


def test_distinct_rules_are_distinct() -> None:
    """No two names give the same rates on random evidence, so that no table compares a rule with itself."""
    found = {name: rates(get_rule(name), stream()) for name in available()}
    for (a, rate_a), (b, rate_b) in itertools.combinations(found.items(), 2):
        assert not torch.equal(rate_a, rate_b), (a, b)
