"""Bytes that lead somewhere new lead to the next ones: guided.py TARGET CORPUS SECONDS

Ends with 0 when the time is over. What breaks a target is left beside the corpus.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["recal3r"]):
    from fuzz.kept import kept
    from fuzz.targets import TARGETS, examples

name, corpus, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
corpus.mkdir(parents=True, exist_ok=True)
for number, seed in enumerate((*examples()[name], *kept(name))):
    (corpus / f"seed-{number}").write_bytes(seed)
limits = ["-rss_limit_mb=4096", "-malloc_limit_mb=1024", "-timeout=20", "-max_len=4096"]
options = [f"-max_total_time={seconds}", "-seed=1", f"-artifact_prefix={corpus.parent}/{name}-", "-print_final_stats=1"]
atheris.Setup([sys.argv[0], str(corpus), *limits, *options], TARGETS[name]())
atheris.Fuzz()
