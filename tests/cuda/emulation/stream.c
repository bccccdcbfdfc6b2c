#include "tests/cuda/emulation/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/cuda/emulation/calls.h"

typedef struct item {
  struct item *next;
  delta_emulated_operation_t *operation; // Shared
} item_t;

struct CUstream_st {
  struct CUstream_st *next;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  item_t *first, **last;
  uint32_t pending; // operations that have not ended
  bool is_closing;
  uint64_t random;
  delta_emulated_team_t *team;        // Owned
  delta_emulated_frontier_t frontier; // while it is captured
};

struct delta_emulated_mark {
  atomic_uint references;
  bool is_reached;
  double seconds;
};

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER, marks_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t mark_reached = PTHREAD_COND_INITIALIZER;
static struct CUstream_st *streams, *default_stream;
static uint32_t streams_created;

static double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// ---- Operations

delta_emulated_operation_t *delta_emulated_operation_create(const delta_emulated_operation_t *operation) {
  delta_emulated_operation_t *created = malloc(sizeof *created);
  if (created) {
    *created = *operation;
    created->references = 1;
  } else if (operation->destroy) {
    operation->destroy(operation->self);
  } else {
    free(operation->self);
  }
  return created;
}

void delta_emulated_operation_drop(delta_emulated_operation_t *operation) {
  delta_hidden_begin();
  const bool is_last = --operation->references == 0;
  delta_hidden_end();
  if (!is_last) return;
  if (operation->destroy) {
    operation->destroy(operation->self);
  } else {
    free(operation->self);
  }
  free(operation);
}

static void delay(double most_seconds, uint64_t *random) {
  *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const double seconds = most_seconds * (double)(*random >> 11) * 0x1p-53;
  const struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&time, NULL);
}

void delta_emulated_operation_run(delta_emulated_operation_t *operation, delta_emulated_team_t *team, uint64_t *random) {
  const bool is_work = operation->delay_seconds >= 0;
  if (is_work && delta_emulated_fault()) return;
  if (is_work && operation->delay_seconds > 0) delay(operation->delay_seconds, random);
  if (is_work && delta_emulated_enter_run(operation->name)) {
    delta_emulated_set_fault(cudaErrorIllegalAddress);
    return;
  }
  operation->run(operation->self, team);
}

// ---- Queues

static item_t *take_item(struct CUstream_st *stream) {
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  while (!stream->first && !stream->is_closing) pthread_cond_wait(&stream->changed, &stream->lock);
  item_t *item = stream->first;
  if (item) {
    stream->first = item->next;
    if (!stream->first) stream->last = &stream->first;
  }
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
  return item;
}

static void end_item(struct CUstream_st *stream, item_t *item) {
  delta_order_release(stream);
  delta_emulated_operation_drop(item->operation);
  free(item);
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  --stream->pending;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
}

static void *run_stream(void *self) {
  struct CUstream_st *stream = self;
  for (item_t *item; (item = take_item(stream)); end_item(stream, item)) {
    delta_order_acquire(item);
    delta_emulated_operation_run(item->operation, stream->team, &stream->random);
  }
  return NULL;
}

// Takes the operation over.
static bool push_operation(struct CUstream_st *stream, delta_emulated_operation_t *operation) {
  item_t *item = operation ? malloc(sizeof *item) : NULL;
  if (!item) {
    if (operation) delta_emulated_operation_drop(operation);
    return false;
  }
  *item = (item_t){.operation = operation};
  delta_order_release(item);
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  *stream->last = item;
  stream->last = &item->next;
  ++stream->pending;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
  return true;
}

cudaError_t delta_emulated_put(cudaStream_t handle, const delta_emulated_operation_t *operation) {
  struct CUstream_st *stream = delta_emulated_stream(handle);
  if (stream && delta_emulated_is_capturing(stream)) return delta_emulated_error(delta_emulated_capture_put(stream, operation));
  delta_emulated_operation_t *created = delta_emulated_operation_create(operation);
  const bool is_put = stream && created && push_operation(stream, created);
  if (!stream && created) delta_emulated_operation_drop(created);
  return is_put ? cudaSuccess : delta_emulated_error(cudaErrorMemoryAllocation);
}

// ---- Marks

static delta_emulated_mark_t *mark_create(void) {
  delta_emulated_mark_t *mark = calloc(1, sizeof *mark);
  if (mark) mark->references = 1;
  return mark;
}

static delta_emulated_mark_t *mark_share(delta_emulated_mark_t *mark) {
  delta_hidden_begin();
  ++mark->references;
  delta_hidden_end();
  return mark;
}

