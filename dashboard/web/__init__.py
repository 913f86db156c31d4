"""The dashboard in the browser: pages, the frame around them, HTTP routes and their protection."""
