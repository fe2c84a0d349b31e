"""The configurations of the CUT3R family."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Literal, get_args

from recal3r.errors import ConfigError

HeadKind = Literal["dpt", "linear"]


@dataclasses.dataclass(frozen=True)
class Cut3rConfig:
    """The size of a CUT3R network. The defaults are the official 512 checkpoint."""

    encoder_width: int = 1024
    encoder_depth: int = 24
    encoder_heads: int = 16
    decoder_width: int = 768
    decoder_depth: int = 12
    image_heads: int = 12
    """Attention heads of the decoder's image stream and of the head's two conditioned blocks."""
    state_heads: int = 16
    """Attention heads of the decoder's state stream, and of the pose memory's blocks."""
    state_tokens: int = 768
    memory_slots: int = 256
    head: HeadKind = "dpt"
    image_size: int = 512
    """The side length the network was trained for: `size="auto"` resizes to it."""
    square: bool = False
    """Whether the network was trained on square pictures only."""
    patch_size: int = 16
    mlp_ratio: int = 4
    ray_depth: int = 2
    ray_heads: int = 16
    rope_base: float = 100.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "head":
                if value not in get_args(HeadKind):
                    raise ConfigError(f"head={value!r} is no known head; use one of {', '.join(get_args(HeadKind))}.")
            elif field.name == "square":
                if not isinstance(value, bool):
                    raise ConfigError(f"square={value!r} is not true or false.")
            elif field.name == "rope_base":
                if not isinstance(value, int | float) or not value > 1:
                    raise ConfigError(f"rope_base={value!r} must be a number above 1.")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{field.name}={value!r} must be a whole number of at least 1.")
        for width, heads in (
            ("encoder_width", "encoder_heads"),
            ("encoder_width", "ray_heads"),
            ("decoder_width", "image_heads"),
            ("decoder_width", "state_heads"),
        ):
            if getattr(self, width) % (4 * getattr(self, heads)):
                raise ConfigError(
                    f"{width}={getattr(self, width)} cannot be cut into {heads}={getattr(self, heads)} heads "
                    "whose size is a multiple of 4 (rows and columns each rotate pairs of channels)."
                )
        if self.head == "dpt" and self.patch_size != 16:
            raise ConfigError(f"The dpt head needs patch_size=16, not {self.patch_size}; use head='linear'.")
        if self.decoder_depth < 2:
            raise ConfigError(f"decoder_depth={self.decoder_depth} must be at least 2: the heads read middle layers.")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Cut3rConfig:
        """A configuration from JSON-like values; an unknown name is an error that names it."""
        unknown = sorted(set(values) - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise ConfigError(f"A configuration has no field named {unknown[0]!r}.")
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every type


CUT3R_512_DPT = Cut3rConfig()
CUT3R_224_LINEAR = Cut3rConfig(head="linear", image_size=224, square=True)
