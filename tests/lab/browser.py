"""A browser as a person uses one: cookies, redirects, and forms that are filled in. It runs no script.

Invariants: a redirect is followed only by GET, and a cookie goes back only to the host and port that set it. Only this machine is contacted: a redirect to a place elsewhere, or
to a port where nothing listens, is the end of the way. Ports are part of the key of a cookie, which real browsers do not
do: otherwise two local servers of a test would overwrite each other's cookies. Where the policy of a page names targets for
forms (`form-action`), each redirect after its form must go to one of them, as Chromium has it.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

#: More redirects than any login needs.
MOST_STEPS = 20
#: The hosts of this machine.
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Page:
    """One answer that a browser got."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def forms(self) -> list[Form]:
        return forms(self.text)


@dataclass
class Form:
    """A form of a page: where it goes, its fields, and its buttons in order."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    passwords: list[str] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class _Forms(HTMLParser):
    """Collects the forms of a page. A button without a name is the pair of two empty strings."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._open: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = Form(has.get("action", ""), has.get("method", "get").lower())
            self.found.append(self._open)
        elif self._open is not None and tag in ("input", "button"):
            self._add(self._open, tag, has)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None

    @staticmethod
    def _add(form: Form, tag: str, has: Mapping[str, str]) -> None:
        kind = has.get("type", "submit" if tag == "button" else "text")
        name = has.get("name", "")
        if kind == "submit":
            form.buttons.append((name, has.get("value", "")))
        elif kind == "password":
            form.passwords.append(name)
        elif name:
            form.fields[name] = has.get("value", "")


def forms(text: str) -> list[Form]:
    """The forms of a page, in order."""
    parser = _Forms()
    parser.feed(text)
    return parser.found


class Lost(Exception):
    """The browser came to no end, or where the policy of a page forbids to go."""


class Browser:
    """One browser of one person. `password` is entered where a page asks for one, `wants` chooses among buttons."""

    def __init__(self, password: str = "", wants: Mapping[str, str] | None = None) -> None:
        self._password, self._wants = password, dict(wants or {})
        self._cookies: dict[str, dict[str, str]] = {}

    def visit(self, url: str) -> Page:
        """Opens a URL, follows redirects, and submits each form it meets, until a page has none."""
        page = self._follow("GET", url)
        for _ in range(MOST_STEPS):
            form = self._form(page)
            if form is None:
                return page
            page = self._submit(page, form)
        raise Lost(f"{url}: still a form after {MOST_STEPS} pages")

    def request(
        self, method: str, url: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Page:
        """One request with the cookies of this browser, and the answer as it is."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=20)
        try:
            connection.request(method, _target(parts), body, {**self._headers(parts), **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        for line in answer.headers.get_all("set-cookie") or []:
            self._keep(parts, line)
        return Page(url, answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def _form(self, page: Page) -> Form | None:
        """The form that leads on. A page that says something went wrong has none."""
        found = page.forms if page.status < 400 else []
        return next((form for form in found if form.method == "post"), None)

    def _submit(self, page: Page, form: Form) -> Page:
        fields = {**form.fields, **dict.fromkeys(form.passwords, self._password)}
        fields |= dict([self._button(form)]) if form.buttons else {}
        fields.pop("", None)
        url = urljoin(page.url, form.action)
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": _origin(page.url),
            "sec-fetch-site": "same-origin",
            "sec-fetch-mode": "navigate",
        }
        return self._follow("POST", url, urlencode(fields), headers, _targets(page))

    def _button(self, form: Form) -> tuple[str, str]:
        """The button that this person wants, else the first one."""
        wanted = [(name, value) for name, value in form.buttons if self._wants.get(name) == value]
        return (wanted or form.buttons)[0]

    def _follow(
        self,
        method: str,
        url: str,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
        targets: Sequence[str] | None = None,
    ) -> Page:
        page = self.request(method, url, body, headers)
        for _ in range(MOST_STEPS):
            if page.status not in (301, 302, 303, 307, 308):
                return page
            url = urljoin(page.url, page.headers["location"])
            if targets is not None and not any(url.startswith(target) for target in targets):
                raise Lost(f"`form-action` forbids {_origin(url)}")
            if not _is_here(url):
                return Page(url, page.status, {}, "")
            try:
                page = self.request("GET", url)
            except ConnectionRefusedError:
                return Page(url, 0, {}, "")
        raise Lost(f"{url}: still a redirect after {MOST_STEPS} steps")

    def _headers(self, parts: SplitResult) -> dict[str, str]:
        kept = self._cookies.get(parts.netloc, {})
        return {"cookie": "; ".join(f"{name}={value}" for name, value in kept.items())} if kept else {}

    def _keep(self, parts: SplitResult, line: str) -> None:
        pair, *attributes = (part.strip() for part in line.split(";"))
        name, _, value = pair.partition("=")
        kept = self._cookies.setdefault(parts.netloc, {})
        gone = any(part.lower() in ("max-age=0", "expires=thu, 01 jan 1970 00:00:00 gmt") for part in attributes)
        if gone:
            kept.pop(name, None)
        else:
            kept[name] = value


def _is_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _targets(page: Page) -> list[str] | None:
    """Where a form of this page may lead, as beginnings of URLs; None if the page does not say so."""
    for directive in page.headers.get("content-security-policy", "").split(";"):
        name, *sources = directive.split() or [""]
        if name == "form-action":
            named = [_origin(page.url) if source == "'self'" else source for source in sources]
            return [source for source in named if source != "'none'"]
    return None


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


if __name__ == "__main__":
    # browser.py URL NAME=VALUE…: for clients in other languages; prints the URL at which it ends. The password is in the
    # environment, where no list of processes shows it.
    person = Browser(os.environ.get("BROWSER_PASSWORD", ""), dict(word.split("=", 1) for word in sys.argv[2:]))
    print(person.visit(sys.argv[1]).url)
