"""Lab 01: write the training loop, in PyTorch and in TensorFlow."""

from helpers.labs.tasks import Plan, Task

LAB = Plan(
    number="01",
    title="write the loop",
    tasks=(
        Task(
            name="train_step",
            title="One training step in PyTorch",
            minutes=8,
            points=4,
            check="helpers.labs.lab01_checks:train_step",
            hints=(
                "Five calls, one a line. Two of them need the batch, one needs the loss, two belong to the optimizer.",
                "Gradients add up until somebody clears them. The optimizer reads them; so they must be fresh when "
                "it steps: clear, forward, loss, backward, step.",
                "`optimizer.zero_grad()`, `loss = loss_fn(model(x), y)`, `loss.backward()`, `optimizer.step()`, and "
                "return `loss.detach()`.",
            ),
        ),
        Task(
            name="train_epoch",
            title="The loss of an epoch",
            minutes=7,
            points=3,
            check="helpers.labs.lab01_checks:train_epoch",
            hints=(
                "`step` returns the mean over a batch. What must you multiply it by before adding it up?",
                "Keep the sum a tensor: `float()`, `.item()` and `print` inside the loop make the host wait for the "
                "device at every step.",
                "`total = total + step(x, y) * len(y)` and `samples += len(y)` in the loop; `float(total) / samples` "
                "after it.",
            ),
        ),
        Task(
            name="evaluate",
            title="Evaluation that leaves no trace",
            minutes=7,
            points=3,
            check="helpers.labs.lab01_checks:evaluate",
            hints=(
                "Two switches are at work: one for layers that behave differently in training, one for the recording "
                "of gradients. A model may come to you in either mode.",
                "Read `model.training` first, call `model.eval()`, and give the mode back with `model.train(before)`. "
                "Loop under `torch.no_grad()`.",
                "Count hits: `hits += (model(x).argmax(dim=1) == y).sum()`. Divide by the samples, not by the batches, "
                "and return a float.",
            ),
        ),
        Task(
            name="fit",
            title="The loop, put together",
            minutes=6,
            points=3,
            check="helpers.labs.lab01_checks:fit",
            hints=(
                "One pass over `train` and one evaluation on `test` for each epoch. You have written all three parts.",
                "`train_epoch` wants a function of a batch. "
                "`lambda x, y: train_step(model, x, y, optimizer, loss_fn)` is one.",
                "`history.append((train_epoch(step, train), evaluate(model, test)))` once per epoch; return `history`.",
            ),
        ),
        Task(
            name="tf_train_step",
            title="The same step in TensorFlow",
            minutes=8,
            points=4,
            check="helpers.labs.lab01_models:tf_train_step",
            hints=(
                "TensorFlow records on a tape only what happens inside `with tf.GradientTape() as tape:`.",
                "Forward and loss go inside the `with`; then `tape.gradient(loss, model.trainable_variables)`. "
                "Nothing has to be cleared: each tape starts empty.",
                "`optimizer.apply_gradients(zip(gradients, model.trainable_variables))` moves the variables. "
                "Call the model with `training=True`, and return the loss.",
            ),
        ),
        Task(
            name="make_resnet18",
            title="ResNet18 for your classes",
            minutes=5,
            points=2,
            check="helpers.labs.lab01_models:make_resnet18",
            hints=(
                "`torchvision.models.resnet18` has one argument for pre-trained weights and ends in a layer `fc`.",
                "Ask for no weights, then put a new `torch.nn.Linear` in place of `model.fc`; the old one knows its "
                "`in_features`.",
            ),
        ),
    ),
)
"""The lab as its notebook and its checks know it."""
