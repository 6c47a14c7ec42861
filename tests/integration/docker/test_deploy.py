#!/usr/bin/env python3
"""Compares the files for operators with the program: docker/kubernetes, docker/systemd, docker/compose.yaml and
the files of Prometheus and Grafana. Each YAML document is valid by the JSON schema of its kind; names that refer to
another file exist there; every option exists (millrace itself reads the environment and the arguments); every metric
has a row in docker/guide/reference.md, which test_readme.py compares with a running worker.

Needs the packages of docker/deps.sh test (ruamel.yaml and jsonschema in .deps/python, .deps/schemas)."""

import configparser
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve()
sys.path.insert(0, str(DEPS / "python"))

import jsonschema  # noqa: E402
from ruamel.yaml import YAML  # noqa: E402

DOCKER = ROOT / "docker"
KUBERNETES = DOCKER / "kubernetes"
OPERATING = (DOCKER / "guide/operating.md").read_text()
REFERENCE = (DOCKER / "guide/reference.md").read_text()
IMAGE = (DOCKER / "Dockerfile").read_text()
PORT = int(re.search(r"^EXPOSE (\d+)$", IMAGE, re.M)[1])
KINDS = {"v1": {"Namespace", "ConfigMap", "Secret", "Service"}, "apps/v1": {"Deployment"},
         "policy/v1": {"PodDisruptionBudget"}, "networking.k8s.io/v1": {"NetworkPolicy"},
         "monitoring.coreos.com/v1": {"ServiceMonitor"}, "keda.sh/v1alpha1": {"ScaledObject"}}


def closed(required, **properties):
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


def known(name):
    """A definition of Kubernetes' own schemas."""
    return {"$ref": f"#/definitions/io.k8s.{name}"}


