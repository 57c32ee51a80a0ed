"""The formats and widths of a sweep, and the quantisation config of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chop.config import SweepConfig
from chop.formats import FORMATS, Format, parameters
from chop.formats.parts.spelling import read_format, spelled_name
from chop.nn.quantized.config import ROLES
from chop.registry import UnknownNameError, closest

MAX_WIDTH = 32
_COMMA = re.compile(r",(?![^(]*\))")
"""A comma that is not inside brackets."""
_FIXED = re.compile(r"\(\s*\d|\b(width|element)\s*=")
"""What says in the text of a format that it has one width."""
SWEPT_ROLES = tuple(role for role in ROLES if role != "data_out")


@dataclass(frozen=True)
class Setting:
    """A format with parameters for one width."""

    format: str
    params: Mapping[str, Any]
    given: tuple[str, ...] = ()
    """The parameters that the user has chosen for all widths, as text such as `scale=float`."""

    @property
    def number_format(self) -> Format:
        return FORMATS[self.format](**self.params)

    @property
    def label(self) -> str:
        """The name of the format with the parameters that the user chose, and its element type if it has one."""
        name = f"{self.format}({','.join(self.given)})" if self.given else self.format
        return f"{name} {self.params['element']}" if "element" in self.params else name

    def config(self, roles: Sequence[str]) -> dict[str, Any]:
        """Return the quantisation config with this format in some roles and float in the others."""
        config: dict[str, Any] = {"name": self.format}
        for role in SWEPT_ROLES:
            if role in roles:
                config |= {f"{role}_{key}": value for key, value in self.params.items()}
            else:
                config[f"{role}_name"] = "float"
        return config


def read_settings(config: SweepConfig) -> list[Setting]:
    """Return the settings of a sweep, by format and width."""
    widths = read_widths(config.widths)
    return [setting for name in _names(config.formats, "formats") for setting in _settings(name, widths)]


def read_roles(config: SweepConfig) -> list[str]:
    """Return the roles whose operands are quantised."""
    roles = _names(config.roles, "roles")
    for role in roles:
        if role not in SWEPT_ROLES:
            raise UnknownNameError(f"unknown role '{role}'; {closest(role, SWEPT_ROLES)}")
    return roles


def read_widths(given: str | int | Sequence[int]) -> list[int]:
    """Return the widths that `2..8`, `4,6,8`, a number or a list stands for."""
    if isinstance(given, str):
        found = [width for part in given.split(",") for width in _range(part.strip(), given)]
    else:
        found = [given] if isinstance(given, int) else list(given)
    wrong = [width for width in found if not 1 <= width <= MAX_WIDTH]
    if wrong or not found:
        raise ValueError(f"'widths' must be from 1 to {MAX_WIDTH}, got {wrong[0] if wrong else 'none'}")
    return sorted(set(found))


def _range(part: str, given: str) -> Sequence[int]:
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", part)
    if match is None:
        raise ValueError(f"'widths' must be a number, a range such as 2..8 or a list such as 4,6,8, got '{given}'")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"'widths': the range {part} is empty, because {last} is below {first}")
    return range(first, last + 1)


def _names(given: str | Sequence[str], what: str) -> list[str]:
    names = [name.strip() for name in _COMMA.split(given)] if isinstance(given, str) else list(given)
    names = [name for name in names if name]
    if not names:
        raise ValueError(f"'{what}' is empty")
    return list(dict.fromkeys(names))


def _settings(text: str, widths: Sequence[int]) -> list[Setting]:
    """Return the settings of a format: one per width, or one alone, as of `mxfp(element=e2m1)`."""
    cls, made = FORMATS[spelled_name(text)], read_format(text, "formats")
    default = cls()
    given = {
        field.name: getattr(made, field.name)
        for field in parameters(cls)
        if field.name != "width" and getattr(made, field.name) != getattr(default, field.name)
    }
    if _FIXED.search(text):
        widths = [made.width]
        given |= {"element": made.element} if hasattr(made, "element") else {}
    shown = tuple(f"{key}={value}".replace(" ", "") for key, value in given.items() if key != "element")
    found = [Setting(cls.name, params, shown) for width in widths for params in _params(cls, width, given)]
    if not found:
        known = [each for each in range(1, MAX_WIDTH + 1) if any(True for _ in _params(cls, each, given))]
        raise ValueError(f"format '{text}' has none of these widths; it has {', '.join(map(str, known))} bits")
    return found


def _params(cls: type[Format], width: int, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parameters, with those given, with which a format has this width; none if it cannot have it."""
    fields = {field.name: field for field in parameters(cls)}
    if "width" in fields:
        from_data = {"frac_width": "auto"} if "frac_width" in fields and "scale" not in given else {}
        for more in _exponents(fields.get("exponent_width")):
            params = {"width": width, **from_data, **more, **given}
            with suppress(ValueError):  # no such width, or too few bits for this exponent
                cls(**params)
                yield params
                return
    elif "element" in fields:
        elements = [given["element"]] if "element" in given else fields["element"].metadata["search"]
        yield from (params for each in elements if cls(**(params := {**given, "element": each})).width == width)
    elif cls(**given).width == width:
        yield dict(given)


def _exponents(field: Any) -> list[dict[str, int]]:
    """Return the choices of a float's exponent width, the default first, then smaller ones."""
    if field is None:
        return [{}]
    return [{}, *({"exponent_width": bits} for bits in range(field.default - 1, 0, -1))]
