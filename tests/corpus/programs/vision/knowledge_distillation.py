"""Vision: a teacher trains, then a Distiller with its own `compile` and `compute_loss` trains the student."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(14)


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.teacher = teacher
        self.student = student

    def compile(self, optimizer, metrics, student_loss_fn, distillation_loss_fn, alpha=0.1, temperature=3):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss_fn = student_loss_fn
        self.distillation_loss_fn = distillation_loss_fn
        self.alpha = alpha
        self.temperature = temperature

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, allow_empty=False):
        teacher_pred = self.teacher(x, training=False)
        student_loss = self.student_loss_fn(y, y_pred)
        distillation_loss = self.distillation_loss_fn(
            ops.softmax(teacher_pred / self.temperature, axis=1), ops.softmax(y_pred / self.temperature, axis=1)
        ) * (self.temperature**2)
        return self.alpha * student_loss + (1 - self.alpha) * distillation_loss

    def call(self, x):
        return self.student(x)


def network(width, name):
    return keras.Sequential(
        [
            keras.Input(shape=(10, 10, 1)),
            layers.Conv2D(width, 3, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2D(2 * width, 3, strides=2, padding="same"),
            layers.Flatten(),
            layers.Dense(5),
        ],
        name=name,
    )


rng = np.random.default_rng(14)
y = rng.integers(0, 5, size=400)
x = rng.normal(0, 0.6, size=(400, 10, 10, 1)).astype("float32")
x[np.arange(400), 2 * y] += 1.0
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
metrics = [keras.metrics.SparseCategoricalAccuracy()]

teacher = network(16, "teacher")
teacher.compile(optimizer=keras.optimizers.Adam(), loss=loss, metrics=metrics)
taught = teacher.fit(x, y, epochs=2, batch_size=50, shuffle=False)
teacher.evaluate(x, y)

distiller = Distiller(student=network(4, "student"), teacher=teacher)
distiller.compile(
    optimizer=keras.optimizers.Adam(),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
    student_loss_fn=loss,
    distillation_loss_fn=keras.losses.KLDivergence(),
)
distilled = distiller.fit(x, y, epochs=3, batch_size=50, shuffle=False)
scores = distiller.evaluate(x, y, verbose=0)
