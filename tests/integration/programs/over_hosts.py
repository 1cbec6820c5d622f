"""Adds the ranks' numbers up, once, and tells how the coordinator was reached."""

import os

import farandole.numpy as hvd
import numpy

hvd.init()
total = hvd.allreduce(numpy.full(4, hvd.rank() + 1.0, dtype=numpy.float32), op=hvd.Sum, name="total")
print(f"sum {total[0]} of {hvd.size()} {'with TLS' if os.environ.get('FARANDOLE_CA_FILE') else 'without TLS'}")
hvd.shutdown()
