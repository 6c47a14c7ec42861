"""Draws the figures of a soak as an SVG: four panels above each other over the time, with a line for every fault."""

from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, TOP, GAP = 1100, 170, 70, 40, 34
COLORS = ("#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#2c3e50", "#d35400", "#16a085")
TICKS = 4


def series_of(samples, name):
    """One line a process: {name: [(seconds, value)]}."""
    lines = {}
    for sample in samples:
        for process, values in sample["workers"].items():
            lines.setdefault(process, []).append((sample["s"], values[name]))
    return lines


def top_of(lines):
    highest = max((value for points in lines.values() for _, value in points), default=1)
    return highest * 1.1 or 1


class Drawing:
    def __init__(self, end_s):
        self.end_s = end_s or 1
        self.parts = []

    def x(self, seconds):
        return LEFT + seconds / self.end_s * (WIDTH - LEFT - 20)

    def text(self, x, y, words, more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, color, more=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" {more}/>')

    def panel(self, index, title, lines):
        top = TOP + index * (PANEL + GAP)
        bottom, highest = top + PANEL, top_of(lines)
        self.text(LEFT, top - 8, title, 'font-weight="bold"')
        for tick in range(TICKS + 1):
            y = bottom - PANEL * tick / TICKS
            self.line(LEFT, y, WIDTH - 20, y, "#ddd")
            self.text(LEFT - 6, y + 4, f"{highest * tick / TICKS:.3g}", 'text-anchor="end"')
        for number, (name, points) in enumerate(sorted(lines.items())):
            places = " ".join(f"{self.x(s):.1f},{bottom - PANEL * value / highest:.1f}" for s, value in points)
            color = COLORS[hash_of(name.split(".")[0]) % len(COLORS)]
            self.parts.append(f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.5">'
                              f"<title>{escape(name)}</title></polyline>")
        return bottom

    def faults(self, faults, bottom):
        for fault in faults:
            x = self.x(fault["s"])
            self.line(x, TOP, x, bottom, "#999", 'stroke-dasharray="2,4"')
            self.text(x, TOP - 24, fault["what"], f'font-size="9" transform="rotate(-40 {x:.1f} {TOP - 24})"')

    def hours(self, bottom):
        for tick in range(7):
            seconds = self.end_s * tick / 6
            self.text(self.x(seconds), bottom + 18, f"{seconds / 60:.0f} min", 'text-anchor="middle"')


def hash_of(name):
    """The same value in every run, unlike Python's own hash."""
    return sum(map(ord, name))


def svg(row):
    samples = row["samples"]
    drawing = Drawing(max((sample["s"] for sample in samples), default=1))
    drawing.panel(0, "resident memory, MB, a line for each process", series_of(samples, "rss_mb"))
    drawing.panel(1, "open descriptors", series_of(samples, "fds"))
    drawing.panel(2, "threads", series_of(samples, "threads"))
    times = [(sample["s"], sample["p99_s"]) for sample in samples if sample["p99_s"] is not None]
    bottom = drawing.panel(3, "99th percentile of the last 30 s, from sending to the result, s", {"p99": times})
    drawing.faults(row["faults"], bottom)
    drawing.hours(bottom)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>')
    return "\n".join([head, *drawing.parts, "</svg>"]) + "\n"
