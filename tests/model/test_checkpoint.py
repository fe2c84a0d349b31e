"""Weights on disk: what is read, what is refused, and that nothing in a file is ever run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pickle
import struct
import sys
import types
import typing
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from recal3r.errors import ConfigError, Recal3rError, WeightsError
from recal3r.model.checkpoint import check_finite, read_checkpoint, write_safetensors
from recal3r.model.config import CUT3R_224_LINEAR, CUT3R_512_DPT, Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.official_config import parse_official_config

OFFICIAL = (
    "ARCroco3DStereo(ARCroco3DStereoConfig(state_size=768, state_pe='2d', pos_embed='RoPE100', rgb_head=True, "
    "pose_head=True, patch_embed_cls='ManyAR_PatchEmbed', img_size=(512, 512), head_type='dpt', "
    "output_mode='pts3d+pose', depth_mode=('exp', -inf, inf), conf_mode=('exp', 1, inf), "
    "pose_mode=('exp', -inf, inf), enc_embed_dim=1024, enc_depth=24, enc_num_heads=16, dec_embed_dim=768, "
    "dec_depth=12, dec_num_heads=12, landscape_only=False))"
)


def some_tensors() -> dict[str, torch.Tensor]:
    shared = torch.arange(12.0).reshape(3, 4)
    return {
        "pose_token": torch.randn(1, 1, 8, generator=torch.Generator().manual_seed(0)),
        "scratch.layer1_rn.weight": shared,
        "scratch.layer_rn.0.weight": shared,
        "tail": shared[1:],
        "turned": shared.t(),
        "parameter": torch.nn.Parameter(torch.ones(2, 3)),
        "half": torch.tensor([0.5, 2.0], dtype=torch.float16),
        "scalar": torch.tensor(2.0),
        "empty": torch.empty(0, 3),
    }


def save(path: Path, tensors: object = None, *, args: object = None, **others: object) -> Path:
    weights = some_tensors() if tensors is None else tensors
    args = argparse.Namespace(model=OFFICIAL) if args is None else args
    torch.save({"args": args, "model": weights, **others}, path)
    return path


def with_pickle(path: Path, program: bytes) -> Path:
    """A torch zip whose pickle is `program`."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
    return path


def rewrite(path: Path, change: typing.Callable[[str, bytes], bytes | None], compression: int = 0) -> Path:
    """The same zip with its records changed, or left out where `change` returns None."""
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in records.items():
            changed = change(name, content)
            if changed is not None:
                archive.writestr(name, changed)
    return path


def one_sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


# -- what is read ------------------------------------------------------------------------------------------------------


def test_reads_every_tensor_as_it_was_saved(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(save(tmp_path / "x.pth"))
    assert checkpoint.config == CUT3R_512_DPT
    assert checkpoint.path == tmp_path / "x.pth"
    assert list(checkpoint.tensors) == list(some_tensors())
    for name, tensor in some_tensors().items():
        assert torch.equal(checkpoint.tensors[name], tensor), name
        assert checkpoint.tensors[name].dtype == tensor.dtype


def test_tensors_that_share_numbers_in_the_file_share_them_in_memory(tmp_path: Path) -> None:
    tensors = read_checkpoint(save(tmp_path / "x.pth")).tensors
    assert tensors["scratch.layer1_rn.weight"].data_ptr() == tensors["scratch.layer_rn.0.weight"].data_ptr()


def test_changing_a_tensor_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth")
    before = path.read_bytes()
    read_checkpoint(path).tensors["pose_token"].zero_()
    assert path.read_bytes() == before


def test_strips_the_prefix_of_parallel_training(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {f"module.{name}": tensor for name, tensor in some_tensors().items()})
    assert list(read_checkpoint(path).tensors) == list(some_tensors())


def test_a_name_with_and_without_the_prefix_is_ambiguous(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {"a": torch.ones(1), "module.a": torch.zeros(1)})
    with pytest.raises(WeightsError, match=r"both with and without 'module\.'"):
        read_checkpoint(path)


def test_a_state_dict_with_metadata_reads(tmp_path: Path) -> None:
    layer = torch.nn.Linear(4, 3)
    tensors = read_checkpoint(save(tmp_path / "x.pth", layer.state_dict())).tensors
    assert torch.equal(tensors["weight"], layer.weight)


def test_what_training_left_beside_the_weights_is_not_read(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(1000))
    weight.grad = torch.ones(1000)
    optimizer = torch.optim.Adam([weight])
    optimizer.step()
    path = save(tmp_path / "x.pth", optimizer=optimizer.state_dict(), epoch=3, best=np.float64(0.5), scaler={"a": 1.0})
    with zipfile.ZipFile(path) as archive:
        before = len(archive.namelist())
    # Its numbers may even be missing: they are the last that torch wrote.
    rewrite(path, lambda name, content: None if len(content) == 4000 else content)
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) < before
    assert torch.equal(read_checkpoint(path).tensors["tail"], some_tensors()["tail"])


