#!/usr/bin/env python3
"""Plants bugs, one after the other, in a copy of the tree, and reports the tests that catch them.

    mutants.py check                    every planted bug still applies
    mutants.py run [--seeds N] [--no-baseline] [NAME...]

Each NAME.txt next to this script is one bug: a sentence about its effect; the file; after `--- old` the lines to
replace, which occur once in the file; after `--- new` the lines in their place. `run` copies the tree into
build/mutants and builds it there once. For each bug it builds what changes, runs the simulations (N seeds of the fleet,
500 by default), and then unit tests until one fails: first those of the same module, then those of its folder, then,
for a bug that no simulation has caught, the rest of the quick suite. A bug in ops/cuda is for the programs of
tests/cuda alone.
It prints a table and writes build/mutants/mutants.json. Exit 1: a bug was not caught, or does not compile."""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
WORK = pathlib.Path(os.environ.get("MILLRACE_MUTANTS", ROOT / "build/mutants"))
TREE, BUILD = WORK / "tree", WORK / "build"
LEAST = 40
TEST_S = 120  # a test that a bug keeps from ending counts as failed after this time
FLEET, STRIDE = "sim_test_fleet", 25
SEED = re.compile(r"^seed (\d+): ", re.MULTILINE)
NAME = re.compile(r"\d+ - (\S+) ")


class Bug:
    def __init__(self, path):
        head, _, change = path.read_text().partition("\n--- old\n")
        self.name = path.stem
        self.what, _, self.file = head.partition("\n\n")
        self.file = self.file.strip()
        self.old, _, self.new = change.rstrip("\n").partition("\n--- new")
        self.new = self.new.removeprefix("\n")
        self.is_cuda = self.file.startswith("ops/cuda/")

    def apply(self, root):
        """Returns the text of the file with the bug, or raises ValueError."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: the old lines occur {text.count(self.old)} times in {self.file}")
        if self.old == self.new:
            raise ValueError(f"{self.name}: nothing changes")
        return text.replace(self.old, self.new)


def bugs(names):
    found = [Bug(path) for path in sorted(HERE.glob("*.txt"))]
    unknown = set(names) - {bug.name for bug in found}
    if unknown:
        sys.exit(f"mutants: no such bug: {', '.join(sorted(unknown))}")
    return [bug for bug in found if not names or bug.name in names]


def check():
    broken = []
    for bug in bugs([]):
        try:
            bug.apply(ROOT)
        except (OSError, ValueError) as error:
            broken.append(str(error))
    if len(bugs([])) < LEAST:
        broken.append(f"{len(bugs([]))} planted bugs, at least {LEAST} are wanted")
    for line in broken:
        print(line)
    return 1 if broken else 0


# --- the copy of the tree --------------------------------------------------------------------------------------------

def copy_tree():
    """Only files that differ are written, so that a second run builds little."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split("\n")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        os.utime(target)
    for path in TREE.rglob("*"):
        if path.is_file() and str(path.relative_to(TREE)) not in wanted:
            path.unlink()


def configure():
    deps = os.environ.get("MILLRACE_DEPS", ROOT / ".deps")
    command = ["cmake", "-G", "Ninja", "-S", TREE, "-B", BUILD, f"-DMR_DEPS={deps}"]
    if shutil.which("ccache"):
        command += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        os.environ.update(CCACHE_BASEDIR=str(TREE), CCACHE_NOHASHDIR="1")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def build(*targets):
    """Returns why it failed, or None. Tests that are scripts have no targets."""
    targets = [name for name in targets if name in ("all", "cuda_programs") or (BUILD / name).is_file()]
    if not targets:
        return None
    made = subprocess.run(["nice", "cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", *targets],
                          capture_output=True, text=True)
    return None if made.returncode == 0 else (made.stdout + made.stderr)[-3000:]


# --- tests -----------------------------------------------------------------------------------------------------------

def listed(*choice):
    out = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "--show-only=json-v1", *choice], check=True,
                         capture_output=True, text=True).stdout
    return [test["name"] for test in json.loads(out)["tests"] if not test["name"].startswith("tidy_")]


def first_failure(names):
    """The first of these tests that fails, also when it runs alone once more; or None."""
    names = list(names)
    while names:
        failed = run_tests(names, "--stop-on-failure")
        if not failed or run_tests(failed[:1]):
            return failed[0] if failed else None
        names.remove(failed[0])
    return None


def failing(names):
    """All of these tests that fail, also when they run alone once more."""
    return [name for name in run_tests(names) if run_tests([name])]


def run_tests(names, *flags):
    """The names of the tests that fail."""
    expression = "^(" + "|".join(names) + ")$"
    out = subprocess.run(["nice", "ctest", "--test-dir", BUILD, "-j", str(os.cpu_count()), *flags, "--timeout",
                          str(TEST_S), "-R", expression], capture_output=True, text=True, errors="replace").stdout
    return [name for name in map(failed_name, out.partition("tests FAILED")[2].splitlines()) if name]


