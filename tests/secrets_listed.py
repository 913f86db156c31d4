"""Names and shapes of secrets, and places where a replica may write them: functions of name and secret."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

ARGUMENTS: Mapping[str, Callable[[str, str], Any]] = {
    "flag in a list": lambda name, secret: ["serve", "m", f"--{name}", secret, "--port", "8000"],
    "flag of several values": lambda name, secret: ["serve", f"--{name}", "other", secret, "--port", "8000"],
    "flag with equals in a list": lambda name, secret: ["serve", f"--{name}={secret} and; more"],
    "flag in a text": lambda name, secret: f"vllm serve m --{name} {secret} --port 8000",
    "flag with equals in a text": lambda name, secret: f"vllm serve m --{name}={secret} --port 8000",
    "quoted flag in a text": lambda name, secret: f'vllm serve m --{name} "{secret} x" --port 8000',
    "variable in a list": lambda name, secret: ["PATH=/bin", f"{name}={secret} and; more"],
    "variable as Kubernetes has it": lambda name, secret: [{"name": name, "value": f"a {secret}"}],
}
NESTED: Mapping[str, Callable[[str, str], Any]] = {
    "field": lambda name, secret: {name: secret},
    "path": lambda name, secret: {f"kv_transfer_config.{name}": secret},
    "list of a field": lambda name, secret: {"a": [{name: [1, secret]}]},
    "object of a field": lambda name, secret: {name: {"user": {"x": secret}, "tries": 3}},
    "JSON in a text": lambda name, secret: json.dumps({"a": [{name: secret}]}),
    "JSON in JSON in a text": lambda name, secret: json.dumps({"a": json.dumps({name: {"b": secret}})}),
    "name twice in JSON in a text": lambda name, secret: f'{{"{name}": "{secret}", "{name}": 1}}',
    "long JSON in a text": lambda name, secret: json.dumps({"x": "y" * 70_000, name: secret}),
    "half JSON in a text": lambda name, secret: json.dumps({"a": {name: {"b": secret}, "c": 1}})[:-2],
    "parameter of a URL": lambda name, secret: f"https://host/x?a=1&{name}={secret}&b=2",
    "Python in a text": lambda name, secret: f"Args(model='m', extra={{'{name}': ['{secret}', 2]}}, port=8000)",
}
HEADERS: Mapping[str, Callable[[str, str], str]] = {
    "header": lambda name, secret: f"GET / HTTP/1.1\r\nHost: x\r\n{name}: {secret}\r\nAccept: */*\r\n",
    "header in JSON": lambda name, secret: json.dumps({"headers": {name: secret}})[:-1],
    "header in HTML": lambda name, secret: f"<pre>Host: x\n{name}: {secret}\n</pre>",
    "label": lambda name, secret: f'vllm:x{{{name}="{secret}",b="1"}} 1.0',
}
BROKEN: Mapping[str, Callable[[str, str], str]] = {
    "half JSON": lambda name, secret: f'{{"a": 1, "{name}": "{secret}',
    "half JSON, object": lambda name, secret: f'{{"a": 1, "{name}": {{"x": [1, {{"y": "{secret}", "z',
    "JSON without quotes": lambda name, secret: f'{{"a": 1, "{name}": {secret}, ',
    "equals": lambda name, secret: f"error: {name}={secret}; retry",
    "quoted after a space": lambda name, secret: f'error: {name} "{secret}" is wrong',
    "is": lambda name, secret: f"error: {name} is {secret}.",
}


def listed(kind: str) -> Any:
    """Return a part of `secrets.yaml`, such as its names, shapes or settings."""
    return yaml.safe_load(Path(__file__).with_name("secrets.yaml").read_text())[kind]
