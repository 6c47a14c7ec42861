#!/usr/bin/env python3
"""Checks the source tree against the table of rooms (rooms.txt) and prints the table as a picture.

    rooms.py [--root FOLDER] check             includes: only those that the table allows, and no circles
    rooms.py [--root FOLDER] symbols LIBRARY…  calls: no circles between the object files of the libraries
    rooms.py picture                           the table as a picture, from the highest folder down

Prints one line per violation and fails if there is any. A room is a folder. A module is a .c, .cpp or .cu file
with the header of the same name; NAME_state.h, which several files share, belongs to module NAME.
"""
import os
import re
import subprocess
import sys

TOPS = ("codec", "kvcache", "ops", "batching", "worker")


def read_table(path):
    rooms = {}
    with open(path) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                room, below, what = (part.strip() for part in line.split("|"))
                rooms[room] = ([] if below == "-" else below.split(), what)
    return rooms


def reachable(rooms, room):
    seen, todo = {room}, [room]
    while todo:
        for below in rooms.get(todo.pop(), ([], ""))[0]:
            if below not in seen:
                seen.add(below)
                todo.append(below)
    return seen


def table_faults(rooms):
    """A room may include only rooms listed before it, so the table itself has no circle."""
    above = set()
    for room, (below, _) in rooms.items():
        for other in below:
            if other not in above:
                yield f"{room}: may include {other}, which is not listed before it in rooms.txt"
        above.add(room)


def tree_files():
    """The files that git lists, or all files outside a repository."""
    if os.path.exists(".git"):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        names = listed.stdout.split("\n")
    else:
        names = [os.path.join(at, name)[2:] for at, _, found in os.walk(".") for name in found]
    return sorted(name for name in names if os.path.isfile(name) and not name.startswith((".", "build")))


def module(path):
    return re.sub(r"_state$", "", re.sub(r"\.(c|cpp|h|cu|cuh)$", "", path))


def circles(edges):
    """Every strongly connected group of several nodes (Tarjan) and the edges inside the group."""
    index, low, stack, groups = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, {}):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    for group in groups:
        inside = [f"{a} -> {b} ({edges[a][b]})" for a in group for b in edges.get(a, {}) if b in group]
        yield f"{group[0]}: in a circle: " + "; ".join(inside)


def check(rooms):
    yield from table_faults(rooms)
    edges = {}
    for path in tree_files():
        folder = os.path.dirname(path)
        if not path.endswith((".c", ".h", ".cpp", ".cu", ".cuh")) or path.split("/")[0] not in TOPS:
            continue
        if folder not in rooms:
            yield f"{path}: its folder is not in tests/tidy/rooms.txt"
            continue
        allowed = reachable(rooms, folder)
        with open(path) as text:
            includes = re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)"', text.read(), re.M)
        for other in includes:
            if "/" not in other:
                yield f'{path}: includes "{other}" without its folder'
            elif os.path.dirname(other) not in allowed:
                yield f"{path}: {folder} may not include {other}"
            elif module(other) != module(path):
                edges.setdefault(module(path), {})[module(other)] = "include"
    yield from circles(edges)


def symbols(libraries):
    """Circles of object files, alone or in archives, where an edge is the use of a symbol that another object file defines."""
    defined, used = {}, {}
    for library in libraries:
        listed = subprocess.run(["nm", "-A", "-P", library], capture_output=True, text=True, check=True).stdout
        for line in listed.split("\n"):
            found = re.match(r".*(?:\[|/)(.*?)\.(?:c|cpp)\.o\]?: (\S+) (\S)", line)
            if not found:
                continue
            unit, name, kind = os.path.basename(library) + ":" + found[1], found[2], found[3]
            if kind in "TDBRV":
                defined[name] = unit
            elif kind == "U":
                used.setdefault(unit, set()).add(name)
    edges = {}
    for unit, names in used.items():
        for name in sorted(names):
            if defined.get(name, unit) != unit:
                edges.setdefault(unit, {}).setdefault(defined[name], name)
    yield from circles(edges)


def picture(rooms):
    """Prints the folders from top to bottom, each with its rooms, their content and their includes."""
    for top in reversed(TOPS):
        print(top)
        for room, (below, what) in reversed(rooms.items()):
            if room.split("/")[0] != top:
                continue
            name = room[len(top) + 1:] + "/" if room != top else "."
            print(f"  {name:<11} {what:<52} {'-> ' + ' '.join(below) if below else ''}".rstrip())


def main():
    arguments = sys.argv[1:]
    rooms = read_table(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rooms.txt"))
    if arguments[:1] == ["--root"]:
        os.chdir(arguments[1])
        arguments = arguments[2:]
    if arguments == ["picture"]:
        picture(rooms)
        return 0
    if arguments == ["check"]:
        found = list(check(rooms))
    elif arguments[:1] == ["symbols"] and len(arguments) > 1:
        found = list(symbols(arguments[1:]))
    else:
        sys.exit(__doc__)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
