"""The configuration inside an official checkpoint: a line of Python, read as a text and never run.

`ARCroco3DStereo(ARCroco3DStereoConfig(state_size=768, ..., enc_embed_dim=1024, ...))`
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import cast

from recal3r.errors import ConfigError
from recal3r.model.config import Cut3rConfig

_NETWORK = "ARCroco3DStereo"
_CONFIGURATION = "ARCroco3DStereoConfig"
_LONGEST = 3000  # characters; the official ones have about 700

_SIZES = {
    "state_size": "state_tokens",
    "enc_embed_dim": "encoder_width",
    "enc_depth": "encoder_depth",
    "enc_num_heads": "encoder_heads",
    "dec_embed_dim": "decoder_width",
    "dec_depth": "decoder_depth",
    "dec_num_heads": "image_heads",
}
_SIZES_WITH_DEFAULT = {
    "state_dec_num_heads": "state_heads",
    "local_mem_size": "memory_slots",
    "ray_enc_depth": "ray_depth",
    "patch_size": "patch_size",
    "mlp_ratio": "mlp_ratio",
}
_ONLY_VALUES: dict[str, tuple[object, ...]] = {
    "pos_embed": ("RoPE100",),
    "state_pe": ("2d",),
    "output_mode": ("pts3d+pose",),
    "head_type": ("dpt", "linear"),
    "rgb_head": (True,),
    "pose_head": (True,),
    "pose_conf_head": (False,),
    "depth_head": (False,),
    "depth_mode": (("exp", -math.inf, math.inf),),
    "conf_mode": (("exp", 1, math.inf),),
    "pose_mode": (("exp", -math.inf, math.inf),),
    "patch_embed_cls": ("ManyAR_PatchEmbed", "PatchEmbedDust3R"),
    "norm_im2_in_dec": (True,),
}
_ONLY_FOR_TRAINING = {"freeze", "landscape_only", "mask_ratio"}


def parse_official_config(text: str) -> Cut3rConfig:
    """The network that an official checkpoint's `args.model` describes."""
    fields = _keywords(text)
    for name, value in fields.items():
        _check_supported(name, value)
    for name in ("head_type", "img_size", *_SIZES):
        if name not in fields:
            raise ConfigError(
                f"The configuration {text[:60]!r}... has no {name}, which the network's size follows from."
            )
    sizes = {ours: fields[theirs] for theirs, ours in (_SIZES | _SIZES_WITH_DEFAULT).items() if theirs in fields}
    return Cut3rConfig.from_mapping({**sizes, "head": fields["head_type"], **_image_size(fields["img_size"])})


def _check_supported(name: str, value: object) -> None:
    if name in _ONLY_VALUES:
        if value not in _ONLY_VALUES[name]:
            supported = " or ".join(map(repr, _ONLY_VALUES[name]))
            raise ConfigError(f"{name}={value!r} is not supported; a checkpoint with {name}={supported} would work.")
    elif name not in {"img_size", *_SIZES, *_SIZES_WITH_DEFAULT, *_ONLY_FOR_TRAINING}:
        raise ConfigError(f"{name}={value!r} is an unknown setting, and what it does to the network cannot be guessed.")


def _image_size(size: object) -> Mapping[str, object]:
    """The side length, and whether the network saw squares only: the 224 checkpoints did."""
    sides = cast("tuple[object, ...]", size) if isinstance(size, tuple) else (size,)
    whole = [side for side in sides if isinstance(side, int)]
    if not whole or len(whole) != len(sides):
        raise ConfigError(f"img_size={size!r} is no image size; (512, 512) or 224 would work.")
    return {"image_size": max(whole), "square": max(whole) == 224}


def _keywords(text: str) -> dict[str, object]:
    outer = _call(text, _NETWORK)
    if len(outer.args) != 1 or outer.keywords:
        raise _not_official(text)
    inner = outer.args[0]
    if not (isinstance(inner, ast.Call) and _is_name(inner.func, _CONFIGURATION)) or inner.args:
        raise _not_official(text)
    fields: dict[str, object] = {}
    for keyword in inner.keywords:
        if keyword.arg is None:
            raise _not_official(text)
        fields[keyword.arg] = _literal(keyword.value, keyword.arg)
    return fields


def _call(text: str, name: str) -> ast.Call:
    if len(text) > _LONGEST:
        raise _not_official(text)
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # what the parser raises on nonsense
        raise _not_official(text) from error
    if not isinstance(body, ast.Call) or not _is_name(body.func, name):
        raise _not_official(text)
    return body


def _literal(node: ast.expr, field: str) -> object:
    """A number, string, truth value, None, inf, or a tuple of these."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):  # bool is an int
            return value
        case ast.Name(id="inf"):
            return math.inf
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() | ast.Name() as operand):
            value = _literal(operand, field)
            if isinstance(value, int | float):
                return -value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(_literal(element, field) for element in elements)
        case _:
            pass
    raise ConfigError(f"{field} is given as {type(node).__name__}, but only numbers, strings, tuples and inf are read.")


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _not_official(text: str) -> ConfigError:
    return ConfigError(
        f"The configuration {text[:60]!r} does not read {_NETWORK}({_CONFIGURATION}(name=value, ...)), "
        "as that of a CUT3R checkpoint does."
    )
