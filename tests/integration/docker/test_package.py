#!/usr/bin/env python3
"""docker/version.sh in trees with and without git, and the files that make install writes below a prefix: a program
that loads LibTorch from there, man page, completions, systemd unit, licences, and a bill of materials with every field
that SPDX 2.3 requires."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MILLRACE_TOOLS", ROOT / "build")).resolve()
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("MILLRACE_", "GIT_"))}
PROJECT = re.search(r"^project\(millrace VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
COMMIT = "g[0-9a-f]{7,}"


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **({"env": CLEAN} | more))
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


# ---- version.sh ----


def expect(tree, pattern, what, **variables):
    told = run(tree / "docker/version.sh", env=CLEAN | variables).strip()
    assert re.fullmatch(pattern, told), f"{what}: {told} is not {pattern}"


def check_versions(folder):
    tree = folder / "tree"
    (tree / "docker").mkdir(parents=True)
    shutil.copy(ROOT / "docker/version.sh", tree / "docker")

    def set_version(number, suffix):
        (tree / "CMakeLists.txt").write_text(f'project(millrace VERSION {number} LANGUAGES C)\n'
                                             f'set(MR_VERSION_SUFFIX "{suffix}") # a note\n')

    def git(*words):
        run("git", "-C", tree, "-c", "user.name=t", "-c", "user.email=t@localhost", *words)

    def commit():
        git("add", "-A")
        git("commit", "-qm", "a change", "--allow-empty")

    set_version("1.2.0", "-dev")
    expect(tree, r"1\.2\.0-dev", "without a repository")
    run("git", "init", "-q", folder)
    expect(tree, r"1\.2\.0-dev", "a repository around the tree")
    git("init", "-q")
    expect(tree, r"1\.2\.0-dev", "no commit")
    commit()
    expect(tree, rf"1\.2\.0-dev\+{COMMIT}", "between releases, without a tag")
    git("tag", "v1.1.0")
    expect(tree, rf"1\.2\.0-dev\+{COMMIT}", "a tag of another version")
    git("worktree", "add", "-q", folder / "beside")
    expect(folder / "beside", rf"1\.2\.0-dev\+{COMMIT}", "a worktree")
    set_version("1.2.0", "")
    expect(tree, rf"1\.2\.0\+{COMMIT}\.dirty", "a release that is not committed")
    commit()
    expect(tree, r"1\.2\.0", "the commit of a release")
    set_version("1.3.0", "-dev")
    expect(tree, rf"1\.3\.0-dev\+{COMMIT}\.dirty", "a change")
    expect(tree, r"4\.5\.6-dev\+g1", "a given version", MILLRACE_VERSION="v4.5.6-dev+g1")
    refused = subprocess.run([tree / "docker/version.sh"], env=CLEAN | {"MILLRACE_VERSION": '1";'}, capture_output=True)
    assert refused.returncode == 1, "a version with a quote"
    here = CLEAN | {"MILLRACE_VERSION": ""}
    assert run(ROOT / "docker/version.sh", env=here).startswith(PROJECT), "this tree has the version of CMakeLists.txt"

    source = folder / "version.c"
    for version in ("1.0", "1.0", "1.1"):
        before = source.stat().st_mtime_ns if source.exists() else None
        run(tree / "docker/version.sh", source, env=CLEAN | {"MILLRACE_VERSION": version})
        assert f'"{version}"' in source.read_text(), source.read_text()
        if version == "1.0" and before:
            assert source.stat().st_mtime_ns == before, "the same version is written again"


# ---- an installation ----


def check_spdx(document):
    """Checks the requirements of the JSON schema of SPDX 2.3 for the elements in use, and that ids are unique and
    defined."""
    for name in ("SPDXID", "creationInfo", "dataLicense", "name", "spdxVersion", "documentNamespace"):
        assert document[name], name
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
    assert document["SPDXID"] == "SPDXRef-DOCUMENT" and re.match(r"\w+:", document["documentNamespace"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"])
    assert all(re.match("(Tool|Person|Organization): .", by) for by in document["creationInfo"]["creators"])
    packages = {package["SPDXID"]: package for package in document["packages"]}
    assert len(packages) == len(document["packages"]), "an SPDXID twice"
    for identifier, package in packages.items():
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", identifier), identifier
        assert package["name"] and package["downloadLocation"] and package["filesAnalyzed"] is False, package
        for reference in package.get("externalRefs", []):
            assert reference["referenceCategory"] == "PACKAGE-MANAGER" and reference["referenceType"] == "purl", reference
            assert re.fullmatch(r"pkg:(generic|pypi|deb/\w+)/[^/@]+@[^/?]+(\?.+)?", reference["referenceLocator"]), reference
        for checksum in package.get("checksums", []):
            assert checksum["algorithm"] == "SHA256" and re.fullmatch("[0-9a-f]{64}", checksum["checksumValue"]), checksum
    described = [relation for relation in document["relationships"] if relation["relationshipType"] == "DESCRIBES"]
    assert [relation["relatedSpdxElement"] for relation in described] == ["SPDXRef-millrace"], described
    needed = {relation["relatedSpdxElement"] for relation in document["relationships"]
              if relation["relationshipType"] == "DEPENDS_ON" and relation["spdxElementId"] == "SPDXRef-millrace"}
    assert needed == set(packages) - {"SPDXRef-millrace"}, needed ^ set(packages)
    names = {package["name"] for package in packages.values()}
    assert {"torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti", "libc6", "librdkafka1"} <= names, names
    assert not any(name.endswith(".so") or ".so." in name for name in names), "a library of no package"
    return len(packages)


def check_installation(prefix):
    run("cmake", "--install", BUILD, "--prefix", prefix)
    program = prefix / "bin/millrace"
    version = run(program, "version").split()[1]
    assert f'"{version}"' in (BUILD / "version.c").read_text(), version
    module = prefix / "lib/millrace/millrace-torch.so"
    libraries = re.findall(r"=> (/\S+) \(", run("ldd", module))
    assert str(prefix / "lib/millrace/torch/lib/libtorch_cpu.so") in map(os.path.abspath, libraries), libraries
    assert not [name for name in libraries if name.startswith(f"{ROOT}/")], libraries
    path = re.search(r"RUNPATH\) .*\[(.*)\]", run("readelf", "-d", module))[1].split(":")
    assert all(folder.startswith("$ORIGIN/") for folder in path), path
    page = (prefix / "share/man/man1/millrace.1").read_text()
    assert page.startswith(".TH MILLRACE 1 ") and f"millrace {version}" in page and ".B serve" in page, page[:200]
    complete = f". {prefix}/share/bash-completion/completions/millrace && complete -p millrace"
    assert "millrace" in run("bash", "-c", complete)
    # a name without a path is looked up in /usr/local/bin and /usr/bin
    assert re.search("^ExecStart=millrace serve ", (prefix / "lib/systemd/system/millrace.service").read_text(), re.M)
    documents = prefix / "share/doc/millrace"
    for pattern in ("copyright", "README.md", "torch-*.dist-info/licenses/LICENSE", "nvidia_*.dist-info/licenses/*"):
        assert list(documents.glob(pattern)), pattern
    document = json.loads((documents / "sbom.spdx.json").read_text())
    assert document["name"] == f"millrace-{version}", document["name"]
    return check_spdx(document)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        check_versions(folder)
        print(f"versions correct; installed: a program and {check_installation(folder / 'prefix')} packages in its SBOM")


if __name__ == "__main__":
    main()
