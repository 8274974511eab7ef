"""Typed access to the fields of a decoded tree, as tolerant as the API server: null is the same as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NoReturn

from extauthz.core import quantities
from extauthz.core.errors import ObjectError
from extauthz.core.model import Labels, Observed, OwnerRef, Template, Tree, WorkloadRef

MAX_REPLICAS: Final = 2**31 - 1
"""``spec.replicas`` is an int32 everywhere (``k8s.io/api/apps/v1/types.go``, ``autoscaling/v1/types.go``)."""

_INT32: Final = 2**31
_INT64: Final = 2**63
_SHOWN: Final = 40
"""Characters of a value in a sentence."""
_MILLI: Final = quantities.NANO // 1000
_NOTHING: Final[dict[str, Tree]] = {}


def at(tree: Tree, *keys: str | int) -> Tree:
    """What stands there, or ``None`` where a part of the way is missing."""
    for key in keys:
        if isinstance(key, int):
            tree = tree[key] if isinstance(tree, list) and key < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def mapping(value: Tree, path: str) -> dict[str, Tree]:
    """An object's keys; null is an empty object. Raises ObjectError."""
    if isinstance(value, dict):
        return value
    return _NOTHING if value is None else wrong(value, path, "an object")


def items(value: Tree, path: str) -> Iterator[tuple[dict[str, Tree], str]]:
    """A list's objects, each with its path. A null among them is an empty object, as in Go. Raises ObjectError."""
    if value is None:
        return
    if not isinstance(value, list):
        wrong(value, path, "a list")
    for index, item in enumerate(value):
        at = f"{path}[{index}]"
        yield mapping(item, at), at


def text(value: Tree, path: str) -> str:
    """A string; null is an empty one. Raises ObjectError."""
    if isinstance(value, str):
        return value
    return "" if value is None else wrong(value, path, "a string")


def text_list(value: Tree, path: str) -> tuple[str, ...]:
    """A list of texts; ``null`` is an empty one. Raises ObjectError."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        wrong(value, path, "a list of strings")
    return tuple(value)


def boolean(value: Tree, path: str) -> bool:
    """True or false; null is false. Raises ObjectError."""
    if isinstance(value, bool):
        return value
    return False if value is None else wrong(value, path, "true or false")


def replicas(value: Tree, default: int, path: str = "spec.replicas") -> int:
    """A count as a JSON decoder fills an int32: no fraction, exponent or string. Raises ObjectError."""
    if value is None:
        return default
    if type(value) is not int:
        raise ObjectError(path, f"must be a whole number, not {_shown(value)}", "replicas-not-an-integer")
    if value < 0:
        raise ObjectError(path, f"must not be below zero, is {_shown(value)}", "replicas-negative")
    if value > MAX_REPLICAS:
        raise ObjectError(path, f"must be at most {MAX_REPLICAS}, is {_shown(value)}", "replicas-too-large")
    return value


def amounts(tree: Tree, path: str) -> dict[str, str]:
    """A ResourceList as text, not checked: ``core.quantities`` does that. Raises ObjectError."""
    return {
        key: value if isinstance(value, str) else _amount(value, f"{path}[{key}]")
        for key, value in mapping(tree, path).items()
    }


def _amount(value: Tree, path: str) -> str:
    """A number as a quantity's text. Null is a zero (``UnmarshalJSON``)."""
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong(value, path, "a quantity")
    return getattr(value, "text", None) or repr(value)  # gojson.Number keeps the literal, as UnmarshalJSON sees it


def read_amounts(tree: Tree, path: str) -> dict[str, int]:
    """The same in nano-units, refused as ``ValidateResourceQuantityValue`` refuses it. Raises ObjectError:
    ``bad-quantity``, ``negative-quantity``, ``fractional-quantity``."""
    return {name: _checked(name, value, f"{path}[{name}]") for name, value in mapping(tree, path).items()}


def _checked(name: str, value: Tree, path: str) -> int:
    nanos = read_quantity(value, path)
    if nanos < 0:
        raise ObjectError(path, "must not be below zero", "negative-quantity")
    if nanos % quantities.NANO and is_extended(name):
        raise ObjectError(path, "must be a whole number", "fractional-quantity")
    return nanos


