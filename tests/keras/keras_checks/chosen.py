"""The Keras whose checks run here, and Farandole for it."""

import importlib
import os
from typing import Any

IS_LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1"

hvd: Any = importlib.import_module("farandole.tensorflow.keras" if IS_LEGACY else "farandole.keras")
keras: Any = importlib.import_module("tensorflow").keras if IS_LEGACY else importlib.import_module("keras")

BACKEND = "legacy" if IS_LEGACY else keras.backend.backend()
