"""The dashboard on the simulated fleet as it stood at one moment: same clock, same seed, same pixels."""

import streamlit as st

from dashboard import server, service
from tests.frozen import AT, frozen_fleet

service.put(frozen_fleet(), AT)
app = st.App("../../dashboard/ui/main.py", routes=server.routes())
