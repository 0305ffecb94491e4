"""python -m tests.release: build wheel and sdist, and install them in clean environments of every Python there is.

`make release-check` runs it. What is built is in dist/.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WITHOUT = ("--version", "next '0 9 * * *' --tz Europe/Berlin", "--help")
"""Commands that need no extra."""

WITH = ("audit --help", "ui --help", "store init sqlite:///new.db", "doctor sqlite:///new.db")
IMPORTS = "import psycopg, pymysql, hiredis, yaml, cronce.stores.postgres, cronce.stores.redis, cronce.web.app"
"""What the extra `all` must bring."""


def run(*words: object, cwd: Path = ROOT) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CRONCE"))}
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> tuple[Path, Path]:
    """The wheel and the sdist, made in an environment of their own."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        run(f"{folder}/bin/pip", "install", "-q", "build")
        run(f"{folder}/bin/python", "-m", "build", "-q", "--outdir", DIST, ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path) -> None:
    """Every package of src/ is in it, is typed, and nothing else is."""
    names = zipfile.ZipFile(wheel).namelist()
    packages = {path.name for path in (ROOT / "src").iterdir() if (path / "__init__.py").exists()}
    found = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert found == packages, f"the wheel has {sorted(found)}, and src/ has {sorted(packages)}"
    assert "cronce/py.typed" in names, "py.typed is not in the wheel"
    (metadata,) = [name for name in names if name.endswith("METADATA")]
    told = zipfile.ZipFile(wheel).read(metadata).decode()
    for field in ("Project-URL: Changelog", "License-Expression: MIT"):
        assert field in told, f"{field} is not in the metadata:\n{told[:2000]}"


def interpreters() -> Iterator[tuple[str, str]]:
    """Those that can be found on the path or where pyenv keeps them."""
    for version in PYTHONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        found = str(kept[-1]) if kept else shutil.which(f"python{version}")
        if found:
            yield version, found
        else:
            print(f"Python {version}: not here, left out")


def check_installed(python: str, source: Path, extra: str) -> str:
    """In a clean environment, with and without extras; what was installed."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run(python, "-m", "venv", place / "venv")
        pip, cronce = place / "venv/bin/pip", place / "venv/bin/cronce"
        constraints = ("-c", ROOT / "constraints.txt") if extra else ()
        run(pip, "install", "-q", "--disable-pip-version-check", *constraints, f"{source}{extra}")
        run(pip, "check")
        for command in (*WITHOUT, *(WITH if extra else ())):
            run("sh", "-c", f"{cronce} {command}", cwd=place)
        if extra:
            run(place / "venv/bin/python", "-c", IMPORTS, cwd=place)
        packages = run(pip, "list", "--format", "freeze", "--disable-pip-version-check").split()
    return f"{len([one for one in packages if not one.startswith(('pip=', 'setuptools='))])} packages"


def main() -> None:
    wheel, sdist = build()
    check_contents(wheel)
    print(f"{wheel.name} {wheel.stat().st_size // 1024} KB, {sdist.name} {sdist.stat().st_size // 1024} KB")
    for version, python in interpreters():
        for source, extra in ((wheel, ""), (wheel, "[all]"), (sdist, "")):
            print(f"Python {version}, {source.name}{extra}: {check_installed(python, source, extra)}", flush=True)


if __name__ == "__main__":
    main()
