"""The arrays that decide whether network, rules and stream are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

import recal3r
from data.seeded import seeded_frames
from networks import DATA, seeded_network
from recal3r.engine.outputs import EVERYTHING
from recal3r.geometry.pose import pose_from_quaternion
from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence
from recal3r.rules.recal3r import drift
from recal3r.rules.recal3r_release import Pressure, Recal3rRelease
from recal3r.types import Prediction

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}
CLOSE = 1e-6  # of a signal's largest value: what float32 knows it to, after a network of 36 layers
Ranked = dict[str, np.ndarray]  # what a rule sees through ranks: a number for every token [N], by name
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])

CASES = [
    *(("mini-linear", rule, "") for rule in ("cut3r", "ttt3r", "ttsa3r", "recal3r", "recal3r-release")),
    ("mini-linear", "memix(ttt3r)", "mini-linear_memix-ttt3r.npz"),
    ("mini-linear", "memix(cut3r)", "mini-linear_memix-cut3r.npz"),
    *(("mini-dpt", rule, "") for rule in ("cut3r", "ttt3r", "recal3r-release")),
]


def find(file: str, request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    """A golden file: the few that travel with the tests, the others from the shared folder."""
    path = DATA / file
    if not path.is_file():
        path = request.getfixturevalue("shared") / "golden" / file
    with np.load(path) as arrays:
        return dict(arrays)


def worst(golden: dict[str, np.ndarray], at: int, prediction: Prediction, pixels: slice = slice(None)) -> float:
    """The largest difference of a prediction's arrays from frame `at` of a golden file."""
    t, wxyz = np.split(golden["camera_pose"][at].astype(np.float64), [3])
    pairs = {
        "pts3d_in_self_view": prediction.points_camera,
        "conf_self": prediction.confidence_camera,
        "pts3d_in_other_view": prediction.points_world,
        "conf": prediction.confidence_world,
        "rgb": prediction.rgb,
    }
    differences = {name: np.abs(golden[name][at] - mine[pixels, pixels]).max() for name, mine in pairs.items()}
    differences["camera_pose"] = np.abs(
        pose_from_quaternion(t, wxyz / np.linalg.norm(wxyz)) - prediction.T_world_camera
    ).max()
    assert np.array_equal(prediction.depth, prediction.points_camera[..., 2])
    return max(differences.values())


def run(
    golden: dict[str, np.ndarray],
    recon: recal3r.Reconstructor,
    frames: np.ndarray,
    *,
    reset_after: int | None = None,
    not_written: Sequence[int] = (),
    pixels: slice = slice(None),
    tokens: slice = slice(None),
    exact: Sequence[Ranked] = (),
) -> dict[str, float]:
    """The largest difference from the golden arrays, over the whole stream."""
    errors = {"state": 0.0, "outputs": 0.0, "rate": 0.0}
    rates = iter(golden.get("rate", ()))
    moved = np.zeros(recon.session.state.shape[1], dtype=bool)
    for at, frame in enumerate(frames):
        state = recon.session.state[0, tokens].double().numpy()
        errors["state"] = max(errors["state"], np.abs(golden["state_before"][at] - state).max())
        first = recon.session.starts[0]
        prediction = recon.push(frame, update=at not in not_written)
        errors["outputs"] = max(errors["outputs"], worst(golden, at, prediction, pixels))
        if not first and "rate" in golden:
            expected = next(rates)
            if at not in not_written:
                difference = np.abs(expected - prediction.learning_rate)
                if exact:
                    ranked = recon.rule.ranked
                    moved = changed_places(ranked[-1], exact[len(ranked) - 1], moved)
                    difference = difference[~moved]
                errors["rate"] = max(errors["rate"], difference.max())
        if at == reset_after:
            recon.reset()
    assert next(rates, None) is None, "the golden file holds more rates than frames were pushed"
    return errors


def check(errors: dict[str, float], dtype: torch.dtype) -> None:
    assert all(error <= TOLERANCE[dtype] for error in errors.values()), errors


