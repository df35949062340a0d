#!/bin/sh
# Fuzzes every decoder with atheris (tests/fuzz/run.py), 20 s each unless --seconds says otherwise.
#   scripts/fuzz.sh [--seconds N] [DECODER ...]
# atheris has no wheel for every Python, so it is no part of the lock; it is installed here when it is missing.
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python
if ! "$python" -c 'import atheris' 2>/dev/null; then
    printf 'fuzz: installing atheris\n'
    "$python" -m pip install -q --only-binary :all: 'atheris>=3.0' || {
        printf 'fuzz: atheris has no wheel for %s; use Python 3.11\n' "$("$python" --version)" >&2
        exit 1
    }
fi
exec "$python" tests/fuzz/run.py "$@"
