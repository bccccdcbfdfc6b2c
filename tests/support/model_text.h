// Model text: makes a loaded model from a few lines, for tests of the import. Lines end with a newline or ';'.
//
//   opset 13
//   input x float32 [N,3]                 dimensions: numbers, symbols or ?; - instead of [..]: no shape
//   init w float32 [3,2] 1 2 3 4 5 6      values of the initializer; too few repeat the last; "absent": in a data file that is missing
//   value h float32 [4,2]                 declares the type of a node's output
//   node MatMul x w -> h                  inputs -> outputs; _ leaves one out; com.example:Op for another domain
//   node Softmax h -> y : axis=1          attributes: integers, reals (with a point), 'strings', [lists] of these, int64[2]{1,2} tensors, graph
//   output y
//
// Nodes are called n0, n1, ... in order, which must be topological.
#ifndef DELTA_TESTS_SUPPORT_MODEL_TEXT_H_
#define DELTA_TESTS_SUPPORT_MODEL_TEXT_H_

#include "onnx/lower/import.h"
#include "onnx/reference/run.h"

// Fails the running test on bad text or when memory is short. The caller frees the model.
delta_model_t *delta_test_model_of(const char *text);

// Imports the model; fails the running test when that is refused, or gives a graph that is not sound. The caller frees the graph.
delta_graph_t *delta_test_import(const delta_model_t *model, const delta_import_options_t *options, delta_import_facts_t *facts);

// Fills the states of a graph imported from `model` with the initializers' values.
void delta_test_fill_states(const delta_model_t *model, delta_reference_values_t *values);

#endif // DELTA_TESTS_SUPPORT_MODEL_TEXT_H_
