"""Two themes of our own, dark and light, beside those of Textual; red is kept for first aid and bad numbers."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="playbook-dark",
    primary="#6cb6ff",
    secondary="#b392f0",
    accent="#f0b35e",
    warning="#f0b35e",
    error="#f06a6a",
    success="#7cc98f",
    foreground="#d6dbe2",
    background="#12151a",
    surface="#191d24",
    panel="#20262f",
    dark=True,
    variables={"border": "#6cb6ff", "border-blurred": "#39424f"},
)
LIGHT = Theme(
    name="playbook-light",
    primary="#0b62b0",
    secondary="#6a3fb5",
    accent="#a35a00",
    warning="#a35a00",
    error="#b8242f",
    success="#1c7a3e",
    foreground="#1d232b",
    background="#fbfaf7",
    surface="#f1efe9",
    panel="#e6e3da",
    dark=False,
    variables={"border": "#0b62b0", "border-blurred": "#b9b4a6"},
)
OURS = (DARK, LIGHT)
