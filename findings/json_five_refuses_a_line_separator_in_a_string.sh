#!/usr/bin/env bash
# json-five 1.1.2 reads and writes JSON with comments and keeps them. U+2028 and U+2029 may stand in strings as they are:
# RFC 8259 excludes only quotation marks, backslashes and control characters, and the specification of JSON5 allows them
# by name. Expected: the text comes back unchanged.
# Seen: JSON5DecodeError for both, although the same string with an escape is read, and json of Python reads all three.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet json-five==1.1.2
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json

import json5

TEXTS = {"U+2028": '{"note": "one\u2028two"}', "U+2029": '{"note": "one\u2029two"}', "escaped": '{"note": "one\\u2028two"}'}


def read(text: str) -> str:
    try:
        return "the same" if json5.loads(text) == json.loads(text) else "another value"
    except Exception as error:
        return type(error).__name__


found = {name: read(text) for name, text in TEXTS.items()}
print(found)
if found != {"U+2028": "JSON5DecodeError", "U+2029": "JSON5DecodeError", "escaped": "the same"}:
    raise SystemExit("json-five reads line separators in another way now")
PYTHON
