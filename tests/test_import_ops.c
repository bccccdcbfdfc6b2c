// Lowering of the basic operators: values, shapes and errors of one node each, for the opsets where their meaning changed.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/model_text.h"

// `expected` is a tensor ("float32 [2] 1 2") that the first output must equal, or "error: " and a part of the message.
typedef struct op_case {
  const char *name;
  const char *model;
  const char *expected;
} op_case_t;

#define X6  "init x float32 [2,3] -2 -1 0 1 2 3;"
#define X24 "init x float32 [2,3,4] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23;"

static const op_case_t op_cases[] = {
    // Pointwise.
    {"relu", X6 "node Relu x -> y; output y", "float32 [2,3] 0 0 0 1 2 3"},
    {"abs of integers", "input x int32 [2]; node Abs x -> y; output y", "int32 [2] 0 0"},
    {"exp of integers", "input x int32 [2]; node Exp x -> y; output y", "error: of a float type"},
    {"add broadcasts", X6 "init b float32 [3] 10 20 30; node Add x b -> y; output y", "float32 [2,3] 8 19 30 11 22 33"},
    {"add of two types", X6 "input b int64 [3]; node Add x b -> y; output y", "error: must have one type"},
    {"add that does not broadcast", X6 "init b float32 [2] 1 2; node Add x b -> y; output y", "error: broadcast"},
    {"comparison gives bool", X6 "init b float32 [1] 0; node Greater x b -> y; output y", "bool [2,3] 0 0 0 1 1 1"},
    {"logic takes bool", X6 "node Not x -> y; output y", "error: must be bool"},
    {"not", "init x bool [2] 0 1; node Not x -> y; output y", "bool [2] 1 0"},
    {"integer division by zero", "input x int64 [2]; init z int64 [2] 1 0; node Div x z -> y; output y", "error: divisor contains 0"},
    {"integer division truncates", "init x int64 [2] -7 7; init z int64 [] 2; node Div x z -> y; output y", "int64 [2] -3 3"},
    {"mod has the divisor's sign", "init x int64 [2] -7 7; init z int64 [2] 3 -3; node Mod x z -> y; output y", "int64 [2] 2 -2"},
    {"fmod has the dividend's sign", "init x int64 [2] -7 7; init z int64 [2] 3 -3; node Mod x z -> y : fmod=1; output y",
     "int64 [2] -1 1"},
    {"mod of reals", X6 "node Mod x x -> y; output y", "error: fmod"},
    {"sum of three", X6 "init b float32 [1] 1; node Sum x b b -> y; output y", "float32 [2,3] 0 1 2 3 4 5"},
    {"sum of one is an alias", X6 "node Sum x -> y; output y", "float32 [2,3] -2 -1 0 1 2 3"},
    {"sum of many", "init b float32 [1] 1; node Sum b b b b b b b b b b b b b b b b b b b b -> y; output y", "float32 [1] 20"},
    {"mean of many", "init a float32 [1] 3; init b float32 [1] 1; node Mean a a a a a a a a a a b b b b b b b b b b -> y; output y",
     "float32 [1] 2"},
    {"max of integers", "init a int64 [2] 1 5; init b int64 [2] 3 2; node Max a b -> y; output y", "int64 [2] 3 5"},
    {"pow 2", X6 "init e float32 [] 2; node Pow x e -> y; output y", "float32 [2,3] 4 1 0 1 4 9"},
    {"pow with an integer exponent", X6 "init e int64 [] 3; node Pow x e -> y; output y", "float32 [2,3] -8 -1 0 1 8 27"},
    {"pow of an integer", "init x int32 [2] 2 3; init e float32 [] 2.5; node Pow x e -> y; output y", "int32 [2] 5 15"},
    {"where", X6 "init c bool [3] 1 0 1; init z float32 [1] 9; node Where c x z -> y; output y", "float32 [2,3] -2 9 0 1 9 3"},
    {"where without bool", X6 "node Where x x x -> y; output y", "error: condition"},
    {"clip by attributes", "opset 10;" X6 "node Clip x -> y : min=-1.0 max=2.0; output y", "float32 [2,3] -1 -1 0 1 2 2"},
    {"clip by inputs", "opset 11;" X6 "init h float32 [] 1; node Clip x _ h -> y; output y", "float32 [2,3] -2 -1 0 1 1 1"},
    {"clip by an attribute of older opsets", X6 "node Clip x -> y : max=1.0; output y", "float32 [2,3] -2 -1 0 1 1 1"},
    {"clip with crossed bounds", X6 "init l float32 [] 2; init h float32 [] 1; node Clip x l h -> y; output y", "float32 [2,3] 1"},
    {"cast truncates", "init x float32 [3] -1.7 1.7 1e30; node Cast x -> y : to=6; output y", "int32 [3] -1 1 2147483647"},
    {"cast to a string", X6 "node Cast x -> y : to=8; output y", "error: 'to' is 8"},
    {"is inf, one side", "init x float32 [3] -inf inf 0; node IsInf x -> y : detect_negative=0; output y", "bool [3] 0 1 0"},
    {"is nan", "init x float32 [2] nan 0; node IsNaN x -> y; output y", "bool [2] 1 0"},
    {"leaky relu", X6 "node LeakyRelu x -> y : alpha=0.5; output y", "float32 [2,3] -1 -0.5 0 1 2 3"},
    {"elu", "init x float32 [3] -1 0 200; node Elu x -> y; output y", "float32 [3] -0.63212056 0 200"},
    {"celu", "init x float32 [3] -1 0 2; node Celu x -> y : alpha=2.0; output y", "float32 [3] -0.78693868 0 2"},
    {"selu", "init x float32 [2] -1 1; node Selu x -> y; output y", "float32 [2] -1.1113307 1.050701"},
    {"hard sigmoid", "init x float32 [3] -3 1 3; node HardSigmoid x -> y; output y", "float32 [3] 0 0.7 1"},
    {"hard swish", "opset 14; init x float32 [3] -4 1 4; node HardSwish x -> y; output y", "float32 [3] 0 0.6666667 4"},
    {"softplus", "init x float32 [3] -100 0 100; node Softplus x -> y; output y", "float32 [3] 0 0.6931472 100"},
    {"mish", "opset 18; init x float32 [1] 1; node Mish x -> y; output y", "float32 [1] 0.86509836"},
    {"swish", "opset 24; init x float32 [1] 1; node Swish x -> y : alpha=2.0; output y", "float32 [1] 0.880797"},
    {"shrink", X6 "node Shrink x -> y : lambd=1.5 bias=1.0; output y", "float32 [2,3] -1 0 0 0 1 2"},
    {"thresholded relu", X6 "node ThresholdedRelu x -> y; output y", "float32 [2,3] 0 0 0 0 2 3"},
    {"gelu", "opset 20; init x float32 [1] 1; node Gelu x -> y; output y", "float32 [1] 0.8413447"},
    {"gelu by tanh", "opset 20; init x float32 [1] 1; node Gelu x -> y : approximate='tanh'; output y", "float32 [1] 0.841192"},
    {"gelu by guess", "opset 20; init x float32 [1] 1; node Gelu x -> y : approximate='guess'; output y", "error: 'none', 'tanh'"},
    {"gelu before its opset", "opset 19; init x float32 [1] 1; node Gelu x -> y; output y", "error: supported from opset 20"},
    {"layer normalization before its opset",
     "opset 14; init x float32 [1,2] 1 3; init s float32 [2] 1; node LayerNormalization x s -> y : epsilon=0.0; output y",
     "float32 [1,2] -1 1"},
    {"prelu", X6 "init s float32 [3] 2; node PRelu x s -> y; output y", "float32 [2,3] -4 -2 0 1 2 3"},
    {"prelu with too large a slope", "init x float32 [3] 1; init s float32 [2,3] 2; node PRelu x s -> y; output y", "error: slope"},

    // Shapes.
    {"flatten", X24 "node Flatten x -> y : axis=2; output y",
     "float32 [6,4] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
    {"flatten at the end", X6 "node Flatten x -> y : axis=2; output y", "float32 [6,1] -2 -1 0 1 2 3"},
    {"flatten outside", X6 "node Flatten x -> y : axis=3; output y", "error: 'axis' is 3"},
    {"reshape", X6 "init s int64 [3] 0 -1 1; node Reshape x s -> y; output y", "float32 [2,3,1] -2 -1 0 1 2 3"},
    {"reshape to another count", X6 "init s int64 [2] 4 2; node Reshape x s -> y; output y", "error: number of elements"},
    {"reshape with two unknowns", X6 "init s int64 [2] -1 -1; node Reshape x s -> y; output y", "error: has -1 at dimension 1"},
    {"reshape of an empty batch", "input x float32 [0,3,2]; init s int64 [2] 0 -1; node Reshape x s -> y; output y", "float32 [0,6]"},
    {"reshape with zeros allowed", "opset 14; input x float32 [0,3]; init s int64 [2] 3 0; node Reshape x s -> y : allowzero=1; output y",
     "float32 [3,0]"},
    {"reshape that depends on data", X6 "input s int64 [2]; node Reshape x s -> y; output y", "error: depends on data"},
    {"squeeze by attribute", "opset 12; init x float32 [1,2,1] 1 2; node Squeeze x -> y : axes=[0]; output y", "float32 [2,1] 1 2"},
    {"squeeze by input", "init x float32 [1,2,1] 1 2; init a int64 [1] -1; node Squeeze x a -> y; output y", "float32 [1,2] 1 2"},
    {"squeeze all", "init x float32 [1,2,1] 1 2; node Squeeze x -> y; output y", "float32 [2] 1 2"},
    {"squeeze of 2", "init x float32 [1,2,1] 1 2; init a int64 [1] 1; node Squeeze x a -> y; output y", "error: dimension 1 is 2"},
    {"unsqueeze", "init x float32 [2] 1 2; init a int64 [2] 0 -1; node Unsqueeze x a -> y; output y", "float32 [1,2,1] 1 2"},
    {"unsqueeze twice", "init x float32 [2] 1 2; init a int64 [2] 0 -3; node Unsqueeze x a -> y; output y", "error: given twice"},
    {"shape", "opset 15; input x float32 [4,5,6]; node Shape x -> y : start=-2 end=100; output y", "int64 [2] 5 6"},
    {"size", "input x float32 [4,5]; node Size x -> y; output y", "int64 [] 20"},
    {"constant of ints", "node Constant -> y : value_ints=[3,4]; output y", "int64 [2] 3 4"},
    {"constant of a real", "node Constant -> y : value_float=1.5; output y", "float32 [] 1.5"},
    {"constant of a tensor", "node Constant -> y : value=bool[2]{1,0}; output y", "bool [2] 1 0"},
    {"constant of a string", "node Constant -> y : value_string='a'; output y", "error: value_string"},
    {"constant of nothing", "node Constant -> y; output y", "error: 'value'"},
    {"constant of shape", "init s int64 [2] 2 2; node ConstantOfShape s -> y : value=int32[1]{7}; output y", "int32 [2,2] 7"},
    {"constant of shape, negative", "init s int64 [1] -1; node ConstantOfShape s -> y; output y", "error: n0"},
    {"expand", "init x float32 [2,1] 1 2; init s int64 [2] 1 3; node Expand x s -> y; output y", "float32 [2,3] 1 1 1 2 2 2"},
    {"expand to what does not fit", X6 "init s int64 [2] 2 2; node Expand x s -> y; output y", "error: cannot be expanded"},

    // Movement.
    {"transpose", X6 "node Transpose x -> y; output y", "float32 [3,2] -2 1 -1 2 0 3"},
    {"transpose by no permutation", X6 "node Transpose x -> y : perm=[0,0]; output y", "error: no permutation"},
    {"concat", X6 "node Concat x x -> y : axis=-2; output y", "float32 [4,3] -2 -1 0 1 2 3 -2 -1 0 1 2 3"},
    {"concat without axis", X6 "node Concat x x -> y; output y", "error: 'axis' is required"},
    {"split by attribute", "opset 11;" X6 "node Split x -> a y : axis=1 split=[1,2]; output y", "float32 [2,2] -1 0 2 3"},
    {"split by input", X6 "init s int64 [2] 2 1; node Split x s -> a y : axis=1; output y", "float32 [2,1] 0 3"},
    {"split evenly", X6 "node Split x -> a y; output y", "float32 [1,3] 1 2 3"},
    {"split unevenly", "opset 18;" X6 "node Split x -> a y : axis=1 num_outputs=2; output y", "float32 [2,1] 0 3"},
    {"split unevenly before 18", X6 "node Split x -> a y : axis=1; output y", "error: equal parts"},
    {"split of another sum", X6 "init s int64 [2] 2 2; node Split x s -> a y : axis=1; output y", "error: sum to 3"},
    {"slice by attributes", "opset 9;" X6 "node Slice x -> y : starts=[1] ends=[100] axes=[1]; output y", "float32 [2,2] -1 0 2 3"},
    {"slice backwards",
     X6 "init b int64 [1] 9223372036854775807; init e int64 [1] -9223372036854775808; init a int64 [1] 1; init s int64 [1] -2; node Slice "
        "x b e a s -> y; output y",
     "float32 [2,2] 0 -2 3 1"},
    {"slice of nothing", X6 "init b int64 [1] 2; init e int64 [1] 1; init a int64 [1] 1; node Slice x b e a -> y; output y",
     "float32 [2,0]"},
    {"slice without starts", X6 "node Slice x -> y; output y", "error: starts are required"},
    {"slice by step 0",
     X6 "init b int64 [1] 0; init e int64 [1] 1; init a int64 [1] 0; init s int64 [1] 0; node Slice x b e a s -> y; output y",
     "error: step of axis 0 is 0"},
    {"pad by attributes", "opset 10; init x float32 [1,2] 1 2; node Pad x -> y : pads=[0,1,0,2] value=9.0; output y",
     "float32 [1,5] 9 1 2 9 9"},
    {"pad by inputs", "init x float32 [1,2] 1 2; init p int64 [4] 0 1 1 0; init v float32 [] 9; node Pad x p v -> y; output y",
     "float32 [2,3] 9 1 2 9 9 9"},
    {"pad by axes",
     "opset 18; init x float32 [1,2] 1 2; init p int64 [2] 1 0; init a int64 [1] -1; node Pad x p _ a -> y : mode='edge'; output y",
     "float32 [1,3] 1 1 2"},
    {"pad cuts", "init x float32 [1,3] 1 2 3; init p int64 [4] 0 -1 0 0; node Pad x p -> y; output y", "float32 [1,2] 2 3"},
    {"pad cuts too much", "init x float32 [1,3] 1 2 3; init p int64 [4] 0 -2 0 -2; node Pad x p -> y; output y", "error: no valid size"},
    {"gather", X6 "init i int64 [2] -1 0; node Gather x i -> y : axis=1; output y", "float32 [2,2] 0 -2 3 1"},
    {"gather outside", X6 "init i int64 [1] 3; node Gather x i -> y : axis=1; output y", "error: index 3"},
    {"tile", "init x float32 [1,2] 1 2; init r int64 [2] 2 2; node Tile x r -> y; output y", "float32 [2,4] 1 2 1 2 1 2 1 2"},
    {"tile of the middle", "init x float32 [2,1,2] 1 2 3 4; init r int64 [3] 1 2 1; node Tile x r -> y; output y",
     "float32 [2,2,2] 1 2 1 2 3 4 3 4"},
    {"tile nothing", X6 "init r int64 [2] 1 1; node Tile x r -> y; output y", "float32 [2,3] -2 -1 0 1 2 3"},
    {"tile away", X6 "init r int64 [2] 1 0; node Tile x r -> y; output y", "float32 [2,0]"},

    // Products.
    {"gemm", X6 "init b float32 [2,3] 1; init c float32 [2] 10 20; node Gemm x b c -> y : transB=1 alpha=2.0 beta=0.5; output y",
     "float32 [2,2] -1 4 17 22"},
    {"gemm, bias that does not fit", X6 "init b float32 [2,3] 1; init c float32 [3] 1; node Gemm x b c -> y : transB=1; output y",
     "error: input 2"},
    {"gemm of a vector", "init x float32 [3] 1; init b float32 [3,2] 1; node Gemm x b -> y; output y", "error: must be matrices"},
    {"matmul", X6 "init b float32 [3,1] 1 2 3; node MatMul x b -> y; output y", "float32 [2,1] -4 14"},
    {"matmul of vectors", "init a float32 [3] 1 2 3; node MatMul a a -> y; output y", "float32 [] 14"},
    {"matmul row", "init a float32 [2] 1 2; init b float32 [2,2,3] 1 1 1 2 2 2 3; node MatMul a b -> y; output y",
     "float32 [2,3] 5 5 5 9 9 9"},
    {"matmul column", "init a float32 [2] 1 2; init b float32 [2,3,2] 1 1 1 2 2 2 3; node MatMul b a -> y; output y",
     "float32 [2,3] 3 5 6 9 9 9"},
    {"matmul of many rows", X24 "init b float32 [4,1] 1; node MatMul x b -> y; output y", "float32 [2,3,1] 6 22 38 54 70 86"},
    {"matmul of integers", "init a int32 [1,2] 3 4; init b int32 [2,1] 5 6; node MatMul a b -> y; output y", "int32 [1,1] 39"},
    {"matmul of a scalar", "init a float32 [] 3; init b float32 [2,1] 5 6; node MatMul a b -> y; output y", "error: scalar"},

    // Reductions.
    {"reduce sum by attribute", "opset 12;" X6 "node ReduceSum x -> y : axes=[1]; output y", "float32 [2,1] -3 6"},
    {"reduce sum by input", X6 "init a int64 [1] -2; node ReduceSum x a -> y : keepdims=0; output y", "float32 [3] -1 1 3"},
    {"reduce all", X6 "node ReduceSum x -> y : keepdims=0; output y", "float32 [] 3"},
    {"reduce nothing", X6 "init a int64 [0]; node ReduceSum x a -> y : noop_with_empty_axes=1; output y", "float32 [2,3] -2 -1 0 1 2 3"},
    {"reduce L1 of nothing", "opset 18;" X6 "node ReduceL1 x -> y : noop_with_empty_axes=1; output y", "float32 [2,3] 2 1 0 1 2 3"},
    {"reduce mean", "opset 18;" X6 "init a int64 [1] 1; node ReduceMean x a -> y; output y", "float32 [2,1] -1 2"},
    {"reduce L2", X6 "node ReduceL2 x -> y : axes=[1]; output y", "float32 [2,1] 2.236068 3.7416575"},
    {"reduce log sum", "init x float32 [2] 1 1; node ReduceLogSum x -> y; output y", "float32 [1] 0.6931472"},
    {"reduce log sum exp of large numbers", "init x float32 [2] 1000 1000; node ReduceLogSumExp x -> y; output y", "float32 [1] 1000.6931"},
    {"reduce log sum exp of -inf", "init x float32 [2] -inf -inf; node ReduceLogSumExp x -> y; output y", "float32 [1] -inf"},
    {"reduce sum of squares", X6 "node ReduceSumSquare x -> y : axes=[0]; output y", "float32 [1,3] 5 5 9"},
    {"reduce product", X6 "node ReduceProd x -> y : axes=[1]; output y", "float32 [2,1] 0 6"},
    {"reduce twice", X6 "node ReduceMax x -> y : axes=[1,-1]; output y", "error: given twice"},
    {"reduce an axis that is not there", X6 "node ReduceMax x -> y : axes=[2]; output y", "error: an axis is 2"},

    // Softmax.
    {"softmax of the last axis", "init x float32 [2,1,2] 0; node Softmax x -> y; output y", "float32 [2,1,2] 0.5"},
    {"softmax flattens before 13", "opset 11; init x float32 [1,2,2] 0; node Softmax x -> y; output y", "float32 [1,2,2] 0.25"},
    {"log softmax", "init x float32 [1,2] 0; node LogSoftmax x -> y : axis=1; output y", "float32 [1,2] -0.6931472"},
    {"hardmax", X6 "node Hardmax x -> y : axis=0; output y", "float32 [2,3] 0 0 0 1 1 1"},
    {"hardmax takes the first", "init x float32 [1,3] 2 2 1; node Hardmax x -> y; output y", "float32 [1,3] 1 0 0"},

    // Windows.
    {"conv", "init x float32 [1,1,3] 1 2 3; init w float32 [1,1,2] 1 10; node Conv x w -> y : pads=[1,0]; output y",
     "float32 [1,1,3] 10 21 32"},
    {"conv, same lower", "init x float32 [1,1,3] 1 2 3; init w float32 [1,1,2] 1 10; node Conv x w -> y : auto_pad='SAME_LOWER'; output y",
     "float32 [1,1,3] 10 21 32"},
    {"conv, same upper", "init x float32 [1,1,3] 1 2 3; init w float32 [1,1,2] 1 10; node Conv x w -> y : auto_pad='SAME_UPPER'; output y",
     "float32 [1,1,3] 21 32 3"},
    {"conv, valid", "init x float32 [1,1,3] 1 2 3; init w float32 [1,1,2] 1 10; node Conv x w -> y : auto_pad='VALID' pads=[0,0]; output y",
     "float32 [1,1,2] 21 32"},
    {"conv with a bias and groups",
     "init x float32 [1,2,1] 1 2; init w float32 [2,1,1] 3 4; init b float32 [2] 1 2; node Conv x w b -> y : group=2; output y",
     "float32 [1,2,1] 4 10"},
    {"conv in four dimensions", "input x float32 [1,1,2,2,2,2]; init w float32 [1,1,1,1,1,1] 1; node Conv x w -> y; output y",
     "error: rank 6"},
    {"conv with stride 0", "input x float32 [1,1,3]; init w float32 [1,1,2] 1; node Conv x w -> y : strides=[0]; output y",
     "error: 'strides' has 0"},
    {"conv with a huge dilation",
     "input x float32 [1,1,3]; init w float32 [1,1,2] 1; node Conv x w -> y : dilations=[9223372036854775807]; output y", "error: n0"},
    {"conv with strides as a string", "input x float32 [1,1,3]; init w float32 [1,1,2] 1; node Conv x w -> y : strides='2'; output y",
     "error: 'strides' is a string"},
    {"max pool", "init x float32 [1,1,4] 1 4 2 3; node MaxPool x -> y : kernel_shape=[2]; output y", "float32 [1,1,3] 4 4 3"},
    {"max pool, ceil", "init x float32 [1,1,4] 1 4 2 5; node MaxPool x -> y : kernel_shape=[3] strides=[2] ceil_mode=1; output y",
     "float32 [1,1,2] 4 5"},
    {"max pool, ceil ends in the data",
     "init x float32 [1,1,2] 1 4; node MaxPool x -> y : kernel_shape=[1] strides=[2] ceil_mode=1; output y", "float32 [1,1,1] 1"},
    {"max pool indices", "init x float32 [1,2,2] 1 4 2 5; node MaxPool x -> v y : kernel_shape=[2]; output y", "int64 [1,2,1] 1 3"},
    {"max pool indices, column-major",
     "init x float32 [1,1,2,2] 1 4 2 3; node MaxPool x -> v y : kernel_shape=[2,2] storage_order=1; output y", "int64 [1,1,1,1] 2"},
    {"max pool without a kernel", "input x float32 [1,1,4]; node MaxPool x -> y; output y", "error: 'kernel_shape' is required"},
    {"max pool of padding", "input x float32 [1,1,4]; node MaxPool x -> y : kernel_shape=[2] pads=[2,0]; output y", "error: a pad of 2"},
    {"average pool", "init x float32 [1,1,2] 2 4; node AveragePool x -> y : kernel_shape=[2] pads=[1,0]; output y", "float32 [1,1,2] 2 3"},
    {"average pool with padding",
     "init x float32 [1,1,2] 2 4; node AveragePool x -> y : kernel_shape=[2] pads=[1,0] count_include_pad=1; output y",
     "float32 [1,1,2] 1 3"},
    {"global average pool", X24 "node GlobalAveragePool x -> y; output y", "float32 [2,3,1] 1.5 5.5 9.5 13.5 17.5 21.5"},
    {"global max pool", X24 "node GlobalMaxPool x -> y; output y", "float32 [2,3,1] 3 7 11 15 19 23"},

    // Losses.
    {"cross entropy, mean", "init x float32 [2,2] 0; init t int64 [2] 0 1; node SoftmaxCrossEntropyLoss x t -> y; output y",
     "float32 [] 0.6931472"},
    {"cross entropy, sum",
     "init x float32 [2,2] 0; init t int64 [2] 0 1; node SoftmaxCrossEntropyLoss x t -> y : reduction='sum'; output y",
     "float32 [] 1.3862944"},
    {"cross entropy, none, ignored",
     "init x float32 [2,2] 0; init t int64 [2] 0 1; node SoftmaxCrossEntropyLoss x t -> y : reduction='none' ignore_index=1; output y",
     "float32 [2] 0.6931472 0"},
    {"cross entropy, mean of what is not ignored",
     "init x float32 [2,2] 0 0 5 0; init t int64 [2] 0 1; node SoftmaxCrossEntropyLoss x t -> y : ignore_index=1; output y",
     "float32 [] 0.6931472"},
    {"cross entropy with weights",
     "init x float32 [2,2] 0 0 1 1; init t int64 [2] 0 1; init w float32 [2] 1 3; node SoftmaxCrossEntropyLoss x t w -> y; output y",
     "float32 [] 0.6931472"},
    {"cross entropy's log probabilities", "init x float32 [1,2] 0; init t int64 [1] 0; node SoftmaxCrossEntropyLoss x t -> l y; output y",
     "float32 [1,2] -0.6931472"},
    {"cross entropy, labels of another shape",
     "init x float32 [2,2] 0; init t int64 [3] 0; node SoftmaxCrossEntropyLoss x t -> y; output y", "error: labels"},
    {"nll", "init x float32 [2,2] -1 -2 -3 -4; init t int64 [2] 1 0; node NegativeLogLikelihoodLoss x t -> y; output y", "float32 [] 2.5"},
    {"nll by another reduction",
     "init x float32 [2,2] 0; init t int64 [2] 0; node NegativeLogLikelihoodLoss x t -> y : reduction='max'; output y",
     "error: 'sum', 'mean'"},

    // Dropout as a file says it.
    {"dropout before 12", "opset 10;" X6 "node Dropout x -> y; output y", "float32 [2,3] -2 -1 0 1 2 3"},
    {"dropout's mask before 10", "opset 7;" X6 "node Dropout x -> a y; output y", "float32 [2,3] 1"},
    {"dropout's mask", X6 "node Dropout x -> a y; output y", "bool [2,3] 1"},
    {"dropout of everything", X6 "init r float32 [] 1; init t bool [] 1; node Dropout x r t -> y; output y", "float32 [2,3] 0"},
    {"dropout of too much", X6 "init r float32 [] 1.5; node Dropout x r -> y; output y", "error: ratio is 1.5"},
    {"dropout by data", X6 "init r float32 [] 0.5; input t bool []; node Dropout x r t -> y; output y", "error: depends on data"},

    // Folding, aliases, outputs.
    {"shape arithmetic folds",
     "input x float32 [4,6]; node Shape x -> s; init i int64 [] 1; node Gather s i -> n; init two int64 [] 2; node Div n two -> h; init a "
     "int64 [1] 0; "
     "node Unsqueeze h a -> u; init m int64 [1] -1; node Concat m u -> t : axis=0; node Reshape x t -> y; output y",
     "float32 [8,3] 0"},
    {"an initializer as output", X6 "output x", "float32 [2,3] -2 -1 0 1 2 3"},
    {"an input as output", "input x float32 [2]; output x", "float32 [2] 0"},
    {"identities of an initializer", X6 "node Identity x -> a; node Identity a -> y; output y", "float32 [2,3] -2 -1 0 1 2 3"},
    {"embedding of a parameter", "init w float32 [3,2] 1 2 3 4 5 6; input i int64 [2]; node Gather w i -> y; output y",
     "float32 [2,2] 1 2 1 2"},
    {"a node that nobody needs", X6 "node Relu x -> y; node NonZero x -> z; output y", "float32 [2,3] 0 0 0 1 2 3"},
    {"a declared shape that contradicts", "input x float32 [2,3]; value y float32 [2,4]; node Relu x -> y; output y",
     "error: declares [2, 4]"},
    {"a declared type that contradicts", "input x float32 [2,3]; value y int64 [2,3]; node Relu x -> y; output y", "error: declares int64"},
    {"all that is not supported",
     X6 "node Foo x -> a; node If a -> b : then_branch=graph; node com.example:Relu b -> c; node Foo c -> y; output y",
     "error: Foo x2 (node 'n0', 'n3'); If x1 (node 'n1'; has sub-graphs); com.example.Relu x1"},
    {"one input too many", X6 "node Relu x x -> y; output y", "error: has 2 inputs"},
    {"an input left out", X6 "node Add _ x -> y; output y", "error: input 0 is required"},
    {"one output too many", X6 "node Relu x -> y z; output y", "error: has 2 outputs"},
};

// Case parameters live in the parent's memory; they are passed by index.
ParameterizedTestParameters(import_ops, lowering_of) {
  const size_t count = sizeof op_cases / sizeof op_cases[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

static void expect_tensor(const op_case_t *c, const delta_graph_t *graph, const delta_reference_values_t *values) {
  char text[512];
  (void)snprintf(text, sizeof text, "init expected %s", c->expected);
  delta_model_t *expected = delta_test_model_of(text);
  const delta_model_tensor_t *want = &expected->initializers[0];
  const delta_tensor_t *found = delta_graph_tensor(graph, graph->outputs.items[0].tensor);
  const void *data = delta_reference_value(values, graph->outputs.items[0].tensor);
  char found_text[DELTA_SHAPE_TEXT_BYTES];
  cr_assert_eq(found->dtype, want->dtype, "%s: type %s", c->name, delta_dtype_name(found->dtype));
  cr_assert(delta_shape_equal(&found->shape, &want->shape), "%s: shape %s", c->name, delta_shape_text(&found->shape, found_text));
  for (size_t k = 0; k < (size_t)delta_shape_count(&want->shape); ++k) {
    double a = delta_element_load_double(data, found->dtype, k), b = delta_element_load_double(want->data, want->dtype, k);
    bool equal = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * fmax(1.0, fabs(b));
    cr_expect(equal, "%s: element %zu is %.9g, not %.9g", c->name, k, a, b);
  }
  delta_model_free(expected);
}

ParameterizedTest(int *index, import_ops, lowering_of) {
  const op_case_t *c = &op_cases[*index];
  delta_model_t *model = delta_test_model_of(c->model);
  const delta_import_options_t options = {.as_exported = true, .levers = DELTA_LEVERS_ALL};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  const char *part = strncmp(c->expected, "error: ", 7) == 0 ? c->expected + 7 : NULL;
  if (part != NULL) {
    cr_assert_not_null(status, "%s: was accepted", c->name);
    cr_assert_not_null(strstr(delta_status_message(status), part), "%s: '%s' lacks '%s'", c->name, delta_status_message(status), part);
    cr_assert_not_null(strstr(delta_status_message(status), "n0"), "%s: '%s' names no node", c->name, delta_status_message(status));
  } else {
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    delta_reference_values_t values = {0};
    status = delta_graph_check(graph);
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
    delta_test_fill_states(model, &values);
    status = delta_reference_run_graph(&values);
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    expect_tensor(c, graph, &values);
    delta_reference_values_deinit(&values);
  }
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
}
