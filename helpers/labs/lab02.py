"""Lab 02: remove the graph breaks of ``torch.compile`` and the retraces of ``tf.function``."""

from helpers.labs.tasks import Plan, Task

LAB = Plan(
    number="02",
    title="remove the graph breaks and retraces",
    tasks=(
        Task(
            name="clip",
            title="A branch on a tensor",
            minutes=8,
            points=3,
            check="helpers.labs.lab02_checks:clip",
            hints=(
                "The compiler does not know which way the `if` will go. Compute a factor that is right in both cases.",
                "The factor is `limit / norm` where the norm is too large, and 1 elsewhere. It is never above 1.",
                "`grad * torch.clamp(limit / grad.norm(), max=1.0)`, or the same with `torch.where`.",
            ),
        ),
        Task(
            name="masked_mean",
            title="A result whose size depends on the data",
            minutes=7,
            points=3,
            check="helpers.labs.lab02_checks:masked_mean",
            hints=(
                "`x[mask]` has as many elements as there are True values in the mask: a size that no graph can know.",
                "Keep the full size: put 0 where the mask is False, sum everything, and divide by the number of True.",
                "`torch.where(mask, x, 0.0).sum() / mask.sum()`. (Multiplying will not do: nan · 0 is nan.)",
            ),
        ),
        Task(
            name="penalised",
            title="A log line in the middle",
            minutes=6,
            points=3,
            check="helpers.labs.lab02_checks:penalised",
            hints=(
                "Who wants the number? Not the graph. Let the caller print it.",
                "Return two tensors: the total, and the loss for the log. `.item()` on either would break the graph.",
                "`return loss + 0.1 * logits.square().mean(), loss.detach()`",
            ),
        ),
        Task(
            name="CallAverage",
            title="A counter that recompiles",
            minutes=8,
            points=4,
            check="helpers.labs.lab02_checks:call_average",
            hints=(
                "A module's Python numbers become part of the graph, and guards check them. What does not become part?",
                "The value of a tensor does not. Keep the count in a tensor that moves and is saved with "
                "the module: a buffer.",
                '`self.register_buffer("calls", torch.zeros(()))` in `__init__`; `self.calls += 1` in `forward` stays.',
            ),
        ),
        Task(
            name="make_scaled",
            title="One trace for all arguments",
            minutes=6,
            points=3,
            check="helpers.labs.lab02_tf:make_scaled",
            hints=(
                "A Python number is a constant of the trace; so is a tensor's size. Both can be declared open.",
                "`tf.function(input_signature=[…])` takes one `tf.TensorSpec(shape, dtype)` per argument; `None` in a "
                "shape leaves the size open, and a Python number fits a spec of shape `[]`.",
                "`@tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32)])`",
            ),
        ),
        Task(
            name="make_counted",
            title="Python that runs once",
            minutes=6,
            points=3,
            check="helpers.labs.lab02_tf:make_counted",
            hints=(
                "`count += 1` on a Python number is done while tracing and leaves nothing in the graph.",
                "State that a graph can change is a `tf.Variable`. Make it once, outside of the function.",
                "`calls = tf.Variable(0)` before the function, `calls.assign_add(1)` inside it; return both.",
            ),
        ),
    ),
)
"""The lab as its notebook and its checks know it."""
