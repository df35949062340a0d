"""The command line as a shell sees it: help, exit codes, one clear message for what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from linkqual.cli import app, main, say_error
from linkqual.cli.qualifying import Asked, _embedded, prepare
from linkqual.errors import ExitCode, HostError, PeerError

HEAVY = ("numpy", "pandas", "scapy", "scipy", "pydantic", "jinja2", "altair", "pyarrow", "ruamel", "cryptography")
VERBS = ("test", "path", "plan", "measure", "judge", "report", "import", "agent", "lab", "doctor", "profiles", "probes")
LAB_VERBS = ("lines", "up", "list", "exec", "down", "simulate")


def linkqual(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkqual", *arguments],
        capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=os.environ | environment,
    )  # fmt: skip


Spoken = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def spoken(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Spoken]:
    """As `linkqual`, in this process: what is said and the exit code are the same, without a start of Python each time."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setenv("PATH", os.environ["PATH"])  # put back afterwards

    def speak(*arguments: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        code = main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    yield speak
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom linkqual.cli import main\nmain(['--help'])\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "HEAVY []" in said.stdout
    assert "Commands:" in said.stdout


@pytest.mark.parametrize("verb", [*([v] for v in VERBS), *(["lab", v] for v in LAB_VERBS)], ids=" ".join)
def test_every_verb_explains_itself_with_an_example(verb: list[str], spoken: Spoken) -> None:
    said = spoken(*verb, "--help")
    assert said.returncode == 0
    if verb != ["lab"]:
        assert "Example" in said.stdout
        assert f"linkqual {' '.join(verb)}" in said.stdout


def test_every_verb_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    registered = {command.name for command in app.registered_commands} | {"lab"}
    assert registered == set(VERBS)
    for verb in registered:
        assert f"linkqual {verb}" in readme, f"README: the table of verbs lacks {verb}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["test", "--profile", "nonsense"], "there is no profile 'nonsense'"),
        (["test", "--profile", "missing.yaml"], "cannot read the profile"),
        (["test", "--line", "nowhere"], "there is no line 'nowhere'"),
        (["plan", "--packets", "many"], "'many' is no number of packets"),
        (["plan", "--rate", "999G"], "'999G' is out of range"),
        (["test", "--cir", "fast"], "--cir"),
        (["test", "--rtt-budget", "12"], "--rtt-budget"),
        (["test", "--rate", "0"], "--rate"),
        (["test", "--streams", "1,x"], "--streams"),
        (["test", "--zone", "Mars/Olympus"], "there is no time zone"),
        (["test", "--only", "sonar"], "no probe is called 'sonar'"),
        (["test", "--only", "ping", "--skip", "ping"], "both asked for and skipped"),
        (["test", "192.0.2.1", "--line", "clean"], "leave out one of them"),
        (["test", "192.0.2.1", "--reflector", "192.0.2.2"], "--reflector names the far end, but a peer is given too"),
        (["plan", "--reflector", "192.0.2.2:70000"], "70000 is no port"),
        (["plan", "--reflector-key", "00ff"], "--reflector-key is given, but no reflector"),
        (["plan", "--reflector", "192.0.2.2", "--reflector-key", "zz"], "what --reflector-key says: is no key in hex"),
        (
            ["plan", "--reflector", "192.0.2.2", "--reflector-key", "zz" * 200],
            "what --reflector-key says: is no key in hex",
        ),
        (["test", "--reflector", "192.0.2.2", "--only", "throughput"], "throughput needs our agent at the far end"),
        (["test", "linkqual://"], "pairing line cannot be read"),
        (["test", "--nonsense"], "No such option"),
        (["judge", "/nowhere"], "cannot read"),
        (["report", "/nowhere"], "cannot read"),
        (["report", "/nowhere", "--format", "pdf"], "there is no report format 'pdf'"),
        (["lab", "exec", "near", "--", "true"], "no lab is up"),
        (["path", "-o", "x" * 300], "cannot write to"),
        (["lab", "simulate", "clean", "--packets", "10", "-o", "x" * 300], "cannot write to"),
        (["report", "x" * 300], "cannot read"),
        (["judge", "x" * 300], "cannot read"),
        (["import", "x" * 300], "cannot read"),
        (["import", "line.pcap", "--against", "x" * 300], "cannot read"),
        (["plan", "--profile", "x" * 300], "there is no profile"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, spoken: Spoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    said = spoken(*arguments)
    assert said.returncode == ExitCode.USAGE, said.stderr
    assert says in said.stderr
    assert "Traceback" not in said.stderr
    assert not list(tmp_path.glob("runs"))


@pytest.mark.loopback
def test_a_far_end_that_is_not_there_is_no_data(tmp_path: Path) -> None:
    said = linkqual("test", "127.0.0.1:9", "--token", "x" * 16, cwd=tmp_path)
    assert said.returncode == ExitCode.NO_DATA
    assert "linkqual agent" in said.stderr
    assert not list(tmp_path.iterdir())


def test_one_yardstick_for_two_purposes_is_remarked(spoken: Spoken, tmp_path: Path) -> None:
    shipped = spoken("profiles", "training", "--yaml").stdout
    mine = tmp_path / "mine.yaml"
    remark = "ask the same of a line"
    for title, remarked in (("For inference", True), ("For training", False), ("Ours", False)):
        lines = [f"title: {title}" if line.startswith("title:") else line for line in shipped.splitlines()]
        mine.write_text("\n".join("name: ours" if line.startswith("name:") else line for line in lines))
        assert (remark in spoken("profiles", str(mine)).stdout.replace("\n", " ")) is remarked


def test_a_plan_in_words_and_as_json(spoken: Spoken) -> None:
    words = spoken("plan", "--profile", "training", "--cir", "10G", "--rtt-budget", "12ms")
    assert words.returncode == 0
    assert "332,858" in words.stdout
    plan = json.loads(spoken("plan", "--json").stdout)
    probes = {step["probe"] for step in plan["steps"]}
    assert probes == {"path", "mtu", "members", "marking", "ping", "stamp", "throughput", "trains", "flows", "bursts"}


def test_simulate_judge_report_without_a_packet(spoken: Spoken, tmp_path: Path) -> None:
    made = linkqual("lab", "simulate", "lossy", "--packets", "20k", "--seed", "5", "-o", "run", cwd=tmp_path)
    assert made.returncode == ExitCode.FAIL, made.stderr
    assert "Simulated" in made.stdout

    document = json.loads((tmp_path / "run" / "run.json").read_text())
    summary = document["measurements"][0]["stamp"]["summary"]
    assert summary["lost_forward"] == document["truth"]["forward"]["dropped"] > 0
    assert summary["lost_reverse"] == document["truth"]["reverse"]["dropped"]

    again = spoken("judge", str(tmp_path / "run"), "--json")
    assert again.returncode == ExitCode.FAIL
    assert json.loads(again.stdout)["verdict"] == document["verdict"]

    page = spoken("report", str(tmp_path / "run"), "--format", "html", "-o", str(tmp_path / "page.html"))
    assert page.returncode == 0
    assert "<html" in (tmp_path / "page.html").read_text()


def test_the_same_seed_gives_the_same_bytes(spoken: Spoken, tmp_path: Path) -> None:
    texts = []
    for process, run in (
        (linkqual, tmp_path / "a/run"),
        (spoken, tmp_path / "b/run"),
    ):  # hashes differ between processes
        run.parent.mkdir()
        process("lab", "simulate", "jittery", "--packets", "2k", "--seed", "3", "-o", str(run))
        texts.append((run / "run.json").read_bytes())
    assert texts[0] == texts[1]


def test_a_changed_limit_changes_the_verdict_without_measuring_again(spoken: Spoken, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    spoken("lab", "simulate", "clean", "--profile", "inference", "--packets", "40k", "-o", run)
    assert spoken("judge", run).returncode == ExitCode.PASS
    assert spoken("judge", run, "--rtt-budget", "2ms").returncode == ExitCode.FAIL
    assert spoken("judge", run).returncode == ExitCode.PASS


def test_ctrl_c_while_the_verbs_are_loaded_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = linkqual("--version", PYTHONPATH=path)
    assert (said.returncode, said.stderr) == (-signal.SIGINT, "")


def test_under_nohup_the_end_of_the_terminal_ends_nothing() -> None:
    agent = "-m linkqual agent --ephemeral --bind 127.0.0.1 --port 0 --quiet"
    command = ["nohup", sys.executable, *agent.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("linkqual://")
        running.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        running.terminate()
        assert running.wait(10) in (0, 143)


@pytest.mark.parametrize(("into", "code"), [("> /dev/full", ExitCode.NO_DATA), (">&-", ExitCode.PASS)])
def test_an_answer_nobody_can_take_is_no_fault_of_the_program(into: str, code: ExitCode) -> None:
    command = f"{sys.executable} -m linkqual probes {into}"
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == code, said.stderr
    assert "Traceback" not in said.stderr
    assert said.stderr.startswith("linkqual: the answer cannot be written: ") or not code


def test_what_a_far_end_says_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(PeerError("far: no\x1b[2J\u202eSSAP", "one\ntwo\udcff", "token"))
    said = capsys.readouterr().err
    assert said == "linkqual: far: no\\x1b[2J\\u202eSSAP\n  one\ntwo\\udcff\n"


def test_an_agent_of_the_embedded_line_that_cannot_be_started_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Network:
        far = "far"

        def __init__(self, _line: object) -> None: ...
        def __enter__(self) -> Network:
            return self

        def __exit__(self, *_: object) -> None: ...
        def address(self, _node: str) -> str:
            return "127.0.0.1"

        def popen(self, *_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied", sys.executable)

    monkeypatch.setattr("linkqual.lab.network.VirtualLine", Network)
    asked = Asked(None, "path")
    with pytest.raises(HostError, match=r"cannot be started: .*: Permission denied"):
        _embedded(asked, prepare(asked), judged=True)