# The kinds of the operators for Prometheus and KEDA, with only the fields that the files use.
TEXT, COUNT, TIME = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
EXTENSIONS = {
    "ServiceMonitor": closed(
        "selector endpoints", selector=known("apimachinery.pkg.apis.meta.v1.LabelSelector"),
        endpoints={"type": "array", "minItems": 1, "items": closed("port", port=TEXT, path=TEXT, interval=TIME)}),
    "ScaledObject": closed(
        "scaleTargetRef triggers", scaleTargetRef=closed("name", name=TEXT), minReplicaCount=COUNT, maxReplicaCount=COUNT,
        pollingInterval=COUNT, cooldownPeriod=COUNT,
        advanced=closed("", horizontalPodAutoscalerConfig=closed(
            "", behavior=known("api.autoscaling.v2.HorizontalPodAutoscalerBehavior"))),
        fallback=closed("failureThreshold replicas", failureThreshold=COUNT, replicas=COUNT, behavior={"enum": [
            "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]}),
        triggers={"type": "array", "minItems": 1, "items": closed(
            "type metadata", type={"const": "metrics-api"}, metadata=closed(
                "url valueLocation targetValue", url={"type": "string", "pattern": "^https?://"}, valueLocation=TEXT,
                targetValue={"type": "string", "pattern": "^[0-9]+$"}, activationTargetValue={"type": "string", "pattern": "^[0-9]+$"}))})}
KUSTOMIZATION = closed(
    "apiVersion kind resources", apiVersion={"const": "kustomize.config.k8s.io/v1beta1"}, kind={"const": "Kustomization"},
    namespace=TEXT, resources={"type": "array", "items": TEXT, "uniqueItems": True},
    labels={"type": "array", "items": closed("pairs", pairs={"type": "object", "additionalProperties": TEXT},
                                             includeSelectors={"type": "boolean"})})


def load(path):
    return YAML(typ="safe", pure=True).load(path)


def must(holds, what):
    assert holds, what


def check_command(arguments, environment):
    """Asserts that millrace accepts the options, and that it names an unknown one."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")}
    told = subprocess.run([BIN, *arguments, "--print-config"], env=clean | environment, capture_output=True, text=True)
    must(told.returncode == 0, f"{arguments} {environment}: {told.stderr}")
    return told.stdout


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * (60 if unit == "m" else 1)


def check_metrics(expression, where):
    names = set(re.findall(r"\bmillrace_[a-z0-9_]+", expression))
    must(names, f"{where}: no metric in {expression}")
    for name in names:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        must(f"| `{name}` |" in REFERENCE or f"| `{base}` | histogram" in REFERENCE, f"{where}: {name} is not in docker/guide/reference.md")


def check_schema(document, schema, where):
    for error in jsonschema.Draft7Validator(schema).iter_errors(document):
        must(False, f"{where}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}")


# ---- Kubernetes ----


def schema_of(document, definitions):
    """The schema for an apiVersion and kind: for Kubernetes' kinds its own definition, without additional fields."""
    group, _, version = document["apiVersion"].rpartition("/")
    meaning = {"group": group, "version": version, "kind": document["kind"]}
    for name, definition in definitions.items():
        if meaning in definition.get("x-kubernetes-group-version-kind", []):
            return known(name.removeprefix("io.k8s."))
    return closed("apiVersion kind metadata spec", apiVersion=TEXT, kind=TEXT, spec=EXTENSIONS[document["kind"]],
                  metadata=known("apimachinery.pkg.apis.meta.v1.ObjectMeta"))


def read_kubernetes():
    kustomization = load(KUBERNETES / "kustomization.yaml")
    check_schema(kustomization, KUSTOMIZATION, "kustomization.yaml")
    definitions = json.loads((DEPS / "schemas/kubernetes.json").read_text())["definitions"]
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    must(sorted(kustomization["resources"]) == sorted(files), f"kustomization.yaml names other files than {files}")
    found = {}
    for name in sorted(files):
        document = load(KUBERNETES / name)
        must(document["kind"] in KINDS.get(document["apiVersion"], ()), f"{name}: {document['apiVersion']}")
        check_schema(document, schema_of(document, definitions) | {"definitions": definitions}, name)
        parts = {"millrace": "", "millrace-lag": "lag "}
        must(document["metadata"]["name"] in parts, f"{name}: another name")
        kind = parts[document["metadata"]["name"]] + document["kind"]
        must(kind not in found, f"{kind} twice")
        found[kind] = document
    must(set(found) == set().union(*KINDS.values()) | {"lag Deployment", "lag Service"}, f"kinds: {set(found)}")
    must(kustomization["namespace"] == "millrace", "another namespace")
    return found, kustomization["labels"][0]["pairs"]


def check_deployment(found):
    spec = found["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    settings = found["ConfigMap"]["data"]
    must(container["envFrom"] == [{"configMapRef": {"name": "millrace"}}], container["envFrom"])
    arguments = [word.replace("$(POD_NAME)", "millrace-1") for word in container["args"]]
    check_command(arguments, dict(settings))
    names = {variable["name"] for variable in container["env"]}
    must(set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= names, "an argument names no variable")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    must(set(volumes) == set(mounts), f"{set(volumes)} are not the mounts {set(mounts)}")
    must(volumes["secrets"]["secret"]["secretName"] == "millrace", volumes["secrets"])
    for option, mount in (("MILLRACE_MODEL", "model"), ("MILLRACE_STATE_DIR", "state"), ("MILLRACE_REDIS_PASSWORD_FILE",
                                                                                         "secrets")):
        must(settings[option].startswith(mounts[mount]), f"{option} is not below {mounts[mount]}")
    key = settings["MILLRACE_REDIS_PASSWORD_FILE"].removeprefix(mounts["secrets"] + "/")
    must(key in found["Secret"]["stringData"], f"{key} is not in the Secret")
    check_command(["serve", "--config", str(DOCKER / "systemd/config.yaml")], {})
    drain = seconds(settings["MILLRACE_DRAIN_TIMEOUT"])
    must(pod["terminationGracePeriodSeconds"] >= drain + 5, "killed before the drain is over")
    user = pod["securityContext"]["runAsUser"]
    must(f"USER {user}" in IMAGE, f"the image has no user {user}")
    must(container["ports"] == [{"name": "http", "containerPort": PORT}], container["ports"])
    must(settings["MILLRACE_HTTP"].endswith(f":{PORT}"), settings["MILLRACE_HTTP"])
    for probe, page in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        must(container[probe]["httpGet"] == {"path": page, "port": "http"}, container[probe])
        must(container[probe]["timeoutSeconds"] > 1, f"{probe}: a second is too short on busy cores")
    must("replicas" not in spec, "the deployment and the scaler both set the number of workers")
    resources = container["resources"]
    must(resources["requests"] == resources["limits"], "a worker may be evicted before others, and is throttled")


def check_selectors(found, common):
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind, path in (("Deployment", ["selector", "matchLabels"]), ("Service", ["selector"]),
                       ("PodDisruptionBudget", ["selector", "matchLabels"]),
                       ("NetworkPolicy", ["podSelector", "matchLabels"])):
        selector = found[kind]["spec"]
        for step in path:
            selector = selector[step]
        must(selector.items() <= labels.items(), f"{kind} selects {selector}, the pods have {labels}")
    monitor = found["ServiceMonitor"]["spec"]
    must(monitor["selector"]["matchLabels"] == common, "ServiceMonitor selects another service")
    service, = found["Service"]["spec"]["ports"]
    must(monitor["endpoints"][0]["port"] == service["name"] and service["port"] == PORT, service)
    must(service["targetPort"] == "http", service)
    workers = found["Deployment"]["spec"]["selector"]
    spread, = found["Deployment"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    must(spread["labelSelector"] == workers, f"spreads other pods: {spread}")
    ingress, = found["NetworkPolicy"]["spec"]["ingress"]
    must({"podSelector": workers} in ingress["from"], "workers may not reach each other")
    must(ingress["ports"] == [{"protocol": "TCP", "port": PORT}], ingress)


def check_network(found):
    """Asserts that the workers may reach the servers in their options."""
    allowed = {port["port"] for rule in found["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]}
    settings = found["ConfigMap"]["data"]
    for name in ("MILLRACE_BROKERS", "MILLRACE_REDIS"):
        port = int(re.search(r":(\d+)(?:/|$)", settings[name])[1])
        must(port in allowed, f"{name}: port {port} is not allowed by network.yaml")


def check_scaler(found):
    spec = found["ScaledObject"]["spec"]
    must(spec["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"], "another deployment")
    must(spec["minReplicaCount"] <= spec["maxReplicaCount"], "more workers at least than at most")
    trigger, = spec["triggers"]
    service, lag = found["lag Service"], found["lag Deployment"]["spec"]["template"]
    host = f"{service['metadata']['name']}.millrace.svc:{service['spec']['ports'][0]['port']}"
    must(trigger["metadata"]["url"] == f"http://{host}/lag", f"the scaler does not ask {host}")
    must(service["spec"]["selector"].items() <= lag["metadata"]["labels"].items(), "the service selects other pods")
    container, = lag["spec"]["containers"]
    check_command(container["args"], {"MILLRACE_BROKERS": found["ConfigMap"]["data"]["MILLRACE_BROKERS"]})
    must(f"0.0.0.0:{PORT}" in container["args"] and container["ports"] == [{"name": "http", "containerPort": PORT}], container)
    must(container["image"] == found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"], "another image")
    scaler = load(KUBERNETES / "example/hpa.yaml")
    definitions = json.loads((DEPS / "schemas/kubernetes.json").read_text())["definitions"]
    check_schema(scaler, schema_of(scaler, definitions) | {"definitions": definitions}, "hpa.yaml")
    must(scaler["spec"]["scaleTargetRef"]["name"] == spec["scaleTargetRef"]["name"], "the HPA scales another deployment")
    check_metrics(scaler["spec"]["metrics"][0]["external"]["metric"]["name"], "hpa.yaml")


def check_example(found):
    """The claim with the model, and the job that fills it."""
    definitions = json.loads((DEPS / "schemas/kubernetes.json").read_text())["definitions"]
    documents = {}
    for name in ("claim", "job"):
        documents[name] = load(KUBERNETES / f"example/{name}.yaml")
        check_schema(documents[name], schema_of(documents[name], definitions) | {"definitions": definitions}, name)
    pods = found["Deployment"]["spec"]["template"]["spec"], documents["job"]["spec"]["template"]["spec"]
    for pod in pods:
        claim, = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        must(claim["claimName"] == documents["claim"]["metadata"]["name"], claim)
    path = found["ConfigMap"]["data"]["MILLRACE_MODEL"]
    must(f"mv /model/part {path}" in pods[1]["containers"][0]["command"][-1], "the job does not write MILLRACE_MODEL")


# ---- systemd ----


def check_unit():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read(DOCKER / "systemd/millrace.service")
    must(unit.sections() == ["Unit", "Service", "Install"], unit.sections())
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    must(program == "millrace", program)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("model: /model\nbrokers: localhost:9092\n")
        file.flush()
        check_command([word.replace("/etc/millrace/config.yaml", file.name) for word in arguments], {})
    check_command(["serve", "--config", str(DOCKER / "systemd/config.yaml")], {})
    drain = seconds(re.search(r"drain-timeout\W+(\d+s)", check_command(["serve"], {}))[1])
    must(int(service["TimeoutStopSec"]) >= drain + 5, "killed before the drain is over")
    codes = re.findall(r"^\| (\d) \| ", OPERATING, re.M)
    must(set(service["RestartPreventExitStatus"].split()) <= set(codes), "an exit code that the guide does not have")


# ---- images ----


def check_images():
    """Every base is BASE or an earlier stage; the last stage copies nothing from a stage that runs tests."""
    for name in ("Dockerfile", "Dockerfile.cuda"):
        text = (DOCKER / name).read_text()
        stages = re.findall(r"^FROM (\S+) AS (\w+)$", text, re.M)
        must(re.findall(r"^ARG (\S+)=(\S+)$", text, re.M) == [("BASE", "debian:trixie-slim")], f"{name}: no ARG BASE")
        must(len(stages) == len(re.findall("^FROM", text, re.M)) and stages[-1][1] == "runtime", f"{name}: {stages}")
        for number, (base, stage) in enumerate(stages):
            must(base == "${BASE}" or base in [before for _, before in stages[:number]], f"{name}: {stage} is from {base}")
        must("test" not in re.findall(r"^COPY --from=(\w+)", text, re.M), f"{name}: the build runs the tests")


# ---- compose, Prometheus, Grafana ----


def check_compose():
    document = load(DOCKER / "compose.yaml")
    schema = json.loads((DEPS / "schemas/compose.json").read_text())
    check_schema({name: value for name, value in document.items() if name != "name"},  # newer than the schema
                 schema, "compose.yaml")
    services = document["services"]
    for name, service in services.items():
        must("build" in service or re.search(r":[\w.]+$", service["image"]), f"{name}: an image without a version")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            must(not source.startswith("./") or (DOCKER / source).is_file(), f"{name}: no file {source}")
        for other in service.get("depends_on", {}):
            must(other in services, f"{name} depends on {other}")
    worker = services["worker"]
    check_command([word.replace("${MILLRACE_MODEL_FILE:-", "").replace("}", "") for word in worker["command"]],
                  {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in worker["environment"].items()})
    must(services["prometheus"]["profiles"] == services["grafana"]["profiles"] == ["observe"], "another profile")
    scrape, = load(DOCKER / "prometheus/prometheus.yml")["scrape_configs"]
    must(scrape["dns_sd_configs"][0]["names"] == ["worker", "lag"] and scrape["dns_sd_configs"][0]["port"] == PORT, scrape)
    mounted = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    must(set(load(DOCKER / "prometheus/prometheus.yml")["rule_files"]) <= mounted, "rules that are not mounted")
    provider, = load(DOCKER / "grafana/provider.yaml")["providers"]
    dashboards = {volume.split(":")[1] for volume in services["grafana"]["volumes"]}
    must(f"{provider['options']['path']}/millrace.json" in dashboards, "the dashboard is not where Grafana looks")
    for panel in json.loads((DOCKER / "grafana/millrace.json").read_text())["panels"]:
        must(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] != "short", panel["title"])
    source, = load(DOCKER / "grafana/datasource.yaml")["datasources"]
    must(source["url"] == "http://prometheus:9090", source)


def check_rules():
    comment = "".join(re.findall(r"^#   (.*\n)", (KUBERNETES / "monitor.yaml").read_text(), re.M))
    made = subprocess.run(["bash", "-ec", comment.split("| kubectl")[0]], cwd=ROOT, capture_output=True, text=True, check=True)
    rules = load(made.stdout)
    must(rules["kind"] == "PrometheusRule" and rules["spec"] == load(DOCKER / "prometheus/rules.yaml"), "another rule")
    groups = load(DOCKER / "prometheus/rules.yaml")["groups"]
    alerts = [rule for group in groups for rule in group["rules"]]
    must(len({rule["alert"] for rule in alerts}) == len(alerts) >= 10, "an alert twice, or too few")
    for rule in alerts:
        must(set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule)
        must({"summary", "runbook"} <= set(rule["annotations"]) and rule["labels"]["severity"], rule)
        must(rule["expr"].count("(") == rule["expr"].count(")"), rule["expr"])


def main():
    found, common = read_kubernetes()
    check_deployment(found)
    check_example(found)
    check_selectors(found, common)
    check_network(found)
    check_scaler(found)
    check_unit()
    check_images()
    check_compose()
    check_rules()
    print(f"{len(found)} objects of Kubernetes, a unit, a compose file and {len(KINDS)} API groups: consistent")


if __name__ == "__main__":
    main()
