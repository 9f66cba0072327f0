"""Graphs: a paper's subject from who cites whom; the graph is part of the model, the inputs are indices of nodes."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(52)
num_nodes, num_classes, num_features = 300, 3, 20

rng = np.random.default_rng(55)
subject = rng.integers(0, num_classes, size=num_nodes)
node_features = (rng.normal(size=(num_classes, num_features))[subject] + rng.normal(0, 2, size=(300, 20))).astype(
    "float32"
)
edges = rng.integers(0, num_nodes, size=(2, 4000))
edges = edges[:, subject[edges[0]] == subject[edges[1]]].astype("int32")
edge_weights = np.ones(edges.shape[1], "float32")


def create_ffn(hidden_units):
    return keras.Sequential([layers.Dense(units, activation=keras.activations.gelu) for units in hidden_units])


class GraphConvLayer(layers.Layer):
    def __init__(self, hidden_units, **kwargs):
        super().__init__(**kwargs)
        self.ffn_prepare = create_ffn(hidden_units)
        self.update_fn = create_ffn(hidden_units)

    def call(self, inputs):
        node_representations, edges, edge_weights = inputs
        node_indices, neighbour_indices = edges[0], edges[1]
        messages = self.ffn_prepare(ops.take(node_representations, neighbour_indices, axis=0)) * edge_weights[:, None]
        num = node_representations.shape[0]
        total = ops.segment_sum(messages, node_indices, num_segments=num)
        count = ops.segment_sum(edge_weights[:, None], node_indices, num_segments=num)
        h = ops.concatenate([node_representations, total / ops.maximum(count, 1)], axis=1)
        return ops.normalize(self.update_fn(h), axis=-1)


class GNNNodeClassifier(keras.Model):
    def __init__(self, graph_info, num_classes, hidden_units, **kwargs):
        super().__init__(**kwargs)
        node_features, edges, edge_weights = graph_info
        self.node_features = ops.convert_to_tensor(node_features)
        self.edges = ops.convert_to_tensor(edges)
        self.edge_weights = ops.convert_to_tensor(edge_weights / edge_weights.sum())
        self.preprocess = create_ffn(hidden_units)
        self.conv1 = GraphConvLayer(hidden_units, name="graph_conv1")
        self.compute_logits = layers.Dense(units=num_classes, name="logits")

    def call(self, input_node_indices):
        x = self.preprocess(self.node_features)
        x = self.conv1((x, self.edges, self.edge_weights)) + x
        return self.compute_logits(ops.take(x, ops.squeeze(input_node_indices, -1), axis=0))


gnn_model = GNNNodeClassifier((node_features, edges, edge_weights), num_classes, [16, 16], name="gnn_model")
print("GNN output:", gnn_model(np.array([[1], [10], [100]])).shape)
x = rng.permutation(num_nodes)[:, None]
y = subject[x[:, 0]]
gnn_model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
)
history = gnn_model.fit(
    x=x[:200],
    y=y[:200],
    epochs=4,
    batch_size=32,
    validation_split=0.15,
    callbacks=[keras.callbacks.EarlyStopping(monitor="val_acc", patience=50, restore_best_weights=True)],
    shuffle=False,
)
scores = gnn_model.evaluate(x=x[200:], y=y[200:], verbose=0)
