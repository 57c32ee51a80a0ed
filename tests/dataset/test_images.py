"""Data sets of images."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from chop.dataset import CIFAR10, MNIST, DatasetInfo, Digits, FashionMNIST, MaseDataModule, download
from chop.dataset.download import DownloadError, Remote, digest
from chop.dataset.images import Images, check_images, split_images
from chop.dataset.mnist import IdxImages
from chop.models import get_model
from dataset.data_samples import cifar_archive, cifar_files, idx_bytes, some_images, write_mnist
from dataset.local_server import serve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no network."""
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    monkeypatch.setattr(download, "_failures", {})
    return tmp_path / "cache"


def make_images(num_images: int, shape: tuple[int, ...]) -> Images:
    pixels, labels = some_images(num_images, shape)
    return Images(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)))


def test_channels_are_standardised_by_the_training_split() -> None:
    train, test = make_images(100, (3, 4, 5)), make_images(30, (3, 4, 5))
    splits = split_images(train, test, seed=1, published=(100, 30))
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [90, 10, 30]
    features = splits.train.features.double()
    torch.testing.assert_close(features.mean(dim=(0, 2, 3)), torch.zeros(3).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.std(dim=(0, 2, 3), correction=0), torch.ones(3).double(), atol=1e-5, rtol=0)
    assert splits.scaling is not None
    torch.testing.assert_close(splits.test.features, splits.scaling(test.pixels / 255))
    assert (splits.version, splits.provenance) == ("original", "original files, 100 + 30 images")


def test_a_constant_channel_becomes_zero() -> None:
    grey = Images(torch.full((20, 1, 2, 2), 7, dtype=torch.uint8), torch.arange(20) % 2)
    splits = split_images(grey, grey, seed=0, published=(1, 1))
    assert splits.train.features.abs().max() < 1e-6
    assert splits.version == "other"


def test_the_seed_determines_the_validation_images_only() -> None:
    images = make_images(100, (1, 2, 2))
    first, again, other = (split_images(images, images, seed, (100, 100)) for seed in (1, 1, 2))
    assert first.sha256 == again.sha256 != other.sha256
    assert first.test.labels.equal(other.test.labels)
    assert not first.val.labels.equal(other.val.labels)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (Images(torch.zeros(3, 1, 2, 3, dtype=torch.uint8), torch.zeros(3).long()), r"shape \[3, 1, 2, 3\] for 3"),
        (Images(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.zeros(4).long()), "for 4 labels"),
        (Images(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.full((3,), 2)), "has the label 2; the classes"),
        (Images(torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0).long()), "has no images"),
    ],
)
def test_images_that_do_not_match_are_rejected(images: Images, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_images(images, DatasetInfo("tiny", 4, 2, feature_shape=(1, 2, 2)), "file")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dataset", [MNIST, FashionMNIST])
def test_a_folder_with_the_files_of_mnist_is_read(tmp_path: Path, dataset: type[IdxImages], packed: bool) -> None:
    write_mnist(tmp_path / "files", packed=packed)
    splits = dataset(path=str(tmp_path / "files")).load()
    assert splits.train.features.shape == (180, 1, 28, 28)
    assert splits.provenance == "other files, 200 + 50 images"
    pixels, labels = some_images(50, (28, 28))
    assert splits.test.labels.tolist() == labels.tolist()
    assert splits.scaling is not None
    expected = splits.scaling(torch.from_numpy(pixels).unsqueeze(1) / 255)
    torch.testing.assert_close(splits.test.features, expected)


def test_files_in_the_cache_are_used(cache: Path) -> None:
    write_mnist(cache / "mnist")
    write_mnist(cache / "fashion_mnist", packed=False)
    assert len(MNIST().load().test.labels) == len(FashionMNIST().load().test.labels) == 50


def test_a_missing_file_in_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no file 'train-images-idx3-ubyte' or 'train-images-idx3-ubyte\.gz'"):
        MNIST(path=tmp_path).load()
    with pytest.raises(ValueError, match=r"the folder '.*nowhere' for data set 'mnist' does not exist"):
        MNIST(path=tmp_path / "nowhere").load()


def test_labels_of_different_images_are_noticed(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(199, np.uint8))))
    with pytest.raises(ValueError, match=r"images of shape \[200, 1, 28, 28\] for 199 labels"):
        MNIST(path=tmp_path).load()


def test_an_error_of_a_download_says_what_path_accepts() -> None:
    for dataset, hint in (
        (MNIST(), "a folder with the four original files"),
        (CIFAR10(), "the archive of the binary"),
    ):
        for act in (dataset.prepare, dataset.load):
            with pytest.raises(DownloadError, match=f"cannot be downloaded: .*CHOP_OFFLINE; if you have {hint}"):
                act()


