// Lowering of training inside a model: optimizer nodes, gradients, and caches that are written to.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "tests/support/op_case.h"
#include "tests/support/support.h"

#define ADAGRAD                                                                                                        \
  "init r float32 [] 0.1; init t int64 [] 1; init x float32 [1] 1; init g float32 [1] 3; init h float32 [1] 16; node " \
  "ai.onnx.preview.training:Adagrad r t x g h -> xn hn : decay_factor=1. epsilon=0.; "
#define ADAM(count, attributes)                                                                     \
  "init r float32 [] 0.1; init t int64 [] " count                                                   \
  "; init x float32 [1] 1; init g float32 [1] 2; init v float32 [1] 0; init h float32 [1] 0; node " \
  "ai.onnx.preview.training:Adam r t x g v h -> xn vn hn : alpha=0.5 beta=0.75 epsilon=0." attributes "; output xn"
#define MOMENTUM(count, mode)                                                 \
  "init r float32 [] 0.1; init t int64 [] " count                             \
  "; init x float32 [1] 1; init g float32 [1] 3; init v float32 [1] 2; node " \
  "ai.onnx.preview.training:Momentum r t x g v -> xn vn : alpha=0.5 beta=0.1 norm_coefficient=0. mode='" mode "'; output xn"
#define GRADIENT(attributes) "node ai.onnx.preview.training:Gradient a b -> ga gb : " attributes "; "
#define CACHE                "opset 24; init p float32 [1,3,1] 1 2 3; init u float32 [1,2,1] 7 8; "

static const delta_test_op_case_t op_cases[] = {
    {"Adagrad", ADAGRAD "output xn", "float32 [1] 0.97"},
    {"Adagrad's squares", ADAGRAD "output hn", "float32 [1] 25"},
    {"Adagrad of two tensors",
     "init r float32 [1] 1; init t int64 [1] 0; init x float32 [1] 1; init y float32 [2] 5; init g float32 [1] 3; init q float32 [2] 1; "
     "init h "
     "float32 [1] 16; init k float32 [2] 0; node ai.onnx.preview.training:Adagrad r t x y g q h k -> xn yn hn kn : epsilon=0.; output yn",
     "float32 [2] 4 4"},
    {"the norm's part of a gradient",
     "init r float32 [] 0.1; init t int64 [] 0; init x float32 [1] 1; init g float32 [1] 1; init h float32 [1] 16; node "
     "ai.onnx.preview.training:Adagrad r t x g h -> xn hn : norm_coefficient=2.; output hn",
     "float32 [1] 25"},
    {"Adam's first update", ADAM("0", ""), "float32 [1] 0.9"},
    {"Adam's third update", ADAM("2", ""), "float32 [1] 0.91180829"},
    {"Adam with shrinking afterwards", ADAM("1", " norm_coefficient_post=0.5"), "float32 [1] 0.45"},
    {"momentum's first update", MOMENTUM("0", "standard"), "float32 [1] 0.6"},
    {"momentum's second update", MOMENTUM("1", "standard"), "float32 [1] 0.87"},
    {"Nesterov momentum", MOMENTUM("0", "nesterov"), "float32 [1] 0.5"},
    {"momentum of an unknown mode", MOMENTUM("0", "heavy"), "error: heavy"},
    {"an optimizer with a tensor too many",
     "init r float32 [] 0.1; init t int64 [] 1; init x float32 [1] 1; node ai.onnx.preview.training:Adagrad r t x x x x -> xn hn; output "
     "xn",
     "error: 6 inputs and 2 outputs"},
    {"an optimizer with tensors of two shapes",
     "init r float32 [] 0.1; init t int64 [] 1; init x float32 [1] 1; init g float32 [2] 1; node ai.onnx.preview.training:Adagrad r t x g "
     "x -> "
     "xn hn; output xn",
     "error: input 3 is float32 [2]"},
    {"an optimizer with two rates",
     "init r float32 [2] 0.1; init t int64 [] 1; init x float32 [1] 1; node ai.onnx.preview.training:Adagrad r t x x x -> xn hn; output xn",
     "error: the learning rate (input 0) has 2 elements"},
    {"a gradient",
     "init a float32 [2] 3 4; init b float32 [2] 5 6; node Add a b -> c; node Mul c a -> d; " GRADIENT("xs=['a','b'] y='d'") "output ga",
     "float32 [2] 11 14"},
    {"a gradient's second part",
     "init a float32 [2] 3 4; init b float32 [2] 5 6; node Add a b -> c; node Mul c a -> d; " GRADIENT("xs=['a','b'] y='d'") "output gb",
     "float32 [2] 3 4"},
    {"a gradient by what leads nowhere",
     "init a float32 [2] 3 4; init b float32 [3] 5; node Mul a a -> d; " GRADIENT("xs=['a','b'] y='d'") "output gb", "float32 [3] 0"},
    {"a gradient of a gradient",
     "init a float32 [1] 3; node Mul a a -> c; node Mul c a -> d; node ai.onnx.preview.training:Gradient a -> g : xs=['a'] y='d'; node "
     "ai.onnx.preview.training:Gradient a -> gg : xs=['a'] y='g'; output gg",
     "float32 [1] 18"},
    {"a gradient of nothing", "init a float32 [2] 3; init b float32 [2] 5; " GRADIENT("xs=['a','b'] y='d'") "output ga",
     "error: y is 'd', which no node before this one makes"},
    {"a gradient at another place", "init a float32 [2] 3; init b float32 [2] 5; " GRADIENT("xs=['b','a'] y='a'") "output ga",
     "error: xs names 'b', but another value is given"},
    {"a gradient by a constant", "init a float32 [] 3; init b float32 [2] 5; " GRADIENT("xs=['a','b'] y='b'") "output ga",
     "error: xs names 'a', which is a constant"},
    {"a gradient of integers", "input i int64 [2]; init a float32 [2] 3; init b float32 [2] 5; " GRADIENT("xs=['a','b'] y='i'") "output ga",
     "error: of a float type"},
    {"a cache's first slots", CACHE "node TensorScatter p u -> y; output y", "float32 [1,3,1] 7 8 3"},
    {"a cache's last slots", CACHE "init w int64 [1] 1; node TensorScatter p u w -> y; output y", "float32 [1,3,1] 1 7 8"},
    {"a circular cache", CACHE "init w int64 [1] 2; node TensorScatter p u w -> y : mode='circular'; output y", "float32 [1,3,1] 8 2 7"},
    {"a cache of two samples",
     "opset 24; init p float32 [2,3] 1; init u float32 [2,1] 7 8; init w int64 [2] 0 2; node TensorScatter p u w -> y : axis=1; output y",
     "float32 [2,3] 7 1 1 1 1 8"},
    {"a cache that is written by sample", CACHE "node TensorScatter p u -> y : axis=0; output y", "error: the axis must not be the batch"},
    {"a cache that is too small", "opset 24; init p float32 [1,1,1] 1; init u float32 [1,2,1] 7; node TensorScatter p u -> y; output y",
     "error: an update of shape"},
};

// Case parameters live in the parent's memory; they are passed by index.
ParameterizedTestParameters(import_training, operators) {
  const size_t count = sizeof op_cases / sizeof op_cases[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, import_training, operators) { delta_test_expect_op(&op_cases[*index]); }
