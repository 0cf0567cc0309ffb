#!/usr/bin/env bash
# Makes the Python environment of the tests in build/venv from requirements.txt; a second run finds it and does nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/build/venv
wanted=$root/tests/requirements.txt

if cmp -s "$wanted" "$venv/requirements.txt" && "$venv/bin/python" -c 'import pytest' 2>/dev/null; then
    exit 0
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "venv: the tests need Python 3.10 or later; python3 is $(python3 --version 2>&1)" >&2
    exit 1
}
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv" || {
    echo "venv: python3 -m venv failed: apt-get install python3-venv" >&2
    exit 1
}
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --requirement "$wanted"
cp "$wanted" "$venv/requirements.txt" # last: a broken install is made anew
