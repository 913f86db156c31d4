"""Who may use the dashboard: the gate before pages and routes, sign-in, sessions, tokens, the audit log."""
