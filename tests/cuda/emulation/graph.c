// Graphs: each lane of a graph has a thread of its own when it is launched, the first is the stream's. Nodes of one lane run in their order; between lanes only what the graph says
// is order.
#include "tests/cuda/emulation/graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/calls.h"

typedef struct lane {
  struct CUgraphExec_st *exec;
  uint32_t number;
  pthread_t thread;
  bool is_started;
  delta_emulated_team_t *team; // Owned
  uint64_t random;
} lane_t;

struct CUgraphExec_st {
  struct CUgraph_st graph; // Owned
  lane_t *lanes;           // Owned
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t launches;      // that have begun
  uint64_t *ended;        // Owned; by node: the last launch in which it has ended
  uint32_t lanes_running; // beside the first
  bool is_closing;
  int late_lane;   // Below 0: nodes run as soon as they can.
  uint32_t *nexts; // Owned; by lane: the node that it runs, or will run next; node_count: none
  bool is_running; // a node
};

// ---- Graphs

bool delta_emulated_graph_add(cudaGraph_t graph, delta_emulated_operation_t *operation, uint32_t lane, const uint32_t *needs,
                              uint32_t need_count) {
  delta_emulated_node_t *grown = realloc(graph->nodes, (graph->node_count + 1) * sizeof *grown);
  if (grown) graph->nodes = grown;
  uint32_t *copied = grown ? malloc((need_count ? need_count : 1) * sizeof *copied) : NULL;
  if (!copied) {
    delta_emulated_operation_drop(operation);
    return false;
  }
  if (need_count) memcpy(copied, needs, need_count * sizeof *copied);
  grown[graph->node_count++] = (delta_emulated_node_t){.operation = operation, .lane = lane, .needs = copied, .need_count = need_count};
  return true;
}

static void graph_deinit(struct CUgraph_st *graph) {
  for (uint32_t n = 0; n < graph->node_count; ++n) {
    delta_emulated_operation_drop(graph->nodes[n].operation);
    free(graph->nodes[n].needs);
  }
  free(graph->nodes);
}

void delta_emulated_graph_free(cudaGraph_t graph) {
  if (!graph) return;
  graph_deinit(graph);
  free(graph);
}

static bool graph_copy(const struct CUgraph_st *from, struct CUgraph_st *to) {
  *to = (struct CUgraph_st){.lane_count = from->lane_count};
  for (uint32_t n = 0; n < from->node_count; ++n) {
    const delta_emulated_node_t *node = &from->nodes[n];
    ++node->operation->references;
    if (!delta_emulated_graph_add(to, node->operation, node->lane, node->needs, node->need_count)) return false;
  }
  return true;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  DELTA_EMULATED_ENTER(delta_emulated_error(cudaErrorUnknown));
  delta_emulated_graph_free(graph);
  return cudaSuccess;
}

// Only the number of nodes is emulated.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *node_count) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (nodes) return delta_emulated_error(cudaErrorNotSupported);
  *node_count = graph->node_count;
  return cudaSuccess;
}

// ---- Running

static void lock_exec(struct CUgraphExec_st *exec) {
  delta_hidden_begin();
  pthread_mutex_lock(&exec->lock);
}

static void unlock_exec(struct CUgraphExec_st *exec) {
  pthread_mutex_unlock(&exec->lock);
  delta_hidden_end();
}

// The first node of a lane from `from` on.
static uint32_t next_of_lane(const struct CUgraph_st *graph, uint32_t lane, uint32_t from) {
  while (from < graph->node_count && graph->nodes[from].lane != lane) ++from;
  return from;
}

static bool is_ready(const struct CUgraphExec_st *exec, uint32_t node, uint64_t launch) {
  for (uint32_t k = 0; k < exec->graph.nodes[node].need_count; ++k) {
    if (exec->ended[exec->graph.nodes[node].needs[k]] < launch) return false;
  }
  return true;
}

// Whether another lane than the late one could go on.
static bool can_others(const struct CUgraphExec_st *exec, uint64_t launch) {
  for (uint32_t lane = 0; lane < exec->graph.lane_count; ++lane) {
    const uint32_t node = exec->nexts[lane];
    if (lane != (uint32_t)exec->late_lane && node < exec->graph.node_count && is_ready(exec, node, launch)) return true;
  }
  return false;
}

static bool may_begin(const struct CUgraphExec_st *exec, uint32_t node, uint64_t launch) {
  if (!is_ready(exec, node, launch)) return false;
  if (exec->late_lane < 0) return true;
  return !exec->is_running && (exec->graph.nodes[node].lane != (uint32_t)exec->late_lane || !can_others(exec, launch));
}

static void begin_node(struct CUgraphExec_st *exec, uint32_t node, uint64_t launch) {
  lock_exec(exec);
  while (!may_begin(exec, node, launch)) pthread_cond_wait(&exec->changed, &exec->lock);
  exec->is_running = true;
  unlock_exec(exec);
  for (uint32_t k = 0; k < exec->graph.nodes[node].need_count; ++k)
    delta_order_acquire(&exec->graph.nodes[exec->graph.nodes[node].needs[k]]);
}

static void end_node(struct CUgraphExec_st *exec, uint32_t node, uint64_t launch) {
  const uint32_t lane = exec->graph.nodes[node].lane;
  delta_order_release(&exec->graph.nodes[node]);
  lock_exec(exec);
  exec->is_running = false;
  exec->ended[node] = launch;
  exec->nexts[lane] = next_of_lane(&exec->graph, lane, node + 1);
  pthread_cond_broadcast(&exec->changed);
  unlock_exec(exec);
}

