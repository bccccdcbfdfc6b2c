// Metrics: each line is composed in memory and written by one call, so that a reader never sees half of it while the run goes on.
#include "runtime/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

static delta_status_t metrics_error(const delta_metrics_t *metrics, int error) {
  const char *reason = error == ENXIO ? "it is a pipe that nobody reads" : strerror(error);
  delta_status_t status =
      error == ENOENT || error == ENOTDIR ? delta_status_make(NOT_FOUND, "%s", reason) : delta_status_make(IO, "%s", reason);
  return delta_status_annotate(status, "cannot write metrics to '%s'", metrics->path);
}

delta_status_t delta_metrics_open(const char *path, bool append, delta_allocator_t allocator, delta_metrics_t *out_metrics) {
  delta_metrics_t metrics = {.descriptor = -1};
  size_t path_bytes = strlen(path) + 1;
  *out_metrics = metrics;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, path_bytes, &metrics.path));
  memcpy(metrics.path, path, path_bytes);
  // Opening a pipe that nobody reads would wait forever; writing to it then waits as to any file.
  metrics.descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (append ? O_APPEND : O_TRUNC), 0666);
  if (metrics.descriptor < 0) {
    delta_status_t status = metrics_error(&metrics, errno);
    delta_release(allocator, metrics.path);
    return status;
  }
  fcntl(metrics.descriptor, F_SETFL, fcntl(metrics.descriptor, F_GETFL) & ~O_NONBLOCK);
  delta_text_init(&metrics.line, allocator);
  *out_metrics = metrics;
  return DELTA_OK;
}

static delta_status_t write_line(delta_metrics_t *metrics) {
  const char *from = metrics->line.items;
  for (size_t left = metrics->line.count; left > 0;) {
    ssize_t written = write(metrics->descriptor, from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return metrics_error(metrics, errno);
    from += written;
    left -= (size_t)written;
  }
  return DELTA_OK;
}

static void begin_line(delta_metrics_t *metrics, delta_json_writer_t *writer) {
  metrics->line.count = 0;
  delta_json_writer_init(writer, &metrics->line, true);
  delta_json_begin_object(writer, NULL);
}

static delta_status_t end_line(delta_metrics_t *metrics, delta_json_writer_t *writer) {
  delta_json_end_object(writer);
  DELTA_RETURN_IF_ERROR(delta_json_writer_finish(writer));
  DELTA_RETURN_IF_ERROR(delta_text_append(&metrics->line, "\n"));
  return write_line(metrics);
}

delta_status_t delta_metrics_write_step(delta_metrics_t *metrics, const delta_train_step_t *step) {
  delta_json_writer_t writer;
  begin_line(metrics, &writer);
  delta_json_write_int64(&writer, "step", step->step);
  delta_json_write_int64(&writer, "epoch", step->epoch);
  delta_json_write_double(&writer, "loss", step->loss);
  delta_json_write_double(&writer, "learning_rate", step->learning_rate);
  if (step->has_gradient_norm) delta_json_write_double(&writer, "gradient_norm", step->gradient_norm);
  delta_json_write_double(&writer, "seconds", step->seconds);
  delta_json_write_double(&writer, "samples_per_second", step->samples_per_second);
  delta_json_write_double(&writer, "stall_seconds", step->stall_seconds);
  if (step->host_bytes > 0) {
    delta_json_write_double(&writer, "offload_seconds", step->offload_seconds);
    delta_json_write_double(&writer, "offload_stall_seconds", step->offload_stall_seconds);
    delta_json_write_double(&writer, "prefetch_seconds", step->prefetch_seconds);
    delta_json_write_double(&writer, "prefetch_stall_seconds", step->prefetch_stall_seconds);
  }
  delta_json_write_int64(&writer, "arena_peak_bytes", (int64_t)step->arena_peak_bytes);
  delta_json_write_int64(&writer, "host_bytes", (int64_t)step->host_bytes);
  delta_json_begin_array(&writer, "events");
  for (size_t i = 0; i < step->event_count; ++i) delta_json_write_string(&writer, NULL, step->events[i]);
  delta_json_end_array(&writer);
  return end_line(metrics, &writer);
}

delta_status_t delta_metrics_write_evaluation(delta_metrics_t *metrics, const delta_train_evaluation_t *evaluation) {
  delta_json_writer_t writer;
  begin_line(metrics, &writer);
  delta_json_write_bool(&writer, "evaluation", true);
  delta_json_write_int64(&writer, "step", evaluation->step);
  delta_json_write_int64(&writer, "epoch", evaluation->epoch);
  delta_json_write_double(&writer, "loss", evaluation->loss);
  if (evaluation->has_accuracy) delta_json_write_double(&writer, "accuracy", evaluation->accuracy);
  delta_json_write_int64(&writer, "samples", evaluation->samples);
  delta_json_write_double(&writer, "seconds", evaluation->seconds);
  return end_line(metrics, &writer);
}

delta_status_t delta_metrics_close(delta_metrics_t *metrics) {
  delta_status_t status = DELTA_OK;
  if (metrics->descriptor >= 0) {
    if (close(metrics->descriptor) != 0 && errno != EINTR) status = metrics_error(metrics, errno);
    delta_release(metrics->line.allocator, metrics->path);
    delta_text_deinit(&metrics->line);
  }
  *metrics = (delta_metrics_t){.descriptor = -1};
  return status;
}
