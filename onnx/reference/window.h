// Sliding windows for convolution and pooling, always with three spatial dimensions: missing leading ones have size 1.
//
// Window element k of output o reads data position o * stride - pad + k * dilation.
#ifndef DELTA_ONNX_REFERENCE_WINDOW_H_
#define DELTA_ONNX_REFERENCE_WINDOW_H_

#include "onnx/graph/core_ops.h"

enum { DELTA_WINDOW_DIMS = DELTA_MAX_SPATIAL };
typedef struct delta_window_geometry {
  int64_t kernel[DELTA_WINDOW_DIMS], strides[DELTA_WINDOW_DIMS], dilations[DELTA_WINDOW_DIMS];
  int64_t pads[DELTA_WINDOW_DIMS], pads_end[DELTA_WINDOW_DIMS];
  int64_t data[DELTA_WINDOW_DIMS]; // spatial dimensions of what the windows slide over
  int64_t out[DELTA_WINDOW_DIMS];  // number of windows
  int64_t kernel_count, data_count, out_count;
} delta_window_geometry_t;

static inline delta_window_geometry_t delta_window_geometry(const delta_window_t *window, const int64_t *data_spatial,
                                                            const int64_t *out_spatial) {
  delta_window_geometry_t geometry = {.kernel_count = 1, .data_count = 1, .out_count = 1};
  for (int32_t d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    int32_t from = d - (DELTA_WINDOW_DIMS - window->spatial);
    bool given = from >= 0;
    geometry.kernel[d] = given ? window->kernel[from] : 1;
    geometry.strides[d] = given ? window->strides[from] : 1;
    geometry.dilations[d] = given ? window->dilations[from] : 1;
    geometry.pads[d] = given ? window->pads_begin[from] : 0;
    geometry.pads_end[d] = given ? window->pads_end[from] : 0;
    geometry.data[d] = given ? data_spatial[from] : 1;
    geometry.out[d] = given ? out_spatial[from] : 1;
    geometry.kernel_count *= geometry.kernel[d];
    geometry.data_count *= geometry.data[d];
    geometry.out_count *= geometry.out[d];
  }
  return geometry;
}

static inline int64_t delta_window_position(const delta_window_geometry_t *geometry, int d, int64_t out, int64_t k) {
  return out * geometry->strides[d] - geometry->pads[d] + k * geometry->dilations[d];
}

// The window elements [*begin, *end) of output `out` whose position p has -before <= p < size + after.
static inline void delta_window_clip(const delta_window_geometry_t *geometry, int d, int64_t out, int64_t before, int64_t after,
                                     int64_t *begin, int64_t *end) {
  *begin = 0;
  *end = geometry->kernel[d];
  while (*begin < *end && delta_window_position(geometry, d, out, *begin) < -before) ++*begin;
  while (*end > *begin && delta_window_position(geometry, d, out, *end - 1) >= geometry->data[d] + after) --*end;
}

// The output whose window element k reads position `data`; false when there is none.
static inline bool delta_window_output(const delta_window_geometry_t *geometry, int d, int64_t data, int64_t k, int64_t *out) {
  int64_t from = data + geometry->pads[d] - k * geometry->dilations[d];
  if (from < 0 || from % geometry->strides[d] != 0 || from / geometry->strides[d] >= geometry->out[d]) return false;
  *out = from / geometry->strides[d];
  return true;
}

// The outputs [*begin, *end) within [first, last) whose window element k reads a position inside [low, high).
static inline void delta_window_outputs(const delta_window_geometry_t *geometry, int d, int64_t k, int64_t low, int64_t high, int64_t first,
                                        int64_t last, int64_t *begin, int64_t *end) {
  int64_t stride = geometry->strides[d];
  int64_t shift = k * geometry->dilations[d] - geometry->pads[d]; // position of output 0
  int64_t from = low > shift ? (low - shift + stride - 1) / stride : 0;
  int64_t to = high > shift ? (high - shift + stride - 1) / stride : 0;
  *begin = from > first ? from : first;
  *end = to < last ? to : last;
}

#endif // DELTA_ONNX_REFERENCE_WINDOW_H_
