"""Audio: speech recognition with a CTC loss; padded batches of spectrograms, a callback that decodes."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(38)
CHARACTERS = 6

rng = np.random.default_rng(40)


def utterances():
    draw = np.random.default_rng(41)
    for _ in range(180):
        word = draw.integers(1, CHARACTERS, size=draw.integers(2, 5))
        frames = np.repeat(np.eye(CHARACTERS)[word], draw.integers(3, 6), axis=0)
        yield (frames + draw.normal(0, 0.2, size=frames.shape)).astype("float32"), word


signature = (tf.TensorSpec((None, CHARACTERS), tf.float32), tf.TensorSpec((None,), tf.int64))
dataset = tf.data.Dataset.from_generator(utterances, output_signature=signature)
dataset = dataset.padded_batch(20, padded_shapes=([24, CHARACTERS], [4])).prefetch(tf.data.AUTOTUNE)
dataset = dataset.apply(tf.data.experimental.assert_cardinality(180 // 20))
train_dataset, validation_dataset = dataset.take(7), dataset.skip(7)


def CTCLoss(y_true, y_pred):
    batch_len = ops.cast(ops.shape(y_true)[0], dtype="int64")
    input_length = ops.cast(ops.shape(y_pred)[1], dtype="int64") * ops.ones((batch_len,), dtype="int64")
    label_length = ops.sum(ops.cast(y_true > 0, "int64"), axis=1)
    return ops.ctc_loss(y_true, y_pred, label_length, input_length, mask_index=0)


class CallbackEval(keras.callbacks.Callback):
    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    def on_epoch_end(self, epoch, logs=None):
        right = total = 0
        for x, y in self.dataset:
            best = np.argmax(self.model.predict(x, verbose=0), axis=-1)
            for guess, target in zip(best, y.numpy(), strict=True):
                collapsed = [g for g, before in zip(guess, [0, *guess], strict=False) if g not in (0, before)]
                right += collapsed == list(target[target > 0])
                total += 1
        print(f"epoch {epoch}: {right} of {total} words")


input_spectrogram = layers.Input((None, CHARACTERS), name="input")
x = layers.Conv1D(16, 3, padding="same", activation="relu")(input_spectrogram)
x = layers.Bidirectional(layers.GRU(12, return_sequences=True))(x)
output = layers.Dense(CHARACTERS)(x)
model = keras.Model(input_spectrogram, output, name="DeepSpeech")
model.compile(optimizer=keras.optimizers.Adam(learning_rate=3e-3), loss=CTCLoss)
history = model.fit(
    train_dataset, validation_data=validation_dataset, epochs=3, callbacks=[CallbackEval(validation_dataset)]
)
