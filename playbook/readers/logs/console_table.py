"""Tables that training code prints: boxes of `| key | value |`, and columns below a header of names.

A box (stable-baselines, Spinning Up) is one row: sections such as `train/` go before the keys below them, and the count
of steps is one of its keys. Columns (fastai, YOLO, markdown) begin with a header that holds a count and a metric;
of a line that is drawn many times for one count the last drawing counts.
"""

from __future__ import annotations

import re

from playbook.readers import text
from playbook.readers.logs.rows import Rows, Taker
from playbook.readers.names import epoch_name, step_names, wanted

_BOX = re.compile(r"^\s*[|│┃║]( *)([^|│┃║]{1,80}?)\s*[|│┃║]\s*([^|│┃║]{0,40}?)\s*[|│┃║]\s*$")
_BORDER = re.compile(r"^\s*[|+\-=─━┌┐└┘├┤┼╔╗╚╝╠╣═: ]{6,}$")
_NUMBER = re.compile(rf"^({text.NUM})[kKMG%]?$")
_COUNT = re.compile(r"^(\d{1,12})(?:/\d{1,12})?:?$")
_NAME = re.compile(r"^[A-Za-z#][\w ./()%\-]{0,40}$")
_GAP = re.compile(r"\s{2,}|\t")
_BARS = ("|", "│", "┃", "║")
_LEAST = 3  # columns
_FAR = 400  # lines after the last row that a header is remembered


def taker(rows: Rows) -> Taker:
    """Takes boxes and columns."""
    box: dict[str, float] = {}
    state = {"place": 0, "boxes": 0, "since": 0}
    section = [""]
    header: list[str] = []
    pending: list[tuple[int, dict[str, float], int]] = []

    def put_box() -> None:
        values = dict(box)
        box.clear()
        section[0] = ""
        if not any(wanted(key, {}) or text.is_metric(key) for key in values):
            return
        counter = next(iter(step_names(values)), None) or epoch_name(values)
        state["boxes"] += 1
        step = values[counter] if counter is not None else float(state["boxes"])
        if counter is not None and counter != epoch_name(values):
            del values[counter]
        rows.add(step, values, state["place"])

    def put_line() -> None:
        if pending:
            step, values, place = pending.pop()
            rows.add(step, values, place)

    def cell(number: int, hit: re.Match[str]) -> bool:
        indent, key, value = hit[1], hit[2].strip(), hit[3].strip()
        if not box:
            state["place"] = number
        if not value and key.endswith("/"):
            section[0] = key
            return True
        if not (shown := _NUMBER.match(value)):
            return bool(box)
        name = f"{section[0]}{key}" if section[0] and len(indent) > 1 else key
        box.setdefault(name, text.value(shown[1], value[len(shown[1]) :] or None))
        return True

    def heads(names: list[str]) -> bool:
        if len(names) < _LEAST or not all(map(_NAME.match, names)):
            return False
        counts = [*step_names(names), *filter(None, [epoch_name(names)])]
        return bool(counts) and any(wanted(name, {}) and name not in counts for name in names)

    def line(number: int, cells: list[str]) -> bool:
        counter = next(iter(step_names(header)), None) or epoch_name(header)
        if counter is None or len(cells) < len(header):
            return False
        told = dict(zip(header, cells, strict=False))
        count = _COUNT.match(told[counter])
        if count is None:
            return False
        values = {counter: float(count[1])} if counter == epoch_name(header) else {}
        values |= {
            name: text.value(hit[1])
            for name, value in told.items()
            if name != counter and (hit := _NUMBER.match(value.rstrip(":")))
        }
        if not any(wanted(name, {}) for name in values):
            return False
        if pending and pending[0][0] != int(count[1]):
            put_line()
        pending[:] = [(int(count[1]), values, number)]
        rows.pulse += 1
        state["since"] = 0
        return True

    def take(number: int, shown: str | None) -> bool:
        if shown is None:
            put_box()
            put_line()
            return False
        if len(shown) > 1000:
            return False
        barred = shown.lstrip()[:1] in _BARS
        if not (barred or header or "  " in shown or "\t" in shown):
            if box:
                put_box()
            return False
        body = shown if barred else text.split(shown).body
        if barred and (hit := _BOX.match(body)) and not header:
            return cell(number, hit)
        if box:
            put_box()
        if _BORDER.match(body):
            return False
        state["since"] += 1
        if header and state["since"] > _FAR:
            header.clear()
        cells = [c.strip() for c in body.strip().strip("".join(_BARS)).split("|")] if barred else body.split()
        if header and line(number, cells):
            return True
        names = cells if barred else [c for c in _GAP.split(body.strip()) if c]
        if ("poch" in body or "tep" in body or "ter" in body) and heads(names):
            put_line()
            header[:] = names
            state["since"] = 0
            return True
        return False

    return take