@DTYPES
@pytest.mark.parametrize(("network", "rule", "file"), CASES, ids=[f"{n}-{r}" for n, r, _ in CASES])
def test_stream(network: str, rule: str, file: str, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    golden = find(file or f"{network}_{rule}.npz", request)
    recon = recal3r.Reconstructor(seeded_network(network, dtype), rule, EVERYTHING, size=None)
    check(run(golden, recon, seeded_frames(len(golden["conf"]), 48, 64)), dtype)


@DTYPES
@pytest.mark.parametrize("fast", [True, False], ids=["fused", "plain"])
def test_every_signal_of_the_paper(dtype: torch.dtype, fast: bool, request: pytest.FixtureRequest) -> None:
    golden = find("mini-linear_recal3r.npz", request)
    recon = recal3r.Reconstructor(seeded_network("mini-linear", dtype), "recal3r", size=None, fast=fast)
    frames = seeded_frames(12, 48, 64)
    recon.push(frames[0])
    names = {"g": "alignment", "h": "pressure", "r": "residual", "d": "deviation"}
    names |= {"e": "entropy", "rho": "reliability", "R": "trust"}
    for at, frame in enumerate(frames[1:]):
        signals = recon.push(frame).signals
        for symbol, name in names.items():
            error = np.abs(golden[f"signal_{symbol}"][at] - signals[name]).max()
            assert error <= TOLERANCE[dtype], (symbol, at, error)


@DTYPES
@pytest.mark.parametrize("rule", ["ttt3r", "recal3r-release"])
def test_reset(rule: str, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    golden = find(f"mini-linear_{rule}_reset-after-frame4.npz", request)
    recon = recal3r.Reconstructor(seeded_network("mini-linear", dtype), rule, EVERYTHING, size=None)
    check(run(golden, recon, seeded_frames(10, 48, 64), reset_after=4), dtype)


@DTYPES
def test_portrait_with_frames_that_are_not_written(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    golden = find("mini-linear_ttt3r_portrait_frames3and6-not-written.npz", request)
    recon = recal3r.Reconstructor(seeded_network("mini-linear", dtype), "ttt3r", EVERYTHING, size=None)
    check(run(golden, recon, seeded_frames(10, 64, 48), not_written=(3, 6)), dtype)


@DTYPES
def test_query(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    golden = find("mini-linear_cut3r_ray-map-query-after-6-frames.npz", request)
    recon = recal3r.Reconstructor(seeded_network("mini-linear", dtype), "cut3r", EVERYTHING, size=None)
    for frame in seeded_frames(6, 48, 64):
        recon.push(frame)
    before = recon.session.state.clone()
    camera = recal3r.Camera(
        intrinsics_behind(golden["ray_map"], golden["camera_to_world"]), 64, 48, golden["camera_to_world"]
    )
    assert worst(golden, 0, recon.query(camera)) <= TOLERANCE[dtype]
    assert torch.equal(before, recon.session.state)


def intrinsics_behind(rays: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """K of the camera whose rays [H, W, 6] these are: directions are R K⁻¹ [column, row, 1] + t, up to length."""
    rotation, translation = pose[:3, :3].astype(np.float64), pose[:3, 3].astype(np.float64)
    directions = rays[..., 3:].astype(np.float64)
    # s · direction = R [x, y, 1] + t: third camera coordinate gives s, then x and y are linear in column and row.
    in_camera, offset = directions @ rotation, translation @ rotation
    scale = (1 + offset[2]) / in_camera[..., 2]
    x, y = (scale[..., None] * in_camera - offset)[..., :2].transpose(2, 0, 1)
    fx, fy = 1 / np.diff(x, axis=1).mean(), 1 / np.diff(y, axis=0).mean()
    return np.array([[fx, 0, -fx * x[:, 0].mean()], [0, fy, -fy * y[0].mean()], [0, 0, 1]])


FULL = [
    ("cut3r_512_dpt", "cut3r_512_dpt_recal3r-release_3x288x512.npz"),
    ("cut3r_224_linear", "cut3r_224_linear_recal3r-release_3x224x224.npz"),
]


@dataclass(frozen=True)
class Watched(Recal3rRelease):
    """The rule, and what it ranked, frame by frame: deviation and entropy of every token."""

    ranked: list[Ranked] = field(default_factory=list)

    def step(self, evidence: Evidence, memory: Pressure) -> Decision[Pressure]:
        signals = {"deviation": drift(evidence, evidence.initial_state), "entropy": evidence.stats[Stat.ENTROPY]}
        self.ranked.append({name: signal[0].double().numpy() for name, signal in signals.items()})
        return super().step(evidence, memory)


@pytest.mark.slow
@pytest.mark.xdist_group("full size")  # 9 GB: one at a time
@pytest.mark.parametrize(("network", "file"), FULL, ids=["512-dpt", "224-linear"])
def test_full_size(network: str, file: str, shared: Path) -> None:
    """In float64, which is asked of nobody but leaves no excuse, and in float32."""
    with np.load(shared / "golden" / file) as arrays:
        golden = dict(arrays)
    height, width = (int(side) * 8 for side in golden["conf"].shape[1:])
    frames = seeded_frames(3, height, width)
    model = seeded_network(network)
    exact: list[Ranked] = []
    for dtype in (torch.float64, torch.float32):
        rule = Watched()
        recon = recal3r.Reconstructor(model.working_in(dtype), rule, EVERYTHING, size=None)
        every8th, every16th = slice(4, None, 8), slice(None, None, 16)
        check(run(golden, recon, frames, pixels=every8th, tokens=every16th, exact=exact), dtype)
        exact = rule.ranked


def changed_places(found: Ranked, exact: Ranked, before: np.ndarray) -> np.ndarray:
    """Which tokens [N] have another rank than in float64, be it by chance or because of what chance did `before`.

    The released rule sees its signals through ranks. Tokens of 768 can differ in entropy by 1e-9 (two of the 224 file
    do), which float32 cannot tell: which of them comes first is chance, their rates are then a rank off, about 3e-4,
    and so are their states from then on. No other token may overtake one that float64 tells from it.
    """
    moved, by_chance = before.copy(), 0
    for name, values in exact.items():
        order = np.argsort(found[name], kind="stable")
        sound = values[order][~before[order]]
        overtaken = np.maximum.accumulate(sound) - sound
        assert overtaken.max() <= CLOSE * np.abs(values).max(), f"{name}: {overtaken.max():.1e} apart, but exchanged"
        by_chance += np.count_nonzero(overtaken)
        moved |= np.argsort(order) != np.argsort(np.argsort(values, kind="stable"))
    assert by_chance <= 4, f"{by_chance} tokens changed places in one frame: more than chance"
    assert moved.mean() <= 0.02, f"{moved.sum()} of {len(moved)} rates would go unchecked"
    return moved
