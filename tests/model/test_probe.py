"""The statistics without maps are the statistics."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recal3r.model.attention import KeysValues, attend
from recal3r.model.moments import by_moments
from recal3r.model.probe import FusedProbe, PlainProbe, Stat
from recal3r.model.tiles import by_tiles

EVERYTHING = frozenset(Stat)
SIZES = [(1, 1), (1, 7), (63, 1), (7, 63), (48, 12), (100, 1000), (768, 33)]


def layer(tokens: int, patches: int, *, seed: int = 0, sharpness: float = 1.0, dtype: torch.dtype = torch.float32):
    """queries, what they see, and the state's values on the image side (there in 2 heads instead of 4)."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(dtype)

    queries, keys, values = normal(2, 4, tokens, 24), normal(2, 4, 1 + patches, 24), normal(2, 4, 1 + patches, 24)
    return queries * sharpness, KeysValues(keys, values), normal(2, 2, tokens, 48)


def measured(kind: type, layers: list) -> tuple[list[Tensor], dict[Stat, Tensor]]:
    probe = kind(EVERYTHING)
    outs = [probe.watch(state_values)(queries, seen) for queries, seen, state_values in layers]
    return outs, probe.result()


def check(layers: list, tolerance: float) -> None:
    plain_outs, plain = measured(PlainProbe, layers)
    fused_outs, fused = measured(FusedProbe, layers)
    for a, b in zip(plain_outs, fused_outs, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)
    assert plain.keys() == fused.keys() == EVERYTHING
    for stat in EVERYTHING:
        assert fused[stat].dtype == plain[stat].dtype
        assert torch.allclose(fused[stat], plain[stat], atol=tolerance, rtol=tolerance), stat


@pytest.mark.parametrize(("tokens", "patches"), SIZES)
def test_equal_at_odd_sizes(tokens: int, patches: int) -> None:
    check([layer(tokens, patches, seed=seed) for seed in range(3)], 1e-5)


@pytest.mark.parametrize(("tokens", "patches"), SIZES)
def test_equal_in_float64(tokens: int, patches: int) -> None:
    check([layer(tokens, patches, dtype=torch.float64)], 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 10**6), st.floats(0.0, 8.0))
def test_equal_at_any_size_and_sharpness(tokens: int, patches: int, seed: int, sharpness: float) -> None:
    check([layer(tokens, patches, seed=seed, sharpness=sharpness)], 1e-5)


@pytest.mark.parametrize("taker", [0, 1, 17], ids=["pose token", "first patch", "middle patch"])
@pytest.mark.parametrize("logit", [20.0, 100.0, 300.0, 3000.0])
def test_equal_where_one_token_takes_all(taker: int, logit: float) -> None:
    queries, (keys, values), state_values = layer(50, 33)
    direction = torch.nn.functional.normalize(torch.randn(24, generator=torch.Generator().manual_seed(5)), dim=0)
    queries = queries * 0.2 + direction * math.sqrt(logit) * 24**0.25
    keys = keys * 0.2
    keys[:, :, taker] = direction * math.sqrt(logit) * 24**0.25
    layers = [(queries, KeysValues(keys, values), state_values)]
    share = (queries @ keys.transpose(-2, -1) * 24**-0.5).softmax(-1)[..., taker]
    assert share.min() > 0.99, "the case is not the extreme one it is meant to be"
    check(layers, 1e-5)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0])
@pytest.mark.parametrize(("tokens", "patches"), SIZES)
def test_the_two_ways_of_measuring_agree(tokens: int, patches: int, sharpness: float) -> None:
    """The one for accelerators runs here too."""
    queries, seen, _ = layer(tokens, patches, sharpness=sharpness)
    says = torch.randn(queries.shape, generator=torch.Generator().manual_seed(9))
    for tiles, moments in zip(by_tiles(queries, seen, says), by_moments(queries, seen, says), strict=True):
        torch.testing.assert_close(tiles, moments, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 30.0], ids=["shared", "careful"])
