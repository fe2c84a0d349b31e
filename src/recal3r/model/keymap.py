"""Official parameter names and ours: a total map, one prefix at a time.

Our names say what a thing does (`decoder.state_blocks`), the official ones are what checkpoints hold
(`dec_blocks_state`). Inside a transformer block the two agree.
"""

from __future__ import annotations

from collections.abc import Iterable

from recal3r.model.config import Cut3rConfig

_TRUNK = {
    "masked_image_token": "masked_img_token",
    "masked_ray_token": "masked_ray_map_token",
    "image_encoder.patches.": "patch_embed.proj.",
    "image_encoder.blocks.": "enc_blocks.",
    "image_encoder.norm.": "enc_norm.",
    "ray_encoder.patches.": "patch_embed_ray_map.proj.",
    "ray_encoder.blocks.": "enc_blocks_ray_map.",
    "ray_encoder.norm.": "enc_norm_ray_map.",
    "decoder.embed_state.": "decoder_embed_state.",
    "decoder.embed_image.": "decoder_embed.",
    "decoder.register_tokens.": "register_tokens.",
    "decoder.state_blocks.": "dec_blocks_state.",
    "decoder.image_blocks.": "dec_blocks.",
    "decoder.state_norm.": "dec_norm_state.",
    "decoder.image_norm.": "dec_norm.",
    "pose_memory.initial": "pose_retriever.mem",
    "pose_memory.": "pose_retriever.",
    "heads.pose.": "downstream_head.pose_head.mlp.",
    "heads.to_world.": "downstream_head.final_transform.",
}
_LINEAR = {
    "heads.camera.mlp.": "downstream_head.proj.",
    "heads.world.mlp.": "downstream_head.cross_proj.",
    "heads.rgb.mlp.": "downstream_head.rgb_proj.",
}
_DPT = {"heads.camera.": "dpt_self.", "heads.world.": "dpt_cross.", "heads.rgb.": "dpt_rgb."}
_DPT_PARTS = {
    "reassemble.": "act_postprocess.",
    "narrow.": "scratch.layer_rn.",
    **{
        f"fusion.{level}.{ours}.": f"scratch.refinenet{level + 1}.{theirs}."
        for level in range(4)
        for ours, theirs in (("skip", "resConfUnit1"), ("merge", "resConfUnit2"), ("out", "out_conv"))
    },
    "head.0.": "head.0.",
    "head.1.": "head.2.",
    "head.2.": "head.4.",
}


def _prefixes(config: Cut3rConfig) -> dict[str, str]:
    if config.head == "linear":
        return _TRUNK | _LINEAR
    heads = {
        head + part: f"downstream_head.{official}{official_part}"
        for head, official in _DPT.items()
        for part, official_part in _DPT_PARTS.items()
    }
    return _TRUNK | heads


def official_names(names: Iterable[str], config: Cut3rConfig) -> dict[str, str]:
    """Our parameter name -> the official one, for each of `names`."""
    prefixes = _prefixes(config)

    def official(name: str) -> str:
        for prefix, theirs in prefixes.items():
            if name.startswith(prefix):
                return theirs + name[len(prefix) :]
        return name

    return {name: official(name) for name in names}


def aliases(official: Iterable[str]) -> dict[str, str]:
    """Second official names: `scratch.layer{i+1}_rn` is the same tensor as `scratch.layer_rn.{i}`, which wins."""
    return {
        name.replace(f".layer_rn.{i}.", f".layer{i + 1}_rn."): name
        for name in official
        for i in range(4)
        if f".scratch.layer_rn.{i}." in name
    }


def entries(given: Iterable[str]) -> dict[str, str]:
    """What a checkpoint with these entries answers to -> the entry that is meant.

    One from before the state had its own decoder lends it the image's.
    """
    given = list(given)
    answers = {name: name for name in given}
    if not any(name.startswith("dec_blocks_state.") for name in given):
        lent = {name.replace("dec_blocks.", "dec_blocks_state.", 1): name for name in given}
        answers |= {name: lender for name, lender in lent.items() if name.startswith("dec_blocks_state.")}
    return answers
