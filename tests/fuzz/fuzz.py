#!/usr/bin/env python3
"""Runs the fuzz targets of tests/fuzz, minimizes their corpora, and measures the coverage of the corpora.

    fuzz.py run [--time SECONDS] [TARGET...]    fuzzes each target in turn; exit status 1 after a finding
    fuzz.py min [TARGET...]                     merges seeds and new inputs into tests/fuzz/corpus, minimized
    fuzz.py coverage [TARGET...]                lines of each parser that its corpus runs
    fuzz.py state                               CPU time, inputs and findings of each target so far

run and min need the programs of build-fuzz (make fuzz builds them), coverage those of build-coverage.
New inputs, findings and CPU times are in build-fuzz/fuzz.
"""
import argparse
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(TREE, "build"))
FUZZ = BUILD + "-fuzz"
STATE = os.path.join(FUZZ, "fuzz")
CORPUS = os.path.join(TREE, "tests/fuzz/corpus")
FOUND = os.path.join(TREE, "tests/fuzz/found")
LIMITS = ["-rss_limit_mb=2048", "-timeout=10"]
INPUT_BYTES_MAX = 20000  # of a committed input
NAME_MAX = 15  # bytes in the name of a committed input

# The sources whose lines `coverage` counts, for each target: the parser without the functions of other folders that it
# calls.
PARSERS = {
    "request": "codec/records/request_*.c codec/records/cloud_event.c codec/wire/json.c codec/wire/wire.c "
               "codec/wire/document.c codec/wire/encoding.c worker/intake/envelope.c worker/intake/decode.c",
    "reply": "codec/records/reply.c",
    "template": "codec/jinja/*.c codec/template/*.c codec/tools/tool_format.c",
    "tokenizer": "codec/tokenizer_files/tokenizer_json.c codec/tokenizer_files/tekken.c codec/tokenizer_files/scored_merges.c codec/tokenizer/tokenizer_assemble.c codec/tokenizer/*_load.c "
                 "codec/tokenizer/added_tokens.c codec/tokenizer/pretokenizer.c codec/tokenizer/normalizer.c "
                 "codec/tokenizer/bpe.c codec/unicode/regex_translate.c",
    "sentencepiece": "codec/tokenizer_files/sentencepiece*.c codec/tokenizer_files/tokenizer_settings.c codec/unicode/charsmap.c "
                     "codec/tokenizer/unigram.c",
    "gguf": "ops/files/gguf.c ops/files/gguf_config.c ops/files/gguf_split.c ops/files/gguf_tokenizer.c ops/files/end_tokens.c "
            "ops/files/model_gguf.c ops/numbers/dequant.c "
            "codec/tokenizer_files/tokenizer_spec.c",
    "safetensors": "ops/files/safetensors.c ops/files/tensor_table.c ops/files/quantized_folder.c ops/numbers/quantized.c",
    "model_config": "ops/families/config_json.c ops/families/json_*.c ops/families/model_config.c ops/files/model_folder.c",
    "redis": "kvcache/remote/redis_command.c kvcache/remote/redis_conn.c kvcache/remote/redis_conn_reader.c "
             "kvcache/remote/redis_client.c kvcache/remote/redis_client_breaker.c",
    "trail": "worker/resume/progress.c",
    "block_frame": "kvcache/remote/block_frame.c",
    "commit_metadata": "worker/offsets/ledger_metadata.c codec/base64.c",
    "options": "worker/config/config_file.c worker/config/option_apply.c worker/config/option_value.c "
               "worker/config/config_finish.c",
    "http": "worker/http/http.c",
    "detokenizer": "codec/tokenizer/detokenizer.c codec/utf8.c",
    "constraint": "codec/constraint/schema.c",
    "stop_match": "codec/tokenizer/stop_match.c",
    "tool_calls": "codec/tools/tool_calls.c codec/tools/tool_cursor.c codec/tools/tool_pythonic.c codec/tools/tool_tags.c "
                  "codec/tools/tool_types.c",
    "message": "codec/records/message.c codec/tools/harmony.c",
}
# Further targets whose corpora run lines of a parser, such as the other reader of the same configuration.
ALSO = {"model_config": ["gguf"], "safetensors": ["gguf"], "gguf": ["safetensors"], "tokenizer": ["sentencepiece"],
        "request": ["model_config"]}


def folder(*parts):
    path = os.path.join(STATE, *parts)
    os.makedirs(path, exist_ok=True)
    return path


