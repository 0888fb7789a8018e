"""Lab 03: port a Keras ``fit`` to loops of your own, with equal losses."""

from helpers.labs.tasks import Plan, Task

LAB = Plan(
    number="03",
    title="port a Keras fit to a custom loop",
    tasks=(
        Task(
            name="batch_losses",
            title="What Keras logs",
            minutes=6,
            points=2,
            check="helpers.labs.lab03_checks:batch_losses",
            hints=(
                "A mean over the epoch so far, times the number of samples so far, is a sum. What do two neighbouring "
                "sums differ by?",
                "Keep two running numbers: the samples so far, and the sum up to the step before.",
                "In the loop: `samples += size`, then `loss = (mean * samples - before) / size`, then "
                "`before = mean * samples`.",
            ),
        ),
        Task(
            name="custom_step",
            title="The step that fit takes",
            minutes=10,
            points=4,
            check="helpers.labs.lab03_checks:custom_step",
            hints=(
                "Two things that `fit` does for you are easily lost: it tells the layers that this is training, and it "
                "adds what the layers themselves want to see small.",
                "`model(images, training=True)` is the first. The second lies in `model.losses` after the forward "
                "pass, one term per regularised layer.",
                "Within the tape: `loss = loss_fn(labels, model(images, training=True)) + sum(model.losses)`. Then "
                "`tape.gradient(…)` and `optimizer.apply(gradients, model.trainable_variables)`. Return the loss.",
            ),
        ),
        Task(
            name="custom_fit",
            title="The loop around it",
            minutes=12,
            points=4,
            check="helpers.labs.lab03_checks:custom_fit",
            hints=(
                "Keras weighs each batch by its samples. And it runs the step as a graph that is traced once.",
                "A plain `tf.function` traces again for the short last batch. `dataset.element_spec` describes batches "
                "of any size.",
                "`graph = tf.function(step, input_signature=dataset.element_spec)` before the loops. In each epoch: "
                "`total += graph(images, labels) * len(labels)`, `samples += len(labels)`, and at its end append "
                "`float(total / samples)`.",
            ),
        ),
        Task(
            name="to_torch",
            title="The model in PyTorch",
            minutes=8,
            points=3,
            check="helpers.labs.lab03_torch:to_torch",
            hints=(
                "`model.get_weights()` returns kernel, bias, kernel, bias. Look at the shapes of the kernels.",
                "A Keras kernel is `[in, out]`, the weight of an `nn.Linear` is `[out, in]`.",
                "`linear.weight.copy_(torch.from_numpy(kernel.T))` and `linear.bias.copy_(torch.from_numpy(bias))` "
                "under `torch.no_grad()`; the layers are `nn.Flatten()`, `nn.Linear(*kernel.shape)`, `nn.ReLU()`, "
                "`nn.Linear(*kernel.shape)`.",
            ),
        ),
        Task(
            name="torch_fit",
            title="The job in PyTorch, loss by loss",
            minutes=12,
            points=4,
            check="helpers.labs.lab03_torch:torch_fit",
            hints=(
                "Read what the job passes to `compile` and to its first layer. Every number there must appear in "
                "your loop.",
                "Keras's `L2(c)` adds `c` times the sum of the squared kernel to the loss. It leaves the bias alone. "
                "`weight_decay` does neither.",
                "`loss = cross_entropy(model(images), labels) + 1e-3 * model[1].weight.square().sum()`, with "
                "`torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)`; append `loss.item()` after the step.",
            ),
        ),
    ),
)
