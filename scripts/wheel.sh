#!/bin/sh
# Builds the wheel and runs the fast tests against what is in it, not against the source tree.
set -eu
cd "$(dirname "$0")/.."
python="$PWD/.venv/bin/python"
rm -rf build dist
"$python" -m pip wheel -q --no-deps -w dist .
rm -rf build
"$python" -m pip install -q --no-deps --target build/installed dist/*.whl
cd build
PYTHONPATH="$PWD/installed" "$python" -c 'import linkqual, sys; sys.exit("installed" not in linkqual.__file__)'
PYTHONPATH="$PWD/installed" "$python" -m pytest -q -n 2 -c ../pyproject.toml --rootdir .. -p no:cacheprovider -m "not lab" ../tests
