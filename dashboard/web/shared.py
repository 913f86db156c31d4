"""What pages derive from a fleet: sessions share it, and it is forgotten with the poll."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import streamlit as st

F = TypeVar("F", bound="Callable[..., Any]")


def shared(max_entries: int) -> Callable[[F], F]:
    """Keep the results of a function whose first argument is a fleet's generation, until there is a newer one.

    Arguments whose names begin with an underscore do not count. Frozen fleets, whose generation is negative, are
    derived again after the next poll.
    """

    def decorate(function: F) -> F:
        cached = st.cache_resource(max_entries=max_entries, show_spinner=False)(function)
        newest = 0

        @wraps(function)
        def derive(generation: int, *args: Any, **kwargs: Any) -> Any:
            nonlocal newest
            if generation > newest:
                newest = generation
                cached.clear()
            return cached(generation, *args, **kwargs)

        return cast("F", derive)

    return decorate
