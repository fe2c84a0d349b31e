from pathlib import Path

import pytest
import torch

from recal3r.sources.synthetic import Training, WorldConfig, open_shards, write_shards
from recal3r.train.footage import MappedFootage


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "train"
    write_shards(path, "train", 4, 12, config=WorldConfig(trajectory=Training()))
    return path


@pytest.fixture(scope="session")
def footage(clips: Path) -> MappedFootage:
    return MappedFootage([open_shards(clips)])


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
