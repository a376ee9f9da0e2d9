#!/usr/bin/env python3
"""How many instructions one call costs the gateway, and whether that is more than it may.

  scripts/budget [SEQUENCE...]        count, and compare with benches/instructions/budget.json
  scripts/budget --write              count, and make the figures the new budget
  scripts/budget --where SEQUENCE     the functions that cost most, in one call
  scripts/budget --noise RUNS         count so often, and print how far the runs are apart

`benches/instructions` makes the calls, client, gateway and server in one thread; callgrind counts while
neither client nor server runs (see `outside.rs`). Growth beyond the tolerance is a failure, and the
functions that cost most are printed. Shrinking as far is a notice: write a new budget, so that what was
won stays won.
"""
import argparse, collections, json, os, pathlib, re, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUDGET = HERE / "budget.json"
CALLS = 300
# The median of so many runs counts: where the allocator finds its blocks differs by a per cent.
RUNS = 3
TOP = 25
# For scale: the same calls through a hop that looks at nothing.
BARE = ["modern", "events", "tools_500", "kib_64"]
# Which copy routine the C library takes must not depend on the machine: this one is everywhere.
TUNABLES = "glibc.cpu.hwcaps=-ERMS,-FSRM,-AVX512F,-AVX512VL"


def program(profile):
    """Builds it, and says where it is."""
    command = ["cargo", "build", "--locked", "--profile", profile, "--bench", "instructions", "--message-format=json-render-diagnostics"]
    # Incremental builds have more units, and copy 10 % more; a shell may ask for them.
    whole = {**os.environ, "CARGO_INCREMENTAL": "0"}
    built = subprocess.run(command, cwd=ROOT, env=whole, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit("the program that makes the calls could not be built")
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == "instructions":
            return message["executable"]
    sys.exit("cargo built no program named `instructions`")


def need_valgrind():
    """Installs it where that is possible."""
    if shutil.which("valgrind"):
        return
    print("installing valgrind", flush=True)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "valgrind"]
        quiet = {"stdout": subprocess.DEVNULL}
        if subprocess.run(install, **quiet).returncode:
            subprocess.run(["apt-get", "update"], **quiet)
            subprocess.run(install, **quiet)
    if not shutil.which("valgrind"):
        sys.exit("valgrind is needed to count instructions and could not be installed: apt-get install valgrind")


def count(binary, sequence, is_bare=False):
    """One run: the instructions of one call, and its profile."""
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "profile")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--dump-line=no", "--collect-atstart=no"]
        command += [f"--toggle-collect=*instructions::outside::{name}*" for name in ("counted", "outside")]
        command += [binary, sequence, *(["bare"] if is_bare else []), str(CALLS)]
        environment = {"PATH": os.environ["PATH"], "GLIBC_TUNABLES": TUNABLES, "SWITCHYARD_LOG": "warn,switchyard=info"}
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            sys.exit(f"{sequence}: the calls failed\n{run.stdout}")
        own, inclusive = parse(profile.read_text(errors="replace"))
    total = sum(own.values())
    if not total:
        sys.exit(f"{sequence}: nothing was counted; are `counted` and `outside` functions of their own?")
    return total / CALLS, own, inclusive


def median(binary, sequence, is_bare=False):
    """The middle one of some runs."""
    return sorted((count(binary, sequence, is_bare) for _ in range(RUNS)), key=lambda run: run[0])[RUNS // 2]


def parse(text):
    """Callgrind's profile: what each function costs itself, and with all it calls."""
    names, own, inclusive = {}, collections.Counter(), collections.Counter()
    function = callee = None
    is_call = False

    def name(short):
        number, _, long = short.partition(" ")
        if long:
            names[number] = re.sub(r"'\d+$", "", long)  # how deep it recurs
        return names.get(number, short)

    for line in text.splitlines():
        if line.startswith("fn="):
            function = name(line[3:])
        elif line.startswith("cfn="):
            callee = name(line[4:])
        elif line.startswith("calls="):
            is_call = True
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            cost = int(line.split()[1])
            if not is_call:
                own[function] += cost
                inclusive[function] += cost
            elif function != callee:
                inclusive[function] += cost
            is_call = False
    return own, inclusive


def table(own, inclusive, top):
    """The functions that cost most, as text."""
    total, lines = sum(own.values()), []
    of_us = {name: cost for name, cost in inclusive.items() if "switchyard" in name and cost <= total}
    for title, costs in (("the functions themselves", own), ("ours, with all that they call", of_us)):
        lines.append(f"  {title}: instructions per call, share")
        for name, cost in sorted(costs.items(), key=lambda row: -row[1])[:top]:
            lines.append(f"    {cost / CALLS:9,.0f} {100 * cost / total:5.1f} %  {name[:150]}")
    return "\n".join(lines)


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


def noise(binary, names, runs):
    for name in names:
        counts = [median(binary, name)[0] for _ in range(runs)]
        spread = 100 * (max(counts) - min(counts)) / min(counts)
        print(f"{name:<10} {min(counts):,.0f} to {max(counts):,.0f} in {runs} runs: {spread:.2f} % apart", flush=True)


def check(binary, names, budget, is_written):
    """Counts, compares, and writes the new budget if that is wanted. Returns the exit code."""
    allowed, tolerance, bares = budget["instructions_per_call"], budget["tolerance_percent"], budget["bare_hop"]
    words, counted = [], {}
    if is_written:
        bares.update({name: round(median(binary, name, True)[0]) for name in BARE})
    for name in names:
        now, own, inclusive = median(binary, name)
        counted[name] = round(now)
        word = report(name, allowed.get(name), now, tolerance, bares.get(name, bares.get("modern")))
        words.append(word)
        if word == "GROWN" and not is_written:
            print(table(own, inclusive, TOP))
    beyond = compare(budget["at_most_above"], counted)
    if is_written:
        allowed.update(counted)
        BUDGET.write_text(json.dumps(budget, indent=2) + "\n")
        print(f"written to {BUDGET.relative_to(ROOT)}")
        return 0
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
    options.add_argument("--bare", action="store_true", help="with --where: through the bare hop")
    options.add_argument("--noise", type=int, metavar="RUNS")
    options.add_argument("--profile", default="budget", help="of cargo; the budget holds for `budget`")
    options.add_argument("--top", type=int, default=40, help="with --where: how many functions")
    wanted = options.parse_args()
    budget = json.loads(BUDGET.read_text())
    names = wanted.sequences or list(budget["instructions_per_call"])
    need_valgrind()
    binary = program(wanted.profile)
    if wanted.where:
        now, own, inclusive = count(binary, wanted.where, wanted.bare)
        print(f"{wanted.where}: {now:,.0f} instructions per call\n{table(own, inclusive, wanted.top)}")
    elif wanted.noise:
        noise(binary, names, wanted.noise)
    else:
        sys.exit(check(binary, names, budget, wanted.write))


if __name__ == "__main__":
    main()
