"""How an error quotes what the caller wrote: short, on one line, with a caret under the part that is wrong."""


def shown(value: object, most: int = 60) -> str:
    """`value` as a literal, cut so that ten megabytes of nonsense make one line of error."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}… ({len(value):,} characters)"
    return repr(value) if isinstance(value, str) else f"{type(value).__name__} {str(value)[:most]}"


def pointed(text: str, start: int, length: int, reason: str) -> str:
    """`text` on a line of its own, and under the part that is wrong a caret with the reason."""
    return f"cannot read this schedule\n  {text}\n  {' ' * start}{'^' * max(1, length)} {reason}"
