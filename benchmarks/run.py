"""Runs the benchmarks, prints their tables, and writes them to benchmarks/results/.

make bench
python benchmarks/run.py --quick
python benchmarks/run.py --only symmetric --only memory
python benchmarks/run.py --publish     (puts the tables into docs/benchmarks.md too; with --only
                                        the other tables there stay as they are)
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # Run as a file, Python looks for modules beside it; `benchmarks` is found one folder up.
    sys.path[0] = str(ROOT)

# In the order of the report. Each is a module here, with a low line for a dash.
BENCHMARKS = (
    "spark-tables",
    "spark-rows",
    "spark-small",
    "spark-streams",
    "spark-bands",
    "spark-many",
    "spark-enrich",
    "spark-promises",
    "spark-restart",
    "tpch",
    "aggregates",
    "row-aggregates",
    "symmetric",
    "spilling",
    "threads",
    "bands",
    "intervals",
    "rectangles",
    "strings",
    "scaling",
    "memory",
    "enrich",
    "endless",
    "endless-promises",
    "promises",
    "news",
)


def main() -> int:
    options = _options()
    # Not before the path is right.
    from benchmarks import machine, report
    from benchmarks.cases import Places

    options.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=options.scratch)).resolve()
    busy = machine.load()
    if busy > 0.5:
        print(f"Load is {busy:.1f}: other work will show in the figures.", file=sys.stderr)
    about = {**machine.describe(), "load at start": f"{busy:.1f}"}
    if options.quick:
        about["sizes"] = "quick (the targets are meant for the full sizes)"
    sections: list[report.Section] = []
    text = ""
    try:
        for name in options.only or BENCHMARKS:
            print(f"{name}:", file=sys.stderr)
            module = import_module(f"benchmarks.{name.replace('-', '_')}")
            sections.append(module.run(Places(scratch=scratch), quick=options.quick))
            # After each, so that an interrupted run leaves what it has found out.
            text = report.write(sections, about, folder=options.results)
            shutil.rmtree(scratch / "inputs", ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(text)
    if options.publish:
        report.publish(
            sections,
            about,
            page=ROOT / "docs" / "benchmarks.md",
            record=ROOT / "benchmarks" / "published.json",
            order=BENCHMARKS,
        )
    broken = [line for section in sections for line in section.measured.broken()]
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small inputs, few repetitions")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=ROOT / "build",
        help="input files and spilled rows; should be a local disk, not a RAM disk",
    )
    parser.add_argument(
        "--publish", action="store_true", help="put the tables into docs/benchmarks.md"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    if options.publish and options.quick:
        parser.error("--publish is for the full sizes")
    return options


if __name__ == "__main__":
    sys.exit(main())
