# SPDX-License-Identifier: BSD-3-Clause
"""The checks of tests/deploy/charts, which passes the paths of helm and of the server."""
import base64
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import kubernetes_validate
import yaml

HELM, SERVER = sys.argv[1:]
CHART = pathlib.Path("deploy/helm/braid")
# Kinds of the Prometheus operator, for which Kubernetes has no schemas.
FOREIGN = {"ServiceMonitor", "PrometheusRule"}
VERSIONS = ("1.25.0", "1.31.0", "1.37.0")

GOOD = {
    "default": [],
    "no password": ["auth.enabled=false"],
    "own secret": ["auth.existingSecret=mine"],
    "odd password": ['auth.password=a"b\\\\c d$e'],
    "Prometheus": ["serviceMonitor.enabled=true", "prometheusRule.enabled=true", "serviceMonitor.labels.release=p"],
    "both ports": ["tls.enabled=true", "tls.existingSecret=certificates"],
    "TLS alone": ["tls.enabled=true", "tls.existingSecret=certificates", "tls.plainPort=false", "tls.authClients=yes"],
    "no volume": ["persistence.enabled=false", "podDisruptionBudget.enabled=false", "serviceAccount.create=false"],
    "much": [
        "ioThreads=4", "config=appendonly yes\nhz 20", "nodeSelector.disk=ssd", "podLabels.a=b", "podAnnotations.c=d",
        "persistence.storageClass=fast", "imagePullSecrets[0].name=key", "priorityClassName=high", "service.type=LoadBalancer",
        "tolerations[0].key=dedicated", "tolerations[0].operator=Exists", "service.annotations.e=f", "serviceAccount.annotations.g=h",
        "persistence.annotations.i=j", "podDisruptionBudget.maxUnavailable=0", "fullnameOverride=store",
    ],
}
BAD = {
    "replicas=3": "replicas",
    "maxmemory=lots": "maxmemory",
    "maxmemoryPolicy=allkeys-mru": "maxmemoryPolicy",
    "ioThreads=300": "ioThreads",
    "auth.password=a\nb": "password",
    "persistence.accessModes[0]=ReadWriteMany": "accessModes",
    "tls.enabled=true": "tls.existingSecret",
    "podDisruptionBudget.maxUnavailable=2": "maxUnavailable",
}


def render(values):
    arguments = [HELM, "template", "release", str(CHART), "--namespace", "n", "--kube-version", VERSIONS[-1]]
    for value in values:
        path, _, text = value.partition("=")
        arguments += ["--set", f"{path}={text}".replace(",", "\\,")]
    return subprocess.run(arguments, capture_output=True, text=True)


def check_objects(name, objects):
    assert objects, f"{name}: nothing is rendered"
    identities = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(identities)) == len(identities), f"{name}: an object twice: {identities}"
    for one in objects:
        if one["kind"] not in FOREIGN:
            for version in VERSIONS:
                kubernetes_validate.validate(one, version, strict=True)
    by_kind = {}
    for one in objects:
        by_kind.setdefault(one["kind"], []).append(one)
    (stateful,) = by_kind["StatefulSet"]
    pod = stateful["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful["spec"].get("volumeClaimTemplates", [])}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name
    ports = {port["name"] for port in container["ports"]}
    probes = [container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    for service in by_kind["Service"]:
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(), name
        probes += [port["targetPort"] for port in service["spec"]["ports"]]
    assert set(probes) <= ports, f"{name}: {probes}, {ports}"
    assert stateful["spec"]["serviceName"] in [service["metadata"]["name"] for service in by_kind["Service"]], name
    text = yaml.safe_dump(pod)
    assert "requirepass" not in text and "$(BRAID_PASSWORD)" not in text, f"{name}: the password is in the arguments"
    return by_kind


def connect(name, process, port, text):
    """Connects to a server that may still be starting."""
    for _ in range(1500):
        if process.poll() is not None:
            sys.exit(f"{name}: the server does not start:\n{process.stdout.read()}\n{text}")
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            time.sleep(0.02)
    sys.exit(f"{name}: the server does not listen on {port}")


def start(name, configuration, by_kind):
    """Starts the server with the pod's configuration, with paths and ports replaced."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        password = None
        for secret in by_kind.get("Secret", []):
            data = {key: base64.b64decode(text).decode() for key, text in secret.get("data", {}).items()} | secret.get("stringData", {})
            (root / "auth.conf").write_text(data["auth.conf"])
            password = data["password"]
        if "include" in configuration and not (root / "auth.conf").exists():
            (root / "auth.conf").write_text("requirepass own\n")
            password = "own"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", root / "tls.key", "-out", root / "tls.crt"],
            check=True, capture_output=True)
        (root / "ca.crt").write_bytes((root / "tls.crt").read_bytes())
        free = [socket.socket() for _ in range(3)]
        for one in free:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in free]
        for one in free:
            one.close()
        text = re.sub(r"/etc/braid-(auth|tls)", folder, configuration).replace("dir /data", f"dir {folder}")
        text = text.replace("port 6379", f"port {ports[0]}").replace("tls-port 6380", f"tls-port {ports[1]}")
        text = re.sub(r"^metrics-port \d+", f"metrics-port {ports[2]}", text, flags=re.M)
        (root / "braid.conf").write_text(text)
        process = subprocess.Popen([SERVER, root / "braid.conf"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            connection = connect(name, process, ports[1] if "\nport 0" in text else ports[0], text)
            if "\nport 0" not in text:
                words = [b"AUTH", password.encode()] if password else [b"PING"]
                connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
                assert connection.recv(100) in (b"+OK\r\n", b"+PONG\r\n"), name
                if password:
                    other = socket.create_connection(("127.0.0.1", ports[0]), 5)
                    other.sendall(b"PING\r\n")
                    assert other.recv(100).startswith(b"-NOAUTH"), name
            connect(name, process, ports[2], text)
        finally:
            process.kill()
            process.wait()


def main():
    for name, values in GOOD.items():
        rendered = render(values)
        assert rendered.returncode == 0, f"{name}: {rendered.stderr}"
        objects = [one for one in yaml.safe_load_all(rendered.stdout) if one]
        by_kind = check_objects(name, objects)
        assert name != "Prometheus" or FOREIGN <= set(by_kind)
        for rule in by_kind.get("PrometheusRule", []):
            assert rule["spec"] == yaml.safe_load((CHART / "files/braid.rules.yml").read_text())
        start(name, by_kind["ConfigMap"][0]["data"]["braid.conf"], by_kind)
        print(f"ok      chart: {name}")
    for value, told in BAD.items():
        rendered = render([value])
        assert rendered.returncode != 0 and told in rendered.stderr, f"{value!r} is not refused: {rendered.stderr}"
        print(f"ok      refused: {value!r}")
    objects = list(yaml.safe_load_all(pathlib.Path("deploy/kubernetes.yaml").read_text()))
    by_kind = check_objects("deploy/kubernetes.yaml", objects)
    start("deploy/kubernetes.yaml", by_kind["ConfigMap"][0]["data"]["braid.conf"], by_kind)
    print("ok      deploy/kubernetes.yaml")


main()
