#!/usr/bin/env python3
"""How many instructions one call costs the gateway, and whether that is more than it may.

  scripts/budget [SEQUENCE...]        count, and compare with benches/instructions/budget.json
  scripts/budget --write              count, and make the figures the new budget
  scripts/budget --where SEQUENCE     the functions that cost most, in all calls of a run

`benches/instructions` makes the calls, client, gateway and server in one thread; callgrind counts while
neither client nor server runs (see `outside.rs`). Growth beyond the tolerance is a failure, and the
functions that cost most are printed. Shrinking as far is a notice: write a new budget, so that what was
won stays won.
"""
import argparse, json, os, pathlib, re, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUDGET = HERE / "budget.json"
CALLS = 300
# The median of so many runs counts: where the allocator finds its blocks differs by a per cent.
RUNS = 3
# For scale: the same calls through a hop that looks at nothing.
BARE = ["modern", "events", "tools_500", "kib_64"]
# Which copy routine the C library takes must not depend on the machine: this one is everywhere.
TUNABLES = "glibc.cpu.hwcaps=-ERMS,-FSRM,-AVX512F,-AVX512VL"


def program():
    """Builds it, and says where it is."""
    command = ["cargo", "build", "--locked", "--profile", "budget", "--bench", "instructions", "--message-format=json-render-diagnostics"]
    # Incremental builds have more units, and copy 10 % more; a shell may ask for them.
    whole = {**os.environ, "CARGO_INCREMENTAL": "0"}
    built = subprocess.run(command, cwd=ROOT, env=whole, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit("the program that makes the calls could not be built")
    messages = map(json.loads, built.stdout.splitlines())
    return next(one["executable"] for one in messages if one.get("executable") and one["target"]["name"] == "instructions")


def count(binary, sequence, profile, is_bare=False):
    """The instructions of one call, in one run that writes its profile."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--dump-line=no", "--collect-atstart=no"]
    command += [f"--toggle-collect=*instructions::outside::{name}*" for name in ("counted", "outside")]
    command += [binary, sequence, *(["bare"] if is_bare else []), str(CALLS)]
    environment = {"PATH": os.environ["PATH"], "GLIBC_TUNABLES": TUNABLES, "SWITCHYARD_LOG": "warn,switchyard=info"}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        raise SystemExit(f"{sequence}: the calls failed\n{run.stdout}")
    return total(profile.read_text(errors="replace")) / CALLS


def total(profile):
    """All instructions of a profile of callgrind."""
    found = re.search(r"^totals: (\d+)$", profile, re.M)
    if not found or found[1] == "0":
        sys.exit("nothing was counted; are `counted` and `outside` functions of their own?")
    return int(found[1])


def medians(binary, names, is_bare, folder):
    """The middle one of some runs of each sequence. Runs are beside each other, one on each core."""
    runs = [(name, number) for name in names for number in range(RUNS)]

    def one(run):
        return count(binary, run[0], folder / f"{run[0]}.{run[1]}", is_bare)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(runs, pool.map(one, runs)))
    return {name: round(sorted(counts[name, number] for number in range(RUNS))[RUNS // 2]) for name in names}


def functions(profile):
    """Prints the functions that cost most: by themselves, and with all that they call."""
    for inclusive in ("no", "yes"):
        subprocess.run(["callgrind_annotate", f"--inclusive={inclusive}", "--threshold=80", str(profile)], check=True)


def verdict(before, now, tolerance):
    """`grown`, `shrunk`, `as it was` or `new`, and by how many per cent."""
    if before is None:
        return "new", 0.0
    change = 100 * (now - before) / before
    if change > tolerance:
        return "GROWN", change
    return ("shrunk" if change < -tolerance else "as it was"), change


def report(name, before, now, tolerance, bare):
    """Prints one line, and returns the verdict."""
    word, change = verdict(before, now, tolerance)
    scale = f", {now / bare:.2f} x the bare hop" if bare else ""
    allowed = "no budget yet" if before is None else f"budget {before:,}, {change:+.1f} %"
    print(f"{name:<10} {now:>9,.0f} instructions per call ({allowed}): {word}{scale}", flush=True)
    return word


def compare(pairs, counted):
    """Prints what one sequence costs more than another, and returns those that cost more than they may."""
    beyond = []
    for name, (other, percent) in pairs.items():
        if name not in counted or other not in counted:
            continue
        change = 100 * (counted[name] - counted[other]) / counted[other]
        word = "TOO MUCH" if change > percent else "within it"
        print(f"{name:<10} {change:+.1f} % against {other} ({percent} % allowed): {word}", flush=True)
        beyond += [name] if change > percent else []
    return beyond


def check(binary, names, budget, is_written, folder):
    """Counts, compares, and writes the new budget if that is wanted. Returns the exit code."""
    allowed, tolerance, bares = budget["instructions_per_call"], budget["tolerance_percent"], budget["bare_hop"]
    counted = medians(binary, names, False, folder)
    if is_written:
        bares.update(medians(binary, BARE, True, folder))
    words = [report(name, allowed.get(name), now, tolerance, bares.get(name, bares.get("modern"))) for name, now in counted.items()]
    beyond = compare(budget["at_most_above"], counted)
    if is_written:
        allowed.update(counted)
        BUDGET.write_text(json.dumps(budget, indent=2) + "\n")
        print(f"written to {BUDGET.relative_to(ROOT)}")
        return 0
    for name, word in zip(counted, words):
        if word == "GROWN":
            functions(folder / f"{name}.0")
    if "shrunk" in words or "new" in words:
        print("NOTICE: renew the budget with `scripts/budget --write`, so that what was won stays won")
    if "GROWN" in words:
        print(f"a call may not cost over {tolerance} % more than its budget: make it cheaper, or, where that is what it is worth,")
        print("renew the budget with `scripts/budget --write` and say why in the commit")
    return int("GROWN" in words or bool(beyond))


def main():
    options = argparse.ArgumentParser(prog="scripts/budget", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("sequences", nargs="*", metavar="SEQUENCE")
    options.add_argument("--write", action="store_true")
    options.add_argument("--where", metavar="SEQUENCE")
    wanted = options.parse_args()
    budget = json.loads(BUDGET.read_text())
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing, which counts the instructions; on Debian: apt-get install valgrind")
    binary = program()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if wanted.where:
            print(f"{wanted.where}: {count(binary, wanted.where, folder / 'profile'):,.0f} instructions per call")
            functions(folder / "profile")
        else:
            sys.exit(check(binary, wanted.sequences or list(budget["instructions_per_call"]), budget, wanted.write, folder))


if __name__ == "__main__":
    main()
