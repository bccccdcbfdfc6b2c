// Units: one whole and its parts in the same bytes. Seen from the axis along which a CONCAT or SPLIT works, the whole is a number of lines, each of which has a piece of every
// part; the parts one behind another have the same bytes in another order. Both are sequences of equal units, of which none is cut.
#ifndef DELTA_ONNX_GRAPH_UNITS_H_
#define DELTA_ONNX_GRAPH_UNITS_H_

#include "onnx/graph/graph.h"

// More units than these, or parts of words, are not worth what putting them in order takes.
enum { DELTA_UNITS_MAX = 1 << 10, DELTA_UNITS_WORD_BYTES = 4 };

typedef struct delta_units {
  int64_t lines;      // of the whole; with one line both orders are the same
  int64_t unit_bytes; // the largest that divides every part's piece of a line
  int64_t line_units; // lines * line_units units in all
} delta_units_t;

// Whether a node is a CONCAT or SPLIT with all parts there, none empty, of at most DELTA_UNITS_MAX units of whole words: what a driver should work on in a row (plans/problem.h).
bool delta_units_are_few(const delta_graph_t *graph, const delta_node_t *node);
// Of a node for which that is so.
delta_units_t delta_units_of(const delta_graph_t *graph, const delta_node_t *node);
// sources[i]: which unit of the inputs one behind another is unit i of the outputs one behind another.
void delta_units_sources(const delta_graph_t *graph, const delta_node_t *node, uint32_t *sources);

#endif // DELTA_ONNX_GRAPH_UNITS_H_
