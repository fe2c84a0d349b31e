"""Datasets by name, one file each."""

from __future__ import annotations

from pathlib import Path

from recal3r.eval.datasets.base import Dataset, DatasetError
from recal3r.eval.datasets.bonn import Bonn
from recal3r.eval.datasets.kitti import Kitti
from recal3r.eval.datasets.nrgbd import Nrgbd
from recal3r.eval.datasets.scannet import Scannet
from recal3r.eval.datasets.seven_scenes import SevenScenes
from recal3r.eval.datasets.sintel import Sintel
from recal3r.eval.datasets.synthetic import Synthetic
from recal3r.eval.datasets.tum import Tum
from recal3r.eval.datasets.tum_folder import TumFolder

DATASETS = (Scannet, Tum, Bonn, SevenScenes, Nrgbd, Sintel, Kitti, TumFolder, Synthetic)


def dataset(name: str, root: str | Path) -> Dataset:
    """The dataset of this name at this place."""
    kind = next((kind for kind in DATASETS if kind.name == name), None)
    if kind is None:
        raise DatasetError(
            f"There is no dataset named {name!r}; there are {', '.join(kind.name for kind in DATASETS)}."
        )
    return kind(Path(root))
