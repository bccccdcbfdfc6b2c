// Attention match: the parts of one attention found in a graph. Private to onnx/attention*.c.
#ifndef DELTA_ONNX_ATTENTION_MATCH_H_
#define DELTA_ONNX_ATTENTION_MATCH_H_

#include "onnx/graph/readers.h"

enum { DELTA_ATTENTION_MAX_MASKS = 4, DELTA_ATTENTION_MAX_PARTS = 24 };

// What a pointwise node adds to the scores: sum of factor * instruction, each either a value or, with `hides`, 0 where a condition holds and `hiding` elsewhere.
typedef struct delta_attention_term {
  uint16_t instr; // of the node's expression: the value, or the condition
  bool hides;
  bool hides_where_true; // the condition names what is hidden
  double hiding;
  double factor;
} delta_attention_term_t;

typedef struct delta_attention_masking {
  const delta_node_t *node;
  uint32_t scores_input; // the node's input that holds the scores
  delta_attention_term_t terms[DELTA_ATTENTION_MAX_MASKS];
  uint32_t term_count;
} delta_attention_masking_t;

// A tensor seen through a transpose: `source` read by `permutation`.
typedef struct delta_attention_operand {
  delta_tensor_id_t source;
  int32_t permutation[DELTA_MAX_RANK];
  delta_shape_t shape; // as read
  bool stays;          // others read what was looked through last, so what is before it stays too
} delta_attention_operand_t;

typedef struct delta_attention_match {
  delta_attention_operand_t query, key, value; // [.., queries, size], [.., keys, size], [.., keys, value size]
  double scale;
  delta_attention_masking_t maskings[DELTA_ATTENTION_MAX_MASKS]; // from the softmax back to the product
  uint32_t masking_count;
  delta_shape_t scores; // the finest of the shapes that the scores pass through
  bool hidden_rows_zero;
  const delta_node_t *dropout;                          // NULL: none
  const delta_node_t *result;                           // the product with the values
  const delta_node_t *parts[DELTA_ATTENTION_MAX_PARTS]; // all nodes that go, `result` among them
  uint32_t part_count;
} delta_attention_match_t;

// Whether the softmax is that of an attention, and of which.
bool delta_attention_find(const delta_readers_t *readers, const delta_node_t *softmax, delta_attention_match_t *out_match);

#endif // DELTA_ONNX_ATTENTION_MATCH_H_
