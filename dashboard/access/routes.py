"""Which role each route needs: the table of the gate, from which SECURITY.md's is written."""

from typing import NamedTuple

from dashboard.config.access import AccessRole

# Of kubelets and load balancers: answered first, under any name, and open.
PROBES = frozenset({"/healthz", "/livez", "/readyz"})
AUTH = "/auth/"  # answered by the gate itself: sign-in and sign-out
STREAMLIT = "/_stcore/"
READING = frozenset({"GET", "HEAD"})
WEBSOCKET = "WEBSOCKET"  # in place of a method
ANY = "*"  # ends a pattern: any rest of the path


class RouteRole(NamedTuple):
    """The lowest role for some methods of the paths of a pattern; None: open to everybody."""

    pattern: str
    methods: frozenset[str]
    role: AccessRole | None
    what: str

    def is_of(self, path: str, method: str) -> bool:
        is_path = path.startswith(self.pattern[:-1]) if self.pattern.endswith(ANY) else path == self.pattern
        return is_path and method in self.methods


# The first one that fits counts.
TABLE = (
    *(RouteRole(path, READING, None, "probe") for path in sorted(PROBES)),
    RouteRole("/auth/token", frozenset({"POST"}), AccessRole.VIEWER, "session of a bearer token"),
    RouteRole("/auth/login", READING, None, "sign-in: to the OpenID provider"),
    RouteRole("/auth/callback", READING, None, "sign-in: back from the OpenID provider"),
    RouteRole("/auth/signed-out", READING, None, "a page after sign-out"),
    RouteRole("/auth/font.woff2", READING, None, "font of the pages of sign-in"),
    RouteRole("/auth/logout", frozenset({"POST"}), None, "sign-out"),
    RouteRole("/auth/revoke", frozenset({"POST"}), AccessRole.ADMIN, "end all sessions of somebody"),
    RouteRole("/auth/session", READING, AccessRole.VIEWER, "name, role and end of the session"),
    RouteRole("/metrics", READING, AccessRole.VIEWER, "metrics of Prometheus"),
    RouteRole("/api/*", READING, AccessRole.VIEWER, "JSON documents"),
    RouteRole("/mcp", frozenset({"GET", "POST", "DELETE"}), AccessRole.VIEWER, "tools of agents, read-only"),
    RouteRole(f"{STREAMLIT}stream", frozenset({WEBSOCKET}), AccessRole.VIEWER, "pages; each action has its own role"),
    RouteRole(f"{STREAMLIT}upload_file/*", frozenset({"PUT", "DELETE"}), AccessRole.VIEWER, "uploads of a form"),
    RouteRole("/*", READING, AccessRole.VIEWER, "pages, scripts, styles, downloads"),
)
OTHERS = AccessRole.ADMIN  # no route has other methods


def own_path(path: str) -> str:
    """Return a path without `server.baseUrlPath`, which may be before Streamlit's own paths and those of the gate."""
    return path[max(0, path.find(STREAMLIT), path.find(AUTH)) :]


def needed(path: str, method: str) -> AccessRole | None:
    """Return the lowest role for a request; None: it is open."""
    own = own_path(path)
    found = next((each for each in TABLE if each.is_of(own, method)), None)
    return found.role if found is not None else OTHERS
