"""farandole.data by Horovod's name."""

from farandole.data import AsyncDataLoaderMixin, BaseDataLoader  # noqa: F401
