"""Every method by name. Adding one: its file, and one line here.

Classes are imported when first asked for: ``fedrec.methods.PFedRec(dim=16)``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.method import Method, check_named

METHODS = {
    "pfedrec": "fedrec.methods.pfedrec:PFedRec",
    "fedmf": "fedrec.methods.fedmf:FedMF",
    "fedncf": "fedrec.methods.fedncf:FedNCF",
    "fedneumf": "fedrec.methods.fedncf:FedNeuMF",
    "fedncf-adam": "fedrec.methods.fedncf_adam:FedNCFAdam",
    "fedneumf-adam": "fedrec.methods.fedncf_adam:FedNeuMFAdam",
    "fedrecon": "fedrec.methods.fedrecon:FedRecon",
    "fedrap": "fedrec.methods.fedrap:FedRAP",
    "metamf": "fedrec.methods.metamf:MetaMF",
    "fedpergnn": "fedrec.methods.fedpergnn:FedPerGNN",
    "fedae": "fedrec.methods.fedae:FedAE",
    "feddae": "fedrec.methods.feddae:FedDAE",
    "gpfedrec": "fedrec.methods.gpfedrec:GPFedRec",
    "fcf": "fedrec.methods.fcf:FCF",
    "fedals": "fedrec.methods.fedals:FedALS",
    "private-fedals": "fedrec.methods.private_fedals:PrivateFedALS",
    "fednext": "fedrec.methods.fednext:FedNext",
    "popularity": "fedrec.methods.central.popularity:Popularity",
    "itemknn": "fedrec.methods.central.itemknn:ItemKNN",
    "ease": "fedrec.methods.central.ease:EASE",
    "ials": "fedrec.methods.central.ials:IALS",
    "mf": "fedrec.methods.central.mf:MF",
    "ncf": "fedrec.methods.central.ncf:NCF",
    "markov": "fedrec.methods.central.markov:Markov",
    "sasrec": "fedrec.methods.central.sasrec:SASRec",
    "counter": "fedrec.methods.central.counter:Counter",
}
WRAPPERS = {
    "dualper": "fedrec.wrap.dualper:DualPer",
    "gel": "fedrec.wrap.gel:GEL",
    "plgc": "fedrec.wrap.plgc:PLGC",
    "recent": "fedrec.wrap.recent:Recent",
    "colr": "fedrec.wrap.colr:CoLR",
}


class Alias(NamedTuple):
    """A published setting of a method above, under the name of its paper."""

    spec: str
    settings: dict[str, Any]
    use_when: str
    clients: float | None = None  # share of clients a round, unless a run says otherwise


ALIASES = {
    "fedrecgel": Alias(
        "fedneumf-adam+gel",
        {},
        "you reproduce the FedRecGEL paper: NeuMF, a server that steps by Adam, 10% of clients a round",
        clients=0.1,
    ),
}


def expand(spec: str, settings: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """A spec with the name of a published setting written out; settings that are given come last."""
    base, plus, rest = spec.partition("+")
    if not named_by_alias(spec):
        return spec, settings or {}
    alias = ALIASES[base]
    return alias.spec + plus + rest, {**alias.settings, **qualified(alias.spec, settings or {})}


def named_by_alias(spec: str) -> bool:
    """Whether a spec uses the name of a published setting."""
    return spec.partition("+")[0] in ALIASES


def usual_clients(spec: str) -> float | None:
    """The share of clients that a published setting has in a round; None is everyone."""
    return ALIASES[spec.partition("+")[0]].clients if named_by_alias(spec) else None


def qualified(spec: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the parts of a spec by their full names, so that a given one replaces the alias's."""
    owners = {field: part for part in reversed(spec.split("+")) for field in own_fields(find(part))}
    return {f"{owners[key]}.{key}" if key in owners else key: value for key, value in settings.items()}


