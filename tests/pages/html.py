"""A report as a reader's program sees it."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n"


class Page(HTMLParser):
    """Pictures, captions, text and every address of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.alts: list[str] = []
        self.captions: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._in_caption = False
        self._open: list[str] = []
        self.feed(path.read_text("utf-8"))
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "source"):
            self._open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.addresses.append(value or "")
            assert not name.startswith("on"), "no scripts"
        if tag == "img":
            self.alts.append(dict(attrs)["alt"] or "")
        if tag == "figcaption":
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "figcaption" in self._open:
            self.captions[-1] += data

    @property
    def pictures(self) -> list[bytes]:
        """Every address, which has to be a PNG inside the page."""
        start = "data:image/png;base64,"
        assert all(address.startswith(start) for address in self.addresses), self.addresses
        return [base64.b64decode(address.removeprefix(start), validate=True) for address in self.addresses]
