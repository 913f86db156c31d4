"""Choices that stand in the URL, so that a view can be handed on and Back leads to it.

Streamlit has a binding of its own (`bind="query-params"`), but where two pages share a name, such as the pool, it drops
the name from every link that leads from one to the other.
"""

from collections.abc import Sequence
from typing import Any, cast

import streamlit as st

YES, NO = "true", "false"
WITHOUT = "ignored_choices"  # in the session: what the URL says and this run cannot follow, by name


def begin() -> None:
    """Forget what the run before could not follow."""
    st.session_state[WITHOUT] = {}


def not_followed() -> dict[str, str]:
    """Return what the URL says and this run could not follow, for it is none of the options; by name."""
    return cast("dict[str, str]", st.session_state.get(WITHOUT, {}))


def bound(name: str, options: Sequence[str] | None = None, *, default: str | bool | None = None) -> dict[str, Any]:
    """Tie a widget to a name in the URL: what this returns are arguments of the widget, its key among them.

    The URL decides what is chosen; what the reader chooses is written there. What is none of `options` counts as not
    there (`not_followed` tells of it), and then `default` is chosen, or the first option, or an empty text. The default
    stands in no URL.
    """
    fallback = default if default is not None else options[0] if options else ""
    value = _told(name, options, fallback=fallback)
    if st.session_state.get(name) != value:  # writing what is there already would disturb somebody who types
        st.session_state[name] = value
    return {"key": name, "on_change": _write, "kwargs": {"name": name, "fallback": fallback}}


def chosen(name: str, options: Sequence[str], *, default: str | None = None) -> str:
    """Return what the URL says is chosen, for what is drawn before the widget or without it."""
    return str(_told(name, options, fallback=options[0] if default is None else default))


def segments(label: str, name: str, options: Sequence[str]) -> str:
    """Let the reader choose one of a few that stand side by side; one is always chosen."""
    return str(st.segmented_control(label, options, **bound(name, options), required=True))


def _told(name: str, options: Sequence[str] | None, *, fallback: str | bool) -> str | bool:
    text = st.query_params.get(name)
    if text is None:
        return fallback
    known = (YES, NO) if isinstance(fallback, bool) else options
    if known is not None and text not in known:
        st.session_state[WITHOUT] = {**not_followed(), name: text}
        return fallback
    return text == YES if isinstance(fallback, bool) else text


def _write(*, name: str, fallback: str | bool) -> None:
    chosen = st.session_state[name]
    if chosen in {None, "", fallback}:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = YES if chosen is True else str(chosen)
