"""The house stands in floors: a module imports from lower floors or from siblings, and the lower ones are pure."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FLOORS = {
    "units": 0, "folding": 0, "model": 0, "errors": 0, "metrics": 0,
    "records": 1, "wire": 1, "stats": 1,
    "session": 2, "impair": 2, "bottleneck": 2, "settings": 2, "provision": 2, "profile": 2, "link": 2, "link_services": 2, "link_segments": 2, "plan": 2, "watch": 2, "rules": 2, "document": 2, "document_paths": 2,
    "net": 3, "store": 3, "capture": 3, "lab": 3,
    "probes": 4, "calibration": 4,
    "runner": 5, "rejudge": 5, "recount": 5, "doctor": 5, "host_limits": 5, "agent": 5, "reports": 5, "profiles": 5,
    "live": 6, "cli": 6, "__main__": 6,
}  # fmt: skip
IMPURE = {"socket", "ssl", "subprocess", "threading", "multiprocessing", "time", "os", "pathlib", "random", "select",
          "asyncio", "tempfile", "shutil", "signal", "fcntl", "ctypes"}  # fmt: skip
IMPURE_CALLS = {"open", "input", "print", "exec", "eval"}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for top, prefix in (("linkqual", "linkqual"), ("probes", "linkqual.probes"), ("profiles", "linkqual.profiles"),
                        ("reports", "linkqual.reports")):  # fmt: skip
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT / top).with_suffix("").parts
            found[".".join((prefix, *(p for p in parts if p != "__init__")))] = path
    return found


def floor_of(module: str) -> int:
    part = module.split(".")[1] if "." in module else "errors"
    assert part in FLOORS, f"{module}: give it a floor in {Path(__file__).name}"
    return FLOORS[part]


@cache
def imports(path: Path) -> tuple[set[str], set[str]]:
    """Names imported anywhere (functions included), and those imported outside `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    every, real = set(), set()
    for node in ast.walk(tree):
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            # `from a import b` needs a/__init__ only where b is not a module of its own
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names = (full & modules().keys()) or {node.module or ""}
        every |= names
        if id(node) not in typing_only:
            real |= names
    return every, real


def test_a_module_imports_only_from_its_own_floor_or_below() -> None:
    known = modules()
    for module, path in known.items():
        for name in imports(path)[0] & known.keys():
            assert floor_of(name) <= floor_of(module), f"{module} (floor {floor_of(module)}) imports {name}"


def test_there_is_no_cycle() -> None:
    known = modules()
    graph = {module: (imports(path)[1] & known.keys()) - {module} for module, path in known.items()}
    # importing a.b also runs a/__init__; only what a/__init__ itself imports may close a circle
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(error.args[1])}") from error


def test_the_lower_floors_touch_no_socket_clock_file_or_chance() -> None:
    for module, path in modules().items():
        if floor_of(module) > 2:
            continue
        assert not imports(path)[1] & IMPURE, f"{module} is pure and may not import {imports(path)[1] & IMPURE}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in IMPURE_CALLS, f"{module}:{node.lineno} calls {node.func.id}"
            if isinstance(node, ast.Attribute) and node.attr == "default_rng":
                assert node_is_seeded(path, node), f"{module}:{node.lineno} draws without a seed"


def node_is_seeded(path: Path, node: ast.Attribute) -> bool:
    calls = [c for c in ast.walk(ast.parse(path.read_text())) if isinstance(c, ast.Call)]
    return all(c.args for c in calls if ast.dump(c.func) == ast.dump(node))


def test_the_lab_is_used_only_by_the_command_line_and_the_tests() -> None:
    for module, path in modules().items():
        if not module.startswith(("linkqual.lab", "linkqual.cli")):
            assert not {n for n in imports(path)[0] if n.startswith("linkqual.lab")}, f"{module} imports the lab"


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert not [module for module in modules() if module.rsplit(".", 1)[-1] in vague]
