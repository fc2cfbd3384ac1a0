"""DeepFM: a factorisation machine and a deep network over shared embeddings.

Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR
Prediction", IJCAI 2017, https://arxiv.org/abs/1703.04247
"""

import numpy as np
import tensorflow as tf

FIELDS = 39  # 13 numeric and 26 categorical ones, as in the Criteo click logs
BUCKETS = 4000
EMBEDDING_WIDTH = 8
DEEP_WIDTHS = (64, 32)


class DeepFM(tf.Module):  # type: ignore[misc]
    """A click model: sigmoid(first order + pairwise interactions + deep part)."""

    def __init__(self, seed: int, buckets: int = BUCKETS) -> None:
        """Draw the weights from `seed`; `buckets` features have weights of their own."""
        super().__init__(name="deepfm")
        self.buckets = buckets
        random = np.random.default_rng(seed)

        def draw_weights(name: str, *shape: int, deviation: float) -> tf.Variable:
            start = random.normal(0.0, deviation, size=shape).astype(np.float32)
            return tf.Variable(start, name=name)

        self.bias = tf.Variable(np.float32(0.0), name="bias")
        self.first_order = draw_weights("first_order", buckets, deviation=0.01)
        self.embedding = draw_weights("embedding", buckets, EMBEDDING_WIDTH, deviation=0.05)
        self.kernels: list[tf.Variable] = []
        self.offsets: list[tf.Variable] = []
        width = FIELDS * EMBEDDING_WIDTH
        for layer, units in enumerate((*DEEP_WIDTHS, 1)):
            scale = float(np.sqrt(2.0 / width))
            self.kernels.append(draw_weights(f"kernel_{layer}", width, units, deviation=scale))
            self.offsets.append(tf.Variable(np.zeros(units, np.float32), name=f"offset_{layer}"))
            width = units

    def compute_logits(self, feat_ids: tf.Tensor, feat_vals: tf.Tensor) -> tf.Tensor:
        """Return float32 [n] for int64 [n, 39] and float32 [n, 39]."""
        # Any id is accepted: a bucket, as the hashing trick does, so that an id
        # never seen in training is a prediction and not an error.
        buckets = tf.math.floormod(feat_ids, tf.constant(self.buckets, tf.int64))
        first_order = tf.reduce_sum(tf.gather(self.first_order, buckets) * feat_vals, axis=1)

        scaled = tf.gather(self.embedding, buckets) * feat_vals[:, :, tf.newaxis]
        # Rendle's identity: all pairs in linear time.
        square_of_sum = tf.square(tf.reduce_sum(scaled, axis=1))
        sum_of_squares = tf.reduce_sum(tf.square(scaled), axis=1)
        pairs = 0.5 * tf.reduce_sum(square_of_sum - sum_of_squares, axis=1)

        deep = tf.reshape(scaled, [-1, FIELDS * EMBEDDING_WIDTH])
        for kernel, offset in zip(self.kernels[:-1], self.offsets[:-1], strict=True):
            deep = tf.nn.relu(tf.matmul(deep, kernel) + offset)
        deep = tf.matmul(deep, self.kernels[-1]) + self.offsets[-1]
        return self.bias + first_order + pairs + deep[:, 0]

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, FIELDS], tf.int64, name="feat_ids"),
            tf.TensorSpec([None, FIELDS], tf.float32, name="feat_vals"),
        ]
    )
    def serve(self, feat_ids: tf.Tensor, feat_vals: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the probabilities, as the signature `serving_default`."""
        return {"prob": tf.sigmoid(self.compute_logits(feat_ids, feat_vals), name="prob")}
