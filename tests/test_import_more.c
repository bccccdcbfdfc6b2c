// Lowering of the operators of transformers, U-Nets and recurrent networks: values, shapes and errors of one node each.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "tests/support/model_text.h"
#include "tests/support/op_case.h"
#include "tests/support/support.h"

// A recurrent network of one input and one hidden unit over two steps of one sample.
#define STEPS "init x float32 [2,1,1] 1 -2;"
#define GRU                                                                                                                       \
  STEPS                                                                                                                           \
  "init w float32 [1,3,1] 0.5 -0.5 1; init r float32 [1,3,1] 0.2 0.3 -0.4; init b float32 [1,6] 0.1 0.2 0.3 0.4 0.5 0.6; init h " \
  "float32 [1,1,1] 0.5;"
#define LSTM                                                                                         \
  STEPS                                                                                              \
  "init w float32 [1,4,1] 0.5 -0.5 1 0.25; init r float32 [1,4,1] 0.2 0.3 -0.4 0.1;"                 \
  "init b float32 [1,8] 0.1 0.2 0.3 0.4 0; init h float32 [1,1,1] 0.5; init c float32 [1,1,1] -0.5;" \
  "init p float32 [1,3] 0.6 -0.7 0.8;"
#define RNN "init x float32 [2,1,1] 1 2; init w float32 [1,1,1] 1; init r float32 [1,1,1] 0.5;"

