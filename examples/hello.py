"""A model with two weights learns y = 3x + 1.

python hello.py                  on a laptop: one process, no cluster
kubectl apply -f hello.yaml      the same file in one pod
"""

import keras
import numpy as np

import dtj

dtj.init(seed=1)

x = np.random.default_rng(1).random((1000, 1), dtype="float32")
y = 3 * x + 1

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mse")

result = dtj.fit(model, dtj.data.Pipeline(dtj.data.numpy(x, y)), epochs=10, batch_size=50)

(weight,), (bias,) = (variable.numpy().ravel() for variable in model.weights)
print(f"y = {weight:.2f}x + {bias:.2f} after {result.step} steps")
