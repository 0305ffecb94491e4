"""Which of the peers are here. They come with `pip install cronce[bench]`; without them ours is measured alone."""

from importlib.util import find_spec


def installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


def alchemy(url: str) -> str:
    """A PostgreSQL URL as SQLAlchemy wants it, for the driver that we use as well."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
