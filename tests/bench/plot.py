"""The times of an allreduce over its size as an SVG: two logarithmic axes, a line for each contender."""

import math
from typing import Dict, List, Tuple

from cells import show_bytes

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 80, 190, 40, 60
COLORS = {
    "farandole-c": "#0b6e4f",
    "farandole": "#3cb371",
    "openmpi-c": "#8b1e3f",
    "mpi4py": "#d1495b",
    "gloo": "#3c6e9f",
    "horovod": "#8d6a9f",
}

# (bytes, seconds), ascending.
Line = List[Tuple[int, float]]


class _Scale:
    """A logarithmic axis of pixels."""

    def __init__(self, least: float, most: float, start: float, end: float) -> None:
        self._least, self._most = math.log10(least), math.log10(most)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._least) / (self._most - self._least)
        return self._start + share * (self._end - self._start)


def _show_seconds(seconds: float) -> str:
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit * 0.999:
            return f"{seconds / unit:g} {name}"
    return f"{seconds / 1e-6:g} us"


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{text}</text>'


def _axes(x: _Scale, y: _Scale, sizes: List[int], decades: List[float]) -> List[str]:
    parts = []
    for decade in decades:
        at = y(decade)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, at + 4, _show_seconds(decade), "end"))
    for size in sizes:
        at = x(size)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
        parts.append(_text(at, HEIGHT - BOTTOM + 20, show_bytes(size)))
    return parts


def _spread(ends: List[Tuple[float, str]]) -> List[Tuple[float, str]]:
    """Labels at the lines' ends, moved apart."""
    placed: List[Tuple[float, str]] = []
    for at, name in sorted(ends):
        placed.append((max(at, placed[-1][0] + 16) if placed else at, name))
    return placed


def draw(title: str, lines: Dict[str, Line], names: Dict[str, str]) -> str:
    """The picture's text; `names` are what contenders are called in it."""
    points = [point for line in lines.values() for point in line]
    sizes = sorted({size for size, _ in points})
    first = math.floor(math.log10(min(seconds for _, seconds in points)))
    last = math.ceil(math.log10(max(seconds for _, seconds in points)))
    x = _Scale(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    y = _Scale(10.0**first, 10.0**last, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, title, "start", 'font-size="15"'),
        *_axes(x, y, sizes, [10.0**power for power in range(first, last + 1)]),
    ]
    for name, line in lines.items():
        path = " ".join(f"{x(size):.1f},{y(seconds):.1f}" for size, seconds in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        parts.extend(f'<circle cx="{x(s):.1f}" cy="{y(t):.1f}" r="3" fill="{COLORS[name]}"/>' for s, t in line)
    for at, name in _spread([(y(line[-1][1]), name) for name, line in lines.items()]):
        parts.append(_text(WIDTH - RIGHT + 10, at + 4, names[name], "start", f'fill="{COLORS[name]}"'))
    return "\n".join([*parts, "</svg>", ""])
