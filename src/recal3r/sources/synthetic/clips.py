"""Clips for training: many short streams as plain arrays, and a folder of memory-mapped files that holds them.

A shard folder has images.npy [C, T, H, W, 3] uint8, depth.npy [C, T, H, W] float16, poses.npy [C, T, 4, 4] float32,
intrinsics.npy [C, 3, 3] float32, seeds.npy [C] int64 and header.json. Clip c is a function of its seed alone, so the
bytes are the same however many workers wrote them.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import ConfigError, Recal3rError
from recal3r.jsontext import parsed
from recal3r.sources.synthetic.training import Training
from recal3r.sources.synthetic.trajectory import Trajectory
from recal3r.sources.synthetic.world import Split, SyntheticWorld, WorldConfig, split_seed

FORMAT = "recal3r-synthetic-clips-1"
_ARRAYS = ("images", "depth", "poses", "intrinsics", "seeds")


class ShardError(Recal3rError):
    """A folder of training clips is in the way, damaged, or something else."""


@dataclass(frozen=True)
class Clip:
    """T frames of one scene."""

    images: NDArray[np.uint8]  # [T, H, W, 3]
    depth: NDArray[np.float16 | np.float32]  # [T, H, W] metres
    poses: NDArray[np.float64]  # [T, 4, 4] T_world_camera
    intrinsics: NDArray[np.float64]  # [3, 3]


@dataclass(frozen=True)
class Shards:
    """A shard folder, opened: memory maps that read from the disk what is indexed."""

    images: NDArray[np.uint8]  # [C, T, H, W, 3]
    depth: NDArray[np.float16]  # [C, T, H, W]
    poses: NDArray[np.float32]  # [C, T, 4, 4]
    intrinsics: NDArray[np.float32]  # [C, 3, 3]
    seeds: NDArray[np.int64]  # [C]
    header: dict[str, Any]


def render_clip(
    seed: int,
    length: int,
    *,
    width: int = 64,
    height: int = 48,
    trajectory: Trajectory | None = None,
    config: WorldConfig | None = None,
    depth_type: Literal["float16", "float32"] = "float32",
) -> Clip:
    """The first `length` frames of a seed's world. `config` replaces the other options where it is given."""
    if length < 1:
        raise ConfigError(f"A clip of {length} frames is empty; use 1 or more.")
    config = config or WorldConfig(width=width, height=height, trajectory=trajectory or Training())
    world = SyntheticWorld(seed, config)
    images = np.empty((length, config.height, config.width, 3), np.uint8)
    depth = np.empty((length, config.height, config.width), depth_type)
    poses = np.empty((length, 4, 4), np.float64)
    for k, frame in enumerate(islice(world.frames(), length)):
        images[k], depth[k], poses[k] = frame.image, frame.depth, frame.T_world_camera
    return Clip(images, depth, poses, world.camera.intrinsics())


def write_shards(
    path: str | Path,
    split: Split,
    clips: int,
    length: int,
    size: tuple[int, int] = (64, 48),
    *,
    workers: int = 1,
    first: int = 0,
    config: WorldConfig | None = None,
) -> Path:
    """Render scenes `first` to `first + clips` of a split, `length` frames of `size` (width, height) each, to a folder.

    `config` says everything else about the world; without it, the camera moves as in Training. The folder appears under
    its name when it is complete, and not before.
    """
    path = Path(path)
    if clips < 1 or length < 1 or workers < 1:
        raise ConfigError(f"{clips} clips of {length} frames by {workers} workers is no work; use 1 or more of each.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ShardError(f"{path} is there already and is never overwritten; name a folder that is new or empty.")
    config = replace(config or WorldConfig(trajectory=Training()), width=size[0], height=size[1])
    seeds = [split_seed(split, first + k) for k in range(clips)]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        _allocate(unfinished, seeds, length, size)
        _fill(unfinished, seeds, config, workers)
        header = {
            "format": FORMAT,
            "split": split,
            "first": first,
            "clips": clips,
            "length": length,
            "trajectory": type(config.trajectory).__name__,
            "world": asdict(config),
        }
        (unfinished / "header.json").write_text(json.dumps(header, indent=2, sort_keys=True) + "\n")
        unfinished.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        unfinished.replace(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)  # made above, by us
        raise
    return path


def open_shards(path: str | Path) -> Shards:
    """Map a shard folder for reading."""
    path = Path(path)
    try:
        header: dict[str, Any] = parsed((path / "header.json").read_text())
        arrays: list[NDArray[Any]] = [np.load(path / f"{name}.npy", mmap_mode="r") for name in _ARRAYS]
    except (OSError, ValueError) as error:
        raise ShardError(f"{path} is no complete folder of clips ({error}); write one with write_shards.") from error
    if header.get("format") != FORMAT:
        raise ShardError(f"{path} has the format {header.get('format')!r}; this version reads {FORMAT!r}.")
    if any(len(array) != header["clips"] for array in arrays):
        raise ShardError(f"{path} does not hold the {header['clips']} clips its header speaks of; write it again.")
    return Shards(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], header)


def _allocate(folder: Path, seeds: list[int], length: int, size: tuple[int, int]) -> None:
    """Create the files at their full size; the seeds are already right."""
    count, (width, height) = len(seeds), size
    shapes: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "images": (np.uint8, (count, length, height, width, 3)),
        "depth": (np.float16, (count, length, height, width)),
        "poses": (np.float32, (count, length, 4, 4)),
        "intrinsics": (np.float32, (count, 3, 3)),
    }
    for name, (kind, shape) in shapes.items():
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=shape).flush()
    np.save(folder / "seeds.npy", np.array(seeds, np.int64))


def _fill(folder: Path, seeds: list[int], config: WorldConfig, workers: int) -> None:
    if workers == 1:
        _render_into(folder, seeds, range(len(seeds)), config)
        return
    parts = [range(k, len(seeds), workers) for k in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(_render_into, folder, seeds, part, config) for part in parts]:
            done.result()


def _render_into(folder: Path, seeds: list[int], which: Iterable[int], config: WorldConfig) -> None:
    images, depth, poses, intrinsics = (np.load(folder / f"{name}.npy", mmap_mode="r+") for name in _ARRAYS[:4])
    for k in which:
        clip = render_clip(seeds[k], images.shape[1], config=config, depth_type="float16")
        images[k], depth[k], poses[k], intrinsics[k] = clip.images, clip.depth, clip.poses, clip.intrinsics
    for array in (images, depth, poses, intrinsics):
        array.flush()
