// Sliding windows of ONNX nodes: kernel_shape, strides, dilations, pads and auto_pad of convolutions and poolings. Private to onnx/lower.
#ifndef DELTA_ONNX_LOWER_WINDOW_H_
#define DELTA_ONNX_LOWER_WINDOW_H_

#include "onnx/lower/lower.h"

// Reads the window of a node whose data input has `shape` ([n, c, spatial...], rank 3 to 5). `kernel` states the kernel's size (from a
// weight; the attribute kernel_shape must agree), or is NULL when the attribute is required. False after an error that names the attribute.
bool delta_lower_window(delta_lower_t *lower, const delta_shape_t *shape, const int64_t *kernel, delta_window_t *out_window);

// The same without auto_pad, whose meaning is another in a transposed convolution.
bool delta_lower_window_lists(delta_lower_t *lower, const delta_shape_t *shape, const int64_t *kernel, delta_window_t *out_window);

// Output sizes of a window over `shape`: floor, or ceil where a last window that starts inside the data (or its leading padding) counts.
// auto_pad "same" is already in the window's pads. False after an error.
bool delta_lower_window_out(delta_lower_t *lower, const delta_window_t *window, const delta_shape_t *shape, bool ceil_mode,
                            int64_t out_spatial[DELTA_MAX_SPATIAL]);

#endif // DELTA_ONNX_LOWER_WINDOW_H_
