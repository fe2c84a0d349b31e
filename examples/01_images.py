"""A folder of pictures in, poses and depth out, one picture at a time.

Run it:  python examples/01_images.py WEIGHTS FOLDER      (say, cut3r-512 or my.safetensors, and a folder of .jpg)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import recal3r


def pictures(folder: Path) -> Iterator[recal3r.Frame]:
    """In the order of their names, the right way up. Only one is in memory at a time."""
    for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png")):
        with Image.open(path) as opened:
            yield recal3r.Frame(np.asarray(ImageOps.exif_transpose(opened).convert("RGB")))


def main(weights: str, folder: str) -> None:
    model = recal3r.load_model(weights)
    recon = recal3r.Reconstructor(model, rule="recal3r", outputs=("pose", "camera", "depth"))
    for prediction in recon.stream(pictures(Path(folder))):
        if prediction.T_world_camera is None or prediction.camera is None or prediction.depth is None:
            raise TypeError("outputs that were asked for are there")
        position = prediction.T_world_camera[:3, 3].round(3)
        focal = prediction.camera.original.intrinsics[0, 0]
        depth = np.median(prediction.depth)
        print(f"{prediction.index}: camera at {position}, focal length {focal:.0f} px, median depth {depth:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