def read_quantity(value: Tree, path: str) -> int:
    """Rounded up to a thousandth, as ``SetDefaults_ResourceList`` does; null is zero (``UnmarshalJSON``)."""
    try:
        nanos = quantities.parse(0 if value is None else value)
    except quantities.QuantityError as error:
        raise ObjectError(path, str(error), "bad-quantity") from error
    return -(-nanos // _MILLI) * _MILLI if nanos > 0 else nanos // _MILLI * _MILLI


def is_extended(name: str) -> bool:
    """``IsExtendedResourceName`` of ``pkg/apis/core/v1/helper``: qualified, and not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def converted_int32(value: Tree) -> Tree:
    """A number as the unstructured converter puts it into an int32, without a JSON decoder.

    ``fromUnstructured`` (``k8s.io/apimachinery/pkg/runtime/converter.go``) takes a whole float, and lets an int64
    wrap around. What a float beyond 64 bits becomes depends on the machine: it is left as it is, like anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_INT64 <= value < _INT64:
        return value
    return (int(value) + _INT32) % (2 * _INT32) - _INT32 if value == int(value) else value


def wrong(value: Tree, path: str, wanted: str) -> NoReturn:
    """Raises an ObjectError: this value has the wrong type."""
    raise ObjectError(path, f"must be {wanted}, not {_shown(value)}")


def _shown(value: Tree) -> str:
    """A value for a sentence: short, whatever it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number beyond 64 bits"
    if isinstance(value, str):
        value = value[:_SHOWN]  # to spell out megabytes takes longer than all else that is done with them
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:37]}..."


# ``metadata`` and label selectors of objects: names, labels, the owner. The one place that reads them.

_SHARED_TEXTS, _SHARED_CHARS = 16_384, 512
"""How many texts are shared, and the longest of them. Equal ones often follow each other, as the labels of one
object."""


def kind_of(root: Mapping[str, Tree]) -> tuple[str, str]:
    """(API group, kind) of an object. Raises ObjectError."""
    group, _, _ = text(root.get("apiVersion"), "apiVersion").rpartition("/")
    kind = text(root.get("kind"), "kind")
    if not kind:
        raise ObjectError("kind", "is missing")
    return group, kind


def place_of(root: Tree) -> tuple[str, str]:
    """(namespace, name) of an object; the namespace is empty where there is none. Raises ObjectError."""
    metadata = mapping(mapping(root, "(root)").get("metadata"), "metadata")
    return text(metadata.get("namespace"), "metadata.namespace"), required(metadata, "name")


def version_of(root: Tree) -> str:
    """``metadata.resourceVersion``. Raises ObjectError."""
    metadata = mapping(mapping(root, "(root)").get("metadata"), "metadata")
    return text(metadata.get("resourceVersion"), "metadata.resourceVersion")


def required(metadata: Mapping[str, Tree], key: str) -> str:
    """A field of the metadata that every stored object has. Raises ObjectError."""
    value = text(metadata.get(key), f"metadata.{key}")
    if not value:
        raise ObjectError(f"metadata.{key}", "is missing")
    return value


def observed(
    group: str, resource: str, root: Mapping[str, Tree], replicas: int = 1, template: Template | None = None
) -> tuple[WorkloadRef, Observed]:
    """A stored object of that kind, by its metadata, with these replicas and this template. Raises ObjectError."""
    metadata = mapping(root.get("metadata"), "metadata")
    ref = WorkloadRef(group, resource, _shared(required(metadata, "namespace")), required(metadata, "name"))
    found = described(root, replicas, template)
    found.uid = text(metadata.get("uid"), "metadata.uid")
    found.resource_version = text(metadata.get("resourceVersion"), "metadata.resourceVersion")
    return ref, found


def described(root: Mapping[str, Tree], replicas: int, template: Template | None) -> Observed:
    """The same of one that is not stored, as an admission webhook is shown it. Raises ObjectError."""
    metadata = mapping(root.get("metadata"), "metadata")
    return Observed(
        replicas=replicas,
        template=template,
        labels=labels_text(mapping(metadata.get("labels"), "metadata.labels")),
        owner=controller(metadata.get("ownerReferences")),
    )


def controller(references: Tree) -> OwnerRef | None:
    """The owner with ``controller: true``, if there is one. Raises ObjectError."""
    for item, path in items(references, "metadata.ownerReferences"):
        if boolean(item.get("controller"), f"{path}.controller"):
            api, kind, name, uid = [text(item.get(key), f"{path}.{key}") for key in _OF_OWNERS]
            return OwnerRef(_shared(api.rpartition("/")[0]), _shared(kind), name, uid)
    return None


_OF_OWNERS: Final = ("apiVersion", "kind", "name", "uid")


# Labels.


def labels_text(labels: Mapping[str, Tree]) -> Labels:
    """``a=1,b=2``, sorted by key. Raises ObjectError for an impossible label."""
    if not labels:
        return ""
    pairs = [f"{_label(key)}={_label(text(value, 'labels'))}" for key, value in sorted(labels.items())]
    return _shared(",".join(pairs))


def labels_dict(labels: Labels) -> dict[str, str]:
    """The mapping that ``labels_text`` was given."""
    return dict(pair.split("=", 1) for pair in labels.split(",")) if labels else {}


def plain_selector(selector: Tree, path: str = "spec.selector") -> Labels | None:
    """``matchLabels`` of a selector; ``None``: it has none, or uses expressions. Raises ObjectError."""
    given = mapping(selector, path)
    if given.get("matchExpressions"):
        return None
    return labels_text(mapping(given.get("matchLabels"), f"{path}.matchLabels")) or None


EVERYTHING: Final[Labels] = "*"
"""In place of a selector: the owner has whatever names it by its UID. No label is spelled so."""


def selects(selector: Labels | None, labels: Labels) -> bool:
    """Whether a plain selector selects an object with ``labels``. An empty one and one that is not plain select
    none."""
    if not selector:
        return False
    if selector == EVERYTHING:
        return True
    given = labels_dict(labels)
    return all(given.get(key) == value for key, value in labels_dict(selector).items())


def _label(part: str) -> str:
    if "," in part or "=" in part:
        raise ObjectError("labels", f"{part[:40]!r} is not a label")
    return part


def _shared(value: str) -> str:
    return _kept(value) if len(value) <= _SHARED_CHARS else value


_kept: Final = lru_cache(maxsize=_SHARED_TEXTS)(str)
