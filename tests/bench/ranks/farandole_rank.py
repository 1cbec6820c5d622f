"""A rank of Farandole, with torch: `farandole run -np N python farandole_rank.py SOCKET`."""

import farandole.torch as hvd
from like_horovod import Contender
from orders import serve

if __name__ == "__main__":
    hvd.init()
    serve(Contender("farandole", hvd))
    hvd.shutdown()
