"""The command line: what people type, read and script against."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
import torch

from recal3r.cli import command, weights
from recal3r.cli import main as cli
from recal3r.cli.main import main
from recal3r.model.checkpoint import read_checkpoint
from recal3r.model.config import Cut3rConfig

SOURCES = Path(cli.__file__).parents[2]
SMALL = Cut3rConfig(
    encoder_width=64, encoder_depth=1, encoder_heads=2, decoder_width=32, decoder_depth=2, image_heads=2, state_heads=2,
    state_tokens=6, memory_slots=4, head="linear",
)  # fmt: skip
SMALL_OFFICIAL = (
    "ARCroco3DStereo(ARCroco3DStereoConfig(state_size=6, pos_embed='RoPE100', pose_head=True, rgb_head=True, "
    "img_size=(512, 512), head_type='linear', output_mode='pts3d+pose', enc_embed_dim=64, enc_depth=1, "
    "enc_num_heads=2, dec_embed_dim=32, dec_depth=2, dec_num_heads=2, state_dec_num_heads=2, local_mem_size=4))"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECAL3R_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A whole official checkpoint of a very small network."""
    from recal3r.model.cut3r import Cut3r

    torch.manual_seed(0)
    network = Cut3r(dataclasses.replace(SMALL, ray_heads=16))
    path = tmp_path / "small.pth"
    torch.save({"args": argparse.Namespace(model=SMALL_OFFICIAL), "model": network.official_state_dict()}, path)
    return path


def run(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


# -- weights -----------------------------------------------------------------------------------------------------------


def test_list_shows_what_is_here_and_on_what_terms(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.mkdir()
    (cache / "cut3r_224_linear_4.pth").write_bytes(b"x")
    assert run("weights", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["tiny", "tiny.safetensors", "yes"],
        ["cut3r-512", "cut3r_512_dpt_4_64.pth", "no"],
        ["cut3r-224", "cut3r_224_linear_4.pth", "yes"],
    ]
    assert all("CC BY-NC-SA 4.0" in line for line in lines[2:4])
    assert str(cache) in "\n".join(lines)


def test_fetch_prints_where_the_file_is(official: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(official.read_bytes()).hexdigest()
    assert run("weights", "fetch", official.as_uri(), "--sha256", digest, "--output", official.parent / "b.pth") == 0
    assert capsys.readouterr().out == f"{official.parent / 'b.pth'}\n"
    assert run("weights", "fetch", official.as_uri()) == 0
    assert capsys.readouterr().out == f"{cache / 'small.pth'}\n"


def test_fetch_explains_what_has_to_be_done_by_hand(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", "fetch", "cut3r-512") == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("recal3r: cut3r-512 is not at ")
    assert output.err.count("\n") == 1


def test_verify_says_what_a_file_is(official: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(official.read_bytes()).hexdigest()
    assert run("weights", "verify", official, "--sha256", digest.upper()) == 0
    lines = capsys.readouterr().out
    assert f"sha256: {digest}" in lines
    parameters = sum(tensor.numel() for tensor in read_checkpoint(official).tensors.values())  # no aliases here
    assert f"parameters: {parameters}" in lines
    described = json.loads(lines.partition("configuration: ")[2])
    assert described["encoder_width"] == 64
    assert described["head"] == "linear"


@pytest.mark.parametrize("digest", ["0" * 64, "nonsense"])
def test_verify_refuses_another_checksum(official: Path, capsys: pytest.CaptureFixture[str], digest: str) -> None:
    assert run("weights", "verify", official, "--sha256", digest) == 1
    assert "SHA-256 checksum" in capsys.readouterr().err


def test_verify_names_what_is_missing(official: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = torch.load(official, weights_only=False)
    del checkpoint["model"]["enc_norm.weight"]
    torch.save(checkpoint, official)
    assert run("weights", "verify", official) == 1
    assert "'enc_norm.weight'" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [None, "float16", "float32"])
def test_convert_keeps_every_weight(official: Path, tmp_path: Path, dtype: str | None) -> None:
    target = tmp_path / "small.safetensors"
    chosen = ["--dtype", dtype] if dtype else []
    assert run("weights", "convert", official, target, *chosen) == 0
    before, after = read_checkpoint(official), read_checkpoint(target)
    assert after.config == before.config
    assert set(after.tensors) == set(before.tensors)
    for name, tensor in before.tensors.items():
        assert torch.equal(after.tensors[name], tensor.half() if dtype == "float16" else tensor), name
    assert run("weights", "verify", target) == 0


def test_convert_overwrites_only_when_asked(official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "small.safetensors"
    target.write_bytes(b"mine")
    assert run("weights", "convert", official, target) == 1
    assert "exists already" in capsys.readouterr().err
    assert target.read_bytes() == b"mine"
    assert run("weights", "convert", official, target, "--overwrite") == 0
    assert run("weights", "verify", target) == 0


# -- the program -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["--nonsense"], ["weights"], ["weights", "nonsense"], ["weights", "fetch"],
     ["weights", "convert", "a.pth", "b.safetensors", "--dtype", "int8"]],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "usage: recal3r" in output.err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["weights", "--help"], ["weights", "fetch", "--help"]]
)
def test_help_is_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "recal3r" in capsys.readouterr().out


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: weights.List) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(weights.List, "run", interrupt)
    assert main(["weights", "list"]) == 130


def test_every_entry_leads_to_a_command() -> None:
    for entry in cli.ENTRIES:
        assert main([entry.name, "--help"]) == 0


def test_help_imports_nothing_heavy_and_is_quick() -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    program = (
        "import sys; from recal3r.cli.main import main; status = main(['--help']); "
        "print([name for name in ('torch', 'numpy', 'safetensors') if name in sys.modules]); sys.exit(status)"
    )
    started = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    elapsed = time.monotonic() - started
    assert result.stdout.splitlines()[-1] == "[]"
    assert elapsed < 3  # about 0.1 s on an idle machine


# -- the binder --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Everything:
    """All types at once."""

    source: Path
    name: str = "x"
    count: int | None = None
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    level: Literal[1, 2] | None = None
    size: tuple[int, int] | None = None
    outputs: tuple[str, ...] = ("pose",)
    quick: bool = False
    keep_all: bool = True

    def run(self) -> int:
        return 0


def parse(*arguments: str) -> command.Command:
    return command.parse("program", Everything, arguments, "Tries every type.")


def test_fields_become_options() -> None:
    assert parse("in") == Everything(Path("in"))
    given = parse(
        "in", "--name", "y", "--count", "3", "--rate", "1e-3", "--kind", "b", "--level", "2", "--size", "4", "5",
        "--outputs", "pose", "depth", "--quick", "--no-keep-all",
    )  # fmt: skip
    assert given == Everything(Path("in"), "y", 3, 1e-3, "b", 2, (4, 5), ("pose", "depth"), True, False)


@pytest.mark.parametrize(
    "arguments", [[], ["in", "--count", "x"], ["in", "--kind", "c"], ["in", "--size", "4"], ["in", "--level", "3"]]
)
def test_values_of_another_type_end_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(*arguments)
    assert end.value.code == 2


def test_a_field_that_cannot_be_an_option_is_an_error() -> None:
    @dataclasses.dataclass(frozen=True)
    class Odd:
        value: dict[str, int] = dataclasses.field(default_factory=dict)

        def run(self) -> int:
            return 0

    with pytest.raises(TypeError, match="An option cannot be"):
        command.parse("program", Odd, [], "")
