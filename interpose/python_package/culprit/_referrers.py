"""Names the variables and containers that keep an object alive, with the referrers that the garbage collector knows.

No code of the program runs here: no attribute of the program's objects is read by getattr(), only dictionaries, frames
and containers of Python's own types are. libculprit.so has this source inside too (interpose/inside_python): it
imports modules that are part of the interpreter only.
"""
import gc
import sys

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

_Function: "Any" = type(lambda: None)
_Method = type(_Function.__get__(lambda self: None, object()))
_Module: "Any" = type(sys)
_variables_of_modules: "Any" = _Module.__dict__["__dict__"]
_bases_of_type: "Any" = type.__dict__["__mro__"]
_closure: "Any" = (lambda value: lambda: value)(0).__closure__
_Cell = type(_closure[0])


def _type_of_tracebacks() -> "Any":
    try:
        raise ValueError
    except ValueError as error:
        return type(error.__traceback__)


_Traceback = _type_of_tracebacks()

# The longest chain of referrers; each level costs a walk over the heap. Seven suffice for: a tensor, a frame, its
# traceback, the exception, a list, an object's dictionary, the object.
_LEVELS = 7
_MOST_IN_A_LEVEL = 2000
# Referrers that say nothing about the owner of an object.
_ENDS = (type, _Module, _Function, _Method)
_CONTAINERS = (list, tuple, set, frozenset, dict)
_LONGEST = 200
_OPTIMIZED = 1  # CO_OPTIMIZED: f_locals is a copy


def is_of_a_signal_handler(error: BaseException) -> bool:
    """Whether an exception comes from a handler of a signal that arrived meanwhile: it belongs to the program."""
    import _signal  # type: ignore[import-not-found]  # pylint: disable=import-outside-toplevel

    codes = set()
    for number in range(1, _signal.NSIG):
        handler = _signal.getsignal(number)
        codes.add(getattr(getattr(handler, "__func__", handler), "__code__", None))
    try:
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code in codes:
                return True
            traceback = traceback.tb_next
    except Exception:  # pylint: disable=broad-except  # an audit hook refuses the look at a frame
        pass
    return False


def _count(number: int, singular: str) -> str:
    return f"{singular} of {number:,}"


def _created_at(thing: object) -> str:
    """The line that made a container; empty unless tracemalloc runs."""
    tracemalloc = sys.modules.get("tracemalloc")
    if tracemalloc is None or not tracemalloc.is_tracing():
        return ""
    traceback = tracemalloc.get_object_traceback(thing)
    if not traceback:
        return ""
    return f", created at {_base_name(traceback[-1].filename)}:{traceback[-1].lineno}"


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _place(frame: "Any", line: "int | None" = None) -> str:
    return f"{frame.f_code.co_name} ({_base_name(frame.f_code.co_filename)}:{line or frame.f_lineno})"


def _keys_of(dictionary: "dict[Any, Any]", thing: object) -> "list[str]":
    return [key for key, value in list(dictionary.items()) if value is thing and isinstance(key, str)]


def _exception_text(error: BaseException) -> str:
    name = type(error).__name__
    text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return f"{name}: {text}" if text else name


def variables_of_module(module: object) -> "dict[str, Any] | None":
    """The dictionary of a module, also of one whose class a program has made (lazy imports); None: it is no module."""
    if not any(base is _Module for base in _bases_of_type.__get__(type(module))):
        return None
    found = _variables_of_modules.__get__(module)
    return found if type(found) is dict else None


def _names_of_modules() -> "dict[int, str]":
    """{id of a module's dictionary: its name}. multiprocessing has the main module a second time, as __mp_main__."""
    found: dict[int, tuple[int, str]] = {}  # id -> (how good the name is, name)
    for name, module in list(sys.modules.items()):
        variables = variables_of_module(module)
        if variables is not None and type(name) is str:
            own_name = variables.get("__name__")
            rank = 2 if name == "__main__" else 1 if type(own_name) is str and own_name == name else 0
            if rank > found.get(id(variables), (-1,))[0]:
                found[id(variables)] = rank, name
    return {number: name for number, (_, name) in found.items()}


def _is_frame(thing: object) -> bool:
    # An audit hook would see how this module gets the type.
    return type(thing).__name__ == "frame" and type(thing).__module__ == "builtins"


def _is_own_frame(frame: "Any") -> bool:
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.split(".")[0] == "culprit"


def _variables_of(frame: "Any") -> "dict[str, Any]":
    """The local variables of a function. Up to Python 3.12 the frame keeps the dictionary of f_locals, which would keep
    the objects alive after the function drops them."""
    variables: dict[str, Any] = frame.f_locals
    if variables is frame.f_globals:
        return {}
    if not frame.f_code.co_flags & _OPTIMIZED:
        # In a comprehension of a module Python 3.12 makes a dictionary of the global variables and its own.
        of_module = frame.f_globals
        return {name: value for name, value in variables.items() if of_module.get(name) is not value}
    if sys.version_info >= (3, 13):
        return variables
    copy = dict(variables)
    if sys.getrefcount(variables) <= 3:  # else the program has the dictionary, from locals()
        variables.clear()
    return copy


