from __future__ import annotations

import io
import re

import pytest

from watersmeet.cli.demo.timeline import Timeline, Track


class Screen(io.TextIOWrapper):
    """A stream that takes itself for a terminal, or does not."""

    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        content = self.buffer
        assert isinstance(content, io.BytesIO)
        return content.getvalue().decode()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def played(screen: Screen) -> str:
    track = Track("rows", full=8)
    with Timeline(
        [track],
        seconds=3600,
        columns=60,
        status=lambda now: ["status"],
        stream=screen,
    ) as timeline:
        timeline.add(track, 4, colour="32")
        timeline.complete(track)
    return screen.text()


def final_frame(text: str) -> list[str]:
    """What is on the screen at the end: the lines after the last jump back to the top."""
    last = re.split(r"\x1b\[\d+A", text)[-1]
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in last.split("\n")]


def test_a_terminal_gets_bars_and_words_and_its_cursor_back() -> None:
    text = played(Screen(terminal=True))
    assert final_frame(text)[0].rstrip() == "  rows      ▄ complete"
    assert "status" in final_frame(text)
    assert "\x1b[32m▄" in text
    assert text.startswith("\x1b[?25l")
    assert text.endswith("\x1b[?25h\x1b[?7h")


def test_every_frame_covers_the_one_before() -> None:
    text = played(Screen(terminal=True))
    heights = {int(lines) for lines in re.findall(r"\x1b\[(\d+)A", text)}
    assert heights <= {4}
    assert text.count("\x1b[K\n") % 4 == 0


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = played(Screen(terminal=True))
    assert not re.search(r"\x1b\[\d*m", text)
    assert "▄" in text


@pytest.mark.parametrize(
    "screen",
    [Screen(terminal=False), Screen(terminal=True, encoding="ascii")],
    ids=["no terminal", "no bars"],
)
def test_anything_else_gets_plain_lines(screen: Screen) -> None:
    text = played(screen)
    assert "\x1b" not in text
    assert re.fullmatch(r"( *\d+\.\d s  status\n)+", text)


def test_a_full_bar_is_never_passed_and_a_single_row_is_seen() -> None:
    track = Track("rows", full=1000, rows={0: 1, 1: 5000, 3: 500})
    assert "".join(track.mark(column) for column in range(5)) == "▁█·▄·"
    track.complete = True
    assert track.mark(4) == " "
