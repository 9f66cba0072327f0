"""Reinforcement: fitted Q iteration on a grid; targets from predict, then fit, several times over one replay memory."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(46)
SIZE, ACTIONS, GAMMA = 4, ((0, 1), (0, -1), (1, 0), (-1, 0)), 0.9

rng = np.random.default_rng(49)


def step(state, action):
    moved = np.clip(state + np.array(ACTIONS)[action], 0, SIZE - 1)
    done = (moved == SIZE - 1).all(axis=1)
    return moved, np.where(done, 1.0, -0.05), done


states = rng.integers(0, SIZE, size=(512, 2))
actions = rng.integers(0, 4, size=512)
next_states, rewards, done = step(states, actions)
one_hot = np.eye(4)[actions]


def features(state):
    return np.concatenate([np.eye(SIZE)[state[:, 0]], np.eye(SIZE)[state[:, 1]]], axis=1).astype("float32")


inputs, mask = layers.Input((2 * SIZE,)), layers.Input((4,))
hidden = layers.Dense(24, activation="relu")(inputs)
action_values = layers.Dense(4)(hidden)
q_model = keras.Model(inputs, action_values)
training_model = keras.Model([inputs, mask], layers.Dot(axes=1)([action_values, mask]))
training_model.compile(optimizer=keras.optimizers.Adam(0.01), loss=keras.losses.Huber())

histories = []
for iteration in range(4):
    future = q_model.predict(features(next_states), verbose=0).max(axis=1)
    targets = rewards + GAMMA * future * ~done
    histories.append(
        training_model.fit([features(states), one_hot], targets, batch_size=64, epochs=2, shuffle=False, verbose=0)
    )
    print("iteration", iteration, "loss", histories[-1].history["loss"][-1])
predictions = q_model.predict(features(np.argwhere(np.ones((SIZE, SIZE)))), verbose=0)
