"""Fuzz every decoder with atheris, each in a process of its own for a bounded time: `make fuzz`.

    tests/fuzz/run.py [--seconds 20] [DECODER ...]

What broke a decoder is kept in build/fuzz/ and is an input to `run.py --again FILE DECODER`. Exit code 1 when anything broke.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "fuzz"
_SLOWEST_S = 10  # for one input; the libraries of files take a second on their first
_MOST_MB = 2048
_LONGEST = 8192  # octets of an input; Python reads no integer of more than 4300 digits


def say(line: str) -> None:
    """At once, for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def one(name: str, seconds: int) -> None:
    """In the child: never returns."""
    import atheris

    sys.path.insert(0, str(ROOT))
    with atheris.instrument_imports(include=["linkqual", "tests.fuzz"]):
        from tests.fuzz.decoders import decoders
    decoder = decoders()[name]
    with tempfile.TemporaryDirectory(prefix="linkqual-fuzz-") as corpus:
        for number, seed in enumerate(decoder.seeds):
            (Path(corpus) / str(number)).write_bytes(seed)
            decoder(seed)  # whatever is imported on first use
        limits = (
            f"-max_total_time={seconds} -max_len={_LONGEST} -timeout={_SLOWEST_S} -rss_limit_mb={_MOST_MB} -verbosity=1"
        )
        atheris.Setup([name, *limits.split(), f"-artifact_prefix={KEPT}/{name}-", corpus], decoder)
        atheris.Fuzz()


def fuzz(name: str, seconds: int) -> bool:
    """Run one decoder and tell; whether nothing broke."""
    command = [sys.executable, __file__, "--seconds", str(seconds), "--child", name]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        inside = os.environ | {"TMPDIR": scratch}  # atheris ends its process without a chance to tidy up
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=inside)
    ran = re.search(r"Done (\d+) runs in (\d+) second", done.stderr)
    last = re.findall(r"^#(\d+)\s", done.stderr, re.MULTILINE)
    executions = int(ran[1]) if ran else int(last[-1]) if last else 0
    features = re.findall(r"ft: (\d+)", done.stderr)
    well = done.returncode == 0 and ran is not None
    reached = features[-1] if features else "0"
    say(f"{name:<16}{executions:>12,} runs{reached:>9} features   {'ok' if well else 'BROKEN'}")
    if not well:
        kept = re.findall(r"Test unit written to (\S+)", done.stderr)
        say("\n".join((done.stderr + done.stdout).splitlines()[-25:]))
        say(f"  input kept: {', '.join(kept) or 'none'}")
    return well


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20, help="for each decoder")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--again", type=Path, help="an input that broke a decoder")
    parser.add_argument("names", nargs="*", metavar="DECODER")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if asked.child:
        one(asked.names[0], asked.seconds)
    sys.path.insert(0, str(ROOT))
    from tests.fuzz.decoders import decoders

    if unknown := set(asked.names) - decoders().keys():
        parser.error(f"there is no decoder {', '.join(sorted(unknown))}; there are {', '.join(decoders())}")
    if asked.again:
        for name in asked.names:
            decoders()[name](asked.again.read_bytes())
        return 0
    return int(False in [fuzz(name, asked.seconds) for name in asked.names or decoders()])


if __name__ == "__main__":
    sys.exit(main())
