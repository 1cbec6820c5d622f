"""Models to train in the suite, on made-up data: 25 M parameters in few large tensors and in an encoder's many, a small
residual network and a small transformer."""

from typing import Callable, Dict, NamedTuple, Tuple

import torch
from torch import Tensor, nn


class Model(NamedTuple):
    """How a model and one batch for it are made."""

    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Tuple[Tensor, Tensor]]


def _mlp() -> nn.Module:
    """25.2 million parameters in six layers of 2048 x 2048."""
    layers = [layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(2048, 10))


def _mlp_batch(random: torch.Generator) -> Tuple[Tensor, Tensor]:
    return torch.randn(64, 2048, generator=random), torch.randint(10, (64,), generator=random)


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """A block of two convolutions around which the input goes as well."""
        return torch.relu(self.body(images) + self.shortcut(images))


def _resnet() -> nn.Module:
    """ResNet-20's shape for images of 32 x 32 with twice its width: 1.1 million parameters in 61 tensors."""
    widths = [(32, 32, 1)] * 3 + [(32, 64, 2)] + [(64, 64, 1)] * 2 + [(64, 128, 2)] + [(128, 128, 1)] * 2
    blocks = [_Residual(*shape) for shape in widths]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), *blocks, *head)


def _images(random: torch.Generator) -> Tuple[Tensor, Tensor]:
    return torch.randn(16, 3, 32, 32, generator=random), torch.randint(10, (16,), generator=random)


class _Transformer(nn.Module):
    """A language model of four layers of width 256: 4.2 million parameters in 51 tensors."""

    WORDS = 2048

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(self.WORDS, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, self.WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of the next word: [batch, words, length]."""
        return self.head(self.layers(self.embed(words))).transpose(1, 2)


def _words(random: torch.Generator) -> Tuple[Tensor, Tensor]:
    return (
        torch.randint(_Transformer.WORDS, (4, 64), generator=random),
        torch.randint(_Transformer.WORDS, (4, 64), generator=random),
    )


class _Encoder(nn.Module):
    """A transformer's encoder of eight layers of width 512: 25.2 million parameters in 98 tensors."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
        self.head = nn.Linear(512, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of each position: [batch, classes, length]."""
        return self.head(self.layers(inputs)).transpose(1, 2)


def _sequences(random: torch.Generator) -> Tuple[Tensor, Tensor]:
    return torch.randn(4, 32, 512, generator=random), torch.randint(10, (4, 32), generator=random)


MODELS: Dict[str, Model] = {
    "mlp": Model(_mlp, _mlp_batch),
    "resnet": Model(_resnet, _images),
    "transformer": Model(_Transformer, _words),
    "encoder": Model(_Encoder, _sequences),
}


class Training:
    """One rank's training of a model: the same start on all ranks, a batch of each rank's own.

    A contender may replace `optimizer`, or `call`, which is called with the batch instead of the model.
    """

    def __init__(self, name: str, rank: int) -> None:
        torch.manual_seed(7)
        self.model = MODELS[name].make()
        self.call: nn.Module = self.model
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self._batch = MODELS[name].batch(torch.Generator().manual_seed(rank))

    def step(self) -> None:
        """Forward, backward, and the optimizer's step."""
        inputs, targets = self._batch
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.call(inputs), targets).backward()
        self.optimizer.step()

    def digest(self) -> str:
        """Equal on two ranks only if their parameters are equal to the bit."""
        return str(sum(int(p.detach().view(torch.int32).long().sum()) for p in self.model.parameters()))


def small() -> Tuple[nn.Module, Tensor, Tensor]:
    """A model of 12 thousand parameters in four tensors, with inputs and targets: what its step costs is communication."""
    random = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    return model, torch.randn(16, 64, generator=random), torch.randn(16, 32, generator=random)
