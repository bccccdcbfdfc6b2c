// Loss chunks: a product with many classes and the cross entropy of it, in chunks of rows.
//
// The scores of a language model are larger than all else it holds. Every chunk makes its scores, its losses, the gradient of its scores, and from that its
// part of the gradients of both factors at once, so that no more than one chunk's scores exist. That needs the number of labels that count beforehand:
// it depends on the labels alone. The number of chunks depends on shapes alone.
#ifndef DELTA_ONNX_LOSS_CHUNKS_H_
#define DELTA_ONNX_LOSS_CHUNKS_H_

#include "onnx/loss.h"

// What programs are built with.
enum { DELTA_LOSS_CHUNK_BYTES = 64 << 20 };

// Puts the loss in chunks of at most `chunk_bytes` of scores in the place of an attached one, for a program that differentiates its sum or its mean: sets sum, count, mean and heads. Does
// nothing where the loss is another, the scores are not larger than a chunk or no product of rows with one matrix, or the lever is off. What the old loss was made of is dead.
DELTA_MUST_USE delta_status_t delta_loss_split(delta_emit_t *emit, const delta_build_options_t *options, bool of_sum, size_t chunk_bytes,
                                               delta_loss_values_t *values);

#endif // DELTA_ONNX_LOSS_CHUNKS_H_