def test_both_ways_through_the_tiles_are_the_definition(sharpness: float) -> None:
    """Logits beyond what one exponential can share are measured the careful way, to the same digits."""
    queries, seen, _ = layer(40, 30, sharpness=sharpness, dtype=torch.float64)
    says = torch.randn(queries.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    logits = queries @ seen.keys[:, :, 1:].transpose(-1, -2) * 24**-0.5
    assert (logits.amax() > 100) == (sharpness > 1)
    found = by_tiles(queries, seen, says)
    torch.testing.assert_close(found.predicted, logits.softmax(-2).transpose(-1, -2) @ says)
    log_p = logits.log_softmax(-1)
    torch.testing.assert_close(found.entropy, -(log_p.exp() * log_p).sum(-1))
    torch.testing.assert_close(found.out, attend(queries, seen))


def test_entropy_is_that_of_a_hand_made_case() -> None:
    """Four patches, logits log 1, log 1, log 2, log 4, whatever the pose token's logit is."""
    keys = torch.zeros(1, 1, 5, 4)
    keys[0, 0, :, 0] = torch.tensor([9.0, 0.0, 0.0, math.log(2), math.log(4)])
    queries = torch.tensor([2.0, 0, 0, 0]).view(1, 1, 1, 4)  # scale 4^-½ undoes the 2
    p = torch.tensor([1, 1, 2, 4]) / 8
    expected = -(p * p.log()).sum() / math.log(4)
    for kind in (PlainProbe, FusedProbe):
        _, stats = measured(kind, [(queries, KeysValues(keys, torch.randn(1, 1, 5, 4)), torch.randn(1, 1, 1, 4))])
        torch.testing.assert_close(stats[Stat.ENTROPY], expected.view(1, 1))
        mean = torch.tensor(9 + math.log(8)) / 5
        torch.testing.assert_close(stats[Stat.MEAN_LOGIT], mean.view(1, 1))


@pytest.mark.parametrize(("tokens", "patches"), [(48, 12), (63, 100)])
def test_bfloat16_within_its_precision(tokens: int, patches: int) -> None:
    """Against the plain statistics of the same rounded inputs, in float32."""
    rounded = [layer(tokens, patches, seed=seed, dtype=torch.bfloat16) for seed in range(3)]
    exact = [(q.float(), KeysValues(s.keys.float(), s.values.float()), v.float()) for q, s, v in rounded]
    outs, fused = measured(FusedProbe, rounded)
    exact_outs, plain = measured(PlainProbe, exact)
    for out, exact_out in zip(outs, exact_outs, strict=True):
        torch.testing.assert_close(out.float(), exact_out, atol=2e-2, rtol=2e-2)
    for stat, tolerance in {
        Stat.MEAN_LOGIT: 1e-4,
        Stat.MEAN_LOGIT_MAP: 2e-2,
        Stat.ENTROPY: 1e-2,
        Stat.RESIDUAL: 2e-2,
    }.items():
        assert fused[stat].dtype == torch.float32
        assert torch.allclose(fused[stat], plain[stat], atol=tolerance, rtol=tolerance), stat


@pytest.mark.parametrize("kind", [PlainProbe, FusedProbe])
@pytest.mark.parametrize("stat", list(Stat))
def test_only_what_was_asked_for_is_measured(kind: type, stat: Stat) -> None:
    queries, seen, state_values = layer(10, 6)
    probe = kind(frozenset({stat}))
    out = probe.watch(state_values)(queries, seen)
    assert set(probe.result()) == {stat}
    torch.testing.assert_close(out, attend(queries, seen), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stat", list(Stat))
def test_no_map_is_ever_built(stat: Stat) -> None:
    """No tensor of batch x heads x tokens x patches elements comes into being, but for the plain probe's."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, Tensor):
                    self.elements = max(self.elements, tensor.numel())
            return out

    queries, seen, state_values = layer(900, 900)
    one_map = 2 * 4 * 900 * 901
    for kind, builds in ((PlainProbe, True), (FusedProbe, False)):
        with Largest() as largest:
            kind(frozenset({stat})).watch(state_values)(queries, seen)
        assert (largest.elements >= one_map) == builds, (kind, largest.elements, one_map)
