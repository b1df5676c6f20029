"""usage: stats_json.py SCHEMA FILE [TEST...]: whether FILE is JSON of that schema (by what is below, and by jsonschema if
that is installed), and each TEST, a Python expression, is true of it as d."""
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def check(value, schema, root, at):
    """The words that stats.schema.json uses."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rsplit("/", 1)[1]]
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    assert not names or any(is_of(value, n) for n in names), f"{at}: {value!r} is no {names}"
    assert "const" not in schema or value == schema["const"], f"{at}: {value!r}"
    assert "pattern" not in schema or re.search(schema["pattern"], value), f"{at}: {value!r}"
    assert value is None or "minimum" not in schema or value >= schema["minimum"], f"{at}: {value!r}"
    assert "enum" not in schema or value in schema["enum"], f"{at}: {value!r}"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, f"{at} has no {name}"
        for name, inner in value.items():
            check(name, schema.get("propertyNames", {}), root, at)
            others = schema.get("additionalProperties", {})
            check(inner, schema.get("properties", {}).get(name, others), root, f"{at}.{name}")
    if isinstance(value, list):
        n = len(value)
        assert schema.get("minItems", 0) <= n <= schema.get("maxItems", n), f"{at}: {n} items"
        for i, inner in enumerate(value):
            check(inner, schema.get("items", {}), root, f"{at}[{i}]")


with open(sys.argv[1], encoding="utf-8") as f:
    schema = json.load(f)
with open(sys.argv[2], encoding="utf-8") as f:
    d = json.load(f)
try:
    import jsonschema
except ImportError:
    jsonschema = None
if jsonschema:
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(d, schema)
check(d, schema, schema, "the file")
for test in sys.argv[3:]:
    assert eval(test), f"{test} is false"
