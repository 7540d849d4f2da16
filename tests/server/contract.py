"""Check of responses against the OpenAPI document: the status and every key."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from flask import Response

from deniable.server.http.openapi import document

Schema = Mapping[str, Any]  # Any: JSON
WORDS = {
    "title",
    "description",
    "pattern",
    "minimum",
    "maximum",
}  # keywords that need no check, or are checked below
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
made = cache(document)


def fault_of(method: str, path: str, response: Response) -> str | None:
    """Return the fault of a response, or None. Undocumented addresses are not checked."""
    path = re.sub(r"<identifier>", "{id}", path)
    operation = made()["paths"].get(path, {}).get(method.lower())
    if operation is None:
        return None
    place = f"{method} {path} {response.status_code}"
    described = operation["responses"].get(str(response.status_code))
    if described is None:
        return f"{place} is not listed"
    content = described["content"] if "content" in described else problem()
    media_type = response.mimetype or ""
    if media_type not in content:
        return f"{place}: {media_type} is not listed"
    if "json" not in media_type:
        return None
    said = response.get_data()
    if response.content_encoding == "gzip":
        said = gzip.decompress(said)
    fault = unlike(json.loads(said), content[media_type]["schema"])
    return fault and f"{place}: {fault}"


def problem() -> Schema:
    content: Schema = made()["components"]["responses"]["problem"]["content"]
    return content


def unlike(value: Any, schema: Schema, place: str = "") -> str | None:  # Any: JSON
    """Describe where a value departs from the schema, which must name every key.

    An unknown keyword in a schema is an error, because it would go unchecked.
    """
    if "$ref" in schema:
        return unlike(value, made()["components"]["schemas"][schema["$ref"].split("/")[-1]], place)
    if "anyOf" in schema:
        faults = [unlike(value, part, place) for part in schema["anyOf"]]
        return None if None in faults else "; ".join(filter(None, faults))
    if "enum" in schema:
        return None if value in schema["enum"] else f"{place}: {value!r} is not listed"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) in KINDS[kind] for kind in kinds):
        return f"{place}: {value!r} is not {schema['type']}"
    unknown = schema.keys() - WORDS - CHECKED.get(kinds[0], set()) - {"type"}
    assert not unknown, f"{place}: the check does not support {unknown}"
    match value:
        case dict():
            return _unlike_object(value, schema, place)
        case list():
            return _unlike_array(value, schema, place)
        case str() if not re.search(schema.get("pattern", ""), value):
            return f"{place}: {value!r} does not match"
        case int() | float() if value < schema.get("minimum", value):
            return f"{place}: {value!r} is too small"
        case int() | float() if value > schema.get("maximum", value):
            return f"{place}: {value!r} is too large"
    return None


CHECKED = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
}


def _unlike_object(value: dict[str, Any], schema: Schema, place: str) -> str | None:
    known = schema.get("properties", {})
    if missing := set(schema.get("required", ())) - value.keys():
        return f"{place}: {missing} are missing"
    rest = schema.get("additionalProperties", not known)
    if rest is False and (more := value.keys() - known.keys()):
        return f"{place}: {more} are not described"
    assert rest is not True or not known, f"{place}: the schema allows any key"
    parts = {key: known.get(key, rest) for key in value}
    faults = (
        unlike(value[key], part, f"{place}.{key}")
        for key, part in parts.items()
        if part is not True
    )
    return next(filter(None, faults), None)


def _unlike_array(value: list[Any], schema: Schema, place: str) -> str | None:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{place}: {len(value)} items"
    parts = schema.get("prefixItems") or [schema.get("items", True)] * len(value)
    faults = (
        unlike(item, part, f"{place}[{number}]")
        for number, (item, part) in enumerate(zip(value, parts, strict=True))
        if part is not True
    )
    return next(filter(None, faults), None)
