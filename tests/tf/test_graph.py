"""Tracings of a tf.function are counted with their arguments, and its graph is drawn as it is."""

import pytest

from helpers.errors import CourseError
from helpers.graph.layout import Kind
from helpers.tf import tensorflow
from helpers.tf.graph import count_retraces, draw_function


@pytest.fixture(scope="module")
def tf():
    module = tensorflow()
    module.get_logger().setLevel("ERROR")  # it warns of the very retraces that are counted here
    return module


def test_every_python_number_traces_and_a_tensor_once(tf):
    scale = tf.function(lambda x, factor: x * factor)
    x = tf.ones([3])
    numbers = count_retraces(scale, [(x, 0.1), (x, 0.2), (x, 0.1)])
    assert [trace.call for trace in numbers.traces] == [0, 1]
    assert numbers.traces[1].signature == "Tensor float32 [3], Python float 0.2"
    assert count_retraces(scale, [(x, tf.constant(value)) for value in (0.1, 0.2, 0.3)]).count == 1


def test_earlier_tracings_are_not_counted(tf):
    double = tf.function(lambda x: x * 2)
    double(tf.ones([3]))
    assert count_retraces(double, [(tf.ones([3]),)]).count == 0


def test_variables_and_open_shapes_are_described(tf):
    double = tf.function(lambda x: x * 2)
    (trace,) = count_retraces(double, [(tf.Variable([1.0, 2.0]),)]).traces
    assert trace.signature == "Variable float32 [2]"


@pytest.mark.parametrize("calls", [[], [1.0], [[1.0]]])
def test_calls_must_be_tuples(tf, calls):
    with pytest.raises(CourseError, match="one tuple of arguments for each call"):
        count_retraces(tf.function(lambda x: x), calls)


def test_a_plain_function_is_refused():
    with pytest.raises(CourseError, match=r"not a tf\.function"):
        count_retraces(abs, [(1,)])


def test_the_picture_shows_a_branch_inputs_and_output(tf):
    def written(x):
        if tf.reduce_sum(x) > 1:
            x = x * 2
        return x

    drawing = draw_function(tf.function(written).get_concrete_function(tf.TensorSpec([None, 4], name="x")))
    by_kind = {kind: [n.label for n in drawing.diagram.nodes if n.kind is kind] for kind in Kind}
    assert by_kind[Kind.INPUT] == ["x\n[?, 4]"]
    assert by_kind[Kind.CONTROL] == ["StatelessIf\n[?, 4]"]
    assert by_kind[Kind.OUTPUT] == ["output\n[?, 4]"]
    assert "Identity" not in drawing.svg


def test_the_picture_is_the_same_for_two_equal_traces(tf):
    def make():
        weights = tf.Variable(tf.ones([4, 2]))
        step = tf.function(lambda x: tf.nn.relu(x @ weights))
        return draw_function(step.get_concrete_function(tf.TensorSpec([3, 4], name="x"))).svg

    assert make() == make()


def test_variables_are_shown_as_captured(tf):
    weights = tf.Variable(tf.ones([4, 2]))
    step = tf.function(lambda x: x @ weights)
    drawing = draw_function(step.get_concrete_function(tf.TensorSpec([3, 4])))
    assert sum(node.kind is Kind.PARAMETER for node in drawing.diagram.nodes) == 1


def test_order_without_data_is_dashed(tf):
    counter = tf.Variable(0)

    @tf.function
    def count():
        counter.assign_add(1)
        counter.assign_add(2)
        return counter.read_value()

    drawing = draw_function(count.get_concrete_function())
    assert any(edge.dashed for edge in drawing.diagram.edges)


def test_something_else_is_refused(tf):
    with pytest.raises(CourseError, match="get_concrete_function"):
        draw_function(tf.function(lambda x: x))
