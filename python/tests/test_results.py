"""The package on runs that the caller has made: $GNOMON_TEST_RUNS, three data directories of the same experiment with different seeds."""

import json
import math
import os
import statistics
import tempfile
import unittest
from pathlib import Path

import gnomon_results
import polars

RUNS = os.environ["GNOMON_TEST_RUNS"].split(":")


class Opened(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.results = gnomon_results.open(*RUNS)

    def test_tables_have_all_rows(self):
        results = self.results
        self.assertEqual(results.tables, ["runs", "transfers", "circuits", "relays", "differences", "public"])
        self.assertEqual(results.runs["seed"].to_list(), [1, 2, 3])
        self.assertEqual(results.runs["finished"].to_list(), [True] * 3)
        self.assertEqual(results.transfers.height, results.runs["transfers"].sum())
        lines = []
        for run in RUNS:
            for path in Path(run).glob("hosts/*/gnomon-traffic.*.stdout"):
                lines += [json.loads(line) for line in path.read_text().splitlines()]
        told = sorted(line["last_byte"] for line in lines if line["kind"] == "transfer")
        self.assertGreater(len(told), 10)
        read = sorted(self.results.transfers["last_byte_s"])
        self.assertEqual(len(told), len(read))
        for a, b in zip(told, read):
            self.assertAlmostEqual(a, b, places=9)

    def test_columns_are_described(self):
        for name in self.results.tables:
            about = self.results.about(name)
            self.assertEqual(about["name"].to_list(), self.results.table(name).columns)
            self.assertTrue(all(about["description"]))

    def test_quantiles_are_means_over_runs(self):
        rows = self.results.quantiles("last_byte_s", by=["bytes"], of=[0.5])
        self.assertEqual(rows["bytes"].to_list(), sorted(set(self.results.transfers["bytes"])))
        for row in rows.iter_rows(named=True):
            of_size = self.results.transfers.filter(polars.col("bytes") == row["bytes"])
            medians = [statistics.median(group["last_byte_s"]) for _, group in of_size.group_by("run")]
            self.assertEqual((row["runs"], row["count"]), (3, of_size.height))
            self.assertAlmostEqual(row["mean"], statistics.mean(medians))
            self.assertAlmostEqual(row["error"], 4.3027 * statistics.stdev(medians) / math.sqrt(3))

    def test_one_run_has_no_interval(self):
        rows = gnomon_results.open(RUNS[0]).quantiles(by=["group"], of=[0.1, 0.9])
        self.assertEqual(rows["error"].to_list(), [None, None])

    def test_times_may_count_from_the_request(self):
        late = gnomon_results.open(*RUNS, since="request").transfers
        early = self.results.transfers
        gone = (early["last_byte_s"] - late["last_byte_s"] - early["request_s"]).abs().max()
        self.assertLess(gone, 1e-9)

    def test_groups_labels_and_spans(self):
        groups = gnomon_results.open(groups={"a": RUNS[:2], "b": RUNS[2:]})
        self.assertEqual(groups.runs["group"].to_list(), ["a", "a", "b"])
        span = gnomon_results.open(RUNS[0], labels=["first"], window=(None, "1 ms"))
        self.assertEqual(span.runs["run"].to_list(), ["first"])
        self.assertFalse(span.transfers["in_window"].any())
        with self.assertRaisesRegex(gnomon_results.Error, "has ended"):
            gnomon_results.open(RUNS[0], window=("10 min", None))

    def test_reports_are_written_and_opened(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = self.results.write_report(folder)
            self.assertTrue(any(name.startswith("ttlb") for name in figures))
            self.assertTrue(all(path.is_file() for kinds in figures.values() for path in kinds.values()))
            opened = gnomon_results.open(folder)
            self.assertTrue(opened.transfers.equals(self.results.transfers))
            self.assertEqual(opened.figures(), figures)

    def test_mistakes_are_told(self):
        def refuses(text, call, *arguments, **options):
            with self.assertRaises(gnomon_results.Error) as caught:
                call(*arguments, **options)
            self.assertIn(text, str(caught.exception))

        refuses("no data directory", gnomon_results.open, "/nonexistent")
        refuses("cannot run", gnomon_results.open, RUNS[0], gnomon="/nonexistent")
        refuses("'start' or 'request'", gnomon_results.open, RUNS[0], since="end")
        refuses("no column 'size'", self.results.quantiles, by=["size"])
        refuses("no table 'packets'", self.results.table, "packets")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "datapackage.json").write_text('{"schema": "gnomon-tables/99", "resources": []}')
            refuses("gnomon-tables/99", gnomon_results.open, folder)


class Notebook(unittest.TestCase):
    def test_all_cells_run(self):
        path = Path(os.environ["GNOMON_NOTEBOOK"])
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        names = {"RUNS": RUNS}
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        self.assertGreater(len(code), 3)
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                for source in code:
                    # The first line of the first cell names the runs.
                    lines = [line for line in source.splitlines() if not line.startswith("RUNS =")]
                    exec(compile("\n".join(lines), str(path), "exec"), names)
            finally:
                os.chdir(before)
        self.assertGreater(names["medians"].height, 0)


if __name__ == "__main__":
    unittest.main()
