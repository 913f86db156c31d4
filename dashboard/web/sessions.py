"""Sessions whose page was closed: what Streamlit keeps of them, and when it is let go."""

from typing import Any

from streamlit import runtime


def forget_expired() -> None:
    """Let go of sessions whose page was closed for longer than `server.disconnectedSessionTTL`.

    Streamlit does so only when the next page is closed: until then each keeps its files, what it drew, and three file
    descriptors, those of up to 128 sessions together. Its store has no public way to it.
    """
    if runtime.exists():
        manager: Any = runtime.get_instance()._session_mgr  # noqa: SLF001
        for _, kept in manager._session_storage._cache.expire():  # noqa: SLF001
            kept.session.shutdown()  # else the next search for garbage does it
