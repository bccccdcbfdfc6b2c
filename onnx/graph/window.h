// Sliding windows for convolution and pooling, always with three spatial dimensions: missing leading ones have size 1.
//
// Window element k of output o reads data position o * stride - pad + k * dilation.
#ifndef DELTA_ONNX_GRAPH_WINDOW_H_
#define DELTA_ONNX_GRAPH_WINDOW_H_

#include "onnx/graph/core_ops.h"

enum { DELTA_WINDOW_DIMS = DELTA_MAX_SPATIAL };
typedef struct delta_window_geometry {
  int64_t kernel[DELTA_WINDOW_DIMS], strides[DELTA_WINDOW_DIMS], dilations[DELTA_WINDOW_DIMS];
  int64_t pads[DELTA_WINDOW_DIMS], pads_end[DELTA_WINDOW_DIMS];
  int64_t data[DELTA_WINDOW_DIMS]; // spatial dimensions of what the windows slide over
  int64_t out[DELTA_WINDOW_DIMS];  // number of windows
  int64_t data_count, out_count;
} delta_window_geometry_t;

static inline delta_window_geometry_t delta_window_geometry(const delta_window_t *window, const int64_t *data_spatial,
                                                            const int64_t *out_spatial) {
  delta_window_geometry_t geometry = {.data_count = 1, .out_count = 1};
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
    geometry.data_count *= geometry.data[d];
    geometry.out_count *= geometry.out[d];
  }
  return geometry;
}

static inline int64_t delta_window_position(const delta_window_geometry_t *geometry, int d, int64_t out, int64_t k) {
  return out * geometry->strides[d] - geometry->pads[d] + k * geometry->dilations[d];
}

// The least whole number of steps that reach `distance`; 0 when it is behind.
static inline int64_t delta_window_steps(int64_t distance, int64_t step) { return distance > 0 ? (distance - 1) / step + 1 : 0; }

// The window elements [*begin, *end) of output `out` whose position p has -before <= p < size + after.
static inline void delta_window_clip(const delta_window_geometry_t *geometry, int d, int64_t out, int64_t before, int64_t after,
                                     int64_t *begin, int64_t *end) {
  int64_t first = delta_window_position(geometry, d, out, 0), kernel = geometry->kernel[d];
  int64_t from = delta_window_steps(-before - first, geometry->dilations[d]);
  int64_t to = delta_window_steps(geometry->data[d] + after - first, geometry->dilations[d]);
  *end = to < kernel ? to : kernel;
  *begin = from < *end ? from : *end;
}

// The outputs [*begin, *end) whose windows begin at or before position `data` and end at or after it.
static inline void delta_window_readers(const delta_window_geometry_t *geometry, int d, int64_t data, int64_t *begin, int64_t *end) {
  int64_t at = data + geometry->pads[d], last = at / geometry->strides[d] + 1;
  *begin = delta_window_steps(at - (geometry->kernel[d] - 1) * geometry->dilations[d], geometry->strides[d]);
  *end = last < geometry->out[d] ? last : geometry->out[d];
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
  int64_t from = delta_window_steps(low - shift, stride), to = delta_window_steps(high - shift, stride);
  *begin = from > first ? from : first;
  *end = to < last ? to : last;
}

#endif // DELTA_ONNX_GRAPH_WINDOW_H_
