"""The public face of trustfold: the few names that a user needs."""
