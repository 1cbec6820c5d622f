"""Ranks that disagree get an error, and go on."""

import farandole.numpy as hvd
import numpy as np


def main() -> None:
    hvd.init()
    odd = hvd.rank() == 1
    for name, value in (
        ("shapes", np.ones((8, 4) if odd else (4, 8))),
        ("dtypes", np.ones(3, dtype=np.float64 if odd else np.float32)),
    ):
        try:
            hvd.allreduce(value, name=name)
        except ValueError as error:
            print(f"ValueError: {error}")
        assert hvd.allreduce(np.ones(2), op=hvd.Sum, name="next")[0] == 2
    print("done")


if __name__ == "__main__":
    main()
