"""deltaplan on the shared graphs: what the programs of this folder that plan them have in common."""
import json
import os
import subprocess
import sys


def plan_command(options, name, device, *more):
    """The command that plans a graph of options.graphs for a device, and prints JSON."""
    with open(os.path.join(options.graphs, "index.json")) as file:
        entry = next(e for e in json.load(file) if e["name"] == name)
    command = [os.path.join(options.build, "deltaplan"), os.path.join(options.graphs, entry["file"]), "--device", device, "--loss",
               entry["loss"]["name"], "--class-axis", str(entry["loss"].get("class_axis", 1)), "--optimizer", entry["optimizer"], "--json", *more]
    return command + (["--momentum", "0.9"] if entry["optimizer"] == "sgd" else [])


def run(command):
    """What it prints; None where nothing fits."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout) if done.returncode == 0 else None
