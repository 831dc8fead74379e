#!/usr/bin/env bash
# A .zst file may consist of several frames, as transcripts do that were compressed piece by piece. In one call,
# zstandard 0.25.0 returns the first frame only and reads a file that was cut off to where it ends, both without an error.
# backports.zstd 1.8.0 returns all frames, and raises EOFError for the file that was cut off.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet zstandard==0.25.0 backports.zstd==1.8.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from pathlib import Path

import zstandard
from backports import zstd

first, second = b"first line\n" * 50, b"second line\n" * 50
frames = zstd.compress(first) + zstd.compress(second)
assert zstandard.ZstdDecompressor().decompress(frames) == first
assert zstd.decompress(frames) == first + second
path = Path("cut.zst")
path.write_bytes(zstd.compress(bytes(range(256)) * 2_000 + first)[:-20])
with zstandard.open(path) as file:
    read = len(file.read())
try:
    with zstd.open(path) as file:
        file.read()
except EOFError as error:
    print(f"zstandard: {read} bytes; backports.zstd: {error}")
else:
    raise SystemExit("backports.zstd read it, too")
PYTHON
