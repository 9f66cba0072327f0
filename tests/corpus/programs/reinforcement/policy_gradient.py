"""Reinforcement: REINFORCE on a pole that balances; returns of the episodes are the sample weights of fit."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(47)

rng = np.random.default_rng(50)


class Pole:
    """An inverted pendulum that is pushed left or right."""

    def reset(self):
        self.angle, self.speed = rng.uniform(-0.05, 0.05, size=2)
        return np.array([self.angle, self.speed])

    def step(self, action):
        self.speed += 0.1 * self.angle + (0.02 if action else -0.02)
        self.angle += self.speed
        return np.array([self.angle, self.speed]), abs(self.angle) > 0.5


inputs = keras.Input(shape=(2,))
common = layers.Dense(16, activation="tanh")(inputs)
model = keras.Model(inputs, layers.Dense(2, activation="softmax")(common))
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.02), loss="sparse_categorical_crossentropy")


def play(weights, episodes=12):
    """Plays with a copy of the policy in NumPy; returns states, actions and normalized returns."""
    w1, b1, w2, b2 = weights
    env, states, actions, returns = Pole(), [], [], []
    for _ in range(episodes):
        state, rewards = env.reset(), 0
        for _ in range(40):
            logits = np.tanh(state @ w1 + b1) @ w2 + b2
            chance = np.exp(logits - logits.max())
            action = int(rng.random() < (chance / chance.sum())[1])
            states.append(state)
            actions.append(action)
            rewards += 1
            state, done = env.step(action)
            if done:
                break
        returns += [0.98**k * (rewards - k) for k in range(rewards)]
    returns = np.array(returns)
    return np.array(states), np.array(actions), (returns - returns.mean()) / (returns.std() + 1e-8)


histories = []
for update in range(3):
    states, actions, returns = play(model.get_weights())
    states, actions, returns = states[:160], actions[:160], np.round(returns[:160], 4)
    histories.append(
        model.fit(states, actions, sample_weight=returns, batch_size=32, epochs=2, shuffle=False, verbose=0)
    )
    print("update", update, "mean return", float(returns.mean()))