static void mark_drop(void *self) {
  delta_emulated_mark_t *mark = self;
  if (!mark) return;
  delta_hidden_begin();
  const bool is_last = --mark->references == 0;
  delta_hidden_end();
  if (is_last) free(mark);
}

static void mark_reach(void *self, delta_emulated_team_t *team) {
  delta_emulated_mark_t *mark = self;
  (void)team;
  delta_order_release(mark);
  delta_hidden_begin();
  pthread_mutex_lock(&marks_lock);
  mark->seconds = now_seconds();
  mark->is_reached = true;
  pthread_cond_broadcast(&mark_reached);
  pthread_mutex_unlock(&marks_lock);
  delta_hidden_end();
}

static bool mark_is_reached(delta_emulated_mark_t *mark) {
  delta_hidden_begin();
  pthread_mutex_lock(&marks_lock);
  const bool is_reached = mark->is_reached;
  pthread_mutex_unlock(&marks_lock);
  delta_hidden_end();
  if (is_reached) delta_order_acquire(mark);
  return is_reached;
}

static void mark_wait(void *self, delta_emulated_team_t *team) {
  delta_emulated_mark_t *mark = self;
  (void)team;
  delta_hidden_begin();
  pthread_mutex_lock(&marks_lock);
  while (!mark->is_reached) pthread_cond_wait(&mark_reached, &marks_lock);
  pthread_mutex_unlock(&marks_lock);
  delta_hidden_end();
  delta_order_acquire(mark);
}

// Puts a mark into a stream; the caller drops it. NULL: no memory.
static delta_emulated_mark_t *put_mark(struct CUstream_st *stream) {
  delta_emulated_mark_t *mark = mark_create();
  if (!mark) return NULL;
  const delta_emulated_operation_t operation = {
      .name = "mark", .self = mark_share(mark), .run = mark_reach, .destroy = mark_drop, .delay_seconds = -1};
  if (push_operation(stream, delta_emulated_operation_create(&operation))) return mark;
  mark_drop(mark);
  return NULL;
}

void delta_emulated_synchronize(cudaStream_t stream) {
  delta_emulated_mark_t *mark = put_mark(stream);
  if (mark) mark_wait(mark, NULL);
  mark_drop(mark);
}

void delta_emulated_synchronize_streams(void) {
  for (struct CUstream_st *stream = streams; stream; stream = stream->next) delta_emulated_synchronize(stream);
}

// ---- Streams

static struct CUstream_st *create_stream(void) {
  struct CUstream_st *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  stream->last = &stream->first;
  stream->random = delta_emulated_settings()->seed * UINT64_C(7919) + ++streams_created;
  stream->team = delta_emulated_team_create(delta_emulated_settings()->block_threads);
  if (!stream->team || pthread_create(&stream->thread, NULL, run_stream, stream) != 0) {
    delta_emulated_team_destroy(stream->team);
    free(stream);
    return NULL;
  }
  pthread_mutex_lock(&streams_lock);
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&streams_lock);
  return stream;
}

cudaStream_t delta_emulated_stream(cudaStream_t stream) {
  if (stream) return stream;
  if (!default_stream) default_stream = create_stream();
  return default_stream;
}

delta_emulated_frontier_t *delta_emulated_stream_frontier(cudaStream_t stream) { return &stream->frontier; }

uint64_t *delta_emulated_random_of(cudaStream_t stream) { return &stream->random; }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out_stream, unsigned int flags, int priority) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  (void)priority;
  if (!(flags & cudaStreamNonBlocking)) {
    delta_emulated_report("%s: a stream that waits for the default stream is not emulated", __func__);
    return delta_emulated_error(cudaErrorNotSupported);
  }
  *out_stream = create_stream();
  return *out_stream ? cudaSuccess : delta_emulated_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out_stream, unsigned int flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  return cudaStreamCreateWithPriority(out_stream, flags, 0);
}

// What is in the stream still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  DELTA_EMULATED_ENTER(delta_emulated_error(cudaErrorUnknown));
  if (!stream) return delta_emulated_error(cudaErrorInvalidResourceHandle);
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  stream->is_closing = true;
  pthread_cond_signal(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
  pthread_join(stream->thread, NULL);
  pthread_mutex_lock(&streams_lock);
  struct CUstream_st **at = &streams;
  while (*at != stream) at = &(*at)->next;
  *at = stream->next;
  pthread_mutex_unlock(&streams_lock);
  delta_emulated_team_destroy(stream->team);
  delta_emulated_frontier_clear(&stream->frontier);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
  return cudaSuccess;
}

