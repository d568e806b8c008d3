"""The picture of the terminal in the README: the demo run after two answers, as an SVG that asks no font server.

python -m tests.lab.terminal_picture            writes site/assets/terminal.svg
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from playbook import places
from playbook.faces.tui import Options
from playbook.faces.tui.app import PlaybookApp

RUN = "lr-peak-hard-samples-7b.csv"
SIZE = (120, 36)
KEYS = ("1", "3")  # pretraining, bf16
FONT = "'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"


async def picture() -> str:
    """The screen as SVG text."""
    app = PlaybookApp(Options(paths=(str(places.knowledge() / "cases" / RUN),), remember=False))
    async with app.run_test(size=SIZE) as pilot:
        while app.desk is None:
            await pilot.pause(0.05)
        await pilot.pause(0.5)
        for key in KEYS:
            await pilot.press(key)
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
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else places.site_source() / "assets" / "terminal.svg"
    target.write_text(re.sub(r"[ \t]+\n", "\n", asyncio.run(picture())), "utf-8")


if __name__ == "__main__":
    main()
