#!/usr/bin/env python3
"""The rule `pages` of tests/tidy/tidy.sh: pages (*.md, docker/asyncapi.yaml) name only things that exist. Prints one
line "file: error" for each violation. The file list of the tree comes on standard input, a path a line; the working
directory is the tree.

What a page names in backticks must exist:
    mr_NAME, MR_NAME        a word of a source file; NAME may end in * or _
    a file or a folder      by its path from the top, from the page's folder, or by the end of its path
    --option                an option of the program, or a word of a script; after `millrace`, in code blocks too, an option of the program
    millrace_NAME           a metric in docker/guide/reference.md, or the name of a histogram with _bucket, _sum or _count
    make TARGET             a target of the Makefile
Links between pages, with their anchors, must lead somewhere. Pages for users (docker/guide, docker/README.md) name no source folder and
no function. Counts of tests, mutants and the like are not written by hand: they change with the tree."""

import functools
import os
import re
import sys

SOURCE_FOLDERS = ("worker", "batching", "kvcache", "codec", "ops")
TOP_FOLDERS = SOURCE_FOLDERS + ("tests", "docker")
SOURCE_ENDS = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake")
TEXT_ENDS = SOURCE_ENDS + (".txt", ".md", ".yaml", ".json", ".js", ".java", ".go")
REFERENCE = "docker/guide/reference.md"
# Exceptions. Options of docker and systemctl; programs that README.md shows, files of vLLM, and names that stand for any name.
FOREIGN_OPTIONS = {"gpus", "stop-timeout", "now"}
FOREIGN_FILES = re.compile(r"^(ask|read)\.py$|^vllm/|[A-Z]{3,}")
COUNTED = ("tests", "unit tests", "mutants", "planted", "test programs", "fuzz targets", "alerts", "error codes", "metrics", "options",
           "scenarios")
NUMBER_WORDS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty"
COUNT = re.compile(rf"\b(?:\d[\d,]+|{NUMBER_WORDS})(?: of (?:the )?\d[\d,]*)? (?:{'|'.join(COUNTED)})\b|"
                   rf"\b\d[\d,]* of (?:the )?\d[\d,]* (?:{'|'.join(COUNTED)})\b", re.I)


class Tree:
    def __init__(self, files):
        self.files = set(files)
        self.folders = {parent for path in files for parent in parents(path)}
        self.ends = {}
        for path in self.files | self.folders:
            parts = path.split("/")
            for at in range(len(parts)):
                self.ends.setdefault("/".join(parts[at:]), path)
        self.pages = sorted(path for path in self.files if path.endswith(".md") or path == "docker/asyncapi.yaml")

    @functools.cache
    def read(self, path):
        with open(path, errors="replace") as file:
            return file.read()

    @functools.cached_property
    def sources(self):
        return [path for path in self.files if path.endswith(SOURCE_ENDS) and not path.startswith("docker/clients/")]

    @functools.cached_property
    def words(self):
        return {word for path in self.sources + ["CMakeLists.txt"] if path in self.files
                for word in re.findall(r"\b(?:mr|MR)_\w+", self.read(path))}

    @functools.cached_property
    def options(self):
        table = [self.read(path) for path in self.sources if "struct mr_option mr_options[] = {" in self.read(path)]
        return set(re.findall(r'^ *\{"([a-z-]+)", MR_OPTION_', "".join(table), re.M))

    @functools.cached_property
    def script_options(self):
        scripts = [path for path in self.files if path.startswith(("tests/", "docker/")) and path.endswith((".py", ".sh", ".c"))]
        return {word for path in scripts for word in re.findall(r"--([a-z][a-z-]+)", self.read(path))}

    @functools.cached_property
    def metrics(self):
        return set(re.findall(r"^\| `((?:millrace|process)_\w+)`", self.read(REFERENCE), re.M)) if REFERENCE in self.files else set()

    @functools.cached_property
    def targets(self):
        made = "\n".join(re.findall(r"^([a-z][a-z _-]*):", self.read("Makefile"), re.M)) if "Makefile" in self.files else ""
        return set(made.split())


def parents(path):
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        yield path


