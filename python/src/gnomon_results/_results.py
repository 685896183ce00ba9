"""Tables of one report, and what is computed from them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import pandas

# The form of tables that this package reads.
SCHEMA = "gnomon-tables/1"

# Two-sided 95 % quantiles of Student's t distribution with 1 to 30 degrees of freedom.
_T95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


class Error(Exception):
    """What was wrong, and what to do."""


class Results:
    """Tables of runs. Each is a polars.DataFrame, read when it is first asked for."""

    def __init__(
        self,
        folder: Path,
        *,
        owned: tempfile.TemporaryDirectory | None = None,
        report: Sequence[str] = (),
        since: str = "start",
    ) -> None:
        self._folder, self._owned, self._report, self._since = folder, owned, list(report), since
        try:
            package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Error(f"'{folder}' has no tables of a report: {error}") from error
        self.schema: str = package.get("schema", "")
        if self.schema != SCHEMA:
            raise Error(f"'{folder}' has tables of the form {self.schema!r}, and this package reads {SCHEMA!r}: update the older of the two")
        self._resources = {resource["name"]: resource for resource in package["resources"]}

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(self._resources)

    def table(self, name: str) -> pl.DataFrame:
        """A table by its name."""
        if name not in self._resources:
            raise Error(f"there is no table {name!r}, but {', '.join(self.tables)}")
        table = pl.read_parquet(self._folder / self._resources[name]["parquet"])
        if name == "transfers" and self._since == "request":
            spans = [pl.col(span) - pl.col("request_s") for span in ("first_byte_s", "last_byte_s")]
            table = table.with_columns(spans)
        return table

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row for each run."""
        return self.table("runs")

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """A row for each transfer of a client."""
        return self.table("transfers")

    @cached_property
    def circuits(self) -> pl.DataFrame:
        """A row for each circuit that a client's tor reported."""
        return self.table("circuits")

    @cached_property
    def relays(self) -> pl.DataFrame:
        """A row for each relay, authority and bridge."""
        return self.table("relays")

    @cached_property
    def differences(self) -> pl.DataFrame:
        """A row for each quantity in which a group is compared with the first one, by runs of the same seed."""
        return self.table("differences")

    @cached_property
    def public(self) -> pl.DataFrame:
        """A row for each quantity of a run or group beside that of the public network."""
        return self.table("public")

    def about(self, name: str) -> pl.DataFrame:
        """The columns of a table: name, type, and what they mean."""
        if name not in self._resources:
            raise Error(f"there is no table {name!r}, but {', '.join(self.tables)}")
        fields = self._resources[name]["schema"]["fields"]
        return pl.DataFrame(fields, schema={"name": pl.String, "type": pl.String, "description": pl.String})

    def to_pandas(self, name: str) -> pandas.DataFrame:
        """A table as a pandas.DataFrame. Needs the extra `pandas`."""
        try:
            import pandas  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise Error(f"{error.name} is missing: pip install 'gnomon-results[pandas]'") from error
        return self.table(name).to_pandas()

    def quantiles(
        self,
        column: str = "last_byte_s",
        *,
        by: Sequence[str] = ("group", "behaviour", "direction", "bytes"),
        of: Sequence[float] = (0.1, 0.5, 0.9),
        table: str = "transfers",
    ) -> pl.DataFrame:
        """Quantiles over the rows in the window that have a value.

        For each group and quantile: `runs`, `count`, `mean` over runs of the quantile of each, and `error`, half of the mean's 95 %
        confidence interval (null for one run).
        """
        data = self.transfers if table == "transfers" else self.table(table)
        by = list(by)
        unknown = [name for name in [*by, column] if name not in data.columns]
        if unknown:
            raise Error(f"{table} has no column {unknown[0]!r}, but {', '.join(data.columns)}")
        rows = data.filter("in_window") if "in_window" in data.columns else data
        if table == "transfers":
            rows = rows.filter("done")
        rows = rows.drop_nulls(column)
        each = [
            rows.group_by(*by, *({"run"} - set(by)))
            .agg(pl.col(column).quantile(quantile, interpolation="linear").alias("value"), pl.len().alias("count"))
            .with_columns(pl.lit(float(quantile)).alias("quantile"))
            for quantile in of
        ]
        if not each:
            raise Error("of: name at least one quantile, such as 0.5")
        runs = pl.col("value").len()
        t = pl.col("runs").map_elements(_t95, return_dtype=pl.Float64)
        return (
            pl.concat(each)
            .group_by(*by, "quantile")
            .agg(runs.alias("runs"), pl.col("count").sum(), pl.col("value").mean().alias("mean"), pl.col("value").std().alias("deviation"))
            .with_columns((t * pl.col("deviation") / pl.col("runs").cast(pl.Float64).sqrt()).alias("error"))
            .drop("deviation")
            .sort(*by, "quantile")
        )

    def write_report(self, folder: str) -> dict[str, dict[str, Path]]:
        """Writes the page with all figures into `folder`: the paths of each figure's files by its name and their kind (svg, png, csv)."""
        from ._open import _call

        if not self._report:
            raise Error("these results were opened from a report, which has its figures already")
        _call([*self._report[:2], "--output", folder, *self._report[2:]])
        return figures(Path(folder))

    def figures(self) -> dict[str, dict[str, Path]]:
        """The figures of the report that these results were opened from."""
        return figures(self._folder.parent)

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {resource.get('rows', '?')} rows" for name, resource in self._resources.items())
        return f"<gnomon_results.Results {rows}>"


def figures(folder: Path) -> dict[str, dict[str, Path]]:
    """The figures in a report's folder."""
    found = {}
    for picture in sorted(folder.glob("*.svg")):
        found[picture.stem] = {kind: picture.with_suffix(f".{kind}") for kind in ("svg", "png", "csv")}
    return found


def _t95(runs: int) -> float | None:
    freedom = runs - 1
    if freedom < 1:
        return None
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    # Cornish and Fisher's expansion about the normal quantile, to within 0.0001 from here on.
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
