"""farandole.torch.elastic.sampler by Horovod's name."""

from farandole.torch.elastic.sampler import ElasticSampler  # noqa: F401