def prose(text):
    """The text without fenced blocks; their lines stay as empty ones."""
    return re.sub(r"^(```|~~~).*?^\1[ \t]*$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)


def commands(text):
    """The text after the word millrace in each line of the fenced blocks, up to the next command or comment."""
    for block in re.findall(r"^```(?:sh|text|)\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            yield from re.findall(r"(?:^|[\s/])(millrace [a-z].*?)(?:$| [|&#>] ?|;)", line)


def is_user_page(page):
    return page.startswith("docker/guide/") or page == "docker/README.md"


# ---- what a page names in backticks ----

def names_of(span, tree, page):
    """A sentence for each name between two backticks that does not exist."""
    for word in re.findall(r"\b((?:mr|MR)_\w+\*?)", span):
        bare = word.rstrip("*")
        whole = not word.endswith(("*", "_"))
        if (bare not in tree.words) if whole else not any(known.startswith(bare) for known in tree.words):
            yield f"names {word}, which no source file has"
    for word in re.findall(r"\bmillrace_[a-z0-9_]+", span):
        base = re.sub(r"_(bucket|sum|count)$", "", word)
        if tree.metrics and not {word, base} & tree.metrics and not re.search(rf"{word}(\*|…|[A-Z])|/{word}", span):
            yield f"names the metric {word}, which does not exist"
    if (target := re.match(r"make ([a-z][a-z-]*)\b(?!=)", span)) and tree.targets and target[1] not in tree.targets:
        yield f"names `make {target[1]}`, which is not in the Makefile"
    yield from options_of(span, tree)
    yield from paths_of(span, tree, page)


def options_of(span, tree):
    if not tree.options:
        return
    known = tree.options if re.match(r"(build/)?millrace ", span) else tree.options | tree.script_options | FOREIGN_OPTIONS
    for option in re.findall(r"(?:^|[\s\[=])--(?:\[no-\])?([a-z][a-z0-9-]*)", span):
        if not {option, option.removeprefix("no-")} & known:
            yield f"names the option --{option}, which does not exist"


def expand(word):
    """a/{b,c}.h as a/b.h and a/c.h."""
    found = re.fullmatch(r"(.*)\{([^{}]*)\}(.*)", word)
    return [one for part in found[2].split(",") for one in expand(found[1] + part + found[3])] if found else [word]


def paths_of(span, tree, page):
    for token in re.findall(r"[\w.{},*/-]+", span):
        token = token.strip(",").rstrip(".").removeprefix("./")
        for word in expand(token):
            looks = word.endswith(SOURCE_ENDS) and not word.startswith(".") or word.split("/")[0] in TOP_FOLDERS and "/" in word
            if not looks or "…" in span and word.endswith("/") or FOREIGN_FILES.search(word) or word.startswith("/"):
                continue
            if not exists(word.rstrip("/"), tree, page):
                yield f"names {word}, which is not in the tree"


def exists(word, tree, page):
    if word.startswith("_"):  # the end of some names
        word = "*" + word
    if "*" in word:
        pattern = re.compile(r"(^|.*/)" + re.escape(word).replace(r"\*", "[^/]*") + "$")
        return any(pattern.match(path) for path in tree.files | tree.folders)
    near = os.path.normpath(os.path.join(os.path.dirname(page), word))
    # a module may be named without the end of its files
    return any(word + end in tree.ends or near + end in tree.files for end in ("", ".h", ".c")) or near in tree.folders


# ---- links ----

@functools.cache
def anchors(text):
    """Anchors of the headings, as the forges make them."""
    found = set()
    for title in re.findall(r"^#+ +(.*?) *$", prose(text), re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        number = 0
        while (slug if not number else f"{slug}-{number}") in found:
            number += 1
        found.add(slug if not number else f"{slug}-{number}")
    return found


def links_of(text, tree, page):
    without_code = re.sub(r"`[^`\n]*`", "``", prose(text))
    for target in re.findall(r"\]\(([^()\s]+)\)", without_code):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if place not in tree.files and place not in tree.folders:
            yield f"links to {target}, which is not in the tree"
        elif anchor and place.endswith(".md") and anchor not in anchors(tree.read(place)):
            yield f"links to {target}, which has no such heading"


# ---- a page ----

def check(page, tree):
    text = tree.read(page)
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(text) if page.endswith(".md") else text)
    for span in spans:
        yield from names_of(span, tree, page)
        if is_user_page(page) and re.search(rf"(^|\s)({'|'.join(SOURCE_FOLDERS)})/|\bmr_", span):
            yield f"is for users and names `{span}` of the source tree"
    if page.endswith(".md"):
        yield from links_of(text, tree, page)
        for command in commands(text):
            yield from options_of(command, tree)
        if page != REFERENCE:
            yield from (f'writes a count by hand: "{found}"' for found in COUNT.findall(re.sub(r"\s+", " ", prose(text))))


def main():
    tree = Tree([line for line in sys.stdin.read().splitlines() if line and os.path.isfile(line)])
    for page in tree.pages:
        for found in dict.fromkeys(check(page, tree)):
            print(f"{page}: {found}")


if __name__ == "__main__":
    main()
