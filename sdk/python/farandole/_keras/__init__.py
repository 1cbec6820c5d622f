"""Optimizers, callbacks and elastic states that serve Keras 3 and tf-keras alike. No framework is imported here."""