static const delta_test_op_case_t op_cases[] = {
    // Normalisation by sample.
    {"layer norm",
     "opset 17; init x float32 [1,2] -1 1; init s float32 [2] 2 3; init b float32 [2] 1 0; node LayerNormalization x s b -> y : "
     "epsilon=0.; output y",
     "float32 [1,2] -1 3"},
    {"layer norm before ONNX had it",
     "opset 14; init x float32 [1,2] -1 1; init s float32 [2] 2 3; node LayerNormalization x s -> y : epsilon=0.; output y",
     "float32 [1,2] -2 3"},
    {"layer norm over two axes",
     "opset 17; init x float32 [1,2,2] -1 1 1 -1; init s float32 [2,2] 1 2 3 4; node LayerNormalization x s -> y : axis=1 epsilon=0.; "
     "output y",
     "float32 [1,2,2] -1 2 3 -4"},
    {"layer norm's mean", "opset 17; init x float32 [1,2] 1 3; init s float32 [2] 1; node LayerNormalization x s -> a y; output y",
     "float32 [1,1] 2"},
    {"layer norm's inverse deviation in the stated type",
     "opset 17; init x float32 [1,2] 1 3; init s float32 [2] 1; node LayerNormalization x s -> a _ y : stash_type=11; output y",
     "float64 [1,1] 0.999995"},
    {"layer norm of half precision",
     "opset 17; init x float16 [1,2] -1 1; init s float16 [2] 2; node LayerNormalization x s -> y : epsilon=0.; output y",
     "float16 [1,2] -2 2"},
    {"layer norm with too large a scale",
     "opset 17; init x float32 [1,2] 1; init s float32 [2,2] 1; node LayerNormalization x s -> y; output y", "error: a scale of shape"},
    {"layer norm of integers", "opset 17; init x int64 [1,2] 1; init s int64 [2] 1; node LayerNormalization x s -> y; output y",
     "error: of a float type"},
    {"simplified layer norm",
     "init x float32 [1,2] 3 4; init s float32 [2] 1 2; node com.microsoft:SimplifiedLayerNormalization x s -> y : epsilon=0.; output y",
     "float32 [1,2] 0.84852814 2.26274170"},
    {"simplified layer norm in the default domain",
     "init x float32 [1,2] 3 4; init s float32 [2] 1 2; node SimplifiedLayerNormalization x s -> a y : epsilon=0.; output y",
     "float32 [1,1] 0.28284271"},
    {"skip layer norm",
     "init x float32 [1,2] -1 0; init k float32 [1,2] 0 1; init s float32 [2] 1; init c float32 [2] 5; init b float32 [2] 7; node "
     "com.microsoft:SkipLayerNormalization x k s c b -> y; output y",
     "float32 [1,2] 4 6"},
    {"skip layer norm's sum",
     "init x float32 [1,2] -1 0; init k float32 [1,2] 0 1; init s float32 [2] 1; node com.microsoft:SkipLayerNormalization x k s -> a _ _ "
     "y; output y",
     "float32 [1,2] -1 1"},
    {"instance norm",
     "init x float32 [1,2,2] 0 2 5 5; init s float32 [2] 1 2; init b float32 [2] 0 3; node InstanceNormalization x s b -> y : "
     "epsilon=1.; output y",
     "float32 [1,2,2] -0.70710678 0.70710678 3 3"},
    {"instance norm of a scale for other channels",
     "init x float32 [1,2,2] 0; init s float32 [3] 1; node InstanceNormalization x s s -> y; output y", "error: must hold 2"},
    {"group norm, scale by group",
     "opset 18; init x float32 [1,2,2] -1 1 1 -1; init s float32 [1] 2; init b float32 [1] 1; node GroupNormalization x s b -> y : "
     "num_groups=1 epsilon=0.; output y",
     "float32 [1,2,2] -1 3 3 -1"},
    {"group norm, scale by channel",
     "opset 21; init x float32 [1,2,2] -1 1 1 -1; init s float32 [2] 2 3; init b float32 [2] 1 0; node GroupNormalization x s b -> y : "
     "num_groups=1 epsilon=0.; output y",
     "float32 [1,2,2] -1 3 3 -3"},
    {"group norm of groups that do not divide",
     "opset 21; init x float32 [1,2,2] 0; init s float32 [2] 1; node GroupNormalization x s s -> y : num_groups=3; output y",
     "error: must divide"},
    {"p-norm of zeros", "init x float32 [2,2] 0 0 3 4; node LpNormalization x -> y; output y", "float32 [2,2] 0 0 0.6 0.8"},
    {"p-norm pool", "init x float32 [1,1,3] 1 -2 3; node LpPool x -> y : p=1 kernel_shape=[2]; output y", "float32 [1,1,2] 3 5"},
    {"p-norm pool beyond the end",
     "opset 18; init x float32 [1,1,3] 1 -2 3; node LpPool x -> y : p=1 kernel_shape=[2] strides=[2] ceil_mode=1; output y",
     "float32 [1,1,2] 3 3"},
    {"p-norm pool of all", "init x float32 [1,1,2] 3 -4; node GlobalLpPool x -> y; output y", "float32 [1,1,1] 5"},

    // Transposed convolution.
    {"conv transpose",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; init b float32 [1] 0.5; node ConvTranspose x w b -> y : strides=[2]; output "
     "y",
     "float32 [1,1,4] 1.5 10.5 2.5 20.5"},
    {"conv transpose, padded",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : strides=[2] pads=[1,1]; output y",
     "float32 [1,1,2] 10 2"},
    {"conv transpose with output padding",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : strides=[2] output_padding=[1]; output y",
     "float32 [1,1,5] 1 10 2 20 0"},
    {"conv transpose with output padding that pads make up for",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : pads=[0,1] output_padding=[1]; output y",
     "float32 [1,1,3] 1 12 20"},
    {"conv transpose with too much output padding",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : output_padding=[1]; output y",
     "error: not less than the stride"},
    {"conv transpose to a shape, odd at the beginning",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : strides=[2] output_shape=[3]; output y",
     "float32 [1,1,3] 10 2 20"},
    {"conv transpose to a shape, odd at the end",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,2] 1 10; node ConvTranspose x w -> y : strides=[2] output_shape=[3] "
     "auto_pad='SAME_UPPER'; output y",
     "float32 [1,1,3] 1 10 2"},
    {"conv transpose of the same size",
     "init x float32 [1,1,2] 1 2; init w float32 [1,1,3] 1 10 100; node ConvTranspose x w -> y : auto_pad='SAME_LOWER'; output y",
     "float32 [1,1,2] 12 120"},
    {"conv transpose in groups",
     "init x float32 [1,2,1] 1 2; init w float32 [2,1,2] 1 2 3 4; node ConvTranspose x w -> y : group=2; output y",
     "float32 [1,2,2] 1 2 6 8"},

    // Resize.
    {"resize 10", "opset 10; init x float32 [1,1,2] 1 2; init s float32 [3] 1 1 2; node Resize x s -> y; output y",
     "float32 [1,1,4] 1 1 2 2"},
    {"upsample 7", "opset 7; init x float32 [1,1,2] 1 2; node Upsample x -> y : scales=[1.,1.,2.]; output y", "float32 [1,1,4] 1 1 2 2"},
    {"upsample 9, linear",
     "opset 9; init x float32 [1,1,2] 1 2; init s float32 [3] 1 1 2; node Upsample x s -> y : mode='linear'; output y",
     "float32 [1,1,4] 1 1.5 2 2"},
    {"resize to sizes", "init x float32 [1,1,2] 1 2; init s int64 [3] 1 1 4; node Resize x _ _ s -> y : mode='linear'; output y",
     "float32 [1,1,4] 1 1.25 1.75 2"},
    {"resize with empty scales",
     "init x float32 [1,1,2] 1 2; init e float32 [0]; init s int64 [3] 1 1 4; node Resize x e e s -> y; output y",
     "float32 [1,1,4] 1 1 2 2"},
    {"resize of one axis", "opset 18; init x float32 [1,1,2] 1 2; init s int64 [1] 4; node Resize x _ _ s -> y : axes=[-1]; output y",
     "float32 [1,1,4] 1 1 2 2"},
    {"resize that keeps the ratio",
     "opset 18; init x float32 [1,2] 1 2; init s int64 [2] 3 4; node Resize x _ _ s -> y : keep_aspect_ratio_policy='not_larger'; output y",
     "float32 [2,4] 1 1 2 2 1 1 2 2"},
    {"resize to nothing stated", "input x float32 [1,1,2]; node Resize x -> y; output y", "error: neither scales nor sizes"},
    {"resize to two things", "input x float32 [1]; init c float32 [1] 2; init s int64 [1] 2; node Resize x _ c s -> y; output y",
     "error: both scales and sizes"},
    {"resize by a negative scale", "input x float32 [1]; init c float32 [1] -2; node Resize x _ c -> y; output y",
     "error: must be positive"},
    {"resize that depends on data", "input x float32 [1]; input c float32 [1]; node Resize x _ c -> y; output y", "error: depends on data"},

    // Positions.
    {"range", "init a int64 [] 5; init b int64 [] 0; init c int64 [] -2; node Range a b c -> y; output y", "int64 [3] 5 3 1"},
    {"range of reals", "init a float32 [] 0; init b float32 [] 1; init c float32 [] 0.25; node Range a b c -> y; output y",
     "float32 [4] 0 0.25 0.5 0.75"},
    {"range of nothing", "init a int64 [] 5; init b int64 [] 0; init c int64 [] 2; node Range a b c -> y; output y", "int64 [0]"},
    {"range over all integers",
     "init a int64 [] -9223372036854775808; init b int64 [] 9223372036854775807; init c int64 [] 4611686018427387904; node Range a b c -> "
     "y; output y",
     "int64 [4] -9223372036854775808 -4611686018427387904 0 4611686018427387904"},
    {"range by zero", "init a int64 [] 5; init c int64 [] 0; node Range c a c -> y; output y", "error: by 0"},
    {"range of a wrong type", "init a int64 [] 5; init c int32 [] 1; node Range c a c -> y; output y", "error: must have one type"},
    {"range that is too long", "init a int64 [] 0; init b int64 [] 9223372036854775807; init c int64 [] 1; node Range a b c -> y; output y",
     "error: numbers are supported"},
    {"triangle", "opset 14; init x float32 [2,3] 1 2 3 4 5 6; init k int64 [] 1; node Trilu x k -> y; output y",
     "float32 [2,3] 0 2 3 0 0 6"},
    {"eye", "input x float32 [2,3]; node EyeLike x -> y : k=1 dtype=7; output y", "int64 [2,3] 0 1 0 0 0 1"},
    {"one hot", "init i int64 [3] 1 -1 3; init d int64 [] 3; init v float32 [2] -1 5; node OneHot i d v -> y : axis=0; output y",
     "float32 [3,3] -1 -1 -1 5 -1 -1 -1 5 -1"},
    {"one hot of an unknown depth", "input i int64 [3]; input d int64 []; init v float32 [2] 0 1; node OneHot i d v -> y; output y",
     "error: depends on data"},
    {"arg max, last", "init x float32 [2,2] 1 1 0 2; node ArgMax x -> y : axis=1 keepdims=0 select_last_index=1; output y",
     "int64 [2] 1 1"},
    {"arg min", "init x float32 [2,2] 1 1 0 2; node ArgMin x -> y : axis=-1; output y", "int64 [2,1] 0 0"},
    {"top k by attribute", "opset 9; init x float32 [3] 1 3 2; node TopK x -> y _ : k=2; output y", "float32 [2] 3 2"},
    {"top k's indices", "init x float32 [3] 1 3 2; init k int64 [1] 2; node TopK x k -> _ y : largest=0; output y", "int64 [2] 0 2"},
    {"top k of too many", "init x float32 [3] 1 3 2; init k int64 [1] 4; node TopK x k -> y _; output y", "error: k is 4"},
    {"cumulative sum", "init x float32 [3] 1 2 3; init a int64 [] 0; node CumSum x a -> y : exclusive=1 reverse=1; output y",
     "float32 [3] 5 3 0"},
    {"cumulative product", "opset 26; init x float32 [5] 2 3 -1 5 2; init a int64 [] 0; node CumProd x a -> y; output y",
     "float32 [5] 2 6 -6 -30 -60"},
    {"cumulative product, exclusive from the end",
     "opset 26; init x float32 [3] 2 3 4; init a int64 [] -1; node CumProd x a -> y : exclusive=1 reverse=1; output y",
     "float32 [3] 12 4 1"},
    {"reversed sequences", "init x float32 [3,2] 1 2 3 4 5 6; init l int64 [2] 3 2; node ReverseSequence x l -> y; output y",
     "float32 [3,2] 5 4 3 2 1 6"},
    {"gather elements", "init x float32 [2,2] 1 2 3 4; init i int64 [2,1] -1 0; node GatherElements x i -> y : axis=1; output y",
     "float32 [2,1] 2 3"},
    {"gather nd outside", "init x float32 [2,3] 0; init i int64 [1,2] 2 0; node GatherND x i -> y; output y", "error: index 2 in input 1"},
    {"scatter", "opset 10; init x float32 [3] 1 2 3; init i int64 [1] -1; init u float32 [1] 9; node Scatter x i u -> y; output y",
     "float32 [3] 1 2 9"},
    {"scatter elements that sum",
     "opset 16; init x float32 [3] 1 2 3; init i int64 [2] 1; init u float32 [2] 9; node ScatterElements x i u -> y : reduction='add'; "
     "output y",
     "float32 [3] 1 20 3"},
    {"scatter by a reduction that is none",
     "opset 16; init x float32 [3] 1; init i int64 [2] 1; init u float32 [2] 9; node ScatterElements x i u -> y : reduction='mean'; "
     "output y",
     "error: 'none', 'add'"},
    {"scatter nd outside", "init x float32 [2] 0; init i int64 [1,1] -3; init u float32 [1] 0; node ScatterND x i u -> y; output y",
     "error: index -3"},
    {"max unpool", "init x float32 [1,1,1] 7; init i int64 [1,1,1] 1; node MaxUnpool x i -> y : kernel_shape=[2] strides=[2]; output y",
     "float32 [1,1,2] 0 7"},

    // Einsum.
    {"diagonal", "init x float32 [2,2] 1 2 3 4; node Einsum x -> y : equation='ii->i'; output y", "float32 [2] 1 4"},
    {"trace", "init x float32 [2,2] 1 2 3 4; node Einsum x -> y : equation='ii'; output y", "float32 [] 5"},
    {"diagonal of no square", "init x float32 [2,3] 1; node Einsum x -> y : equation='ii->i'; output y", "error: repeated in one input"},
    {"transposed by the alphabet", "init x float32 [2,2] 1 2 3 4; node Einsum x -> y : equation='ba'; output y", "float32 [2,2] 1 3 2 4"},
    {"sum of all", "init x float32 [2,2] 1 2 3 4; node Einsum x -> y : equation='ij->'; output y", "float32 [] 10"},
    {"outer product", "init x float32 [2] 1 2; init z float32 [2] 3 4; node Einsum x z -> y : equation=' i , j -> j i '; output y",
     "float32 [2,2] 3 6 4 8"},
    {"matrix product", "init x float32 [2,2] 1 2 3 4; node Einsum x x -> y : equation='ij,jk'; output y", "float32 [2,2] 7 10 15 22"},
    {"product of three", "init x float32 [2,2] 1 2 3 4; init z float32 [2] 1 10; node Einsum x x z -> y : equation='ij,jk,k->i'; output y",
     "float32 [2] 107 235"},
    {"product of integers", "init x int64 [2,2] 1 2 3 4; node Einsum x x -> y : equation='bi,bi->b'; output y", "int64 [2] 5 25"},
    {"broadcast dimensions",
     "init x float32 [2,1,2] 1 2 3 4; init z float32 [3,2] 1 0 0 1 1 1; node Einsum x z -> y : equation='...i,...i->...'; output y",
     "float32 [2,3] 1 2 3 3 4 7"},
    {"einsum of sizes that differ", "init x float32 [2] 1; init z float32 [3] 1; node Einsum x z -> y : equation='i,i->i'; output y",
     "error: for 2 and for 3"},
    {"einsum of too few labels", "init x float32 [2,2] 1; node Einsum x -> y : equation='i->i'; output y", "error: rank 2"},
    {"einsum of too many terms", "init x float32 [2] 1; node Einsum x -> y : equation='i,i->i'; output y", "error: does not fit 1 inputs"},
    {"einsum with an unknown output", "init x float32 [2] 1; node Einsum x -> y : equation='i->j'; output y", "error: is in no input"},
    {"einsum with an output twice", "init x float32 [2] 1; node Einsum x -> y : equation='i->ii'; output y", "error: named twice"},
    {"einsum with a sign", "init x float32 [2] 1; node Einsum x -> y : equation='+->'; output y", "error: has '+'"},

    // Recurrence.
    {"rnn", RNN "node RNN x w r -> y : activations=['Relu']; output y", "float32 [2,1,1,1] 1 2.5"},
    {"rnn backwards", RNN "node RNN x w r -> y : activations=['relu'] direction='reverse'; output y", "float32 [2,1,1,1] 2 2"},
    {"rnn both ways",
     "init x float32 [2,1,1] 1 2; init w float32 [2,1,1] 1; init r float32 [2,1,1] 0.5; node RNN x w r -> _ y : "
     "activations=['Relu','Affine'] activation_alpha=[2.] direction='bidirectional'; output y",
     "float32 [2,1,1] 2.5 6"},
    {"rnn, batch first",
     "init x float32 [2,2,1] 1 2 3 4; init w float32 [1,1,1] 1; init r float32 [1,1,1] 0.5; node RNN x w r -> y : activations=['Relu'] "
     "layout=1; output y",
     "float32 [2,2,1,1] 1 2.5 3 5.5"},
    {"rnn, samples of other lengths",
     "init x float32 [2,2,1] 1 3 2 4; init w float32 [1,1,1] 1; init r float32 [1,1,1] 0.5; init l int32 [2] 1 2; node RNN x w r _ l -> y "
     ": activations=['Relu']; output y",
     "float32 [2,1,2,1] 1 3 0 5.5"},
    {"rnn backwards, samples of other lengths",
     "init x float32 [2,2,1] 1 3 2 4; init w float32 [1,1,1] 1; init r float32 [1,1,1] 0.5; init l int32 [2] 1 2; node RNN x w r _ l -> _ "
     "y : activations=['Relu'] direction='reverse'; output y",
     "float32 [1,2,1] 1 5"},
    {"rnn, clipped", RNN "node RNN x w r -> y : activations=['Relu'] clip=1.5; output y", "float32 [2,1,1,1] 1 1.5"},
    {"rnn with a leak",
     STEPS "init w float32 [1,1,1] 1; init r float32 [1,1,1] 0; node RNN x w r -> y : activations=['LeakyRelu'] "
           "activation_alpha=[0.5]; output y",
     "float32 [2,1,1,1] 1 -1"},
    {"rnn with an unknown activation", RNN "node RNN x w r -> y : activations=['Step']; output y", "error: 'Step' is not known"},
    {"rnn with too many activations", RNN "node RNN x w r -> y : activations=['Relu','Relu']; output y", "error: 1 are needed"},
    {"rnn with a bias of another size", RNN "init b float32 [1,3] 0; node RNN x w r b -> y; output y", "error: must be [1, 2]"},
    {"rnn of another hidden size", RNN "node RNN x w r -> y : hidden_size=2; output y", "error: 'hidden_size' is 2"},
    {"gru", GRU "node GRU x w r b _ h -> y; output y", "float32 [2,1,1,1] 0.61112983 -0.26460848"},
    {"gru that resets the product", GRU "node GRU x w r b _ h -> y : linear_before_reset=1; output y",
     "float32 [2,1,1,1] 0.60269716 -0.27933859"},
    {"lstm with peepholes", LSTM "node LSTM x w r b _ h c p -> y; output y", "float32 [2,1,1,1] 0.01269176 -0.01890739"},
    {"lstm with coupled gates", LSTM "node LSTM x w r b _ h c p -> _ _ y : input_forget=1; output y", "float32 [1,1,1] 0.08186121"},

    // Attention.
    {"attention to keys that count",
     "opset 24; init q float32 [1,1,1,1] 0; init k float32 [1,1,3,1] 0; init v float32 [1,1,3,1] 1 2 3; init l int64 [1] 2; node Attention "
     "q k v _ _ _ l -> y; output y",
     "float32 [1,1,1,1] 1.5"},
    {"attention in order of time, the last query at the last key that counts",
     "opset 24; init q float32 [1,1,2,1] 0; init k float32 [1,1,4,1] 0; init v float32 [1,1,4,1] 1 2 3 9; init l int64 [1] 3; node "
     "Attention q k v _ _ _ l -> y : is_causal=1; output y",
     "float32 [1,1,2,1] 1.5 2"},
    {"attention with a mask that is too short",
     "opset 24; init q float32 [1,1,1,1] 0; init k float32 [1,1,3,1] 0; init v float32 [1,1,3,1] 1 2 3; init m bool [1,2] 1; node "
     "Attention "
     "q k v m -> y; output y",
     "float32 [1,1,1,1] 1.5"},
    {"attention of heads that do not divide",
     "opset 24; init q float32 [1,3,1,1] 0; init k float32 [1,2,1,1] 0; node Attention q k k -> y; output y", "error: do not fit"},
    {"rotary embedding of an odd number",
     "opset 23; init x float32 [1,1,1,3] 0; init c float32 [1,1,1] 0; node RotaryEmbedding x c c -> y; output y", "error: turn in pairs"},
    {"grid sample beyond the data",
     "opset 20; init x float32 [1,1,1,2] 1 3; init g float32 [1,1,3,2] -3 0 0 0 3 0; node GridSample x g -> y : padding_mode='border'; "
     "output y",
     "float32 [1,1,1,3] 1 2 3"},
    {"grid sample of another rank", "opset 20; init x float32 [1,1,1,2] 0; init g float32 [1,1,3,3] 0; node GridSample x g -> y; output y",
     "error: does not fit"},

    // Fused and random.
    {"quick gelu", "init x float32 [1] 1; node com.microsoft:QuickGelu x -> y; output y", "float32 [1] 0.84579577"},
    {"fast gelu with a bias", "init x float32 [1] 0.5; node com.microsoft:FastGelu x x -> y; output y", "float32 [1] 0.84119199"},
    {"gelu with a bias", "init x float32 [1] 0.5; node com.microsoft:BiasGelu x x -> y; output y", "float32 [1] 0.84134475"},
    {"fused product",
     "init x float32 [1,2] 1 2; init z float32 [1,2] 3 4; node com.microsoft:FusedMatMul x z -> y : alpha=0.5 transB=1; output y",
     "float32 [1,1] 5.5"},
    {"fused product, batch in the middle",
     "init x float32 [1,2,2] 1 2 3 4; init z float32 [2,2,1] 1; node com.microsoft:FusedMatMul x z -> y : transBatchA=1; output y",
     "float32 [2,1,1] 3 7"},
    {"draws by certain probabilities", "opset 15; init x float32 [4] 0 1 0 1; node Bernoulli x -> y : dtype=7; output y",
     "int64 [4] 0 1 0 1"},
    {"random integers", "node RandomUniform -> y : shape=[2] dtype=7; output y", "error: a float type is needed"},
    {"random without a shape", "node RandomNormal -> y; output y", "error: 'shape' is required"},
    {"random within bounds that meet", "node RandomUniform -> y : shape=[2] low=3. high=3.; output y", "float32 [2] 3 3"},
};

