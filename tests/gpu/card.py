"""Shared by the programs of this folder: finds the card and LibTorch, and runs programs of the bundle."""

import ctypes
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

NO_CARD = 3  # exit code


def missing():
    """The reason why a CUDA program cannot run, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no NVIDIA driver on this machine ({error})"
    code = driver.cuInit(0)
    if code:
        return f"no NVIDIA card on this machine (cuInit returned {code})"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return "no NVIDIA card on this machine"
    if not torch_folder():
        return "no LibTorch on this machine: install torch 2.11 for CUDA, or set MILLRACE_TORCH_DIR to its folder"
    return None


def torch_folder():
    """The folder of LibTorch, which contains lib; None: it was not found."""
    given = os.environ.get("MILLRACE_TORCH_DIR")
    spec = None if given else importlib.util.find_spec("torch")
    places = [given] if given else spec.submodule_search_locations if spec else []
    found = [pathlib.Path(place) for place in places if (pathlib.Path(place) / "lib/libtorch_cuda.so").exists()]
    return found[0] if found else None


def require():
    """Ends the program with one line and NO_CARD when something is missing."""
    reason = missing()
    if reason:
        print(f"{pathlib.Path(sys.argv[0]).name}: {reason}", file=sys.stderr)
        sys.exit(NO_CARD)


def environment(bundle):
    """The environment of the bundle's programs: their small libraries, this machine's LibTorch and CUDA runtime."""
    folder = torch_folder()
    folders = [bundle / "lib", folder / "lib", *sorted(folder.parent.glob("nvidia/cu13/lib"))]
    old = os.environ.get("LD_LIBRARY_PATH")
    path = ":".join([str(item) for item in folders] + ([old] if old else []))
    return dict(os.environ, LD_LIBRARY_PATH=path)


def run(bundle, command, timeout_s=1800, prefix=()):
    """Runs a program of the bundle in its folder: exit code, stdout, stderr."""
    words = [*prefix, str(bundle / "bin" / command[0]), *command[1:]]
    result = subprocess.run(words, cwd=bundle, env=environment(bundle), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=timeout_s, check=False)
    return result.returncode, result.stdout, result.stderr


def run_python(bundle, script, *words, timeout_s=1800):
    """Runs a script of this folder with this Python, which finds its own libraries: exit code, stdout, stderr."""
    command = [sys.executable, str(pathlib.Path(__file__).resolve().parent / script), *map(str, words)]
    result = subprocess.run(command, cwd=bundle, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=timeout_s, check=False)
    return result.returncode, result.stdout, result.stderr


def bundle_of(argument):
    """The folder of the bundle: the argument, the bundle that contains this script, or the output of make
    gpu-bundle."""
    here = pathlib.Path(__file__).resolve().parents[2]
    bundle = pathlib.Path(argument).resolve() if argument else here
    if not argument and not (bundle / "bin").is_dir():
        bundle = here / "build-gpu/bundle"
    if not (bundle / "bin/millrace").exists():
        sys.exit(f"no bundle in {bundle}; write one with make gpu-bundle")
    return bundle


def chosen(only, names, target):
    """The parts to run, in the order of `only` (NAME;NAME, or None: all), and the report of earlier parts in `target`."""
    parts = only.split(";") if only else list(names)
    unknown = [part for part in parts if part not in names]
    if unknown:
        sys.exit(f"unknown part {unknown[0]!r}; the parts are {'; '.join(names)}")
    report = json.loads(target.read_text()) if only and target.exists() else {}
    return parts, report
