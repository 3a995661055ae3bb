#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks deploy/compose.yaml against the parts of the Compose specification that it uses, and prints each server's
arguments, one server per line.

    tests/deploy/compose.py deploy/compose.yaml
"""

import re
import sys

import yaml

TEXT, LIST = (str,), (list,)
SERVICE = {"image": TEXT, "restart": TEXT, "depends_on": (list, dict), "stop_grace_period": TEXT, "command": LIST,
           "volumes": LIST, "healthcheck": (dict,), "hostname": TEXT}
HEALTHCHECK = {"test": LIST, "interval": TEXT, "timeout": TEXT, "retries": (int,)}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def check(where, found, allowed):
    for name, value in found.items():
        assert name in allowed, f"{where}: {name} is no key of the specification"
        assert isinstance(value, allowed[name]), f"{where}.{name}: {value!r} is of the wrong type"


def main(path):
    with open(path, encoding="utf-8") as file:
        model = yaml.safe_load(file)
    assert re.fullmatch("[a-z0-9][a-z0-9_-]*", model["name"]), model["name"]
    unknown = {key for key in model if key not in {"name", "services", "volumes"} and not key.startswith("x-")}
    assert not unknown, f"unknown keys: {unknown}"
    services = model["services"]
    used = set()
    for name, service in services.items():
        check(name, service, SERVICE)
        assert service.get("image"), f"{name} has no image"
        assert all(isinstance(word, str) for word in service.get("command", [])), f"{name}.command has no text"
        dependencies = service.get("depends_on", [])
        for other in dependencies:
            assert other in services, f"{name} depends on {other}, which is not there"
            if isinstance(dependencies, dict):
                condition = dependencies[other]["condition"]
                assert condition in CONDITIONS, f"{name}: {condition}"
                assert condition != "service_healthy" or "healthcheck" in services[other], f"{other} has no healthcheck"
        check(f"{name}.healthcheck", service.get("healthcheck", {}), HEALTHCHECK)
        for mount in service.get("volumes", []):
            volume, path = mount.split(":")
            assert path.startswith("/"), mount
            assert volume not in used, f"{volume} is used twice"
            used.add(volume)
    assert used == set(model["volumes"]), f"volumes: {used ^ set(model['volumes'])}"
    servers = [service["command"] for service in services.values() if service.get("command", [""])[0] == "braid-server"]
    for command in servers:
        print(" ".join(command[1:]))


main(sys.argv[1])