def files_in(path):
    return [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else []


def load_state(target):
    path = os.path.join(folder("state"), target + ".json")
    return json.load(open(path)) if os.path.exists(path) else {"cpu_s": 0.0, "runs": 0}


def findings(target):
    return [path for path in files_in(folder("findings", target))]


def archive(target):
    return os.path.join(CORPUS, target + ".ar")


def unpack(target):
    """Writes the inputs of the committed corpus of a target to a folder of the build; returns the folder."""
    path = folder("corpus", target)
    for stale in files_in(path):
        os.remove(stale)
    if os.path.exists(archive(target)):
        subprocess.run(["ar", "x", archive(target)], cwd=path, check=True)
    return path


def pack(target, path):
    """Makes the files of a folder the committed corpus of a target. D and S leave out times, owners and an
    index, so that equal inputs make an equal archive."""
    if os.path.exists(archive(target)):
        os.remove(archive(target))
    subprocess.run(["ar", "rcDS", archive(target), *files_in(path)], check=True)


def seeds():
    subprocess.run([sys.executable, os.path.join(TREE, "tests/fuzz/seeds/make_seeds.py"), folder("seeds")],
                   check=True, stdout=subprocess.DEVNULL)


def program(target, build=FUZZ):
    return os.path.join(build, "fuzz_" + target)


def sources(target):
    paths = [unpack(target), os.path.join(FOUND, target), folder("seeds", target)]
    return [path for path in paths if files_in(path)]


def run(target, seconds):
    """Fuzzes one target and prints its line of the table; returns the number of findings."""
    words = [program(target), "-max_total_time=%d" % seconds, "-print_final_stats=1", *LIMITS,
             "-artifact_prefix=" + folder("findings", target) + "/"]
    dictionary = os.path.join(TREE, "tests/fuzz", target + ".dict")
    words += ["-dict=" + dictionary] if os.path.exists(dictionary) else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    log_path = os.path.join(folder("logs"), target + ".log")
    with open(log_path, "wb") as log:
        code = subprocess.run(words + [folder("inputs", target), *sources(target)], cwd=TREE, stdout=log,
                              stderr=log).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = open(log_path, errors="replace").read()
    executed = re.search(r"stat::number_of_executed_units: *(\d+)", text) or re.search(r"#(\d+)[^#]*\Z", text)
    state = load_state(target)
    state["cpu_s"] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    state["runs"] += int(executed.group(1)) if executed else 0
    with open(os.path.join(folder("state"), target + ".json"), "w") as out:
        json.dump(state, out)
    print_line(target)
    if code != 0:
        print("  exit status %d, see %s" % (code, log_path), flush=True)
    return len(findings(target)) + (code != 0)


def print_line(target):
    state = load_state(target)
    print("%-16s %8.1f CPU min %12d runs %6d inputs %4d findings"
          % (target, state["cpu_s"] / 60, state["runs"],
             len(files_in(unpack(target))) + len(files_in(folder("inputs", target))),
             len(findings(target))), flush=True)


def minimize(target):
    """Makes the committed corpus of a target a small set of inputs with the same coverage of branches. The
    number of times that a branch is taken is ignored; otherwise the corpora would have three times as many inputs."""
    old, new = unpack(target), folder("merged", target)
    shutil.rmtree(new)
    os.makedirs(new)
    given = [path for path in [old, folder("inputs", target), folder("seeds", target)] if files_in(path)]
    subprocess.run([program(target), "-merge=1", "-use_counters=0", "-max_len=%d" % INPUT_BYTES_MAX, *LIMITS, new,
                    *given],
                   cwd=TREE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for path in files_in(new):  # the header of a member holds only a part of libFuzzer's names, which are SHA-1 digests
        os.rename(path, os.path.join(new, os.path.basename(path)[:NAME_MAX]))
    pack(target, new)
    sizes = [os.path.getsize(path) for path in files_in(new)]
    print("%-16s %6d inputs %8d bytes" % (target, len(sizes), sum(sizes)), flush=True)


def covered(target):
    """Replays the corpus of one target and returns {source: (lines run, lines)} of its parser."""
    build = BUILD + "-coverage"
    for path in glob.glob(build + "/CMakeFiles/mr_*.dir/**/*.gcda", recursive=True):
        os.remove(path)
    for each in [target, *ALSO.get(target, [])]:
        subprocess.run([program(each, build), archive(each)], cwd=TREE, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = {}
    for pattern in PARSERS[target].split():
        for source in sorted(glob.glob(os.path.join(TREE, pattern))):
            name = os.path.relpath(source, TREE)
            notes = os.path.join(build, "CMakeFiles/mr_%s.dir" % name.split("/")[0], name + ".gcno")
            text = subprocess.run(["gcov", "--stdout", notes], cwd=build, capture_output=True, text=True,
                                  errors="replace").stdout
            lines.setdefault(name, [0, 0, []])
            for count, number in re.findall(r"^ *([-#=\d*]+): *(\d+):", own_part(text, source), re.M):
                if count == "-" or number == "0":
                    continue
                lines[name][1] += 1
                if count.startswith(("#", "=")):
                    lines[name][2].append(number)
                else:
                    lines[name][0] += 1
    return lines


def own_part(text, source):
    """The part of gcov's output about the source itself, without the headers it includes."""
    parts = re.split(r"^ *-: *0:Source:", text, flags=re.M)
    return "".join(part for part in parts if part.startswith(source) or part.startswith("../" + os.path.relpath(
        source, TREE)))


def coverage(target, verbose):
    lines = covered(target)
    hit, count = sum(one[0] for one in lines.values()), sum(one[1] for one in lines.values())
    print("%-16s %5.1f %% of %5d lines" % (target, 100.0 * hit / max(count, 1), count), flush=True)
    for name, (own_hit, own_count, missing) in lines.items():
        if verbose:
            print("    %-44s %5.1f %% of %4d  not run: %s"
                  % (name, 100.0 * own_hit / max(own_count, 1), own_count, " ".join(missing)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "min", "coverage", "state"])
    parser.add_argument("--time", type=int, default=60)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("targets", nargs="*")
    given = parser.parse_intermixed_args()
    targets = given.targets or sorted(PARSERS)
    if given.command in ("run", "min"):
        seeds()
    found = 0
    for target in targets:
        if given.command == "run":
            found += run(target, given.time)
        elif given.command == "min":
            minimize(target)
        elif given.command == "coverage":
            coverage(target, given.verbose)
        else:
            print_line(target)
    sys.exit(1 if found else 0)


main()
