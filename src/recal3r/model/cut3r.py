"""The CUT3R network: one frame against one state. No rule, no loop, nothing remembered between calls.

B batch · N state tokens · P = h·w patches · E encoder width · C decoder width · M pose memory slots
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recal3r.errors import ImageError, WeightsError
from recal3r.model.blocks import small_random
from recal3r.model.config import Cut3rConfig
from recal3r.model.decoder import Decoded, Decoder
from recal3r.model.encoder import Encoder, sum_of_views
from recal3r.model.heads import Head, Heads, ReadOut
from recal3r.model.keymap import aliases, entries, official_names
from recal3r.model.packed import packable, packed
from recal3r.model.pose_memory import PoseMemory
from recal3r.model.probe import Probe


class View(NamedTuple):
    """What the network is shown: an image, a ray map, or both of one size."""

    image: Tensor | None = None  # [B, 3, H, W] in [-1, 1]
    ray_map: Tensor | None = None  # [B, 6, H, W]: origin, direction

    @property
    def size(self) -> tuple[int, int, int]:
        """(B, H, W)."""
        given = self.image if self.image is not None else self.ray_map
        if given is None:
            raise ImageError("A view holds neither an image nor a ray map; give at least one.")
        return given.shape[0], given.shape[2], given.shape[3]


class Tokens(NamedTuple):
    tokens: Tensor  # F [B, P, E]
    grid: tuple[int, int]  # (h, w)

    @property
    def summary(self) -> Tensor:  # g [B, 1, E]
        return self.tokens.mean(1, keepdim=True)


class Cut3r(nn.Module):
    def __init__(self, config: Cut3rConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder_width
        self.image_encoder = Encoder(config, 3, config.encoder_depth, config.encoder_heads)
        self.ray_encoder = Encoder(config, 6, config.ray_depth, config.ray_heads)
        self.decoder = Decoder(config)
        self.pose_token = small_random(1, 1, config.decoder_width)
        self.pose_memory = PoseMemory(
            width,
            config.decoder_width,
            slots=config.memory_slots,
            heads=config.image_heads,
            mlp_ratio=config.mlp_ratio,
        )
        self.heads = Heads(config)
        # What training put in the place of a view's missing half. Checkpoints hold them; the network is never
        # shown a missing half but leaves it out.
        self.masked_image_token = small_random(1, width)
        self.masked_ray_token = small_random(1, width)
        self._samples: dict[str, Tensor] | None = None  # of the weights, once they are packed

    @property
    def device(self) -> torch.device:
        return self.pose_token.device

    @property
    def dtype(self) -> torch.dtype:
        """What the trunk works in. State, statistics and all that is read out are float32 or better."""
        return self.pose_token.dtype

    @property
    def state_dtype(self) -> torch.dtype:
        return torch.promote_types(self.dtype, torch.float32)

    def working_in(self, dtype: torch.dtype) -> Cut3r:
        """Changes this network's precision to `dtype`; what numbers are read out by stays float32 or better."""
        self._require_plain()
        self.to(dtype)
        self.heads.working_in(dtype)
        return self

    def pack(self) -> Cut3r:
        """Changes this network for inference on this CPU (`packed.py`): it gives the same numbers, sooner."""
        self._require_plain()
        weights = self.state_dict()
        return self.take(weights.pop, pack=True)

    def take(self, weights: Callable[[str], Tensor], *, pack: bool = False) -> Cut3r:
        """`weights` (by our names) become this network's, block by block. With `pack` each block is packed before the
        next is asked for: packed weights stand in memory once."""
        self._require_plain()
        names = list(self.state_dict())
        samples: dict[str, Tensor] = {}

        def put(module: nn.Module, prefix: str) -> None:
            wanted = [name for name in names if name.startswith(prefix) and name not in samples]
            tensors = {name.removeprefix(prefix): weights(name) for name in wanted}
            samples.update((prefix + name, _sample(tensor)) for name, tensor in tensors.items())
            module.load_state_dict(tensors, strict=False, assign=True)

        for name in packable(self) if pack else ():
            put(self.get_submodule(name), f"{name}.")
            self.set_submodule(name, packed(self.get_submodule(name)))
        put(self, "")
        self._samples = samples if pack else None
        return self

    def weight_samples(self) -> Mapping[str, Tensor]:
        """The beginning of every weight, by name: enough to tell networks apart."""
        if self._samples is not None:
            return self._samples
        return {name: _sample(weight) for name, weight in self.state_dict().items()}

    def _require_plain(self) -> None:
        if self._samples is not None:
            raise WeightsError("This network is packed: its weights are fixed; load it with fast=False to change them.")

    # -- one frame ---------------------------------------------------------------------------------------------------

    def initial_state(self) -> Tensor:  # S_0 [1, N, C]
        return self.decoder.initial_state().to(self.state_dtype)

    def initial_memory(self) -> Tensor:  # [1, M, 2C]
        return self.pose_memory.initial.to(self.state_dtype)

    def encode(self, view: View) -> Tokens:
        _, height, width = view.size
        patch = self.config.patch_size
        if height % patch or width % patch or not height or not width:
            raise ImageError(f"A view of {width}x{height} pixels is not cut into whole patches of {patch}x{patch}.")
        tokens = sum_of_views(
            None if view.image is None else self.image_encoder(view.image),
            None if view.ray_map is None else self.ray_encoder(view.ray_map),
        )
        return Tokens(tokens, (height // patch, width // patch))

    def decode(self, tokens: Tokens, state: Tensor, pose_token: Tensor, probe: Probe | None = None) -> Decoded:
        return self.decoder(tokens.tokens, tokens.grid, state, pose_token, probe)

    def read_out(self, tokens: Tokens, decoded: Decoded, wanted: frozenset[Head]) -> ReadOut:
        return self.heads(tokens.tokens, decoded, tokens.grid, wanted)

    # -- weights -----------------------------------------------------------------------------------------------------

    def official_state_dict(self) -> dict[str, Tensor]:
        """Every entry of an official checkpoint, second names included, in no particular order."""
        self._require_plain()
        state = self.state_dict()
        official = {theirs: state[ours] for ours, theirs in official_names(state, self.config).items()}
        return official | {alias: official[name] for alias, name in aliases(official).items()}

    def load_official_state_dict(self, mapping: Mapping[str, Tensor], *, assign: bool = False) -> None:
        """Takes every weight from `mapping`; a missing, unknown or misshapen entry is an error that names it.

        With `assign` the tensors themselves become the weights (no copy), whatever their dtype.
        """
        self._require_plain()
        names = self.official_entries({name: tensor.shape for name, tensor in mapping.items()})
        self.load_state_dict({ours: mapping[entry] for ours, entry in names.items()}, assign=assign)

    def official_entries(self, shapes: Mapping[str, torch.Size]) -> dict[str, str]:
        """Our name of each weight -> which of the given entries it is taken from. Nothing may be left over."""
        expected = self.state_dict()
        names = official_names(expected, self.config)
        second_names = aliases(names.values())
        given = entries(shapes)
        given = {alias_of: given[alias] for alias, alias_of in second_names.items() if alias in given} | given

        unknown = sorted(set(given) - set(names.values()) - set(second_names))
        if unknown:
            raise WeightsError(f"The weights hold an entry {unknown[0]!r} that this network has no place for.")
        for ours, theirs in names.items():
            if theirs not in given:
                raise WeightsError(f"The weights have no entry {theirs!r}, which this network needs.")
            if shapes[given[theirs]] != expected[ours].shape:
                raise WeightsError(
                    f"The weights' entry {theirs!r} has the shape {list(shapes[given[theirs]])}, "
                    f"but this network needs {list(expected[ours].shape)}."
                )
        return {ours: given[theirs] for ours, theirs in names.items()}


def _sample(weight: Tensor) -> Tensor:
    return weight.detach().flatten()[:64].clone()
