"""Rules on routing and block identity: RT."""
