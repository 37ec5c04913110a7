"""The HTML page: sections with their pictures inside, on light and on dark paper. Knows no data."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

import cbatch
from cbatch.pages.sections import Section
from cbatch.pages.style import DARK, DPI, LIGHT, WIDTH, Picture, render

GENERATOR = "cbatch report"
"""In the head of every page, to know it again."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, drawn."""

    picture: Picture
    light: str
    """As a `data:` address."""
    dark: str
    titled: bytes
    """PNG on light paper, with its title, to stand alone."""

    @property
    def file_name(self) -> str:
        """Without a suffix, and with no character that a shell or a file system could mind."""
        return re.sub(r"[^\w.-]+", "-", self.picture.name, flags=re.ASCII)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, so that the page doesn't jump."""
        return round(WIDTH * DPI), round(self.picture.height * DPI)


def draw(section: Section) -> list[Drawn]:
    """The section's pictures."""
    return [_draw(picture) for picture in section.pictures]


def _draw(picture: Picture) -> Drawn:
    light, dark = (_embedded(render(picture, theme)) for theme in (LIGHT, DARK))
    return Drawn(picture, light, dark, render(picture, LIGHT, titled=True))


def make_page(sections: Sequence[tuple[Section, Sequence[Drawn]]]) -> str:
    """The whole file."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("cbatch.pages") / "report.html.jinja").read_text("utf-8"))
    return template.render(sections=sections, generator=GENERATOR, version=cbatch.__version__)


def _embedded(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
