"""The picture of the terminal in the README: a published run after some answers, as an SVG that asks no font server.

python -m tests.lab.terminal_picture            writes site/assets/terminal.svg
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from playbook import places
from playbook.faces.tui import Options
from playbook.faces.tui.app import PlaybookApp
from playbook.workflow.cases import read_cases

RUN = "lr-peak-hard-samples-7b"
SIZE = (120, 36)
CANNOT = "c"  # the key for what nobody can get
ANSWERS = 3  # given before the picture is taken, as the case of the run tells them
FONT = "'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"


async def picture() -> str:
    """The screen as SVG text."""
    told = next(case for _, case in read_cases(places.knowledge() / "cases") if case.id == RUN)
    app = PlaybookApp(Options(paths=(str(places.knowledge() / "cases" / f"{RUN}.csv"),), remember=False))
    async with app.run_test(size=SIZE) as pilot:
        while app.desk is None:
            await pilot.pause(0.05)
        await pilot.pause(0.5)
        given = 0
        while given < ANSWERS and (question := app.desk.question):
            state = told.answers.get(question.id) or told.context.get(question.id)
            given += state is not None
            await pilot.press(str(list(question.outcomes).index(str(state)) + 1) if state else CANNOT)
            await pilot.pause(0.2)
        await pilot.pause(1.0)  # until the bars stand still
        return plain(app.export_screenshot(title="playbook"))


def plain(svg: str) -> str:
    """Without fonts from elsewhere, and with a name for those who cannot see it."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"font-family:[^;]*;", f"font-family: {FONT};", svg)
    svg = svg.replace("<!-- Generated with Rich https://www.textualize.io -->", "")
    label = "The guided terminal: curve with its onset, first aid, evidence, one question, causes with probabilities"
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', svg, count=1)


def main() -> None:
    os.environ["PLAYBOOK_HOME"] = tempfile.mkdtemp()  # no incidents of whoever draws it
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else places.site_source() / "assets" / "terminal.svg"
    target.write_text(re.sub(r"[ \t]+\n", "\n", asyncio.run(picture())), "utf-8")


if __name__ == "__main__":
    main()
