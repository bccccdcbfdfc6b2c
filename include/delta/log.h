// Log sink: where notes and warnings of the library go. The library itself never prints.
#ifndef DELTA_LOG_H_
#define DELTA_LOG_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef enum delta_log_level { DELTA_LOG_DEBUG, DELTA_LOG_NOTE, DELTA_LOG_WARNING } delta_log_level_t;

// Receives one line without newline. Called on the thread that made the call into the library. Without `write` lines are dropped.
typedef struct delta_log_sink {
  void *self; // Borrowed.
  void (*write)(void *self, delta_log_level_t level, const char *line);
} delta_log_sink_t;

#ifdef __cplusplus
}
#endif

#endif // DELTA_LOG_H_
