"""Signed tokens (JWT), verified with the published keys of their issuer (JWKS), which are cached and rotate."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from pydantic_core import from_json

from dashboard.access.visitor import NotSignedInError
from dashboard.config.access import JwtOptions
from dashboard.sources.http.client import Client
from dashboard.sources.http.failures import endpoint_of

# Only signatures that the public key alone cannot make: no HS256, no none.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
REGISTRY = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
LEEWAY_SECONDS = 60  # clocks differ
FRESH_SECONDS = 600.0  # then keys are read again, while those known still count
RETRY_SECONDS = 10.0  # between two attempts, whatever tokens arrive
LONGEST_SECONDS = 86_400.0  # keys count while their URL does not answer
FETCH_SECONDS = 5.0
MAX_BYTES = 256 * 2**10
MAX_HEADERS = 128
log = logging.getLogger(__name__)


class PublishedKeys:
    """The keys that a URL publishes. A token with an unknown key waits for a new read, others never wait."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic, ca_file: Path | None = None) -> None:
        """Read nothing yet. `clock` gives seconds; `ca_file` has the trusted certificates."""
        self.url = url
        self._ca_file = ca_file
        self._clock = clock
        self._keys = KeySet([])
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def for_key(self, kid: str | None) -> KeySet:
        """Return all keys, with that of an id where it is published."""
        now = self._clock()
        if now - self._read_at > LONGEST_SECONDS:
            self._keys = KeySet([])
        is_known = any(each.kid == kid for each in self._keys) or (kid is None and bool(self._keys))
        is_due = not is_known or now - self._read_at >= FRESH_SECONDS
        if is_due and self._reading is None and now - self._tried_at >= RETRY_SECONDS:
            self._tried_at = now
            self._reading = asyncio.create_task(self._read())
        if not is_known and self._reading is not None:
            await asyncio.shield(self._reading)  # others may wait for it
        return self._keys

    async def _read(self) -> None:
        try:
            async with Client(connections=1, max_answer_bytes=MAX_BYTES, max_headers=MAX_HEADERS) as client:
                answer = await client.fetch(
                    endpoint_of(self.url), FETCH_SECONDS, limit=MAX_BYTES, ca_file=self._ca_file
                )
            if answer.failure is not None:
                log.warning("Keys of signed tokens: %s", answer.failure.detail)
                return
            self._keys = KeySet.import_key_set(from_json(answer.body))
            self._read_at = self._clock()
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):  # what the library raises for other JSON
            log.warning("Keys of signed tokens: %s is no JWKS document", endpoint_of(self.url).where)
        finally:
            self._reading = None


@lru_cache(1)  # a reload may change them
def _published(url: str, ca_file: Path | None) -> PublishedKeys:
    return PublishedKeys(url, ca_file=ca_file)


async def verified(text: str, options: JwtOptions) -> tuple[str, list[str]]:
    """Return name and groups of the signed header of a proxy; raise NotSignedInError."""
    keys = _published(options.jwks_url, options.ca_file)
    claims = await claims_of(text, keys, options.issuer, options.audience)
    name, groups = claims.get(options.user_claim), claims.get(options.groups_claim, [])
    if not isinstance(name, str):
        raise NotSignedInError(f"The token of the proxy has no claim {options.user_claim}. Set access.proxy.jwt.")
    listed = groups if isinstance(groups, list) else [groups]
    return name, [each for each in listed if isinstance(each, str)]


async def claims_of(text: str, keys: PublishedKeys, issuer: str, audience: str) -> dict[str, Any]:
    """Return the claims of a signed token; raise NotSignedInError where one is missing, wrong or out of date."""
    try:
        kid = jws.extract_compact(text.encode()).headers().get("kid")
        published = await keys.for_key(kid if isinstance(kid, str) else None)
        claims = jwt.decode(text, published, registry=REGISTRY).claims
        jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        ).validate(claims)
    except ExpiredTokenError:
        raise NotSignedInError("The token expired. Sign in again; compare the clocks where this repeats.") from None
    except (InvalidClaimError, MissingClaimError) as error:
        raise NotSignedInError(f"The token has a missing or wrong claim: {error.claim}.") from None
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        log.warning("Signed token refused: %s", type(error).__name__)
        raise NotSignedInError("The signature of the token cannot be verified.") from None
    return claims
