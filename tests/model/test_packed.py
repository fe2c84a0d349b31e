"""Packed for inference, the network is the same network."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import recal3r
from data.seeded import seeded_frames
from networks import CONFIGS, seeded_network
from recal3r.engine.outputs import EVERYTHING
from recal3r.errors import WeightsError
from recal3r.model import attention
from recal3r.model.attention import KeysValues, attend, attend_by_heads
from recal3r.model.blocks import ConditionedBlock, DecoderBlock, EncoderBlock
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.cut3r import Cut3r
from recal3r.model.load import load_model, prepared
from recal3r.model.onednn import can_pack, product, products, products_down
from recal3r.model.packed import PackedEncoderBlock, PackedLinear, packed
from recal3r.model.rope import grid_positions, rope

needs_onednn = pytest.mark.skipif(not can_pack(torch.float32), reason="needs oneDNN, which this PyTorch lacks")
pytestmark = needs_onednn

RELATIVE = {torch.float32: 1e-5, torch.bfloat16: 6e-2}  # of the worst element; bfloat16 has 2 to 3 digits
DTYPES = pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(
            torch.bfloat16,
            marks=pytest.mark.skipif(not can_pack(torch.bfloat16), reason="needs a CPU that multiplies bfloat16"),
        ),
    ],
    ids=["float32", "bfloat16"],
)


def relative(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> float:
    """The largest difference, in terms of the reference's root mean square."""
    a, b = (torch.as_tensor(x).double() for x in (a, b))
    return ((a - b).abs().max() / b.square().mean().sqrt()).item()


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# -- parts -----------------------------------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize(("tokens", "inputs", "outputs"), [(1, 64, 48), (63, 100, 36), (256, 128, 384)])
def test_linear(tokens: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    linear = torch.nn.Linear(inputs, outputs).requires_grad_(requires_grad=False).to(dtype)
    exact = copy.deepcopy(linear).float()
    fast = PackedLinear(linear)
    x, residual = drawn(2, tokens, inputs, dtype=dtype), drawn(2, tokens, outputs, seed=2, dtype=dtype)
    expected = exact(x.float())
    assert relative(fast(x), expected) < RELATIVE[dtype]
    assert relative(fast.gelu(x), torch.nn.functional.gelu(expected)) < RELATIVE[dtype]
    before = residual.clone()
    assert relative(fast.add_to(residual, x), residual.float() + expected) < RELATIVE[dtype]
    assert torch.equal(residual, before), "what is added to stays as it was"


@DTYPES
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("rows", [63, 1001])
def test_products(dtype: torch.dtype, heads: int, rows: int) -> None:
    x, y, z = (drawn(heads, *size, seed=size[1], dtype=dtype) for size in ((rows, 40), (100, 40), (rows, 24)))
    exact_x, exact_y, exact_z = (part.double() for part in (x, y, z))
    assert relative(product(x[0], y[0]), exact_x[0] @ exact_y[0].T) < RELATIVE[dtype]
    assert relative(products(x, y), exact_x @ exact_y.transpose(1, 2)) < RELATIVE[dtype]
    assert relative(products_down(x, z), exact_x.transpose(1, 2) @ exact_z) < RELATIVE[dtype]
    assert torch.equal(products(exact_x, exact_y), exact_x @ exact_y.transpose(1, 2)), "float64 goes another way"


@DTYPES
@pytest.mark.parametrize(("batch", "tokens", "others"), [(1, 300, 301), (2, 257, 768), (1, 1200, 100)])
@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_attention_by_heads(
    batch: int, tokens: int, others: int, sharpness: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a head's logits do not fit into one tile, and where logits are in the hundreds."""
    monkeypatch.setattr(attention, "WORTHWHILE", 1)
    monkeypatch.setattr(attention, "TILE_ELEMENTS", 64 * others)
    monkeypatch.setattr(attention, "attend", lambda *_: pytest.fail("the other way was taken"))
    queries = drawn(batch, tokens, 4, 24, dtype=dtype).transpose(1, 2) * sharpness
    keys, values = (drawn(batch, others, 4, 24, seed=seed, dtype=dtype).transpose(1, 2) for seed in (1, 2))
    found = attend_by_heads(queries, KeysValues(keys, values))
    exact = attend(queries.double(), KeysValues(keys.double(), values.double()))
    assert found.dtype == dtype
    if dtype == torch.float32:
        assert relative(found, exact) < RELATIVE[dtype] * sharpness  # a logit's error grows with it
    elif sharpness == 1:  # bfloat16 knows logits in the hundreds to within one: who wins is chance, here and elsewhere
        assert relative(found, exact) < 2 * RELATIVE[dtype]
    assert found.isfinite().all()
    assert found.transpose(1, 2).is_contiguous(), "merging heads copies nothing"


BLOCKS = {
    "encoder": lambda: EncoderBlock(96, 4, 4),
    "decoder": lambda: DecoderBlock(96, 4, 4),
    "conditioned": lambda: ConditionedBlock(96, 4, 4),
}


@DTYPES
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("grid", [(1, 1), (7, 9), (18, 20)])
def test_block(kind: str, grid: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    plain = BLOCKS[kind]().requires_grad_(requires_grad=False)
    fast = packed(copy.deepcopy(plain).to(dtype))
    plain.to(dtype).float()  # the same rounded weights, in a better precision
    x, y = drawn(2, grid[0] * grid[1], 96, dtype=dtype), drawn(2, 31, 96, seed=1, dtype=dtype)
    turn = rope(grid_positions(*grid, x.device), 24, 100.0, dtype)
    turn_y = rope(grid_positions(1, 31, x.device), 24, 100.0, dtype)

    def result(block: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if kind == "encoder":
            return block(x, turn)
        if kind == "conditioned":
            return block(x, y[:, 0], turn)
        return block(x, block.look_at(y, turn_y), turn)

    assert relative(result(fast, x, y), result(plain, x.float(), y.float())) < RELATIVE[dtype]


# -- networks --------------------------------------------------------------------------------------------------------


def predicted(model: Cut3r, rule: str, frames: np.ndarray, *, fast: bool) -> list[recal3r.Prediction]:
    recon = recal3r.Reconstructor(model, rule, EVERYTHING, size=None, fast=fast)
    return [recon.push(frame) for frame in frames]


ARRAYS = ("points_camera", "points_world", "depth", "confidence_camera", "confidence_world", "rgb")


@pytest.mark.parametrize("name", ["mini-linear", "mini-dpt"])
@pytest.mark.parametrize("rule", ["cut3r", "recal3r", "ttsa3r", "memix(ttt3r)"])
def test_the_fast_path_is_the_plain_path_in_float32(name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 1e-4 relative, every output of every frame."""
    monkeypatch.setattr(attention, "WORTHWHILE", 1)
    frames = seeded_frames(3, 48, 80)
    plain = predicted(seeded_network(name), rule, frames, fast=False)
    fast = predicted(prepared(seeded_network(name)), rule, frames, fast=True)
    for ours, reference in zip(fast, plain, strict=True):
        for output in (*ARRAYS, "T_world_camera", "learning_rate"):
            assert relative(getattr(ours, output), getattr(reference, output)) < 1e-4, output


@pytest.mark.skipif(not can_pack(torch.bfloat16), reason="needs a CPU that multiplies bfloat16")
@pytest.mark.parametrize("name", ["mini-linear", "mini-dpt"])
def test_the_fast_path_in_bfloat16_errs_as_the_plain_one_does(name: str) -> None:
    """Both against float64: the fast path's own share of the error is not the larger one."""
    frames = seeded_frames(2, 48, 64)
    exact = predicted(seeded_network(name, torch.float64), "recal3r", frames, fast=False)
    plain = predicted(seeded_network(name, torch.bfloat16), "recal3r", frames, fast=False)
    fast = predicted(prepared(seeded_network(name, torch.bfloat16)), "recal3r", frames, fast=True)

    def error(found: list[recal3r.Prediction], output: str) -> float:
        pairs = [(getattr(a, output), getattr(b, output)) for a, b in zip(found, exact, strict=True)]
        return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)

    for output in (*ARRAYS, "learning_rate"):
        assert error(fast, output) < 2 * error(plain, output) + 1e-3, output
        assert error(fast, output) < 0.2, output


def test_batches_and_odd_sizes() -> None:
    plain, fast = seeded_network("mini-linear"), prepared(seeded_network("mini-linear"))
    frames = seeded_frames(4, 112, 48)
    outcomes = []
    for model, quick in ((plain, False), (fast, True)):
        recon = recal3r.Reconstructor(model, "recal3r", size=None, streams=2, fast=quick)
        recon.push_batch(list(frames[:2]))
        outcomes.append(recon.push_batch(list(frames[2:])))
    for reference, found in zip(*outcomes, strict=True):
        assert relative(found.points_world, reference.points_world) < 1e-4


def test_loading_packs_and_says_so(tmp_path: Path) -> None:
    mini = seeded_network("mini-dpt")
    path = tmp_path / "mini.safetensors"
    write_safetensors(path, mini.config, mini.official_state_dict())
    fast, plain = load_model(path, device="cpu"), load_model(path, device="cpu", fast=False)
    assert isinstance(fast.image_encoder.blocks[0], PackedEncoderBlock)
    assert isinstance(plain.image_encoder.blocks[0], EncoderBlock)
    samples = plain.weight_samples()
    assert samples.keys() == fast.weight_samples().keys()
    assert all(torch.equal(sample, samples[name]) for name, sample in fast.weight_samples().items())
    for change in (fast.official_state_dict, fast.pack, lambda: fast.working_in(torch.float32)):
        with pytest.raises(WeightsError, match="fast=False"):
            change()


def test_a_session_goes_on_under_the_other_layout(tmp_path: Path) -> None:
    """Saved on a packed network, loaded on a plain one: they know each other's weights."""
    frames = seeded_frames(3, 48, 64)
    recon = recal3r.Reconstructor(prepared(seeded_network("mini-linear")), size=None)
    for frame in frames[:2]:
        recon.push(frame)
    recon.save(tmp_path / "session")
    plain = recal3r.Reconstructor.load(tmp_path / "session", seeded_network("mini-linear"))
    assert relative(plain.push(frames[2]).points_world, recon.push(frames[2]).points_world) < 1e-4


def test_heads_that_were_not_asked_for_do_not_run() -> None:
    model = prepared(seeded_network("mini-dpt"))
    ran: list[str] = []
    for name in ("camera", "world", "rgb"):
        getattr(model.heads, name).register_forward_hook(lambda *_, name=name: ran.append(name))
    frame = seeded_frames(1, 48, 64)[0]
    for outputs, heads in ((("pose",), []), (("depth",), ["camera"]), (("pose", "points_world"), ["world"])):
        ran.clear()
        recal3r.Reconstructor(model, outputs=outputs, size=None).push(frame)
        assert ran == heads


def test_packing_a_configuration_that_oneDNN_has_no_blocks_for() -> None:  # noqa: N802
    """Widths that are no multiple of a vector."""
    config = dataclasses.replace(
        CONFIGS["mini-linear"], encoder_width=80, encoder_heads=4, ray_heads=4, decoder_width=48, image_heads=3
    )
    torch.manual_seed(0)
    plain = Cut3r(config).requires_grad_(requires_grad=False).eval()
    fast = prepared(copy.deepcopy(plain))
    frames = seeded_frames(2, 48, 64)
    reference = predicted(plain, "recal3r", frames, fast=False)[-1]
    assert relative(predicted(fast, "recal3r", frames, fast=True)[-1].points_world, reference.points_world) < 1e-4