def test_reads_a_file_written_without_checksums(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        path = save(tmp_path / "x.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert torch.equal(read_checkpoint(path).tensors["tail"], some_tensors()["tail"])


def test_args_may_hold_values_of_many_kinds(tmp_path: Path) -> None:
    args = argparse.Namespace(
        model=OFFICIAL, rate=np.float64(3), steps=np.arange(3), kind=torch.float32, device=torch.device("cpu"),
        size=torch.Size([1, 2]), folder=Path("runs"), names={"a", "b"}, raw=b"bytes", number=2j,
        option=typing.Optional[int], mapping=typing.Dict[str, typing.Any],  # noqa: UP006, UP045  # as older files hold them
    )  # fmt: skip
    assert read_checkpoint(save(tmp_path / "x.pth", args=args)).config == CUT3R_512_DPT


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> typing.Callable[..., type]:
    """Classes of packages that only the machine that saved the file has."""

    def make(module: str, name: str) -> type:
        package = types.ModuleType(module)
        created = type(name, (), {"__module__": module})
        setattr(package, name, created)
        monkeypatch.setitem(sys.modules, module.partition(".")[0], types.ModuleType("package"))
        monkeypatch.setitem(sys.modules, module, package)
        return created

    return make


def filled(cls: type, **attributes: object) -> object:
    instance = cls()
    instance.__dict__.update(attributes)
    return instance


def test_args_may_be_an_omegaconf_container(
    tmp_path: Path, strangers: typing.Callable[..., type], monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf, holder = strangers("omegaconf.nodes", "AnyNode"), strangers("omegaconf.dictconfig", "DictConfig")
    metadata = filled(strangers("omegaconf.base", "ContainerMetadata"), ref_type=typing.Any, object_type=dict)
    args = filled(holder, _metadata=metadata, _parent=None)
    args.__dict__["_content"] = {"model": filled(leaf, _val=OFFICIAL, _parent=args), "lr": filled(leaf, _val=1e-4)}
    path = save(tmp_path / "x.pth", args=args)
    monkeypatch.undo()  # the classes are gone, as on another machine
    assert read_checkpoint(path).config == CUT3R_512_DPT


def test_args_may_hold_classes_that_nobody_knows(
    tmp_path: Path, strangers: typing.Callable[..., type], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = argparse.Namespace(model=OFFICIAL, what=filled(strangers("someones_lab", "Setting"), a=1))
    path = save(tmp_path / "x.pth", args=args)
    monkeypatch.undo()
    assert read_checkpoint(path).config == CUT3R_512_DPT


@pytest.mark.parametrize("args", [argparse.Namespace(lr=1), {}, "text", argparse.Namespace(model=3)])
def test_a_checkpoint_that_names_no_network_is_refused(tmp_path: Path, args: object) -> None:
    with pytest.raises(WeightsError, match=r"args\.model") as error:
        read_checkpoint(save(tmp_path / "x.pth", args=args))
    assert "weights convert" in one_sentence(error)


# -- what is refused ---------------------------------------------------------------------------------------------------


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function: typing.Callable[..., object], *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


def hostile_programs(mark: Path) -> dict[str, tuple[bytes, str]]:
    """Pickles that would create the file `mark`, and the global that each has to ask for."""
    import builtins
    import os
    import subprocess

    command, text = f"touch {mark}", f"open({str(mark)!r}, 'w')"
    shell = f"(S'{command}'\nt"
    stack_global = pickle.dumps(Calls(os.system, command), protocol=4)
    assert b"\x93" in stack_global
    objects = {
        "os.system": (Calls(os.system, command), "posix.system"),
        "eval": (Calls(builtins.eval, text), "builtin"),
        "exec": (Calls(builtins.exec, text), "builtin"),
        "open": (Calls(open, str(mark), "w"), "io.open"),
        "subprocess": (Calls(subprocess.check_call, ["touch", str(mark)]), "subprocess.check_call"),
        "getattr": (Calls(getattr, 1, "real"), "builtin"),
        "nested in args": (
            {"args": argparse.Namespace(model=OFFICIAL, x=[Calls(os.system, command)]), "model": {}},
            "posix.system",
        ),
        "nested in the weights": (
            {"args": argparse.Namespace(model=OFFICIAL), "model": {"a": Calls(os.system, command)}},
            "posix.system",
        ),
        "numpy loads a pickle": (Calls(np.load, str(mark)), "numpy.load"),
        "torch loads a pickle": (Calls(torch.load, str(mark)), "torch.serialization.load"),
        "torch hub": (Calls(torch.hub.load, "a/b", "c"), "torch.hub.load"),
    }
    programs = {name: (pickle.dumps(value, protocol=2), found) for name, (value, found) in objects.items()}
    return programs | {
        "protocol 0": (f"cposix\nsystem\n{shell}R.".encode(), "posix.system"),
        "the os module": (f"cos\nsystem\n{shell}R.".encode(), "os.system"),
        "python 2": (f"ccommands\ngetoutput\n{shell}R.".encode(), "subprocess.getoutput"),
        "INST": (f"(S'{command}'\nios\nsystem\n.".encode(), "os.system"),
        "OBJ": (f"(cos\nsystem\nS'{command}'\no.".encode(), "os.system"),
        "NEWOBJ": (b"csubprocess\nPopen\n(lt\x81.", "subprocess.Popen"),
        "STACK_GLOBAL": (stack_global, "posix.system"),
        "a dotted name": (b"\x80\x04\x8c\x08argparse\x8c\x10_sys.modules.get\x93.", "argparse._sys.modules.get"),
        "a dotted name of an honest class": (
            b"\x80\x04\x8c\x08argparse\x8c\x12Namespace.__init__\x93)R.",
            "argparse.Namespace.__init__",
        ),
        "a call of an unknown package": (b"csetuptools\nsetup\n)R.", "setuptools.setup"),
        "BUILD calls __setstate__ of an honest class": (
            f"cargparse\nNamespace\n)R(dS'__setstate__'\ncos\nsystem\nsbS'{command}'\nb.".encode(),
            "os.system",
        ),
        "BUILD sets an attribute of a class": (
            b"cargparse\nNamespace\n(N(dS'__init__'\ncbuiltins\nexec\nstb.",
            "builtins.exec",
        ),
        "a persistent id that is a call": (f"(S'storage'\ncos\nsystem\n{shell}RS'cpu'\nI1\ntQ.".encode(), "os.system"),
    }


@pytest.mark.parametrize("form", list(hostile_programs(Path("mark"))))
def test_a_hostile_pickle_runs_nothing_and_is_named(tmp_path: Path, form: str) -> None:
    mark = tmp_path / "mark"
    program, found = hostile_programs(mark)[form]
    path = with_pickle(tmp_path / "x.pth", program)
    with pytest.raises(WeightsError, match="nothing was run") as error:
        read_checkpoint(path)
    assert found in one_sentence(error)
    assert not mark.exists()


DAMAGED_PROGRAMS = {
    "a persistent id that is a text": b"Pos.system\n.",
    "a persistent id of a class that is none": b"(S'storage'\nS'torch.FloatStorage'\nS'0'\nS'cpu'\nI1\ntQ.",
    "a persistent id of another kind": b"(S'module'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI1\ntQ.",
    "an extension code": b"\x80\x02\x82\x01.",
    "a memo index that would claim gigabytes": b"\x80\x02Nr\xff\xff\xff\xff.",
    "a length beyond the end": b"\x80\x04\x96\xff\xff\xff\xff\xff\xff\x00\x00.",
    "state given to a class": b"cargparse\nNamespace\n(db.",
    "no end": b"\x80\x02}",
    "nothing": b"",
}


@pytest.mark.parametrize("form", DAMAGED_PROGRAMS)
def test_a_damaged_pickle_is_one_sentence(tmp_path: Path, form: str) -> None:
    with pytest.raises(WeightsError, match="damaged pickle") as error:
        read_checkpoint(with_pickle(tmp_path / "x.pth", DAMAGED_PROGRAMS[form]))
    one_sentence(error)


def test_what_a_file_does_to_a_class_ends_with_the_file(tmp_path: Path) -> None:
    setstate = b"\x80\x02cargparse\nNamespace\n)\x81}X\x05\x00\x00\x00modelX\x01\x00\x00\x00xsb."
    with pytest.raises(WeightsError):
        read_checkpoint(with_pickle(tmp_path / "x.pth", setstate))
    assert not hasattr(argparse.Namespace, "model")
    assert read_checkpoint(save(tmp_path / "y.pth")).config == CUT3R_512_DPT


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "empty"),
        (b"hello, this is no checkpoint", "does not start as a zip"),
        (b"PK\x03\x04 and then nothing of a zip", "cut short or damaged"),
        (pickle.dumps({"a": 1}), "before 1.6"),
    ],
)
@pytest.mark.parametrize("suffix", [".pth", ".pt"])
def test_a_file_that_is_no_torch_zip(tmp_path: Path, content: bytes, rule: str, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=rule) as error:
        read_checkpoint(path)
    assert str(path) in one_sentence(error)


def test_the_format_of_old_torch_is_named(tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    with pytest.raises(WeightsError, match=r"before 1\.6.*save it again"):
        read_checkpoint(tmp_path / "x.pth")


@pytest.mark.parametrize(
    ("name", "rule"), [("nowhere.pth", "no file that exists"), (".", "folder"), ("x.onnx", "does not end in .pth")]
)
def test_a_path_that_is_no_weights_file(tmp_path: Path, name: str, rule: str) -> None:
    (tmp_path / "x.onnx").write_bytes(b"x")
    with pytest.raises(WeightsError, match=rule) as error:
        read_checkpoint(tmp_path / name)
    one_sentence(error)


def test_a_zip_that_torch_did_not_write(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pth", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(WeightsError, match="no torch checkpoint"):
        read_checkpoint(tmp_path / "x.pth")


def test_compressed_records_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {"zeros": torch.zeros(100_000)})
    rewrite(path, lambda _, content: content, zipfile.ZIP_DEFLATED)
    with pytest.raises(WeightsError, match="compressed"):
        read_checkpoint(path)


def test_numbers_that_are_missing_are_named(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {"here": torch.ones(3), "gone": torch.ones(5)})
    rewrite(path, lambda name, content: None if name.endswith("data/1") else content)
    with pytest.raises(WeightsError, match="lacks numbers that 'gone'"):
        read_checkpoint(path)


def test_changed_numbers_are_named(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {"sound": torch.ones(3), "hurt": torch.full((50,), 3.25)})
    content = path.read_bytes()
    numbers = np.full(50, 3.25, np.float32).tobytes()
    assert content.count(numbers) == 1
    path.write_bytes(content.replace(numbers, numbers[:-1] + b"\x41"))
    with pytest.raises(WeightsError, match=r"damaged bytes in 'hurt'"):
        read_checkpoint(path)


def test_a_view_may_not_repeat_numbers(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth", {"bomb": torch.ones(1).expand(10**6, 10**6)})
    assert path.stat().st_size < 10_000
    with pytest.raises(WeightsError, match="'bomb' as larger than the numbers"):
        read_checkpoint(path)


def test_records_that_are_not_aligned_read_as_well(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pth")
    rewrite(path, lambda _, content: content)  # Python's zipfile aligns nothing
    for name, tensor in some_tensors().items():
        assert torch.equal(read_checkpoint(path).tensors[name], tensor), name


def test_the_other_byte_order_is_refused(tmp_path: Path) -> None:
    path = rewrite(save(tmp_path / "x.pth"), lambda name, content: b"big" if "byteorder" in name else content)
    with pytest.raises(WeightsError, match="order"):
        read_checkpoint(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_value_that_is_no_finite_number_is_named(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    hurt = torch.zeros(7, 9, dtype=dtype)
    hurt[3, 5] = value
    with pytest.raises(WeightsError, match="NaN or infinity in 'hurt'"):
        check_finite({"sound": torch.ones(2), "empty": torch.empty(0), "hurt": hurt, "also": hurt})
    with pytest.raises(WeightsError, match="NaN or infinity in 'hurt'"):
        read_checkpoint(save(tmp_path / "x.pth", {"sound": torch.ones(2), "hurt": hurt}))


@pytest.mark.parametrize("tensor", [torch.arange(3), torch.ones(2, dtype=torch.bool), torch.ones(2) * 1j])
def test_weights_are_floating_point_numbers(tmp_path: Path, tensor: torch.Tensor) -> None:
    with pytest.raises(WeightsError, match="'whole'"):
        read_checkpoint(save(tmp_path / "x.pth", {"whole": tensor}))
    save_file({"whole": tensor}, tmp_path / "x.safetensors", {"recal3r_config": CUT3R_512_DPT.to_json()})
    with pytest.raises(WeightsError, match="'whole'"):
        read_checkpoint(tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match="'whole'"):
        check_finite({"whole": tensor})


@pytest.mark.parametrize("weights", [{}, "text", {3: torch.ones(1)}, {"a": "text"}, {"a": torch.eye(2).to_sparse()}])
def test_weights_that_are_none(tmp_path: Path, weights: object) -> None:
    with pytest.raises(WeightsError) as error:
        read_checkpoint(save(tmp_path / "x.pth", weights))
    one_sentence(error)


# -- the configuration -------------------------------------------------------------------------------------------------


def test_the_official_configurations() -> None:
    assert parse_official_config(OFFICIAL) == CUT3R_512_DPT
    linear = OFFICIAL.replace("'dpt'", "'linear'")
    assert parse_official_config(linear.replace("(512, 512)", "(224, 224)")) == CUT3R_224_LINEAR
    assert parse_official_config(linear.replace("(512, 512)", "224")) == CUT3R_224_LINEAR


def test_sizes_that_official_files_may_leave_out() -> None:
    given = OFFICIAL.replace("enc_depth=24", "enc_depth=3, state_dec_num_heads=4, local_mem_size=16, ray_enc_depth=5")
    expected = dataclasses.replace(CUT3R_512_DPT, encoder_depth=3, state_heads=4, memory_slots=16, ray_depth=5)
    assert parse_official_config(given) == expected


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("'RoPE100'", "'cosine'", "pos_embed='cosine'"),
        ("head_type='dpt'", "head_type='gs'", "head_type='gs'"),
        ("'pts3d+pose'", "'pts3d'", "output_mode='pts3d'"),
        ("pose_head=True", "pose_head=False", "pose_head=False"),
        ("('exp', 1, inf)", "('sigmoid', 0, 1)", "conf_mode="),
        ("state_pe='2d'", "state_pe='1d'", "state_pe='1d'"),
        ("landscape_only=False", "novelty=1", "novelty=1"),
        ("enc_depth=24", "enc_depth=-24", "encoder_depth=-24"),
        ("enc_depth=24", "enc_depth=24.5", "encoder_depth=24.5"),
        ("enc_depth=24", "enc_depth=2+2", "enc_depth"),
        ("enc_depth=24", "enc_depth=print(3)", "enc_depth"),
        ("enc_depth=24, ", "", "enc_depth"),
        ("(512, 512)", "('a', 'b')", "img_size"),
        ("(512, 512)", "()", "img_size"),
        ("dec_embed_dim=768", "dec_embed_dim=766", "decoder_width=766"),
        ("ARCroco3DStereo(", "Other(", "ARCroco3DStereo"),
        ("landscape_only=False", "**{}", "ARCroco3DStereo"),
        ("landscape_only=False", "landscape_only=" + "(" * 500, "ARCroco3DStereo"),
        ("landscape_only=False", "landscape_only=" + "-" * 2000 + "1", ""),
        ("landscape_only=False", "landscape_only=" + "1+" * 1000 + "1", "landscape_only"),
        ("landscape_only=False", "landscape_only='" + "x" * 5000 + "'", "ARCroco3DStereo"),
    ],
)
def test_a_network_that_is_not_supported_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    text = OFFICIAL.replace(old, new)
    assert text != OFFICIAL
    with pytest.raises(ConfigError) as error:
        parse_official_config(text)
    assert named in one_sentence(error)
    with pytest.raises(WeightsError) as error:
        read_checkpoint(save(tmp_path / "x.pth", args=argparse.Namespace(model=text)))
    assert named in one_sentence(error)


def test_a_configuration_is_read_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    call = OFFICIAL.replace("False", f"open({str(mark)!r}, 'w')")
    with pytest.raises(ConfigError, match="landscape_only"):
        parse_official_config(call)
    assert not mark.exists()


def test_a_network_too_large_to_lay_out_is_refused(tmp_path: Path) -> None:
    text = OFFICIAL.replace("enc_depth=24", "enc_depth=1000000000")
    with pytest.raises(WeightsError, match="encoder_depth=1000000000"):
        read_checkpoint(save(tmp_path / "x.pth", args=argparse.Namespace(model=text)))


# -- safetensors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.float32])
def test_round_trip(tmp_path: Path, dtype: torch.dtype | None) -> None:
    original = read_checkpoint(save(tmp_path / "x.pth"))
    write_safetensors(tmp_path / "y.safetensors", original.config, original.tensors, dtype=dtype)
    copy = read_checkpoint(tmp_path / "y.safetensors")
    others = load_file(tmp_path / "y.safetensors")
    assert copy.config == original.config
    assert set(copy.tensors) == set(others) == set(original.tensors)
    for name, tensor in original.tensors.items():
        expected = tensor.to(dtype or tensor.dtype)
        assert torch.equal(copy.tensors[name], expected), name
        assert torch.equal(others[name], expected), name
        assert copy.tensors[name].dtype == expected.dtype
    assert Cut3rConfig.from_mapping(json.loads((tmp_path / "y.json").read_text())) == original.config
    with safe_open(tmp_path / "y.safetensors", "pt") as file:
        assert file.metadata()["format_version"] == "1"


def test_the_1248_official_names_round_trip(tmp_path: Path) -> None:
    with torch.device("meta"):
        names = list(Cut3r(CUT3R_512_DPT).official_state_dict())
    assert len(names) == 1248
    shared = torch.ones(2)
    tensors = {name: shared if "layer" in name else torch.full((3,), float(i)) for i, name in enumerate(names)}
    write_safetensors(tmp_path / "y.safetensors", CUT3R_512_DPT, tensors)
    read = read_checkpoint(tmp_path / "y.safetensors").tensors
    assert set(read) == set(names)
    assert all(torch.equal(read[name], tensors[name]) for name in names)


def test_the_metadata_wins_over_the_file_beside(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", CUT3R_224_LINEAR, some_tensors())
    (tmp_path / "x.json").write_text(CUT3R_512_DPT.to_json())
    assert read_checkpoint(tmp_path / "x.safetensors").config == CUT3R_224_LINEAR


def test_the_file_beside_serves_where_there_is_no_metadata(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match=r"x\.json") as error:
        read_checkpoint(tmp_path / "x.safetensors")
    one_sentence(error)
    (tmp_path / "x.json").write_text(CUT3R_224_LINEAR.to_json())
    assert read_checkpoint(tmp_path / "x.safetensors").config == CUT3R_224_LINEAR


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ("no json", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "without encoder_width"),
        (json.dumps(dataclasses.asdict(CUT3R_512_DPT) | {"colour": 1}), "colour"),
        (json.dumps(dataclasses.asdict(CUT3R_512_DPT) | {"head": "gs"}), "head='gs'"),
        (json.dumps(dataclasses.asdict(CUT3R_512_DPT) | {"decoder_depth": 10**9}), "decoder_depth"),
    ],
)
def test_a_configuration_that_is_none(tmp_path: Path, config: str, rule: str) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors", {"recal3r_config": config})
    with pytest.raises(WeightsError, match=rule) as error:
        read_checkpoint(tmp_path / "x.safetensors")
    one_sentence(error)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    metadata = {"recal3r_config": CUT3R_512_DPT.to_json(), "format_version": "2"}
    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(WeightsError, match="version '2'"):
        read_checkpoint(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 60) + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}     ',
    ],
)
def test_a_misshapen_header_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match="cut short or no safetensors") as error:
        read_checkpoint(tmp_path / "x.safetensors")
    one_sentence(error)


