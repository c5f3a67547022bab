"""Places: which part of the machine a path names, as its root and first folder and no more.

`./src/*` and `./*` lie in the work folder, `~/notes/*` in the home folder, `tmp/*` among temporary
files; what leaves them is `outside/parent` (`..`), `outside/link`, `outside/absolute` or, where the
text is no plain path, `outside/odd`. Nothing else of a path's text gets out of here.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable

from msgspec import Struct

ROOT = "."
HOME = "~"
TEMPORARY = "tmp"
PARENT = "outside/parent"
LINK = "outside/link"
ABSOLUTE = "outside/absolute"
ODD = "outside/odd"

PATH_MAX = 4_096
FOLDER_MAX = 64
"""Characters of a first folder that may stand in a class; a longer one is odd."""

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/private/tmp", "/dev/shm")  # noqa: S108 - names, not files
DEVICES = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"}
    | {"/dev/random", "/dev/urandom"}
)
_GLOB = re.compile(r"[*?\[]")
_MAYBE_PARENT = re.compile(r"\.+[*?\[]")
"""A pattern that `..` may match."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|\\)|[A-Za-z]:")


class Places(Struct, frozen=True):
    """The folders that a path is judged by, all absolute; None where they are not known.

    `folder` is where relative paths begin (default: the root). `follow` resolves links, as
    os.path.realpath does; without it, for logs of another machine, links are not seen.
    """

    root: str | None = None
    folder: str | None = None
    home: str | None = None
    follow: Callable[[str], str] | None = None

    def place(self, path: str, *, is_folder: bool = False) -> str:
        """The place of a file, or of a folder with what is in it."""
        text = unicodedata.normalize("NFC", path)
        if not text or len(text) > PATH_MAX or not text.isprintable() or _SCHEME.match(text):
            return ODD
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if any(part == ".." or _MAYBE_PARENT.match(part) for part in parts):
            return PARENT
        if text.startswith("~") and parts[0] != "~":
            return ABSOLUTE
        return self._below(text, parts, is_folder)

    def is_inside(self, path: str) -> bool:
        """Whether a file lies in the work folder, among temporary files, or is a plain device."""
        return _is_device(path) or self.place(path, is_folder=True).startswith(
            (f"{ROOT}/", f"{TEMPORARY}/")
        )

    def leads_out(self, word: str) -> bool:
        """Whether a word, which may be no path at all, names something outside as a path."""
        if _is_device(word):
            return False
        place = self.place(word, is_folder=True)
        if place == ODD:
            return word[:1] in "/~."
        return place.startswith((HOME, "outside/"))

    def _below(self, text: str, parts: list[str], is_folder: bool) -> str:
        if text.startswith("~"):
            found = (HOME, self.home, parts[1:])
        elif text.startswith("/"):
            found = self._rooted("/" + "/".join(parts))
        else:
            found = self._relative(parts)
        name, base, rest = found
        if name == ABSOLUTE:
            return ABSOLUTE
        if self.follow is not None and base is not None:
            followed = _under(self.follow(posixpath.join(base, *rest)), self.follow(base))
            if followed is None:
                return LINK
            rest = followed
        if name == TEMPORARY:
            return f"{TEMPORARY}/*"
        return _named(name, rest, is_folder)

    def _relative(self, parts: list[str]) -> tuple[str, str | None, list[str]]:
        if self.folder is None or self.folder == self.root:
            return ROOT, self.root, parts
        return self._rooted(posixpath.join(posixpath.normpath(self.folder), *parts))

    def _rooted(self, path: str) -> tuple[str, str | None, list[str]]:
        known = [(ROOT, self.root), (HOME, self.home)]
        for name, base in (*known, *((TEMPORARY, one) for one in TEMPORARY_FOLDERS)):
            rest = None if base is None else _under(path, posixpath.normpath(base))
            if rest is not None:
                return name, base, rest
        return ABSOLUTE, None, []


def strictest_place(places: Iterable[str]) -> str:
    """The place of an action on several: outside, then hidden, then home; `./**` for several."""
    found = sorted(set(places), key=_rank)
    worst = found[-1]
    equals = [one for one in found if _rank(one)[:2] == _rank(worst)[:2]]
    if len(equals) == 1 or worst.startswith("outside/"):
        return worst
    hidden = "." if _is_hidden(worst) else ""
    return f"{worst[0]}/{hidden}**"


def _is_device(path: str) -> bool:
    return path in DEVICES or re.fullmatch(r"/dev/fd/\d+", path) is not None


def _rank(place: str) -> tuple[int, int, str]:
    base = [TEMPORARY, ROOT, HOME, "outside"].index(place.split("/", 1)[0])
    return (3 if base == 3 else int(_is_hidden(place)), base, place)


def _is_hidden(place: str) -> bool:
    return place[1:3] == "/."


def _under(path: str, base: str) -> list[str] | None:
    if path == base:
        return []
    start = base if base.endswith("/") else f"{base}/"
    return path[len(start) :].split("/") if path.startswith(start) else None


def _named(root: str, parts: list[str], is_folder: bool) -> str:
    if any(part.casefold() == ".git" for part in parts):
        return f"{root}/.git/*"  # a repository within the repository is one too
    if not parts:
        return f"{root}/*"
    first = parts[0]
    if len(parts) == 1 and not is_folder:
        return f"{root}/.*" if first.startswith(".") else f"{root}/*"
    if _GLOB.search(first):
        return f"{root}/.**" if first.startswith(".") else f"{root}/**"
    return f"{root}/{first}/*" if len(first) <= FOLDER_MAX else ODD
