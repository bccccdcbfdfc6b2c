// Levers: graph transformations worth memory, each a row with a switch. On by default, never depending on the budget.
#ifndef DELTA_ONNX_LEVERS_H_
#define DELTA_ONNX_LEVERS_H_

#include <stdint.h>

#include "base/status.h"

// X(identifier, name, help)
#define DELTA_LEVERS(X)                                                                                                 \
  X(FUSE, "fuse", "chains of pointwise operators run as one, with what they feed into reductions")                      \
  X(LOSS, "loss", "softmax cross entropy as one operator that keeps one number per label")                              \
  X(LOSS_CHUNKS, "loss-chunks", "a large product before the loss runs in chunks of rows, forward and backward at once") \
  X(ACCUMULATE, "accumulate", "products are added to what they are summed with, biases too, as they are made")          \
  X(ATTENTION, "attention", "attention runs as one operator in memory linear in the sequence")                          \
  X(POOL_INDEX, "pool-index", "max-pool keeps one byte per window instead of an int64 index")                           \
  X(DROPOUT, "dropout", "dropout masks are drawn again in the backward pass instead of kept")                           \
  X(INPLACE, "inplace", "outputs take the bytes of inputs that die")                                                    \
  X(CONCAT, "concat", "what is put together is made of the bytes of its parts, and parts of the whole's")               \
  X(LAYOUT, "layout", "tensors of convolutions lie in the order that is fastest")                                       \
  X(EARLY_UPDATE, "early-update", "weights update as soon as their gradient is final")                                  \
  X(UPDATE_GROUPS, "update-groups", "many small weights update at once")

typedef enum delta_lever {
#define DELTA_LEVER_ENUM(id, name, help) DELTA_LEVER_##id,
  DELTA_LEVERS(DELTA_LEVER_ENUM)
#undef DELTA_LEVER_ENUM
      DELTA_LEVER_COUNT
} delta_lever_t;

#define DELTA_LEVERS_ALL ((1u << DELTA_LEVER_COUNT) - 1u)
static inline int delta_lever_is_on(uint32_t levers, delta_lever_t lever) { return (levers >> lever) & 1u; }

#endif // DELTA_ONNX_LEVERS_H_
