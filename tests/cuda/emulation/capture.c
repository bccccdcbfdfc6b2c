// Capture: begins at one stream and pulls in others through events that were recorded in it. What is put into these streams becomes nodes; the order between them is what streams
// and events say.
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/graph.h"

struct delta_emulated_capture {
  struct delta_emulated_capture *next;
  uint64_t number;
  cudaStream_t origin;
  enum cudaStreamCaptureMode mode;
  bool is_invalid;
  cudaGraph_t graph;     // Owned
  cudaStream_t *streams; // Owned; by lane
};

static delta_emulated_capture_t *captures;
static uint64_t captures_begun;

// ---- Frontiers

void delta_emulated_frontier_clear(delta_emulated_frontier_t *frontier) {
  free(frontier->nodes);
  *frontier = (delta_emulated_frontier_t){0};
}

static bool add_to_frontier(delta_emulated_frontier_t *frontier, const uint32_t *nodes, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) {
    uint32_t *grown = realloc(frontier->nodes, (frontier->count + 1) * sizeof *grown);
    if (!grown) return false;
    grown[frontier->count++] = nodes[k];
    frontier->nodes = grown;
  }
  return true;
}

static delta_emulated_capture_t *find_capture(const delta_emulated_frontier_t *frontier) {
  for (delta_emulated_capture_t *capture = captures; capture; capture = capture->next) {
    if (capture == frontier->capture && capture->number == frontier->number) return capture;
  }
  return NULL;
}

// ---- What others ask

bool delta_emulated_is_capturing(cudaStream_t stream) { return delta_emulated_stream_frontier(stream)->capture != NULL; }

bool delta_emulated_is_any_capturing(void) {
  for (delta_emulated_capture_t *capture = captures; capture; capture = capture->next) {
    if (capture->mode != cudaStreamCaptureModeRelaxed) return true;
  }
  return false;
}

cudaError_t delta_emulated_refuse_in_capture(const char *call) {
  for (delta_emulated_capture_t *capture = captures; capture; capture = capture->next) capture->is_invalid = true;
  delta_emulated_report("%s: not while a stream is captured", call);
  return delta_emulated_error(cudaErrorStreamCaptureUnsupported);
}

// ---- What is captured

static bool join(delta_emulated_capture_t *capture, cudaStream_t stream) {
  delta_emulated_frontier_t *frontier = delta_emulated_stream_frontier(stream);
  cudaStream_t *grown = realloc(capture->streams, (capture->graph->lane_count + 1) * sizeof *grown);
  if (!grown) return false;
  capture->streams = grown;
  frontier->capture = capture;
  frontier->number = capture->number;
  frontier->lane = capture->graph->lane_count++;
  capture->streams[frontier->lane] = stream;
  return true;
}

