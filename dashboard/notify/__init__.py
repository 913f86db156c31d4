"""Notifications: findings become alerts, which Alertmanagers get all the time, and webhooks when they begin and end."""