static void run_lane(lane_t *lane, uint64_t launch) {
  struct CUgraphExec_st *exec = lane->exec;
  const struct CUgraph_st *graph = &exec->graph;
  for (uint32_t n = next_of_lane(graph, lane->number, 0); n < graph->node_count; n = next_of_lane(graph, lane->number, n + 1)) {
    begin_node(exec, n, launch);
    delta_emulated_operation_run(graph->nodes[n].operation, lane->team, &lane->random);
    end_node(exec, n, launch);
  }
}

// The thread of a lane that is not the first.
static void *run_lane_thread(void *self) {
  lane_t *lane = self;
  struct CUgraphExec_st *exec = lane->exec;
  for (uint64_t launch = 1;; ++launch) {
    lock_exec(exec);
    while (exec->launches < launch && !exec->is_closing) pthread_cond_wait(&exec->changed, &exec->lock);
    const bool is_closing = exec->launches < launch;
    unlock_exec(exec);
    if (is_closing) return NULL;
    delta_order_acquire(exec);
    run_lane(lane, launch);
    delta_order_release(lane);
    lock_exec(exec);
    --exec->lanes_running;
    pthread_cond_broadcast(&exec->changed);
    unlock_exec(exec);
  }
}

static void run_graph(void *self, delta_emulated_team_t *team) {
  struct CUgraphExec_st *exec = self;
  (void)team;
  delta_order_release(exec);
  lock_exec(exec);
  const uint64_t launch = ++exec->launches;
  for (uint32_t k = 0; k < exec->graph.lane_count; ++k) exec->nexts[k] = next_of_lane(&exec->graph, k, 0);
  exec->lanes_running = exec->graph.lane_count - 1;
  pthread_cond_broadcast(&exec->changed);
  unlock_exec(exec);
  run_lane(&exec->lanes[0], launch);
  lock_exec(exec);
  while (exec->lanes_running) pthread_cond_wait(&exec->changed, &exec->lock);
  unlock_exec(exec);
  for (uint32_t k = 1; k < exec->graph.lane_count; ++k) delta_order_acquire(&exec->lanes[k]);
}

static void keep(void *self) { (void)self; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  const delta_emulated_operation_t operation = {.name = __func__, .self = exec, .run = run_graph, .destroy = keep};
  return delta_emulated_put(stream, &operation);
}

// There is nothing to bring anywhere.
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  (void)stream;
  return exec ? cudaSuccess : delta_emulated_error(cudaErrorInvalidValue);
}

// ---- Instances

static void destroy_exec(struct CUgraphExec_st *exec) {
  lock_exec(exec);
  exec->is_closing = true;
  pthread_cond_broadcast(&exec->changed);
  unlock_exec(exec);
  for (uint32_t k = 0; exec->lanes && k < exec->graph.lane_count; ++k) {
    if (exec->lanes[k].is_started) pthread_join(exec->lanes[k].thread, NULL);
    delta_emulated_team_destroy(exec->lanes[k].team);
  }
  pthread_cond_destroy(&exec->changed);
  pthread_mutex_destroy(&exec->lock);
  graph_deinit(&exec->graph);
  free(exec->lanes);
  free(exec->ended);
  free(exec->nexts);
  free(exec);
}

static bool start_lane(struct CUgraphExec_st *exec, uint32_t number) {
  lane_t *lane = &exec->lanes[number];
  *lane = (lane_t){.exec = exec, .number = number, .random = delta_emulated_settings()->seed * UINT64_C(104729) + number};
  lane->team = delta_emulated_team_create(delta_emulated_settings()->block_threads);
  if (!lane->team) return false;
  if (number > 0) lane->is_started = pthread_create(&lane->thread, NULL, run_lane_thread, lane) == 0;
  return number == 0 || lane->is_started;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out_exec, cudaGraph_t graph, unsigned long long flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  *out_exec = NULL;
  if (!graph || flags) return delta_emulated_error(cudaErrorInvalidValue);
  struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
  if (!exec) return delta_emulated_error(cudaErrorMemoryAllocation);
  pthread_mutex_init(&exec->lock, NULL);
  pthread_cond_init(&exec->changed, NULL);
  bool is_made = graph_copy(graph, &exec->graph);
  exec->lanes = calloc(graph->lane_count, sizeof *exec->lanes);
  exec->ended = calloc(graph->node_count ? graph->node_count : 1, sizeof *exec->ended);
  exec->nexts = calloc(graph->lane_count, sizeof *exec->nexts);
  exec->late_lane = delta_emulated_settings()->late_stream;
  is_made = is_made && exec->lanes && exec->ended && exec->nexts;
  for (uint32_t k = 0; k < graph->lane_count && is_made; ++k) is_made = start_lane(exec, k);
  if (!is_made) {
    destroy_exec(exec);
    return delta_emulated_error(cudaErrorMemoryAllocation);
  }
  *out_exec = exec;
  return cudaSuccess;
}

// A launch that has not ended is waited for.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  DELTA_EMULATED_ENTER(delta_emulated_error(cudaErrorUnknown));
  if (!exec) return delta_emulated_error(cudaErrorInvalidValue);
  delta_emulated_synchronize_streams();
  destroy_exec(exec);
  return cudaSuccess;
}
