"""The dashboard on the simulated fleet as it stood at one moment: same clock, same seed, same pixels."""

from concurrent.futures import ThreadPoolExecutor

import streamlit as st

from dashboard import server, service
from tests.frozen import AT, frozen_fleet

with ThreadPoolExecutor() as pool:  # the server imports this module from within its own event loop
    service.put(pool.submit(frozen_fleet).result(), AT)
app = st.App("../../dashboard/ui/main.py", routes=server.routes())
