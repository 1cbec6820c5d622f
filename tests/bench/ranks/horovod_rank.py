"""A rank of Horovod, with torch, where it can be imported: `horovodrun -np N python horovod_rank.py SOCKET`."""

import horovod.torch as hvd
from like_horovod import Contender
from orders import serve

if __name__ == "__main__":
    hvd.init()
    serve(Contender("horovod", hvd))
    hvd.shutdown()
