"""Attributes of types and of objects, read without a call of the program's code.

No attribute is read by getattr(): only the dictionaries of types and descriptors of Python's own kinds are.
"""
TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any


class _Slot:
    __slots__ = ("field",)


# A field of a C structure, or of __slots__: reading it calls no function. Attributes that a function of C computes are
# read by name only (of_c).
member = type(_Slot.__dict__["field"])
_DESCRIPTORS = (member, type(type.__dict__["__dict__"]))
attributes_of_type: "Any" = type.__dict__["__dict__"]
_name_of_type: "Any" = type.__dict__["__name__"]
_bases_of_type: "Any" = type.__dict__["__mro__"]


def mro(kind: type) -> "tuple[type, ...]":
    found: tuple[type, ...] = _bases_of_type.__get__(kind)
    return found


def descriptor(kind: type, name: str) -> "Any":
    """A name of a class or of its bases, without a call of a metaclass."""
    for base in mro(kind):
        found = attributes_of_type.__get__(base).get(name)
        if found is not None:
            return found
    return None


def type_name(kind: type) -> str:
    name: str = _name_of_type.__get__(kind)
    return name


def of_c(kind: type, name: str) -> "Any":
    """The getter of an attribute that C code defines; None where the class has none, or one of its own."""
    found = descriptor(kind, name)
    return found if type(found) in _DESCRIPTORS else None


def read(thing: object, name: str) -> "Any":
    getter = of_c(type(thing), name)
    try:
        return getter.__get__(thing) if getter is not None else None
    except Exception:  # pylint: disable=broad-except  # an empty slot
        return None
