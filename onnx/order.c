// Depth-first sort with a stack of its own, so that a long chain in reversed order costs heap, not stack.
#include "onnx/order.h"

typedef enum mark { WAITING, OPEN, PLACED } mark_t;

// A node whose producers are being placed.
typedef struct frame {
  uint32_t node;
  uint32_t next; // index into producers
} frame_t;

// Places everything that `root` needs, then `root`. Returns false when a node needs itself: then the stack holds the cycle, from *out_begin on.
static bool place(const delta_order_edges_t *edges, uint32_t root, uint8_t *marks, frame_t *stack, uint32_t *order, uint32_t *placed,
                  uint32_t *out_begin, uint32_t *out_depth) {
  uint32_t depth = 0;
  stack[depth++] = (frame_t){root, edges->begins[root]};
  marks[root] = OPEN;
  while (depth > 0) {
    frame_t *top = &stack[depth - 1];
    if (top->next == edges->begins[top->node + 1]) {
      marks[top->node] = PLACED;
      order[(*placed)++] = top->node;
      --depth;
      continue;
    }
    uint32_t producer = edges->producers[top->next++];
    if (producer == DELTA_ORDER_NONE || marks[producer] == PLACED) continue;
    if (marks[producer] == OPEN) {
      *out_depth = depth;
      for (*out_begin = 0; stack[*out_begin].node != producer;) ++*out_begin;
      return false;
    }
    marks[producer] = OPEN;
    stack[depth++] = (frame_t){producer, edges->begins[producer]};
  }
  return true;
}

delta_status_t delta_order_sort(const delta_order_edges_t *edges, delta_allocator_t allocator, uint32_t *out_order,
                                uint32_t *out_cycle_count) {
  uint8_t *marks = NULL;
  frame_t *stack = NULL;
  uint32_t placed = 0;
  delta_status_t status = DELTA_OK;
  *out_cycle_count = 0;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, edges->node_count, &marks), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, edges->node_count, &stack), cleanup);
  for (uint32_t node = 0; node < edges->node_count; ++node) {
    uint32_t begin = 0, depth = 0;
    if (marks[node] == PLACED || place(edges, node, marks, stack, out_order, &placed, &begin, &depth)) continue;
    *out_cycle_count = depth - begin;
    // The stack goes from consumer to producer.
    for (uint32_t i = 0; i < depth - begin; ++i) out_order[i] = stack[depth - 1 - i].node;
    break;
  }

cleanup:
  delta_release(allocator, marks);
  delta_release(allocator, stack);
  return status;
}
