"""Keras models in the course's shapes, and weights that travel between the frameworks."""

import numpy as np
import pytest
import torch
from torch import nn

from helpers import models
from helpers.tf import tensorflow
from helpers.tf.models import WeightsMismatchError, cnn, copy_weights, mlp

tf = tensorflow()
keras = tf.keras
layers = keras.layers


torch_mlp = models.mlp


def torch_net() -> nn.Sequential:
    net = nn.Sequential(
        nn.Conv2d(3, 4, (3, 2)), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 7, 5, bias=False)
    )
    norm = net[1]
    assert isinstance(norm, nn.BatchNorm2d)
    for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        assert tensor is not None
        nn.init.uniform_(tensor, 0.5, 1.5)
    return net.eval()


def keras_net(image=(8, 8, 3)):
    return keras.Sequential(
        [
            keras.Input(image),
            layers.Conv2D(4, (3, 2)),
            layers.BatchNormalization(epsilon=1e-5),
            layers.ReLU(),
            layers.Permute((3, 1, 2)),
            layers.Flatten(),
            layers.Dense(5, use_bias=False),
        ]
    )


def assert_same_outputs(ours: nn.Module, theirs, images: torch.Tensor) -> None:
    expected = ours(images).detach().numpy()
    seen = theirs(images.permute(0, 2, 3, 1).numpy(), training=False).numpy()
    np.testing.assert_allclose(seen, expected, rtol=1e-4, atol=1e-5)


def test_mlp_has_the_course_shape():
    model = mlp()
    assert [tuple(weight.shape) for weight in model.weights] == [(784, 128), (128,), (128, 10), (10,)]
    assert model(np.zeros((2, 28, 28, 1), np.float32)).shape == (2, 10)


@pytest.mark.parametrize("image", [(28, 28, 1), (8, 6, 3)])
def test_mlp_computes_the_same_after_copying(image: tuple[int, int, int]):
    height, width, channels = image
    ours, theirs = torch_mlp(height * width * channels), mlp(image)
    copy_weights(ours, theirs)
    assert_same_outputs(ours, theirs, torch.randn(5, channels, height, width))


@pytest.mark.parametrize("channels", [1, 3])
def test_cnn_computes_the_same_after_copying(channels: int):
    ours, theirs = models.cnn(channels, 7).eval(), cnn((12, 16, channels), classes=7)
    copy_weights(ours, theirs)
    assert_same_outputs(ours, theirs, torch.randn(4, channels, 12, 16))


def test_convolution_and_norm_travel_both_ways():
    ours, theirs, back = torch_net(), keras_net(), torch_net()
    copy_weights(ours, theirs)
    assert_same_outputs(ours, theirs, torch.randn(2, 3, 8, 8))
    copy_weights(theirs, back)
    for name, tensor in ours.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(tensor, back.state_dict()[name]), name


def test_copies_are_independent():
    ours, theirs = torch_mlp(), mlp()
    copy_weights(ours, theirs)
    before = theirs.get_weights()[0].copy()
    with torch.no_grad():
        ours[1].weight.zero_()
    np.testing.assert_array_equal(theirs.get_weights()[0], before)


def test_another_width_is_named():
    with pytest.raises(WeightsMismatchError, match=r"\(784, 64\).*\(784, 128\).*same input shape and widths"):
        copy_weights(torch_mlp(hidden=64), mlp())


def test_nothing_is_written_when_a_later_layer_does_not_fit():
    theirs = keras.Sequential([keras.Input((28, 28, 1)), layers.Flatten(), layers.Dense(128), layers.Dense(9)])
    before = theirs.get_weights()[0].copy()
    with pytest.raises(WeightsMismatchError):
        copy_weights(torch_mlp(), theirs)
    np.testing.assert_array_equal(theirs.get_weights()[0], before)


def test_another_number_of_layers_is_counted():
    theirs = keras.Sequential([keras.Input((28, 28, 1)), layers.Flatten(), layers.Dense(10)])
    with pytest.raises(WeightsMismatchError, match=r"has 2 layers.*Keras model 1"):
        copy_weights(torch_mlp(), theirs)


def test_another_kind_of_layer_is_named():
    theirs = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(10)])
    with pytest.raises(WeightsMismatchError, match=r"Linear \[128, 784\].*Conv2D.*Dense was expected"):
        copy_weights(torch_mlp(), theirs)


def test_an_unknown_layer_is_named():
    ours = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.LayerNorm(128))
    with pytest.raises(WeightsMismatchError, match=r"LayerNorm.*knows Linear, Conv2d"):
        copy_weights(ours, mlp())


def test_an_unbuilt_model_is_refused():
    with pytest.raises(WeightsMismatchError, match="no weights yet"):
        copy_weights(torch_mlp(), keras.Sequential([layers.Flatten(), layers.Dense(10)]))


def test_two_models_of_one_framework_are_refused():
    with pytest.raises(TypeError, match="two PyTorch models"):
        copy_weights(torch_mlp(), torch_mlp())
    with pytest.raises(TypeError, match="Sequential and Sequential"):
        copy_weights(mlp(), mlp())
