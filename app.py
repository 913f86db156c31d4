"""`streamlit run app.py`: Streamlit parses this file for an assignment of `App(...)`."""

from streamlit import App

from dashboard.web.launch import app_arguments

app = App(**app_arguments())
