"""A terminal as an SVG picture: `cronce demo | python docs/pictures/draw.py > docs/pictures/demo.svg`."""

import re
import sys
from html import escape

WIDTH, HEIGHT, MARGIN = 8.4, 19, 18  # of a character, of a line, around all
WORDS = {
    r"\btook\sover\b|\bran\b(?!\sagain|\slate)|\b0\stoo\smany,\s0\smissed\b": "#7ee787",
    r"\bkilled\b|\bran\sagain\b|\bran\slate\b|\b[1-9]\d*\stoo\smany": "#ff7b72",
    r"\bpaused\b": "#f2cc60",
    r"·": "#6e7681",
    r"^\$.*": "#ffffff",
}


def coloured(line: str) -> str:
    """A line with its words in their colours; a line that tells what happens is yellow as a whole. Spaces that do not
    break are the only ones that every viewer keeps."""
    told = re.match(r"  \w", line)
    line = line.strip().replace(" ", "\N{NO-BREAK SPACE}")
    if told:
        return f'<tspan fill="#f2cc60">{escape(line)}</tspan>'
    pattern = "|".join(f"({word})" for word in WORDS)
    colours = list(WORDS.values())

    def paint(match: re.Match[str]) -> str:
        colour = colours[(match.lastindex or 1) - 1]
        return f'<tspan fill="{colour}">{match.group()}</tspan>'

    return re.sub(pattern, paint, escape(line))


def row(number: int, line: str) -> str:
    left = MARGIN + (len(line) - len(line.lstrip())) * WIDTH
    return f'<text x="{left:g}" y="{MARGIN + (number + 0.75) * HEIGHT:g}">{coloured(line)}</text>'


def picture(lines: list[str]) -> str:
    width = max(map(len, lines)) * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    rows = "\n".join(row(number, line) for number, line in enumerate(lines) if line.strip())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">\n'
        f'<rect width="100%" height="100%" rx="10" fill="#161b22"/>\n'
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#c9d1d9">\n'
        f"{rows}\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    shown = sys.stdin.read().split("\nTo guard a job of yours,")[0].rstrip().splitlines()
    sys.stdout.write(picture(["$ cronce demo", *shown]))