cudaError_t delta_emulated_capture_put(cudaStream_t stream, const delta_emulated_operation_t *operation) {
  delta_emulated_frontier_t *frontier = delta_emulated_stream_frontier(stream);
  delta_emulated_operation_t *created = delta_emulated_operation_create(operation);
  if (!created) return cudaErrorMemoryAllocation;
  const uint32_t node = frontier->capture->graph->node_count;
  if (!delta_emulated_graph_add(frontier->capture->graph, created, frontier->lane, frontier->nodes, frontier->count)) {
    return cudaErrorMemoryAllocation;
  }
  frontier->count = 0;
  return add_to_frontier(frontier, &node, 1) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t delta_emulated_capture_record(cudaEvent_t event, cudaStream_t stream) {
  const delta_emulated_frontier_t *from = delta_emulated_stream_frontier(stream);
  delta_emulated_frontier_clear(&event->frontier);
  event->frontier.capture = from->capture;
  event->frontier.number = from->number;
  return add_to_frontier(&event->frontier, from->nodes, from->count) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t delta_emulated_capture_wait(cudaStream_t stream, cudaEvent_t event) {
  delta_emulated_frontier_t *frontier = delta_emulated_stream_frontier(stream);
  delta_emulated_capture_t *capture = find_capture(&event->frontier);
  if (!capture) {
    if (frontier->capture) frontier->capture->is_invalid = true;
    delta_emulated_report("cudaStreamWaitEvent: the event was not recorded in what is captured now");
    return frontier->capture ? cudaErrorStreamCaptureIsolation : cudaErrorCapturedEvent;
  }
  if (frontier->capture && frontier->capture != capture) {
    frontier->capture->is_invalid = capture->is_invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (!frontier->capture && !join(capture, stream)) return cudaErrorMemoryAllocation;
  return add_to_frontier(frontier, event->frontier.nodes, event->frontier.count) ? cudaSuccess : cudaErrorMemoryAllocation;
}

// ---- Begin and end

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (!stream || delta_emulated_is_capturing(stream)) return delta_emulated_error(cudaErrorStreamCaptureUnsupported);
  delta_emulated_capture_t *capture = calloc(1, sizeof *capture);
  if (capture) capture->graph = calloc(1, sizeof *capture->graph);
  if (capture) *capture = (delta_emulated_capture_t){.number = ++captures_begun, .origin = stream, .mode = mode, .graph = capture->graph};
  if (!capture || !capture->graph || !join(capture, stream)) {
    if (capture) free(capture->graph);
    free(capture);
    return delta_emulated_error(cudaErrorMemoryAllocation);
  }
  capture->next = captures;
  captures = capture;
  return cudaSuccess;
}

// Whether the stream's last nodes come after all others.
static bool is_joined(const delta_emulated_capture_t *capture) {
  const delta_emulated_frontier_t *last = delta_emulated_stream_frontier(capture->origin);
  const cudaGraph_t graph = capture->graph;
  bool *is_before = calloc(graph->node_count ? graph->node_count : 1, sizeof *is_before);
  if (!is_before) return false;
  for (uint32_t k = 0; k < last->count; ++k) is_before[last->nodes[k]] = true;
  uint32_t reached = 0;
  for (uint32_t n = graph->node_count; n-- > 0;) {
    if (!is_before[n]) continue;
    ++reached;
    for (uint32_t k = 0; k < graph->nodes[n].need_count; ++k) is_before[graph->nodes[n].needs[k]] = true;
  }
  free(is_before);
  return reached == graph->node_count;
}

// Streams are streams again; gives the graph.
static cudaGraph_t end_capture(delta_emulated_capture_t *capture) {
  cudaGraph_t graph = capture->graph;
  for (uint32_t lane = 0; lane < graph->lane_count; ++lane) {
    delta_emulated_frontier_clear(delta_emulated_stream_frontier(capture->streams[lane]));
  }
  delta_emulated_capture_t **at = &captures;
  while (*at != capture) at = &(*at)->next;
  *at = capture->next;
  free(capture->streams);
  free(capture);
  return graph;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out_graph) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  *out_graph = NULL;
  delta_emulated_capture_t *capture = stream ? delta_emulated_stream_frontier(stream)->capture : NULL;
  if (!capture) return delta_emulated_error(cudaErrorInvalidValue);
  if (capture->origin != stream) {
    capture->is_invalid = true;
    return delta_emulated_error(cudaErrorStreamCaptureUnmatched);
  }
  cudaError_t error = capture->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (!error && !is_joined(capture)) {
    delta_emulated_report("%s: a stream that was pulled in is not waited for", __func__);
    error = cudaErrorStreamCaptureUnjoined;
  }
  cudaGraph_t graph = end_capture(capture);
  if (error) {
    delta_emulated_graph_free(graph);
    return delta_emulated_error(error);
  }
  *out_graph = graph;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  const delta_emulated_capture_t *capture = stream ? delta_emulated_stream_frontier(stream)->capture : NULL;
  *out_status = !capture              ? cudaStreamCaptureStatusNone
                : capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