def full_names(spec: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their full names, ``fedmf.lr`` for ``lr``."""
    return qualified(expand(spec)[0], settings)


def find(name: str) -> type[Method]:
    """The class of a method or wrapper, or of one's own as ``file.py:Class``."""
    place = {**METHODS, **WRAPPERS}.get(name)
    if place is None and ".py:" in name:
        return _from_file(name)
    if not name:
        raise FedrecError("a name is missing beside a '+': write for example fedmf, or fedmf+recent")
    if place is None:
        raise FedrecError(f"unknown method '{name}': {nearest(name, {**METHODS, **WRAPPERS, **ALIASES})}")
    module, _, attribute = place.partition(":")
    found: type[Method] = getattr(importlib.import_module(module), attribute)
    return found


def make(spec: str, settings: dict[str, Any] | None = None) -> Method:
    """A method from its name, such as ``fedncf+dualper``, and settings by name.

    A setting goes to the part that has it; ``part.name`` says which where several do.
    """
    from fedrec.core.wrapper import Wrapper

    spec, settings = expand(spec, settings)
    base_name, *wrapper_names = spec.split("+")
    classes = [find(name) for name in (base_name, *wrapper_names)]
    if issubclass(classes[0], Wrapper):
        raise FedrecError(f"'{base_name}' is a wrapper: put it over a method, as in fedmf+{base_name}")
    for name, kind in zip(wrapper_names, classes[1:], strict=True):
        if not issubclass(kind, Wrapper):
            raise FedrecError(f"'{name}' is not a wrapper: {nearest(name, WRAPPERS)}")
    mine: list[dict[str, Any]] = [{} for _ in classes]
    for key, value in settings.items():
        part, dot, name = key.rpartition(".")
        at = [i for i, c in enumerate(classes) if name in own_fields(c) and (not dot or c.name == part)]
        if not at:
            known = {field for c in classes for field in own_fields(c)}
            hint = nearest(name, known) if known else "it has none"
            raise FedrecError(f"{spec} has no setting '{key}': {hint}")
        if len(at) > 1:
            raise FedrecError(f"several parts of {spec} have '{name}': write {classes[at[0]].name}.{name}")
        mine[at[0]][name] = value
    method = classes[0](**mine[0])
    for wrapper, values in zip(classes[1:], mine[1:], strict=True):
        method = wrapper(base=method, **values)
    return method


def private_form(method: Any, rounds: int | None, users: int) -> Any:
    """What a method becomes under an epsilon: its form, its rounds, and the norm of an upload."""
    from fedrec.methods.private import private_form as form

    return form(method, rounds, users)


def own_fields(kind: type[Method]) -> list[str]:
    """The settings of a class; for a wrapper those it adds."""
    from fedrec.core.gradient import GradientMethod
    from fedrec.core.wrapper import Wrapper

    if issubclass(kind, Wrapper):
        return [f for f in kind.model_fields if f != "base" and f not in GradientMethod.model_fields]
    return list(kind.model_fields)


def spec_of(method: Method) -> str:
    """What ``make`` finds it by: its label, with one's own classes as ``file.py:Class``."""
    base = getattr(method, "base", None)
    kind = type(method)
    mine = {**METHODS, **WRAPPERS}.get(method.name) == f"{kind.__module__}:{kind.__name__}"
    name = method.name if mine else _place(kind)
    return name if base is None else f"{spec_of(base)}+{name}"


def same_spec(a: str, b: str) -> bool:
    """Whether two specs name the same method, however the paths of files are written."""

    def parts(spec: str) -> list[str]:
        return [str(Path(part).resolve()) if ".py:" in part else part for part in spec.split("+")]

    return parts(a) == parts(b)


def _place(kind: type[Method]) -> str:
    try:
        return f"{Path(inspect.getfile(kind)).resolve()}:{kind.__name__}"
    except (TypeError, OSError):  # written at a prompt: known to this process alone
        return kind.name


def settings_of(method: Method) -> dict[str, Any]:
    """All settings of a method and its wrappers, such that ``make(spec, settings)`` gives it again."""
    values = {f"{method.name}.{f}": getattr(method, f) for f in own_fields(type(method))}
    base = getattr(method, "base", None)
    return {**settings_of(base), **values} if base is not None else values


def _from_file(name: str) -> type[Method]:
    path, _, attribute = name.rpartition(":")
    if not Path(path).is_file():
        raise FedrecError(f"there is no file '{path}': give your method as file.py:Class")
    found = getattr(_module(Path(path).resolve()), attribute, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise FedrecError(
            f"{path} defines no method '{attribute}': write a class derived from a fedrec method"
        )
    check_named(found)
    return found


def _module(path: Path) -> ModuleType:
    """The module of a file, as it was imported already or imported now: its classes exist once."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).resolve() == path:
            return module
    spec = importlib.util.spec_from_file_location(f"fedrec_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise FedrecError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def __getattr__(name: str) -> Any:
    for place in (*METHODS.values(), *WRAPPERS.values()):
        module, _, attribute = place.partition(":")
        if attribute == name:
            return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'fedrec.methods' has no attribute '{name}'")