@pytest.mark.slow
def test_the_second_mirror_is_used_if_the_first_fails(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "files")
    files = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    checksums = {name[:-3]: digest(tmp_path / "files" / name, "sha256") for name in files}
    monkeypatch.delenv("CHOP_OFFLINE")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(MNIST, "checksums", checksums)
    for name, content in files.items():  # the server gives one file whatever is asked, hence one at a time
        with serve(b"another file") as bad, serve(content) as good:
            monkeypatch.setattr(MNIST, "mirrors", (f"{bad.url}/", f"{good.url}/"))
            MNIST()._cached(cache / "mnist", name[:-3], checksums[name[:-3]])
    assert len(MNIST().load().test.labels) == 50


@pytest.mark.slow
def test_the_archive_of_cifar_is_downloaded_and_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archive").write_bytes(cifar_archive(cifar_files()))
    monkeypatch.delenv("CHOP_OFFLINE")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve((tmp_path / "archive").read_bytes()) as site:
        remote = Remote(site.url, "cifar-10-binary.tar.gz", digest(tmp_path / "archive", "sha256"))
        monkeypatch.setattr(CIFAR10, "remotes", (remote,))
        CIFAR10().prepare()
        splits = CIFAR10().load()
    assert len(site.asked) == 1
    assert splits.train.features.shape == (180, 3, 32, 32)
    assert splits.test.labels.tolist() == [i % 10 for i in range(40)]


@pytest.mark.parametrize("layout", ["archive", "folder with archive", "files", "folder with files", "packed files"])
def test_cifar_is_read_however_it_is_stored(tmp_path: Path, layout: str) -> None:
    files = cifar_files()
    folder = tmp_path / "cifar-10-batches-bin" if layout == "folder with files" else tmp_path
    folder.mkdir(exist_ok=True)
    if "archive" in layout:
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(files))
    for name, content in files.items() if "archive" not in layout else ():
        if layout == "packed files":
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    path = tmp_path / "cifar-10-binary.tar.gz" if layout == "archive" else tmp_path
    splits = CIFAR10(path=path).load()
    assert splits.provenance == "other files, 200 + 40 images"
    assert splits.scaling is not None
    pixels, _ = some_images(40, (3, 32, 32), seed=5)
    torch.testing.assert_close(splits.test.features, splits.scaling(torch.from_numpy(pixels) / 255))


@pytest.mark.slow
def test_missing_and_corrupt_files_of_cifar_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no file 'data_batch_1.bin' or 'data_batch_1.bin.gz'"):
        CIFAR10(path=tmp_path).load()
    with pytest.raises(ValueError, match=r"the folder '.*nowhere' for data set 'cifar10' does not exist"):
        CIFAR10(path=tmp_path / "nowhere").load()
    files = cifar_files()
    del files["test_batch.bin"]
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(files))
    with pytest.raises(ValueError, match=r"tar.gz' has no file 'test_batch.bin', which data set 'cifar10' needs"):
        CIFAR10(path=tmp_path).load()
    files["test_batch.bin"] = b"short"
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(files))
    with pytest.raises(ValueError, match=r"test_batch.bin' is corrupt: its 5 bytes"):
        CIFAR10(path=tmp_path).load()


@pytest.mark.slow
def test_the_digits_of_scikit_learn() -> None:
    splits = Digits().load()
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [1294, 144, 359]
    assert splits.provenance == "bundled with scikit-learn, 1,797 images"
    assert splits.scaling is not None
    pixels = splits.test.features * splits.scaling.scale + splits.scaling.mean
    assert pixels.max() == pytest.approx(1.0, abs=1e-5)
    assert not Digits(seed=7).load().test.labels.equal(splits.test.labels)


def test_digits_without_scikit_learn_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        ValueError, match=r"data set 'digits' needs scikit-learn, .* -m pip install h5py pyarrow scikit-learn$"
    ):
        Digits().load()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "mnist", "fashion_mnist", "cifar10"])
def test_images_go_through_the_convolutional_network(name: str, cache: Path) -> None:
    write_mnist(cache / "mnist")
    write_mnist(cache / "fashion_mnist")
    (cache / "cifar10").mkdir()
    (cache / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(cifar_files()))
    module = MaseDataModule(name, batch_size=8)
    module.prepare_data()
    module.setup()
    model = get_model("toy-convnet", dataset_info=module.dataset_info)
    xs, _ = next(iter(module.train_dataloader()))
    assert model(xs).shape == (8, 10)


def test_downloads_use_https_and_are_verified_with_sha256() -> None:
    remotes = [*CIFAR10.remotes]
    for dataset in (MNIST, FashionMNIST):
        assert all(mirror.startswith("https://") for mirror in dataset.mirrors)
        assert all(re.fullmatch("[0-9a-f]{64}", each) for each in dataset.checksums.values())
    assert all(re.fullmatch("[0-9a-f]{64}", remote.checksum) for remote in remotes)
    assert all(remote.url.startswith("https://") for remote in remotes)
