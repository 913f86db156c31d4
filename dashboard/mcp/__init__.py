"""Read-only tools for agents, by the Model Context Protocol: the published documents in small pieces."""

PATH = "/mcp"  # the route of a dashboard
LACKS_SDK = "needs the Model Context Protocol's SDK: pip install -r requirements-mcp.txt, or the extra mcp of the wheel"
