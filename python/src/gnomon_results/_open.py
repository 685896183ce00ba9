"""From data directories and reports to `Results`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ._results import Error, Results

PathLike = "str | os.PathLike[str]"


def open(
    *runs: PathLike,
    labels: Sequence[str] = (),
    groups: Mapping[str, Sequence[PathLike]] | None = None,
    since: str = "start",
    window: tuple[str | None, str | None] = (None, None),
    gnomon: PathLike | None = None,
) -> Results:
    """Opens data directories of runs, or one folder that `gnomon report` has written.

    labels: what tables call the runs, one for each in `runs`.
    groups: further runs that are samples of the same experiment, by the group's name.
    since:  "start" or "request": from when `first_byte_s` and `last_byte_s` count.
    window: the span of simulated time that `in_window` is about, as Gnomon reads times ("5 min").
    gnomon: the program; by default $GNOMON, or the one on the PATH.
    """
    if since not in ("start", "request"):
        raise Error(f"since is 'start' or 'request', not {since!r}")
    if len(runs) == 1 and not groups and not labels and (window, since) == ((None, None), "start"):
        for folder in (Path(runs[0]), Path(runs[0]) / "tables"):
            if (folder / "datapackage.json").is_file():
                return Results(folder)
    arguments: list[str] = []
    for label in labels:
        arguments += ["--label", label]
    for name, members in (groups or {}).items():
        arguments += ["--group", f"{name}={','.join(os.fspath(member) for member in members)}"]
    for option, time in zip(("--from", "--until"), window, strict=True):
        arguments += [option, time] if time is not None else []
    arguments += ["--since", since, "--", *map(os.fspath, runs)]
    program = _program(gnomon)
    folder = tempfile.TemporaryDirectory(prefix="gnomon-results-")
    _call([program, "report", "--tables-only", "--output", folder.name, *arguments])
    return Results(Path(folder.name) / "tables", owned=folder, report=[program, "report", *arguments], since=since)


def _program(given: PathLike | None) -> str:
    if given is not None:
        return os.fspath(given)
    if os.environ.get("GNOMON"):
        return os.environ["GNOMON"]
    found = shutil.which("gnomon")
    if found is None:
        raise Error("there is no program 'gnomon' on the PATH: give gnomon=..., set $GNOMON, or open a folder that 'gnomon report' has written")
    return found


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise Error(f"cannot run {command[0]!r}: {error.strerror}") from error
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"{command[0]} ended with status {done.returncode}")