class _Names:
    """The referrers of a set of objects, found level by level for all objects at once."""

    def __init__(self, ignored: "list[Any]") -> None:
        self.ignored = {id(thing) for thing in ignored} | {id(self.__dict__)}
        self.modules = _names_of_modules()
        self.running = self._running_frames()
        self.variables = [_variables_of(frame) for frame in self.running]
        self.ignored |= {id(variables) for variables in self.variables}
        self.referrers: dict[int, list[Any]] = {}  # id -> objects

    @staticmethod
    def _running_frames() -> "list[Any]":
        """The frames of running functions. The collector does not see their local variables. Those of threading have
        the Thread alone, which `threading._active` has, too."""
        found: list[Any] = []
        frame: Any
        for frame in sys._current_frames().values():  # pylint: disable=protected-access
            while frame is not None:
                if not _is_own_frame(frame) and frame.f_globals.get("__name__") != "threading":
                    found.append(frame)
                frame = frame.f_back
        return found

    def look(self, things: "list[Any]") -> None:
        """Fills `referrers` for `things` and for their referrers."""
        level = list(things)
        for _ in range(_LEVELS):
            level = [thing for thing in level if id(thing) not in self.referrers]
            if not level or len(level) > _MOST_IN_A_LEVEL:
                return
            wanted: dict[int, list[Any]] = {id(thing): [] for thing in level}
            self.referrers.update(wanted)
            self.ignored |= {id(level), id(wanted), id(self.referrers)}
            above = gc.get_referrers(*level)
            self.ignored.add(id(above))
            following: list[Any] = []
            self.ignored.add(id(following))
            for referrer in above:
                if id(referrer) in self.ignored or self._is_ours(referrer, level):
                    continue
                for thing in gc.get_referents(referrer):
                    if id(thing) in wanted:
                        wanted[id(thing)].append(referrer)
                        self.ignored.add(id(wanted[id(thing)]))
                if id(referrer) not in self.modules and not isinstance(referrer, _ENDS):
                    following.append(referrer)
            level = following

    @staticmethod
    def _is_ours(referrer: object, level: "list[Any]") -> bool:
        if type(referrer) is tuple:  # from Python 3.13 on: the arguments of the call to the collector
            return len(referrer) == len(level) and all(one is other for one, other in zip(referrer, level))
        return _is_frame(referrer) and _is_own_frame(referrer)

    def of(self, thing: object, levels: int = _LEVELS) -> "list[str]":
        """The names of the things that keep the object alive, the most specific first; empty: unknown."""
        texts = []
        for frame, variables in zip(self.running, self.variables):
            for key in _keys_of(variables, thing):
                texts.append(f"`{key}`, a local variable of {_place(frame)}")
        for referrer in self.referrers.get(id(thing), ()) if levels > 0 else ():
            texts += self._through(referrer, thing, levels - 1)
        # Those with a name first.
        return sorted((text[:_LONGEST] for text in dict.fromkeys(texts)), key=lambda text: not text.startswith("`"))

    def _through(self, referrer: "Any", thing: object, levels: int) -> "list[str]":
        kind = type(referrer)
        if id(referrer) in self.modules:
            module = self.modules[id(referrer)]
            return [f"`{key if module == '__main__' else module + '.' + key}`" for key in _keys_of(referrer, thing)]
        if _is_frame(referrer):
            return self._through_frame(referrer, thing, levels)
        if kind is dict:
            owners = [owner for owner in self.referrers.get(id(referrer), ()) if self._dictionary_of(owner) is referrer]
            if owners:
                return [f"`{type(owners[0]).__name__}.{key}`" for key in _keys_of(referrer, thing)]
        if kind in _CONTAINERS or kind.__name__ == "deque":
            text = f"a {_count(len(referrer), kind.__name__)}{_created_at(referrer)}"
            return [f"{name}, {text}" for name in self.of(referrer, levels)] or [text]
        if kind is _Cell:
            return ["a variable of a closure"]
        if isinstance(referrer, BaseException):
            return []
        attributes = self._dictionary_of(referrer)
        return [f"`{kind.__name__}.{key}`" for key in _keys_of(attributes, thing)] if attributes is not None else []

    @staticmethod
    def _dictionary_of(thing: object) -> "dict[str, Any] | None":
        """An instance's own attributes, read without a call to a method of its class."""
        if isinstance(thing, (type, _Module)):
            return None
        try:
            found = object.__getattribute__(thing, "__dict__")
        except (AttributeError, TypeError):
            return None
        return found if type(found) is dict else None

    def _through_frame(self, frame: "Any", thing: object, levels: int) -> "list[str]":
        texts = []
        for key in _keys_of(_variables_of(frame), thing):
            line = None
            kept = ""
            for traceback in self.referrers.get(id(frame), ()):
                if type(traceback) is not _Traceback:
                    continue
                line = traceback.tb_lineno
                kept = ", kept by " + self._traceback_text(traceback, levels)
            texts.append(f"`{key}`, a local variable of {_place(frame, line)}{kept}")
        return texts

    def _traceback_text(self, traceback: "Any", levels: int) -> str:
        """Follows the entries of a traceback to the exception that has it."""
        for _ in range(1000):
            following = None
            for referrer in self.referrers.get(id(traceback)) or gc.get_referrers(traceback):
                if isinstance(referrer, BaseException) and referrer.__traceback__ is traceback:
                    text = f"the traceback of {_exception_text(referrer)}"
                    if referrer is getattr(sys, "last_value", None):
                        return text + ", which was not caught"
                    named = self.of(referrer, levels)
                    return text + (f", held by {named[0]}" if named else "")
                if type(referrer) is _Traceback and referrer.tb_next is traceback:
                    following = referrer
            if following is None:
                break
            traceback = following
        return "a traceback"


def names(things: "Any", ignored: "Any" = ()) -> "list[list[str]]":
    """For each of `things` a list of texts, which name its owners. `ignored`: referrers that belong to the caller."""
    things = list(things)
    known = _Names([things, *ignored])
    known.look(things)
    return [known.of(thing) for thing in things]
