// Eager: what PyTorch runs as one operator but exports write as several nodes. For the policy that holds what an eager framework holds, the nodes of
// one such operator get one group, and fusion within groups then makes of them what the framework's kernel does, which keeps nothing in between.
#ifndef DELTA_ONNX_EAGER_H_
#define DELTA_ONNX_EAGER_H_

#include "onnx/graph/graph.h"
#include "onnx/model.h"

// Recognises, in the model that `graph` was imported from, GELU by the error function (x / sqrt(2), Erf, + 1, * x, * 1/2, in the orders exporters write) and
// layer normalization (mean, difference, square, mean, + epsilon, Sqrt, quotient, scale, shift), and renumbers the groups of the graph's nodes.
DELTA_MUST_USE delta_status_t delta_graph_recognise_eager(const delta_model_t *model, delta_graph_t *graph);

#endif // DELTA_ONNX_EAGER_H_