// Case parameters live in the parent's memory; they are passed by index.
ParameterizedTestParameters(import_more, lowering_of) {
  const size_t count = sizeof op_cases / sizeof op_cases[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, import_more, lowering_of) { delta_test_expect_op(&op_cases[*index]); }

// ---- Exports of other kinds

typedef struct odd_case {
  char name[40];
  bool folded; // weights of other names: batch normalisation went into them
  uint32_t batchnorms;
} odd_case_t;

ParameterizedTestParameters(import_more, odd_exports) {
  static odd_case_t cases[] = {{"eval_folded", true, 0}, {"new_exporter_default", false, 0}, {"new_exporter_unoptimized", false, 15}};
  return cr_make_param_array(odd_case_t, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(odd_case_t *c, import_more, odd_exports) {
  char relative[DELTA_TEST_PATH_BYTES], path[DELTA_TEST_PATH_BYTES];
  (void)snprintf(relative, sizeof relative, "models-odd/%s.onnx", c->name);
  DELTA_SKIP_WITHOUT_SHARED(relative, path);
  const delta_model_options_t load = {.path = path};
  delta_model_t *model = NULL;
  delta_status_t status = delta_model_load(&load, delta_allocator_system(), &model);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  const delta_import_options_t options = {.batch = 4, .training = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = NULL;
  status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  cr_expect_eq(facts.folded_weights > 0, c->folded, "%s: %u", c->name, facts.folded_weights);
  cr_expect_eq(facts.batchnorm_inference, c->batchnorms, "%s: %u", c->name, facts.batchnorm_inference);
  cr_expect_eq(facts.batchnorm_training, 0);
  delta_graph_free(graph);
  delta_model_free(model);
}