def failed_name(line):
    match = NAME.search(line)
    return match and match.group(1)


def unit_stages(bug, quick, rest):
    """Lists of unit tests, those most likely to catch the bug first; rest: tests of other folders too."""
    place = pathlib.Path(bug.file)
    if bug.is_cuda:
        programs = [name for name in quick if name.startswith("cuda_test_")]
        return [stage for stage in ([name for name in programs if name == f"cuda_test_{place.stem}"],
                                    [name for name in programs if name != f"cuda_test_{place.stem}"]) if stage]
    module = f"{place.parts[0]}_test_{place.stem}"
    folder = TREE / "tests/unit" / place.parent
    near = [f"{place.parts[0]}_{path.stem}" for path in folder.glob("test_*.c")]
    floor = [name for name in quick if name.startswith(f"{place.parts[0]}_test_")]
    stages, seen = [], set()
    for stage in ([module], near, floor, quick)[:4 if rest else 2]:
        stage = [name for name in stage if name in quick and name not in seen]
        seen.update(stage)
        if stage:
            stages.append(stage)
    return stages


def failing_seeds(first, count):
    """The seeds of the fleet simulation that fail; a simulation that does not end or breaks off has failed at `first`."""
    command = ["nice", BUILD / "sim_test_fleet", str(first), str(count)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TEST_S, cwd=TREE, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return {first}
    seeds = {int(seed) for seed in SEED.findall(done.stdout + done.stderr)}
    return seeds or ({first} if done.returncode else set())


def all_failing_seeds(simulations, seeds):
    if FLEET not in simulations:
        return set()
    return set().union(*(failing_seeds(first, STRIDE) for first in range(1, seeds + 1, STRIDE)))


def by_simulation(simulations, seeds, known):
    """The simulation that catches the bug. Seeds that fail without the bug are ignored."""
    for first in range(1, seeds + 1, STRIDE) if FLEET in simulations else ():
        new = failing_seeds(first, STRIDE) - known
        if new:
            return f"{FLEET} {min(new)}"
    return first_failure([name for name in simulations if name != FLEET])


def by_unit_tests(bug, quick, rest):
    for stage in unit_stages(bug, quick, rest):
        problem = build(*(["all"] if len(stage) > 40 else stage))
        if problem:
            return None, problem
        failed = first_failure(stage)
        if failed:
            return failed, None
    return None, None


def try_bug(bug, simulations, quick, seeds, known):
    if bug.is_cuda:
        simulations = []
    place = TREE / bug.file
    before = place.read_text()
    row = {"bug": bug.name, "what": bug.what, "file": bug.file, "simulation": None, "unit": None}
    began = time.monotonic()
    place.write_text(bug.apply(TREE))
    try:
        row["problem"] = build(*simulations)
        if not row["problem"]:
            row["simulation"] = by_simulation(simulations, seeds, known)
            row["unit"], row["problem"] = by_unit_tests(bug, quick, not row["simulation"])
    finally:
        place.write_text(before)
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


def run(names, seeds, baseline):
    copy_tree()
    configure()
    only_cuda = all(bug.is_cuda for bug in bugs(names))
    problem = build("cuda_programs" if only_cuda else "all")
    if problem:
        sys.exit(f"mutants: the tree does not build:\n{problem}")
    simulations = [] if only_cuda else listed("-L", "sim")
    quick = listed("-L", "cuda", "-LE", "slow") if only_cuda else listed("-LE", "integration|slow|sim")
    known = all_failing_seeds(simulations, seeds) if baseline else set()
    if known:
        print(f"{len(known)} seeds fail without a planted bug and are ignored: {sorted(known)}")
    for name in failing(quick) if baseline else ():
        print(f"{name} fails without a planted bug and is ignored")
        quick.remove(name)
    rows = []
    for bug in bugs(names):
        rows.append(try_bug(bug, simulations, quick, seeds, known))
        row = rows[-1]
        if row["problem"]:
            print(f"{bug.name}: does not build:\n{row['problem']}")
        print(f"{row['bug']:24} {row['simulation'] or '-':24} {row['unit'] or '-':34} {row['seconds']:6} s", flush=True)
    caught = [row for row in rows if row["simulation"] or row["unit"]]
    alone = [row for row in rows if row["simulation"]]
    print(f"\n{len(caught)} of {len(rows)} planted bugs caught, {len(alone)} by the simulation alone")
    for row in rows:
        if row not in caught:
            print(f"NOT CAUGHT {row['bug']}: {row['what']}")
    (WORK / "mutants.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if len(caught) == len(rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "run"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=500, help="seeds of the fleet simulation")
    parser.add_argument("--no-baseline", action="store_true", help="do not look for tests that fail without a bug")
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return check() if options.what == "check" else run(options.names, options.seeds, not options.no_baseline)


if __name__ == "__main__":
    sys.exit(main())