def test_writing_replaces_nothing_unasked(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, CUT3R_512_DPT, {"a": torch.ones(2)})
    with pytest.raises(WeightsError, match="exists already"):
        write_safetensors(path, CUT3R_224_LINEAR, {"a": torch.zeros(2)})
    assert read_checkpoint(path).config == CUT3R_512_DPT
    write_safetensors(path, CUT3R_224_LINEAR, {"a": torch.zeros(2)}, overwrite=True)
    assert read_checkpoint(path).config == CUT3R_224_LINEAR
    (tmp_path / "y.json").write_text("mine")
    with pytest.raises(WeightsError, match=r"y\.json exists already"):
        write_safetensors(tmp_path / "y.safetensors", CUT3R_512_DPT, {"a": torch.ones(2)})


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, CUT3R_512_DPT, {"a": torch.ones(2)})
    before = path.read_bytes()
    large = {"a": torch.ones(2), "large": torch.full((2,), 1e6)}
    with pytest.raises(WeightsError, match=r"'large'.*float16 cannot hold"):
        write_safetensors(path, CUT3R_512_DPT, large, dtype=torch.float16, overwrite=True)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.json", "x.safetensors"]


@pytest.mark.parametrize(
    ("name", "tensor", "rule"),
    [
        ("x.pth", torch.ones(1), r"\.safetensors"),
        ("nowhere/x.safetensors", torch.ones(1), "no folder"),
        ("x.safetensors", torch.ones(1, dtype=torch.float64), "float64"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, name: str, tensor: torch.Tensor, rule: str) -> None:
    with pytest.raises(WeightsError, match=rule):
        write_safetensors(tmp_path / name, CUT3R_512_DPT, {"a": tensor})
    assert not list(tmp_path.iterdir())


# -- damage of every kind ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    save(folder / "x.pth", optimizer={"state": {0: torch.ones(4)}})
    tensors = {name: tensor.float() for name, tensor in some_tensors().items()}
    write_safetensors(folder / "x.safetensors", CUT3R_512_DPT, tensors)
    return {suffix: (folder / f"x{suffix}").read_bytes() for suffix in (".pth", ".safetensors")}


def loads_or_says_why(folder: Path, suffix: str, content: bytes) -> None:
    path = folder / f"x{suffix}"
    path.write_bytes(content)
    try:
        tensors = read_checkpoint(path).tensors
    except Recal3rError as error:
        assert "\n" not in str(error)  # noqa: PT017  # it may also load
    else:
        assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


FUZZ = settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@FUZZ
@given(data=st.data())
def test_a_file_cut_anywhere(sound_files: dict[str, bytes], tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    content = sound_files[suffix]
    loads_or_says_why(tmp_path, suffix, content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@FUZZ
@given(data=st.data())
def test_a_file_with_changed_bytes(
    sound_files: dict[str, bytes], tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    content = bytearray(sound_files[suffix])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    loads_or_says_why(tmp_path, suffix, bytes(content))


@FUZZ
@given(data=st.data())
def test_a_pickle_with_changed_bytes_and_a_fitting_checksum(
    sound_files: dict[str, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("data.pkl"):
            return content
        changed = bytearray(content)
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        return bytes(changed)

    (tmp_path / "y.pth").write_bytes(sound_files[".pth"])
    loads_or_says_why(tmp_path, ".pth", rewrite(tmp_path / "y.pth", change).read_bytes())
