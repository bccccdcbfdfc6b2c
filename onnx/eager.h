// Eager: recognises, in the graph that stands for what an eager framework holds, operators that exporters write as several.
//
// PyTorch runs GELU as one operator and saves its input alone; exporters below opset 20 write it as Div, Erf, Add, Mul, Mul. A layer normalization saves its
// input and two numbers a row; below opset 17 it is written as ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add. Nodes of one recognised operator
// get one group, and fusion within groups makes them one node whose gradient reads only its input. GELU written out in Python (the tanh form of GPT-2) is no operator
// of PyTorch, so its parts stay apart and each saves what it needs, as they do there.
#ifndef DELTA_ONNX_EAGER_H_
#define DELTA_ONNX_EAGER_H_

#include "onnx/graph/graph.h"

// Changes the groups of recognised nodes in place.
DELTA_MUST_USE delta_status_t delta_eager_recognise(delta_graph_t *graph);

#endif // DELTA_ONNX_EAGER_H_
