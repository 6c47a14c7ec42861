#!/usr/bin/env python3
"""Prints the software bill of materials of a build as SPDX 2.3 JSON: millrace, the Python wheels of docker/deps.lock that an
installation holds (LibTorch), and the Debian packages of the other shared libraries that the program loads; a library that
belongs to no Debian package is named by its file. Libraries that LibTorch links statically are listed in its licence file, not here.

    docker/sbom.py PROGRAM LIBRARY...

LIBRARY is what the program loads at run time.

The time in it is SOURCE_DATE_EPOCH if that is set."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
INSTALLED_WHEELS = ("torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti")  # CMakeLists.txt installs these
UNKNOWN = "NOASSERTION"


def package(name, version, purl=None, licence=UNKNOWN, **more):
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {"name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "versionInfo": version,
            "downloadLocation": UNKNOWN, "filesAnalyzed": False, "licenseConcluded": UNKNOWN, "licenseDeclared": licence,
            "copyrightText": UNKNOWN, **({"externalRefs": [reference]} if purl else {}), **more}


def run(*command, check=True):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=check).stdout


def wheels(machine):
    """The lock file has a line for each kind of machine."""
    for line in (ROOT / "docker/deps.lock").read_text().splitlines():
        found = re.fullmatch(r"wheel (\w{64}) ([\w.-]+)==(\S+) (\S+)", line)
        if found and found[2] in INSTALLED_WHEELS and found[4].endswith(f"_{machine}.whl"):
            yield package(found[2], found[3], f"pkg:pypi/{found[2]}@{found[3]}", packageFileName=found[4],
                          checksums=[{"algorithm": "SHA256", "checksumValue": found[1]}])


def owner_of(library):
    """The Debian package of a file; dpkg knows it by the name under which the package has it, before or after the merge of
    /lib and /usr/lib."""
    for path in (library, os.path.realpath(library), library.removeprefix("/usr")):
        owner = run("dpkg", "-S", path, check=False).split(": ")[0]
        if owner:
            return owner
    return None


def libraries(files):
    owners = set()
    for library in sorted({found for file in files for found in re.findall(r"=> (/\S+) \(", run("ldd", file))}):
        if "libtorch" in pathlib.Path(library).parts:
            continue
        owner = owner_of(library) if shutil.which("dpkg") else None
        if owner:
            owners.add(owner)
        else:
            yield package(os.path.basename(library), UNKNOWN)
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M))
    for owner in sorted(owners):
        name, version, machine = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", owner).split()
        yield package(name, version, f"pkg:deb/{release['ID']}/{name}@{version.replace('+', '%2B')}?arch={machine}"
                                     f"&distro={release['ID']}-{release.get('VERSION_ID', '')}")


def document(program, *loaded):
    version = run(program, "version").split()[1]
    created = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    own = package("millrace", version, f"pkg:generic/millrace@{version.replace('+', '%2B')}", "Apache-2.0", primaryPackagePurpose="APPLICATION")
    needed = [*wheels(os.uname().machine), *libraries([program, *loaded])]
    digest = hashlib.sha256(json.dumps([own, needed], sort_keys=True).encode()).hexdigest()[:32]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relations += [(own["SPDXID"], "DEPENDS_ON", other["SPDXID"]) for other in needed]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"millrace-{version}",
            "documentNamespace": f"urn:millrace:sbom:{version}:{digest}",
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", created),
                             "creators": [f"Tool: millrace-sbom-{version}"]},
            "packages": [own, *needed],
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                              for one, kind, other in relations]}


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: docker/sbom.py PROGRAM LIBRARY...")
    json.dump(document(*sys.argv[1:]), sys.stdout, indent=1)
    print()
