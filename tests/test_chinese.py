"""What a Chinese reader sees on the command line is Chinese: sentences from below the faces, errors, help."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rich.console import Console
from rich.text import Text

from playbook import detectors, places, readers
from playbook.errors import PlaybookError, Problem
from playbook.faces import overview
from playbook.faces.cli import playbook as root
from playbook.faces.cli import run
from playbook.faces.sentences import HOLE, Sentences
from playbook.faces.words import Words, words
from playbook.faces.wrapping import cells, wrap_wide_characters, wrapped
from playbook.knowledge.graph import links
from playbook.knowledge.loader import load, parse_yaml
from tests.sentences_kit import said, template

PACKAGE = Path(detectors.__file__).parents[1]
HERE = Path(__file__).parent
RUNS = HERE / "lab" / "runs"
# Four words of English in a row are a sentence that was forgotten; ids, code and what tools print are not words.
_ENGLISH = re.compile(r"(?:\b[A-Za-z]{2,}\b[ ,;:]+){3,}[A-Za-z]{2,}")
# Said to a log file, to a program, or made of names and numbers alone.
_NOT_FOR_PEOPLE = {
    "faces/site/build.py": ("walking {} cases", "drawing {}"),  # a line that is wiped at once
    "incidents/captured.py": ("capture: {}",),
    "probes/prometheus.py": ("HTTP {}: {}",),
}
_PARTS = {  # the rest of the sentence is put together in the same place; the whole is in the table
    "no command {}.{}", "loss scale collapses {}, {} halvings without a recovery up to {}",
    "{} {} from {} to {} at step {} and stays there", "departs at step {}, first in {} ({})",
    "{} closed: {}{}", "nothing holds {}", "Lost: {} = {} USD{}", "To know the cause: {}",
    "Incident `{}`, {}. Recorded {}{}.", "learning rate is {}{} from step {} to the end",
    "{} confirmed incidents to learn from{}", "{} {}\n  was: {}\n  now: {}", "{} (or `other`)",
    "serving {} on http://{}:{}/  (Ctrl+C ends it)",
    "{}counters fell between the snapshots: the driver was loaded anew or they were reset",
    "{}the last snapshot has fewer counters than the one before and was not taken",
}  # fmt: skip
_SILENT = ("workflow/learning/", "monitor/", "readers/machine/")  # words of ui.yaml; a log; what the tool prints


@pytest.fixture(scope="module")
def chinese() -> Words:
    return words("zh")


@pytest.fixture(scope="module")
def table() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((places.knowledge() / "languages" / "zh" / "sentences").glob("*.yaml")):
        rows = parse_yaml(path.read_text("utf-8"), str(path))
        assert not found.keys() & rows.keys()
        found |= rows
    return found


def test_holes_are_the_same_on_both_sides(table: dict[str, str]) -> None:
    assert [k for k, v in table.items() if sorted(set(HOLE.findall(k))) != sorted(set(HOLE.findall(v)))] == []


def test_a_pattern_needs_words(table: dict[str, str]) -> None:
    """One that holds hardly a letter would fit anything."""
    assert [k for k in table if len(re.sub(r"\W", "", HOLE.sub("", k))) < 2] == []


def test_what_stands_in_a_hole_is_looked_up() -> None:
    say = Sentences(
        {"loss for {n}": "loss 共 {n}", "{n} rows": "{n} 行", ", and the end": "，完", "rank {r}: ": "rank {r}："}
    )
    assert say("loss for 12 rows") == "loss 共 12 行"
    assert say("rank 3: loss for 12 rows, and the end") == "rank 3：loss 共 12 行，完"
    assert say("Traceback: loss for 12 rows!") == "Traceback: loss for 12 rows!"
    assert say("loss for 12 rows, and the end, and the end") == "loss 共 12 行，完，完"
    assert say("a.csv:3: loss for 12 rows") == "a.csv:3：loss 共 12 行"
    assert say("a.csv:3: loss for 12 rows (loss for 2 rows)") == "a.csv:3：loss 共 12 行（loss 共 2 行）"
    assert say("a.csv:3: 12 rows") == "a.csv:3: 12 rows", "too short to be sure of"


def test_english_stays_as_it_is() -> None:
    problem = Problem("a.csv", 3, "the file is empty", "check that the job has written to it")
    assert Words().say("the file is empty") == "the file is empty" and Words().problem(problem) == str(problem)


def test_an_error_is_told_whole(chinese: Words) -> None:
    error = PlaybookError("a.csv", "no such file or folder", "check the path", 3)
    assert chinese.error(error) == chinese.say(str(error)) == "a.csv:3：没有这个文件或文件夹（检查路径）"


def test_a_line_of_a_log_is_left_alone(chinese: Words) -> None:
    for line in ("RuntimeError: CUDA out of memory", "[rank0]: step 3: 12 rows and more", "NCCL WARN timeout: 5 s"):
        assert chinese.say(line) == line


def _sentences(path: Path) -> Iterator[str]:
    """Texts with a space in them, docstrings aside."""
    tree = ast.parse(path.read_text("utf-8"))
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }

    def walk(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile":
            return  # a pattern
        found = template(node)
        if found is not None:
            if id(node) not in silent and " " in found.strip():
                yield found
            for value in getattr(node, "values", []):  # what is put into an f-string may be a text itself
                if isinstance(value, ast.FormattedValue):
                    yield from walk(value.value)
            return
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(tree)


@pytest.mark.parametrize("path", sorted((PACKAGE / "detectors").glob("*.py")), ids=lambda p: p.stem)
def test_every_text_of_a_detector_is_part_of_a_known_sentence(path: Path, table: dict[str, str]) -> None:
    known = "\n".join((*(HOLE.sub("{}", k) for k in table), *_PARTS))
    found = [t for t in _sentences(path) if re.search(r"[a-z]{2}", t.replace("{}", ""))]
    lost = [t for t in found if re.sub(r"^\{\}(?=[,; ])|(?<=[,: ])\{\}$", "", t).strip() not in known]
    assert lost == []


def test_every_message_is_known(table: dict[str, str]) -> None:
    known = {HOLE.sub("{}", k) for k in table}
    lost = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(_SILENT):
            continue
        for line, text in said(path):
            bare = re.sub(r"pip install '[^']*'", "", text)
            if " " not in bare.strip() or not re.search(r"[a-z]{2}", bare.replace("{}", "")):
                continue
            if text.strip() not in known | _PARTS and text not in _NOT_FOR_PEOPLE.get(name, ()):
                lost.append(f"{name}:{line} {text!r}")
    assert lost == []


def _runs() -> list[Path]:
    formats = sorted(p for p in (HERE / "samples" / "formats").glob("*/*") if p.suffix != ".py")
    return [*formats, *sorted(RUNS.glob("*/*"))[::4]]


def test_what_is_seen_in_the_samples_is_told_in_chinese(chinese: Words) -> None:
    lost, seen = set(), set()
    for path in _runs():
        try:
            run_ = readers.read([str(path)])
        except PlaybookError as error:
            seen.add(str(error))
            continue
        seen |= {problem.what for file in run_.files for problem in file.problems}
        for scan in detectors.scan(run_):
            seen |= {text for text in (scan.because, *(f.because for f in scan.findings)) if text}
    for text in seen:
        told = chinese.say(text)
        if told == text or _ENGLISH.search(re.sub(r"`[^`]*`|--map \S+|（[^（）]*：[^（）]*）|Xid：.*", "", told)):
            lost.add(f"{text} -> {told}")
    assert len(seen) > 400 and sorted(lost) == []


def _helps(command: click.Command) -> Iterator[str]:
    yield from inspect.cleandoc(command.help or "").split("\n\n")
    if command.short_help:
        yield command.short_help
    for parameter in command.params:
        if help_ := getattr(parameter, "help", None):
            yield help_
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from _helps(below)


def test_every_help_has_chinese_words(chinese: Words) -> None:
    wanted = {*overview.text().split("\n\n")} and {overview._HEAD, overview._TAIL}
    wanted |= {line for _, _, line in overview.COMMANDS.values()}
    for name in overview.COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        wanted |= set(_helps(command))
    keys = {" ".join(text.replace("\b", "").split()) for text in wanted}
    own = {"Usage:", "Options:", "Commands:", "Positional arguments:", "default: ", "required", "env var: "}
    own |= {"Show this message and exit.", "Show the version and exit."}
    assert sorted(keys - chinese.help.keys()) == []
    assert sorted(chinese.help.keys() - keys - own) == []


@pytest.mark.parametrize("name", list(overview.COMMANDS))
def test_help_speaks_the_language_of_the_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--lang", "zh", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("用法：playbook") and "选项：" in out
    examples = re.compile(r"^  (?:playbook|\{).*$", re.MULTILINE)
    assert not _ENGLISH.search(examples.sub("", out).replace(f"用法：playbook {name}", ""))
    assert max(map(cells, examples.sub("", out).splitlines())) <= 80
    assert run([name, "--help"]) == 0
    assert "Usage:" in capsys.readouterr().out


def test_errors_speak_the_language_of_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYBOOK_LANG", "zh")
    assert run(["ingest", "nothing-here"]) == 2
    assert capsys.readouterr().err == "错误：nothing-here：没有这个文件或文件夹（检查路径）\n"
    assert run(["ingst"]) == 2
    assert capsys.readouterr().err == "错误：没有命令 ingst。是不是想写 ingest？\n"
    assert run(["compare", "--lang", "fr", "a", "b"]) == 2
    assert "没有这种语言" in capsys.readouterr().err


def test_every_kind_of_link_has_a_word(chinese: Words) -> None:
    kinds = {link.kind for link in links(load([places.knowledge()]))}
    assert [kind for kind in sorted(kinds) if chinese(kind) == kind] == []


def test_rich_breaks_a_chinese_line_between_characters() -> None:
    wrap_wide_characters()
    lines = Text("1. 关掉该作业的自动重启。then two words").wrap(Console(), 12)
    assert [line.plain.rstrip() for line in lines] == ["1. 关掉该作", "业的自动重", "启。then two", "words"]
    lines = Text("  plain words break as before").wrap(Console(), 12)
    assert [line.plain.rstrip() for line in lines] == ["  plain", "words break", "as before"]


def test_lines_break_by_cells() -> None:
    assert wrapped("一二三四，五六", 8) == ["一二三", "四，五六"]
    assert wrapped("loss 发散 at step", 10) == ["loss 发散", "at step"]
    assert wrapped("（甲）乙", 4) == ["（甲）", "乙"] and wrapped("", 10) == [""]