// The mark that is waited for is an operation as well, which has to end before the stream has nothing left.
static void wait_for_nothing(struct CUstream_st *stream) {
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  while (stream->pending > 0) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  cudaStream_t stream = delta_emulated_stream(handle);
  if (delta_emulated_is_capturing(stream)) return delta_emulated_refuse_in_capture(__func__);
  delta_emulated_synchronize(stream);
  wait_for_nothing(stream);
  return delta_emulated_error(delta_emulated_fault());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  cudaStream_t stream = delta_emulated_stream(handle);
  if (delta_emulated_is_capturing(stream)) return delta_emulated_refuse_in_capture(__func__);
  delta_hidden_begin();
  pthread_mutex_lock(&stream->lock);
  const bool is_done = stream->pending == 0;
  pthread_mutex_unlock(&stream->lock);
  delta_hidden_end();
  if (!is_done) return delta_emulated_error(cudaErrorNotReady);
  delta_order_acquire(stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (delta_emulated_is_any_capturing()) return delta_emulated_refuse_in_capture(__func__);
  delta_emulated_synchronize_streams();
  return delta_emulated_error(delta_emulated_fault());
}

// ---- Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  *event = calloc(1, sizeof **event);
  if (!*event) return delta_emulated_error(cudaErrorMemoryAllocation);
  (*event)->has_time = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorMemoryAllocation);
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  DELTA_EMULATED_ENTER(delta_emulated_error(cudaErrorUnknown));
  if (!event) return delta_emulated_error(cudaErrorInvalidResourceHandle);
  mark_drop(event->mark);
  delta_emulated_frontier_clear(&event->frontier);
  free(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  cudaStream_t stream = delta_emulated_stream(handle);
  if (delta_emulated_is_capturing(stream)) return delta_emulated_error(delta_emulated_capture_record(event, stream));
  delta_emulated_mark_t *mark = put_mark(stream);
  if (!mark) return delta_emulated_error(cudaErrorMemoryAllocation);
  mark_drop(event->mark);
  event->mark = mark;
  delta_emulated_frontier_clear(&event->frontier);
  return cudaSuccess;
}

// Of a node of a graph: the event is reached again whenever the graph runs.
static void event_reach(void *self, delta_emulated_team_t *team) { mark_reach(((cudaEvent_t)self)->mark, team); }

static void event_leave(void *self) { (void)self; }

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned int flags) {
  cudaStream_t stream = delta_emulated_stream(handle);
  if (!(flags & cudaEventRecordExternal) || !delta_emulated_is_capturing(stream)) return cudaEventRecord(event, handle);
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (!event->mark) event->mark = mark_create();
  if (!event->mark) return delta_emulated_error(cudaErrorMemoryAllocation);
  const delta_emulated_operation_t operation = {
      .name = __func__, .self = event, .run = event_reach, .destroy = event_leave, .delay_seconds = -1};
  return delta_emulated_put(stream, &operation);
}

// An event that was never recorded is no order.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  (void)flags;
  cudaStream_t stream = delta_emulated_stream(handle);
  if (delta_emulated_ignores_wait()) return cudaSuccess;
  if (delta_emulated_is_capturing(stream) || event->frontier.capture) {
    return delta_emulated_error(delta_emulated_capture_wait(stream, event));
  }
  if (!event->mark) return cudaSuccess;
  const delta_emulated_operation_t operation = {
      .name = __func__, .self = mark_share(event->mark), .run = mark_wait, .destroy = mark_drop, .delay_seconds = -1};
  return delta_emulated_put(stream, &operation);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (event->frontier.capture) return delta_emulated_error(cudaErrorCapturedEvent);
  if (event->mark) mark_wait(event->mark, NULL);
  return delta_emulated_error(delta_emulated_fault());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (event->frontier.capture) return delta_emulated_error(cudaErrorCapturedEvent);
  return !event->mark || mark_is_reached(event->mark) ? cudaSuccess : delta_emulated_error(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  if (!start->has_time || !end->has_time || !start->mark || !end->mark) return delta_emulated_error(cudaErrorInvalidResourceHandle);
  if (!mark_is_reached(start->mark) || !mark_is_reached(end->mark)) return delta_emulated_error(cudaErrorNotReady);
  *milliseconds = (float)(1e3 * (end->mark->seconds - start->mark->seconds));
  return cudaSuccess;
}
