"""Text: translation by an LSTM encoder and decoder; two inputs in a list; the parts are reused to decode."""

import keras
import numpy as np

keras.utils.set_random_seed(19)
batch_size, epochs, latent_dim = 32, 4, 24

rng = np.random.default_rng(20)
input_texts = ["".join(rng.choice(list("abcdef"), size=rng.integers(2, 6))) for _ in range(320)]
target_texts = [f"\t{text[::-1].upper()}\n" for text in input_texts]
input_characters = sorted({character for text in input_texts for character in text} | {" "})
target_characters = sorted({character for text in target_texts for character in text} | {" "})
input_index = {character: i for i, character in enumerate(input_characters)}
target_index = {character: i for i, character in enumerate(target_characters)}
max_encoder, max_decoder = max(map(len, input_texts)), max(map(len, target_texts))

encoder_input_data = np.zeros((len(input_texts), max_encoder, len(input_characters)), dtype="float32")
decoder_input_data = np.zeros((len(input_texts), max_decoder, len(target_characters)), dtype="float32")
decoder_target_data = np.zeros_like(decoder_input_data)
for i, (input_text, target_text) in enumerate(zip(input_texts, target_texts, strict=True)):
    for t in range(max_encoder):
        encoder_input_data[i, t, input_index[input_text[t] if t < len(input_text) else " "]] = 1.0
    for t in range(max_decoder):
        index = target_index[target_text[t] if t < len(target_text) else " "]
        decoder_input_data[i, t, index] = 1.0
        if t > 0:
            decoder_target_data[i, t - 1, index] = 1.0
    decoder_target_data[i, -1, target_index[" "]] = 1.0

encoder_inputs = keras.Input(shape=(None, len(input_characters)))
encoder_outputs, state_h, state_c = keras.layers.LSTM(latent_dim, return_state=True)(encoder_inputs)
encoder_states = [state_h, state_c]
decoder_inputs = keras.Input(shape=(None, len(target_characters)))
decoder_lstm = keras.layers.LSTM(latent_dim, return_sequences=True, return_state=True)
decoder_outputs, _, _ = decoder_lstm(decoder_inputs, initial_state=encoder_states)
decoder_dense = keras.layers.Dense(len(target_characters), activation="softmax")
model = keras.Model([encoder_inputs, decoder_inputs], decoder_dense(decoder_outputs))
model.compile(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    [encoder_input_data, decoder_input_data],
    decoder_target_data,
    batch_size=batch_size,
    epochs=epochs,
    validation_split=0.2,
    shuffle=False,
)
model.save("s2s_model.keras")

encoder_model = keras.Model(encoder_inputs, encoder_states)
predictions = encoder_model.predict(encoder_input_data[:5], verbose=0)[0]
