"""The network around the golden arrays: weights in and out, sizes, pictures, gradients."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import recal3r
from data.seeded import seeded_frames
from networks import CONFIGS, DATA, seeded_network
from recal3r.engine.session import Session
from recal3r.engine.step import step
from recal3r.errors import ConfigError, ImageError, Recal3rError, WeightsError
from recal3r.model.checkpoint import read_checkpoint, write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r, View
from recal3r.model.heads import Head
from recal3r.model.load import load_model, untrained
from recal3r.model.preprocess import FitLongSide, cut, plan_for
from recal3r.rules import Cut3rRule

# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(CONFIGS))
def test_names_and_shapes_are_the_official_ones(name: str) -> None:
    with torch.device("meta"):
        network = Cut3r(CONFIGS[name])
    official = {entry: list(tensor.shape) for entry, tensor in network.official_state_dict().items()}
    assert official == json.loads((DATA / f"parameters_{name}.json").read_text())


@pytest.mark.parametrize("name", ["mini-linear", "mini-dpt"])
def test_official_weights_survive_the_round_trip(name: str) -> None:
    weights = seeded_network(name).official_state_dict()
    fresh = Cut3r(CONFIGS[name])
    fresh.load_official_state_dict(weights)
    again = fresh.official_state_dict()
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[entry], again[entry]) for entry in weights)


def test_every_entry_counts() -> None:
    """Missing, unknown and misshapen entries are errors that name themselves."""
    network = Cut3r(CONFIGS["mini-linear"])
    weights = network.official_state_dict()
    for entry in list(weights)[::40]:
        with pytest.raises(WeightsError, match=f"no entry '{entry}'"):
            network.load_official_state_dict({name: value for name, value in weights.items() if name != entry})
        with pytest.raises(WeightsError, match=f"entry '{entry}' has the shape"):
            network.load_official_state_dict(weights | {entry: torch.zeros(3, 1, 4)})
    with pytest.raises(WeightsError, match=r"entry 'dec_blocks\.9\.norm1\.weight' that this network has no place for"):
        network.load_official_state_dict(weights | {"dec_blocks.9.norm1.weight": torch.zeros(64)})


def test_either_name_of_an_alias_will_do_and_layer_rn_wins() -> None:
    network = Cut3r(CONFIGS["mini-dpt"])
    weights = network.official_state_dict()
    first, second = (f"downstream_head.dpt_self.scratch.{name}.weight" for name in ("layer_rn.2", "layer3_rn"))
    only_second = {name: value for name, value in weights.items() if name != first}
    network.load_official_state_dict(only_second | {second: torch.full_like(weights[first], 2.0)})
    assert (network.official_state_dict()[first] == 2).all()
    network.load_official_state_dict(weights | {second: torch.full_like(weights[first], 3.0)})
    assert torch.equal(network.official_state_dict()[first], weights[first])


def test_a_checkpoint_without_state_blocks_lends_the_image_blocks() -> None:
    network = Cut3r(CONFIGS["mini-linear"])
    weights = network.official_state_dict()
    network.load_official_state_dict({n: w for n, w in weights.items() if not n.startswith("dec_blocks_state.")})
    loaded = network.official_state_dict()
    assert torch.equal(loaded["dec_blocks_state.1.mlp.fc1.weight"], weights["dec_blocks.1.mlp.fc1.weight"])


def test_load_model_from_a_file(mini: Cut3r, frames: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "mini.safetensors"
    write_safetensors(path, mini.config, mini.official_state_dict())
    assert read_checkpoint(path).config == mini.config
    loaded = load_model(path, device="cpu")
    networks = (mini, loaded, load_model(str(path)))
    original, one, other = (recal3r.Reconstructor(network, size=None).push(frames[0]) for network in networks)
    assert np.array_equal(one.points_world, other.points_world)
    # Mapped memory is aligned otherwise than allocated memory, which changes the order of sums in a matrix product.
    np.testing.assert_allclose(one.points_world, original.points_world, atol=1e-5)
    assert load_model(path, dtype="bfloat16").dtype == torch.bfloat16
    assert load_model(path, dtype=torch.float64).heads.pose.fc1.weight.dtype == torch.float64
    wrong = [lambda: load_model(path, dtype="float8"), lambda: load_model(path, device="abacus")]
    wrong += [lambda: load_model("no-such-network"), lambda: load_model(tmp_path / "missing.pth")]
    for action in wrong:
        with pytest.raises(Recal3rError) as caught:
            action()
        assert "\n" not in str(caught.value)


# -- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"head": "conv"},
        {"encoder_width": 0},
        {"encoder_width": 100},
        {"state_heads": 7},
        {"decoder_depth": 1},
        {"decoder_depth": True},
        {"patch_size": 8},
        {"rope_base": 0.5},
        {"square": 1},
        {"unknown": 1},
    ],
)
def test_impossible_configurations(changes: dict) -> None:
    with pytest.raises(ConfigError) as caught:
        Cut3rConfig.from_mapping(dataclasses.asdict(Cut3rConfig()) | changes)
    assert next(iter(changes)) in str(caught.value)


def test_configuration_survives_json() -> None:
    for config in CONFIGS.values():
        assert Cut3rConfig.from_mapping(json.loads(config.to_json())) == config


# -- one frame -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mini-linear", "mini-dpt"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (16, 80), (80, 16), (48, 64), (112, 48)])
def test_any_multiple_of_the_patch(name: str, height: int, width: int) -> None:
    recon = recal3r.Reconstructor(seeded_network(name), size=None)
    for frame in seeded_frames(2, height, width):
        found = recon.push(frame)
    assert found.points_world.shape == (height, width, 3)
    assert found.confidence_camera.min() >= 1
    assert all(np.isfinite(array).all() for array in (found.points_world, found.depth, found.T_world_camera))


def test_other_patch_sizes() -> None:
    config = dataclasses.replace(CONFIGS["mini-linear"], patch_size=8)
    found = recal3r.Reconstructor(untrained(config), size=None).push(seeded_frames(1, 40, 56)[0])
    assert found.depth.shape == (40, 56)


def test_linear_head_puts_nothing_behind_the_camera(mini: Cut3r, frames: np.ndarray) -> None:
    assert (recal3r.Reconstructor(mini, size=None).push(frames[0]).depth >= 0).all()


def test_a_view_needs_something_to_show(mini: Cut3r) -> None:
    with pytest.raises(ImageError, match="neither an image nor a ray map"):
        mini.encode(View())


def test_the_network_remembers_nothing(mini: Cut3r, frames: np.ndarray) -> None:
    before = {name: tensor.clone() for name, tensor in mini.state_dict().items()}
    names = set(vars(mini))
    recon = recal3r.Reconstructor(mini, size=None)
    for frame in frames[:3]:
        recon.push(frame)
    assert set(vars(mini)) == names
    assert all(torch.equal(tensor, before[name]) for name, tensor in mini.state_dict().items())


def test_gradients_flow_through_the_stream() -> None:
    """The step that runs a stream also trains one."""
    network = Cut3r(CONFIGS["mini-linear"])
    session = Session.fresh(network, 2)
    view = View(torch.randn(2, 3, 48, 64))
    for _ in range(2):
        outcome = step(
            network, Cut3rRule(), session, view, wanted=frozenset({Head.POSE, Head.WORLD}), write=[True, True]
        )
    outcome.read.world.points.mean().backward()
    for parameter in (network.decoder.register_tokens.weight, network.pose_memory.initial, network.pose_token):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().max() > 0


# -- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "width", "height", "expected"),
    [
        ("auto", 640, 480, (512, 384)),
        ("auto", 1920, 1080, (512, 288)),
        ("auto", 1080, 1920, (288, 512)),
        ("auto", 1000, 1000, (512, 512)),  # a square picture keeps its quarter
        ("paper", 1000, 1000, (512, 384)),
        ("paper", 640, 480, (512, 384)),
        ("auto", 64, 48, (512, 384)),
        (256, 640, 480, (256, 192)),
        (None, 640, 480, (640, 480)),
    ],
)
def test_windows(size: str | int | None, width: int, height: int, expected: tuple[int, int]) -> None:
    window = plan_for(size, CONFIGS["cut3r_512_dpt"]).window(width, height)
    assert (window.width, window.height) == expected
    assert window.crop.original == (width, height)


@pytest.mark.parametrize(("width", "height"), [(640, 480), (480, 640), (224, 224), (100, 90)])
def test_square_networks_see_the_central_square(width: int, height: int) -> None:
    window = plan_for("auto", CONFIGS["cut3r_224_linear"]).window(width, height)
    assert (window.width, window.height) == (224, 224)
    assert min(window.crop.resized) == 224


@given(st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([64, 224, 512]), st.booleans())
def test_a_window_is_whole_patches_inside_the_picture(width: int, height: int, side: int, square: bool) -> None:
    try:
        window = FitLongSide(side, 16, square_to_4_3=square).window(width, height)
    except ImageError:
        assert min(width, height) * side / max(width, height) < 16.5
        return
    crop = window.crop
    assert window.width % 16 == window.height % 16 == 0
    assert max(crop.resized) == side
    assert 0 <= crop.left <= crop.resized[0] - window.width
    assert 0 <= crop.top <= crop.resized[1] - window.height
    assert crop.resized[0] - window.width < 32 or square


def test_a_resized_pixel_stays_where_its_camera_says() -> None:
    """A bright spot, found again at the network's resolution, where the intrinsics put it."""
    image = np.zeros((1000, 1400, 3), np.uint8)
    image[590:610, 390:410] = 255  # centred at (399.5, 599.5)
    window = plan_for("auto", CONFIGS["cut3r_512_dpt"]).window(1400, 1000)
    small = cut(image, window)[..., 0].astype(float)
    row, column = np.indices(small.shape)
    found = np.array([(column * small).sum(), (row * small).sum()]) / small.sum()
    camera = recal3r.Camera(np.eye(3), window.width, window.height, crop=window.crop)
    to_original = camera.original.intrinsics  # takes network pixels to original ones
    np.testing.assert_allclose((to_original @ [*found, 1])[:2], [399.5, 599.5], atol=0.05)
